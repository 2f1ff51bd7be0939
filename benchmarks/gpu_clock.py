# SPDX-License-Identifier: MIT
"""Times of calls on a GPU, and large arrays that are drawn there."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np


class OnGpu(np.random.Generator):
    """Generator that draws large arrays on the GPU."""

    def __init__(self, seed: int):
        import torch

        super().__init__(np.random.PCG64(seed))
        self.torch, self.here = torch, torch.Generator("cuda").manual_seed(seed)

    def draw(self, shape: tuple[int, ...], dtype: str, scale: float) -> Any:
        """Normal numbers, for `case.normal`."""
        out = self.torch.empty(shape, dtype=getattr(self.torch, dtype), device="cuda")
        for part in out.view(-1).split(1 << 28):  # so that float32 copies stay small
            values = self.torch.randn(part.shape, device="cuda", generator=self.here)
            part.copy_(values.mul_(scale))
        return out

    def choose(self, tokens: int, heads: int, causal: bool) -> Any:
        """Blocks of keys for every query, for `cases_sparse.selection`."""
        torch, n, parts = self.torch, tokens // 64, []
        for first in range(0, tokens, 8192):
            t = torch.arange(first, min(first + 8192, tokens), device="cuda")[:, None, None]
            score = torch.rand(len(t), heads, n, device="cuda", generator=self.here)
            if causal:
                block, own = torch.arange(n, device="cuda"), t // 64
                score = torch.where(block > own, -1.0, torch.where(block == own, 2.0, score))
            best = score.topk(min(16, n), dim=2)
            parts.append(torch.where(best.values < 0, -1, best.indices).int())
        return torch.cat(parts)


class Clock:
    """Times of calls on the GPU that PyTorch has current."""

    def __init__(self, repeats: int):
        import torch

        self.torch, self.repeats = torch, repeats
        cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or 64 << 20
        self.flushed = torch.empty(2 * cache, dtype=torch.int8, device="cuda")

    def event(self) -> Any:
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def queue(self, seconds: float) -> None:
        """Keep the GPU busy while the host queues what is to be timed."""
        self.torch.cuda.synchronize()
        self.torch.cuda._sleep(int(min(2 * seconds + 0.001, 2) * 2e9))  # cycles

    def __call__(self, call: Callable, seconds: float = 1.0) -> dict[str, float]:
        """Milliseconds, cold, warm and of the host; fewer calls where they would take longer."""
        call()
        self.torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        host = time.perf_counter() - start
        self.torch.cuda.synchronize()
        once = time.perf_counter() - start
        repeats = max(3, min(self.repeats, int(seconds / (3 * once))))
        # busy while calls are queued, the GPU shows its own time between events
        self.queue(host * repeats)
        pairs = []
        for _ in range(repeats):
            self.flushed.zero_()
            begin = self.event()
            call()
            pairs.append((begin, self.event()))
        self.torch.cuda.synchronize()
        cold = sorted(begin.elapsed_time(end) for begin, end in pairs)
        self.queue(host * repeats)
        begin = self.event()
        for _ in range(repeats):
            call()
        end = self.event()
        self.torch.cuda.synchronize()
        return {
            "cold": statistics.median(cold), "cold_least": cold[0], "cold_most": cold[-1],
            "warm": begin.elapsed_time(end) / repeats, "host": 1e3 * host, "calls": repeats,
        }  # fmt: skip


def waiting(call: Callable, repeats: int) -> dict[str, float]:
    """Milliseconds of calls that the host waits in: their median, for all clocks."""
    import torch

    times = []
    for _ in range(repeats + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return dict.fromkeys(("cold", "warm", "host"), statistics.median(times[3:]))
