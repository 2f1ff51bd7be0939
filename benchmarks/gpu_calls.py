# SPDX-License-Identifier: MIT
"""The host's time of a call on a GPU, beside that of a call on the CPU.

agg_weighted of 16 nodes, forward (without a gradient) and training (output and both gradients),
through gnograd.torch and through the plain functions, as multiples of the CPU's call through
gnograd.torch. Contestants take turns; medians of all turns.

    python benchmarks/gpu_calls.py [--turns 300] [--profile]

On a GPU calls are queued and not waited for. Without one, GNOGRAD_CUDA_LIBRARY names the host's
build of the kernels: launches are left out then, and tensors in host memory take the way of CUDA
tensors (tests/host_tensors.py).
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import functools
import pstats
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gnograd as gg
import gnograd.torch as gt
from gnograd.backends import cuda_library

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

NODES, EDGES, WIDTH = 16, 64, 8
Context = Callable[[], contextlib.AbstractContextManager[Any]]


def without_launches() -> None:
    """Leave out the kernels of the library, for a process that measures nothing else."""
    faces = cuda_library.library().faces
    for name, face in faces.items():
        faces[name] = face._replace(launch=lambda *_: 0)


def calls_on(device: str, graph: gt.Graph) -> dict[str, Callable]:
    """Forward and training on tensors of a device."""
    torch.manual_seed(0)
    x, w, c = (
        torch.randn(*shape).to(device) for shape in ((NODES, WIDTH), (EDGES,), (NODES, WIDTH))
    )
    leaves = x.requires_grad_(), w.requires_grad_()

    def forward():
        with torch.no_grad():
            return gt.agg_weighted(*leaves, graph=graph)

    def training():
        return torch.autograd.grad(gt.agg_weighted(*leaves, graph=graph), leaves, c)

    return {"forward": forward, "training": training}


def contestants() -> dict[str, tuple[Context, Callable]]:
    """Calls and what surrounds a turn of them, by name; the first two are the units."""
    rng = np.random.default_rng(0)
    edges = torch.from_numpy(rng.integers(0, NODES, (2, EDGES)))
    real = torch.cuda.is_available()
    graph = gt.Graph.from_edge_index(edges, NODES)
    on_gpu: Context = contextlib.nullcontext
    there = graph
    if real:
        there = graph.to("cuda")
    else:
        from host_tensors import tensors_on_gpu

        without_launches()
        on_gpu = functools.partial(tensors_on_gpu, computed=False)
        there = gt.Graph.from_edge_index(edges, NODES)
    cpu = calls_on("cpu", graph)
    gpu = calls_on("cuda" if real else "cpu", there)
    from gnograd.backends import cuda

    arrays = [cuda.to_device(rng.random(s, np.float32)) for s in ((NODES, WIDTH), (EDGES,))]
    host = gg.Graph.from_edges(*edges.numpy(), NODES, NODES)
    plain = contextlib.nullcontext
    return {
        "forward, CPU": (plain, cpu["forward"]),
        "training, CPU": (plain, cpu["training"]),
        "forward, GPU": (on_gpu, gpu["forward"]),
        "training, GPU": (on_gpu, gpu["training"]),
        "forward, GPU, arrays of gnograd": (plain, lambda: gg.agg_weighted(*arrays, graph=host)),
    }


def measure(turns: int = 300, each: int = 5) -> dict[str, float]:
    """Median times of calls, as multiples of the CPU's in the same face."""
    times: dict[str, list[float]] = {}
    made = contestants()
    for turn in range(turns + 3):
        for name, (context, call) in made.items():
            with context():
                call()  # the caches are another contestant's
                start = time.perf_counter()
                for _ in range(each):
                    call()
                taken = (time.perf_counter() - start) / each
            if turn >= 3:
                times.setdefault(name, []).append(taken)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    medians = {name: statistics.median(t) for name, t in times.items()}
    return {
        name: round(t / medians[f"{name.split(',')[0]}, CPU"], 2) for name, t in medians.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--profile", action="store_true", help="of the calls on a GPU")
    options = parser.parse_args()
    if options.profile:
        profile = cProfile.Profile()
        for context, call in contestants().values():
            with context():
                call()
                profile.enable()
                for _ in range(1000 if context is not contextlib.nullcontext else 0):
                    call()
                profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    for name, ratio in measure(options.turns).items():
        print(f"{name:34} {ratio:7.2f} x the CPU's call")


if __name__ == "__main__":
    main()
