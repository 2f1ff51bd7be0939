# SPDX-License-Identifier: MIT
"""The page about CuPy, block by block: a stand-in for it, on the kernels' build for the host."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gnograd.backends import cuda_library

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import contextlib, sys
from types import SimpleNamespace
sys.path.insert(0, {folder!r})
import cupy_on_host

cupy = cupy_on_host.install()
current, used = [0], []

class Stream:
    def __init__(self, non_blocking=False):
        self.ptr = 70
    def __enter__(self):
        current.append(self.ptr)
    def __exit__(self, *_):
        current.pop()
    def synchronize(self):
        pass

cupy.cuda.Stream = Stream
cupy.cuda.get_current_stream = lambda: SimpleNamespace(ptr=current[-1])

import gnograd.backends.cuda as cuda
current_of = cuda._current
cuda._current = lambda *a: used.append(current_of(*a)) or used[-1]
{page}
assert set(used) == {{0, 70}}, used
x_host, w_host = cp.asnumpy(x), cp.asnumpy(w)
np.testing.assert_allclose(
    cp.asnumpy(memory), gg.agg_weighted(x_host, w_host, graph=graph), rtol=1e-5, atol=1e-5
)
np.testing.assert_allclose(
    cp.asnumpy(grad_x),
    gg.agg_weighted.vjp(cp.asnumpy(memory), (x_host, w_host), graph=graph)[0],
    rtol=1e-5, atol=1e-5,
)
"""


@pytest.mark.skipif("host (SIMT)" not in cuda_library.devices()[0], reason="needs the SIMT build")
def test_page() -> None:
    text = (ROOT / "docs" / "howto" / "cupy.md").read_text()
    page = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
    assert page.count("gg.agg_weighted") >= 5
    program = PROGRAM.format(folder=str(ROOT / "tests" / "distributed"), page=page)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
