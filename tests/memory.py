# SPDX-License-Identifier: MIT
"""Peak memory of a call, measured by the operating system in a process of its own."""

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

needs_linux = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc"
)


def temporary_bytes(prepare, *arguments) -> int:
    """Peak memory of ``work = prepare(*arguments)``; ``work()``, without what it returns."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measure, prepare, arguments).result()


def _measure(prepare, arguments) -> int:
    work = prepare(*arguments)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    before = _status("VmRSS")
    results = work()
    return _status("VmHWM") - before - sum(x.nbytes for x in results if x is not None)


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"{name}:\s+(\d+)", text)[1])
