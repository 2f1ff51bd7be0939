# SPDX-License-Identifier: MIT
"""Errors of the CUDA library, how it is found, and operators over several processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gnograd as gg
from gnograd.backends import cuda_library, has_cuda
from gpus import GPUS, needs_gpu, on_host
from on_device import Lender, to_device, weighted
from processes import mpiexec

__all__ = ["weighted"]

pytestmark = needs_gpu
if GPUS:
    from gnograd.backends import cuda


@on_host
def test_what_fails_fails_once(weighted):
    """A call after one that had no memory works."""
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    for _ in range(2):
        with pytest.raises(MemoryError, match="out of memory"):
            cuda.empty((2**50,), "uint8", like=x)
        out = gg.agg_weighted(x, w, graph=weighted.graph)
        assert_allclose(out.get(), weighted.out, rtol=1e-12)
    with pytest.raises(RuntimeError, match="CUDA"):
        cuda_library.library().use_device(9)
    gg.agg_weighted(x, w, graph=weighted.graph)


@on_host
@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("SIMT_DRIVER", "12020", r"driver is too old: it is for CUDA 12\.2, the kernels need CUDA"),
        ("SIMT_DRIVER", "0", "there is no NVIDIA driver"),
        ("SIMT_CAPABILITY", "75", r"GPU is too old: .* for compute capability 8\.0 and later"),
    ],
)
def test_why_there_is_no_gpu(variable, value, reason):
    """The reason is shown with the configuration, and by the first call."""
    program = """
import numpy as np, gnograd as gg
from gnograd.backends import cuda
gg.show_config()
try:
    x, w = (cuda.to_device(np.ones(shape)) for shape in ((1, 1), 1))
    gg.agg_weighted(x, w, graph=gg.Graph([0, 1], [0], n_src=1))
except RuntimeError as error:
    print(error)
"""
    environment = {**os.environ, variable: value}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    shown, said = (line for line in run.stdout.splitlines() if re.search(reason, line))
    assert shown.startswith("gpus      none (")
    assert re.match("CUDA: |agg_weighted: ", said)


def test_no_gpu_without_kernels(monkeypatch):
    monkeypatch.setenv("GNOGRAD_CUDA_LIBRARY", "")
    assert gg.get_config()["gpus"] == "none (built without CUDA kernels)"


def test_host_and_device_do_not_mix(weighted):
    with pytest.raises(TypeError, match="agg_weighted: x is on the GPU but w is on the CPU"):
        gg.agg_weighted(cuda.to_device(weighted.x), weighted.w, graph=weighted.graph)


def test_checks_are_those_of_the_cpu(weighted):
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    with pytest.raises(ValueError, match=r"agg_weighted: w has shape \(10, 4\), needs \(n_edges"):
        gg.agg_weighted(x, x, graph=weighted.graph)
    with pytest.raises(TypeError, match="x is float64 but w is float32"):
        gg.agg_weighted(x, cuda.to_device(weighted.w.astype("f4")), graph=weighted.graph)
    with pytest.raises(TypeError, match="x is int64, needs float32 or float64 or float16 or bfl"):
        gg.agg_weighted(cuda.to_device(weighted.x.astype(int)), w, graph=weighted.graph)
    with pytest.raises(TypeError, match="x is >f8, needs"):
        gg.agg_weighted(Lender(x, typestr=">f8"), w, graph=weighted.graph)


def test_no_kernel():
    arrays = [np.ones(shape, np.float16) for shape in [(2, 1), (1, 1), (2,), (1, 1), (1,)]]
    static = {"graph": gg.Graph([0, 1, 1], [0], n_src=1), "widths": [1], "kernel": "diagonal"}
    message = "gno_with_gradient: there is no CUDA kernel for float16"
    with pytest.raises(NotImplementedError, match=message):
        gg.gno_with_gradient(None, *map(cuda.to_device, arrays), **static)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (-2, ValueError, "a size or code that means nothing"),
        (-1, RuntimeError, "workspace"),
        (2, MemoryError, "."),
        (700, RuntimeError, "."),
    ],
)
def test_status(status, error, message, weighted, monkeypatch):
    library = cuda_library.library()
    name = "agg_weighted_forward_f64"
    face = library.faces[name]._replace(launch=lambda *_: status)
    monkeypatch.setitem(library.faces, name, face)
    with pytest.raises(error, match=f"^agg_weighted: .*{message}"):
        gg.agg_weighted(*to_device((weighted.x, weighted.w)), graph=weighted.graph)


def test_library_that_does_not_load(tmp_path, monkeypatch):
    (tmp_path / "broken.so").write_text("no library")
    with pytest.raises(RuntimeError, match="cannot be loaded"):
        cuda_library.Library(tmp_path / "broken.so")
    monkeypatch.setenv("GNOGRAD_CUDA_LIBRARY", "")
    assert not has_cuda()


@on_host
def test_another_runtime_in_the_process(tmp_path):
    """PyTorch's build for GPUs loads a CUDA runtime; its names are not taken for the stand-in's."""
    source = tmp_path / "runtime.c"
    source.write_text("int cudaGetDeviceCount(int *n) { *n = 0; return 35; }")
    other = tmp_path / "libcudart.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", other, source], check=True)
    call = "from gnograd.backends import cuda_library; print(cuda_library.devices())"
    found = subprocess.run(
        [sys.executable, "-c", call], env=os.environ | {"LD_PRELOAD": str(other)},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "host (SIMT)" in found.stdout


def test_a_named_library_without_a_device_is_no_reason_to_skip(tmp_path):
    environment = os.environ | {"GNOGRAD_CUDA_LIBRARY": str(tmp_path / "none.so")}
    ran = subprocess.run(
        [sys.executable, "-c", "import gpus"], cwd=Path(__file__).parent, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode
    assert "none.so, which has no device" in ran.stderr


def test_header(tmp_path):
    """Functions that are bound by hand, and faces of the library, are those of the header."""
    file = tmp_path / "gnograd_cuda.h"
    writer = Path(__file__).parents[1] / "tools" / "interface" / "cuda.py"
    subprocess.run([sys.executable, writer, "header", file], check=True)
    header = file.read_text()
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    declared = re.findall(r"^GNOGRAD_CUDA_API (.*?gnograd_cuda_\w+\(.*?\));", header, re.M | re.S)
    declared = {re.sub(r"\s+", " ", d).replace(" )", ")") for d in declared}
    faces = {f"gnograd_cuda_{name}" for name in cuda_library.library().faces}
    pairs = faces | {re.sub(r"_(\w?f\d+|i32|i64)$", r"_workspace_bytes_\1", face) for face in faces}
    names = {re.search(r"gnograd_cuda_\w+(?=\()", d)[0]: d for d in declared}
    assert pairs <= set(names)
    bound = {
        re.sub(r"(\w+\()", r"gnograd_cuda_\1", line, count=1)
        for line in cuda_library.RUNTIME.strip().splitlines()
    }
    # functions of the tape are bound by Fortran
    names = {n: d for n, d in names.items() if not n.startswith("gnograd_cuda_tape_")}
    assert bound == {d for name, d in names.items() if name not in pairs}


def test_config(capsys):
    assert gg.get_config()["cuda"] is True
    assert gg.get_config()["gpus"] == ", ".join(GPUS)
    gg.show_config()
    assert f"gpus      {GPUS[0]}" in capsys.readouterr().out


@on_host
def test_operators_over_processes():
    assert "on 2 processes" in mpiexec(2, "check_gpu.py")


def test_arrays_of_which_rows_cannot_be_had():
    dg = gg.DistributedGraph.from_local([0, 1, 2], [1, 0], owned=[0, 1])
    message = "arrays on a GPU are those of CuPy or tensors, not DeviceArray"
    for call in (gg.agg_simple, gg.halo):
        with pytest.raises(TypeError, match=message):
            call(to_device(np.ones((2, 3))), graph=dg)
