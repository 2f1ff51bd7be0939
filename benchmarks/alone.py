# SPDX-License-Identifier: MIT
"""One call by itself: its median time, and its memory in a process of its own."""

from __future__ import annotations

import ctypes
import importlib.util
import multiprocessing
import re
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import gnograd as gg

__all__ = ["installed", "median", "peak_bytes", "peak_memory", "set_threads"]


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def set_threads(threads: int) -> None:
    """Threads of gnograd and, if it is there, of PyTorch."""
    gg.set_num_threads(threads)
    if installed("torch"):
        import torch

        torch.set_num_threads(threads)


def median(call: Callable[[], object], repeats: int) -> float:
    """Seconds of a call, as in a program that makes no others.

    Two calls come before those that are timed: threads are awake then, and memory is at hand.
    """
    times = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def peak_bytes(make: Callable[[bool], Callable[[], object]], threads: int) -> tuple[int, int]:
    """Memory that a call takes beside its inputs, and beside its results too.

    ``make(True)`` gives the call on small inputs, with which libraries and threads start, and
    ``make(False)`` the one that is measured; `make` is sent to a process of its own.
    """
    if not Path("/proc/self/clear_refs").exists():
        return 0, 0
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_peak_bytes, make, threads).result()


def _peak_bytes(make: Callable[[bool], Callable[[], object]], threads: int) -> tuple[int, int]:
    set_threads(threads)
    make(True)()
    call = make(False)
    ctypes.CDLL(None).malloc_trim(0)  # free memory that is still held would hide what is taken
    peak, results = peak_memory(call)
    return peak, peak - sum(array.nbytes for array in _arrays(results))


def peak_memory(step: Callable[[], Any]) -> tuple[int, Any]:
    """Peak bytes of a step beyond what was there, results included; and the results."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    before = _status("VmRSS")
    results = step()
    return _status("VmHWM") - before, results


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"{name}:\s+(\d+)", text)[1])  # type: ignore[index]


def _arrays(results):
    """Arrays in tuples and dicts."""
    if isinstance(results, tuple | list | dict):
        for part in results.values() if isinstance(results, dict) else results:
            yield from _arrays(part)
    elif results is not None:
        yield results
