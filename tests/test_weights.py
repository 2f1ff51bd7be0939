# SPDX-License-Identifier: MIT
"""Weights on disk: Python to Python and to modules of PyTorch; damaged files."""

from __future__ import annotations

import json
import os
import pickle
import secrets
import stat
import struct
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import gnograd as gg
import gnograd.autodiff as ad
from gnograd.cli.errors import JobError
from gnograd.cli.files import atomic
from gnograd.data import DataError, Prediction, write

ml_dtypes = pytest.importorskip("ml_dtypes")

DTYPES = [
    "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool",
]  # fmt: skip


def test_arrays_come_back_bit_for_bit(rng, tmp_path):
    path = tmp_path / "all.safetensors"
    arrays = {
        f"{dtype} {shape}": (100 * rng.normal(size=shape)).astype(dtype)
        for dtype in DTYPES
        for shape in [(), (0,), (3,), (2, 3), (2, 0, 3), (2, 1, 3, 2, 2)]
    }
    arrays["half"] = rng.normal(size=5).astype(ml_dtypes.bfloat16)
    arrays['ünïcode "\\\n'] = np.array([np.nan, -0.0, np.inf])
    arrays["strided"] = np.arange(12.0).reshape(3, 4).T[::2]
    gg.save_weights(str(path), arrays, metadata={"steps": "10"})
    found = gg.load_weights(path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == np.ascontiguousarray(array).tobytes()
    assert gg.load_weights_metadata(path) == {"steps": "10"}
    found["half"][:] = 0  # they are the caller's own
    assert list(tmp_path.iterdir()) == [path]


def test_parameters_of_a_tape(tmp_path):
    path = tmp_path / "tape.safetensors"
    tape = ad.Tape("float64")
    layer = {"weight": tape.parameter([[1.0, 2.0]]), "bias": tape.parameter([3.0])}
    gg.save_weights(path, layer)
    other = ad.Tape("float64")
    fresh = {"bias": other.parameter([0.0]), "weight": other.parameter([[0.0, 0.0]])}
    found = gg.load_weights(path, fresh)
    assert_array_equal(fresh["weight"].value, [[1.0, 2.0]])
    assert_array_equal(found["bias"], [3.0])


def test_the_same_file_again(tmp_path):
    text = {f"key {k} \u00e9\n": "\x01" for k in range(20)}
    for name in ("a", "b"):
        gg.save_weights(tmp_path / name, {"x": np.arange(3.0), "y": np.eye(2)}, metadata=text)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert gg.load_weights_metadata(tmp_path / "a") == text
    assert_array_equal(gg.load_weights(tmp_path / "a")["x"], np.arange(3.0))


def test_what_does_not_fit_changes_nothing(tmp_path):
    path = tmp_path / "tape.safetensors"
    tape = ad.Tape()
    layer = {"a": tape.parameter([1.0]), "b": tape.parameter([2.0])}
    for arrays, message in [
        ({"a": np.float32([5])}, "the file has not 'b' .1 names differ"),
        (
            {"a": np.float32([5]), "b": np.float32([6]), "c": np.float32([7])},
            "only the file has 'c'",
        ),
        (
            {"a": np.float32([5]), "b": np.float32([[6]])},
            r"'b' has shape \(1, 1\), the parameter \(1,\)",
        ),
        ({"a": np.float32([5]), "b": np.float64([6])}, "'b' is float64, the parameter float32"),
    ]:
        gg.save_weights(path, arrays)
        with pytest.raises(ValueError, match=message):
            gg.load_weights(path, layer)
        assert_array_equal(layer["a"].value, [1.0])
    gg.save_weights(path, {"b": np.float32([9]), "c": np.float32([7])})
    gg.load_weights(path, layer, strict=False)
    assert [layer[n].value.item() for n in "ab"] == [1.0, 9.0]


def test_bad_arguments(tmp_path):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(b"old")
    for weights, error, message in [
        (
            [1, 2],
            TypeError,
            "weights is a mapping of names to arrays, or a module of PyTorch, not list",
        ),
        ({3: np.zeros(2)}, TypeError, "names of arrays are strings"),
        ({"__metadata__": np.zeros(2)}, ValueError, "'__metadata__' is the format's"),
        ({"\ud800": np.zeros(2)}, ValueError, "cannot be written as UTF-8"),
        (
            {"x": np.zeros(2, complex)},
            ValueError,
            "'x' is complex128, which the format does not know",
        ),
        ({"x": np.array(["a"])}, ValueError, "'x' is <U1, which the format does not know"),
        ({"x": np.zeros(2, ">f4")}, ValueError, "'x' is >f4, which the format does not know"),
        ({"x": np.ma.ones(2)}, TypeError, "'x' is a masked array, whose mask would be ignored"),
        ({"x": np.array([object()])}, ValueError, "'x' is object, which the format does not know"),
    ]:
        with pytest.raises(error, match=message):
            gg.save_weights(path, weights)
    with pytest.raises(TypeError, match="metadata needs strings"):
        gg.save_weights(path, {}, metadata={"steps": 10})
    with pytest.raises(
        TypeError, match="into is a mapping of names to arrays of a tape, or a module"
    ):
        gg.save_weights(tmp_path / "x", {"x": np.zeros(1)})
        gg.load_weights(tmp_path / "x", [1])
    assert path.read_bytes() == b"old"
    with pytest.raises(FileNotFoundError):
        gg.save_weights(tmp_path / "none" / "x", {})


def test_a_file_is_on_the_disk_and_then_its_name(tmp_path, monkeypatch):
    folders = []

    def fsync(number: int, fsync=os.fsync) -> None:
        folders.append(stat.S_ISDIR(os.fstat(number).st_mode))
        fsync(number)

    monkeypatch.setattr(os, "fsync", fsync)
    gg.save_weights(tmp_path / "x", {"x": np.zeros(1)})
    assert folders == [False, True]


def test_damaged_files(tmp_path):
    good = tmp_path / "good.safetensors"
    gg.save_weights(good, {"x": np.arange(4.0), "y": np.zeros(3, np.int32)})
    whole = good.read_bytes()
    path = tmp_path / "bad.safetensors"
    files = [b"", b"x", whole[:-1], whole + b"x", whole[:20], b"\xff" * 8 + whole[8:]]
    files += [whole.replace(b'"F64"', b'"F63"'), whole.replace(b"[4]", b"[5]"), pickle.dumps([1])]
    for content in files:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"bad.safetensors: no safetensors file, or damaged"):
            gg.load_weights(path)
    with pytest.raises(FileNotFoundError):
        gg.load_weights(tmp_path / "none")


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("BF16", "bfloat16"), ("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2"),
     ("F8_E8M0", "float8_e8m0fnu")],
)  # fmt: skip
def test_types_that_numpy_has_not_in_a_fresh_process(tmp_path, kind, dtype):
    values = np.array([1.0, 2.0, 4.0]).astype(dtype)
    header = {
        "x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "a": {"dtype": kind, "shape": [3, 1], "data_offsets": [4, 4 + values.nbytes]},
    }
    text = json.dumps(header).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(
        struct.pack("<Q", len(text)) + text + np.float32(7).tobytes() + values.tobytes()
    )
    program = (
        "import gnograd as gg, numpy as np; from gnograd.data import contents; import pathlib\n"
        f"found = gg.load_weights({str(path)!r}); a = found['a']; a[0] = a[0]\n"
        "print(a.dtype, a.shape, a.astype('f4').ravel().tolist(), found['x'])\n"
        f"print(contents({str(path)!r}).arrays['a'].dtype)\n"
    )
    assert run_python(program) == f"{dtype} (3, 1) [1.0, 2.0, 4.0] [7.]\nfloat32\n"


def run_python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_module_in_bfloat16_is_read_back_in_a_fresh_process(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 2).bfloat16()
    path = tmp_path / "a.safetensors"
    gg.save_weights(path, module)
    program = (
        "import torch, gnograd as gg; m = torch.nn.Linear(2, 2).bfloat16()\n"
        f"gg.load_weights({str(path)!r}, m); print(m.weight.float().tolist())\n"
    )
    assert run_python(program) == f"{module.weight.float().tolist()}\n"


def test_types_of_a_module_hold_the_numbers_of_the_file(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.safetensors"
    for dtype, fits in (
        ("float16", True), ("bfloat16", True), ("float32", True), ("float64", False),
        ("int8", False), ("bool", False),
    ):  # fmt: skip
        module = torch.nn.Linear(2, 2)
        before = module.weight.tolist()
        values = {
            n: torch.ones_like(x).to(getattr(torch, dtype)) for n, x in module.state_dict().items()
        }
        gg.save_weights(path, values)
        if fits:
            gg.load_weights(path, module)
            assert module.weight.tolist() == [[1, 1], [1, 1]]
        else:
            with pytest.raises(ValueError, match=rf"is torch.{dtype}, the module's is torch.fl"):
                gg.load_weights(path, module)
            assert module.weight.tolist() == before


def test_what_is_written_is_on_disk_and_nowhere_else(tmp_path, monkeypatch):
    """Every writer: a new file, which is synchronised, and then the folder with its name."""
    synchronised = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda f: synchronised.append(stat.S_ISDIR(os.fstat(f).st_mode)) or real(f)
    )
    x = np.zeros((3, 2))
    prediction = Prediction(x, {"u": np.ones((3, 1), np.float32)})
    writers = {
        "a.safetensors": lambda path: gg.save_weights(path, {"x": x}),
        "b.safetensors": lambda path: write(path, [prediction]),
        "b.npz": lambda path: write(path, [prediction]),
        "b.vtu": lambda path: write(path, [prediction]),
        "c": lambda path: _atomic(path),
    }
    victim = tmp_path / "victim"
    victim.write_text("whole")
    for name, save in writers.items():
        synchronised.clear()
        save(tmp_path / name)
        assert synchronised == [False, True]
        before = (tmp_path / name).read_bytes()
        part = tmp_path / f".{name}.{'0' * 16}.gnograd-part"
        part.symlink_to(victim)
        with monkeypatch.context() as context:
            context.setattr(secrets, "token_hex", lambda n: "0" * 16)
            with pytest.raises((OSError, DataError, JobError), match="exists"):
                save(tmp_path / name)
        assert victim.read_text() == "whole" and (tmp_path / name).read_bytes() == before


def _atomic(path):
    with atomic(path) as stream:
        stream.write(b"whole")


def test_a_name_that_is_no_utf_8(tmp_path):
    torch = pytest.importorskip("torch")
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/m\xff")
    os.mkdir(folder)
    module, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    gg.save_weights(f"{folder}/a.safetensors", module)
    gg.load_weights(f"{folder}/a.safetensors", other)
    assert torch.equal(module.weight, other.weight)


def test_modules_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "module.safetensors"

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(3, 3)
            self.norm = torch.nn.BatchNorm1d(3)
            self.second = torch.nn.Linear(3, 3, bias=False).to(torch.bfloat16)
            self.third = self.first

    module, other = Tied(), Tied()
    gg.save_weights(path, module)
    found = gg.load_weights(path, other)
    assert "third.weight" not in found and found["norm.num_batches_tracked"].shape == ()
    for name, tensor in module.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name
    assert other.third.weight is other.first.weight
    with pytest.raises(ValueError, match=r"the file has not 'bias' \(10 names differ\)"):
        gg.load_weights(path, torch.nn.Linear(3, 3))
    gg.save_weights(path, {"weight": torch.zeros(2, 3).T, "bias": np.ones(3, np.float32)})
    layer = torch.nn.Linear(2, 3)
    gg.load_weights(path, layer)
    assert layer.bias.detach().tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match=r"'weight' has shape \(3, 2\), the module's is \(4, 3\)"):
        gg.load_weights(path, torch.nn.Linear(3, 4), strict=False)
