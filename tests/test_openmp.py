# SPDX-License-Identifier: MIT
"""One OpenMP runtime beside PyTorch, and what the library needs of the system."""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gnograd

PACKAGE = Path(gnograd.__file__).parent
TOOL = Path(__file__).parents[1] / "tools" / "symbols.py"

linux = pytest.mark.skipif(platform.system() != "Linux", reason="/proc/self/maps and ELF")

# a process prints the runtimes that it has, and a hash of five equal calculations
BESIDE = """
import hashlib, re, sys
for name in sys.argv[1:]:
    __import__(name)
import gnograd as gg
import numpy as np
import torch

rng = np.random.default_rng(7)
n, features = 300, 16
graph = gg.Graph(np.arange(0, 8 * n + 1, 8), rng.integers(0, n, 8 * n), n_src=n)
h = rng.standard_normal((n, 3 * features), dtype=np.float32)
kernels = rng.standard_normal((8 * n, features, features), dtype=np.float32)
x = torch.ones(200_000)
seen = set()
for _ in range(5):
    x = torch.tanh(x) * 1.01
    out = gg.gno_aggregate(np.ascontiguousarray(h[:, :features]), kernels, graph=graph)
    seen.add(hashlib.sha256(out.tobytes()).hexdigest())
maps = open("/proc/self/maps").read()
print(len(set(re.findall(r"/\\S*lib[gi]?omp\\S*", maps))), len(seen), *seen)
"""


def run(code, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "2"} | environment,
    )


@linux
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_one_runtime_beside_pytorch():
    """Both orders of import load one runtime, and give the same bits five times."""
    found = set()
    for order in ("gnograd", "torch"), ("torch", "gnograd"):
        done = run(BESIDE, *order)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    (line,) = found
    runtimes, distinct, _ = line.split()
    assert (runtimes, distinct) == ("1", "1")


@linux
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_runtime_of_pytorch():
    """PyTorch's runtime is loaded if the system has none."""
    code = """
import importlib
real, calls = importlib.import_module, []
def fail_once(name, package=None):
    calls.append(name)
    if calls == ["gnograd._core"]:
        raise ImportError("libgomp.so.1: cannot open shared object file")
    return real(name, package)
importlib.import_module = fail_once
import gnograd
import re
print(set(re.findall(r"/\\S*libgomp\\S*", open("/proc/self/maps").read())))
"""
    done = run(code)
    if not list(Path(importlib.util.find_spec("torch").origin).parent.glob("lib/libgomp.so.1")):
        assert "libgomp1" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("libgomp") == 1 and "torch/lib" in done.stdout


def test_missing_runtime_names_its_package():
    code = """
import importlib, importlib.util
real = importlib.import_module
def fail(name, package=None):
    if name == "gnograd._core":
        raise ImportError("libgomp.so.1: cannot open shared object file")
    return real(name, package)
importlib.import_module = fail
importlib.util.find_spec = lambda name: None
import gnograd
"""
    done = run(code)
    assert done.returncode == 1
    message = done.stderr.splitlines()[-1]
    assert message.startswith("ImportError: gnograd needs the GNU OpenMP runtime")
    assert all(name in message for name in ("libgomp1", "RHEL", "conda"))


@linux
@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_symbols_of_glibc():
    """RHEL 9 has all symbols of glibc that the libraries need."""
    libraries = [
        file
        for name in ("libgnograd.so", "libgnograd_kernels.so", "_core*.so")
        for file in PACKAGE.rglob(name)
    ]
    if not libraries:
        pytest.skip("an editable installation has its libraries elsewhere")
    done = subprocess.run(
        [sys.executable, TOOL, *libraries], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
