# SPDX-License-Identifier: MIT
"""Common code of benchmarks beside PyTorch: agreement, times in turns, the rate of sgemm."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

__all__ = ["compare", "sgemm_rate", "times"]

Steps = Mapping[str, Callable[[], Sequence[Any]]]
"""Contestants by name: a call makes a step and gives its results."""


def compare(steps: Steps, limit: float) -> None:
    """Refuse contestants whose results differ by more than `limit` from those of the first."""
    expected, *others = (step() for step in steps.values())
    for results in others:
        for a, b in zip(expected, results, strict=True):
            if a is not None:
                a, b = a.detach(), b.detach()
                error = float(torch.linalg.vector_norm(a - b) / torch.linalg.vector_norm(a))
                assert error < limit, error


def times(steps: Steps, repeats: int) -> dict[str, tuple[float, float]]:
    """Medians of wall clock and processor; contestants take turns."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            wall, processor = time.perf_counter(), time.process_time()
            step()
            found[name].append((time.perf_counter() - wall, time.process_time() - processor))
    return {
        name: (statistics.median(w for w, _ in taken), statistics.median(p for _, p in taken))
        for name, taken in found.items()
    }


def sgemm_rate(repeats: int = 20) -> float:
    """Operations a second of PyTorch's own product."""
    a, b = torch.rand(2, 1024, 1024)
    a @ b
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        a @ b
        taken.append(time.perf_counter() - start)
    return 2 * 1024**3 / statistics.median(taken)
