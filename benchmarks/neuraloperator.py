# SPDX-License-Identifier: MIT
"""neuraloperator's GNOBlock with its default arguments, and GINO, beside those of gnograd.

GNOBlock: training (value, gradients to the function and the parameters) and value on random points
in space with 262,144 edges, transformer embedding of 32 channels, kernel network [128, 256, 128],
gelu. The neighbours are found once, for both, and not timed. neuraloperator sums over them with
torch_scatter, or else by a Python loop over the queries; its own block stands here with
`torch.segment_reduce` in that place, as fast as torch_scatter, and differentiable once. The same
parameters go through both, and values and gradients are compared.

GINO: a training step of the same checkpoint before and after `patch_neuraloperator`, search
included, with neuraloperator's own segment sum.

Contestants take turns; times are medians, of the wall clock, and of the processor where other
programs run. Rates are of the multiplications that gnograd does, as a share of sgemm's. Memory is
the peak of a step beside what was there, in a process of its own.

usage: python benchmarks/neuraloperator.py [--threads N ...] [--repeats N] [--edges N]
                                           [--clock processor] [--json FILE]
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from alone import peak_memory
from contest import compare, sgemm_rate, times
from results import Results, add_clock, add_option

import gnograd as gg
import gnograd.torch as gt

CHANNELS, NEIGHBOURS = 32, 16


def segment_sum(values: torch.Tensor, splits: torch.Tensor, reduction: str, **_: Any) -> Any:
    """Replacement of torch_scatter's segment_csr, for one item; an empty segment gives 0."""
    rows, offsets = values.reshape(-1, values.shape[-1]), splits.flatten()
    made = torch.segment_reduce(rows, "sum", offsets=offsets)
    if reduction == "mean":
        made = made / offsets.diff().clamp(min=1)[:, None]
    return made.view(*values.shape[:-2], *made.shape)


def blocks(n_edges: int) -> dict[str, Callable[[bool], list[torch.Tensor]]]:
    """Steps of both, which agree."""
    import neuralop.layers.integral_transform as transform
    from neuralop.layers.gno_block import GNOBlock

    torch.manual_seed(0)
    n = n_edges // NEIGHBOURS
    y, x = torch.rand(n, 3), torch.rand(n, 3)
    f, cotangent = torch.randn(n, CHANNELS).requires_grad_(), torch.randn(n, CHANNELS)
    found = {
        "neighbors_index": torch.randint(0, n, (n, NEIGHBOURS)).sort(1).values.flatten(),
        "neighbors_row_splits": torch.arange(0, n_edges + 1, NEIGHBOURS),
    }
    theirs = GNOBlock(CHANNELS, CHANNELS, coord_dim=3, radius=0.1)
    theirs.neighbor_search.forward = lambda **_: found
    ours = gt.GNOBlock(CHANNELS, CHANNELS, coord_dim=3, radius=0.1)
    ours.load_state_dict(theirs.state_dict())
    graph = gg.Graph(found["neighbors_row_splits"].numpy(), found["neighbors_index"].numpy(), n)

    def step(block: Any, training: bool, **given: Any) -> list[torch.Tensor]:
        fast_sum = patch.object(transform, "segment_csr", segment_sum)
        with torch.set_grad_enabled(training), fast_sum:
            out = block(y, x, f, **given)
        if not training:
            return [out]
        return [out, *torch.autograd.grad(out, [f, *block.parameters()], cotangent)]

    return {
        "neuraloperator": lambda training: step(theirs, training),
        "gnograd": lambda training: step(ours, training, neighbors=graph),
    }


def models() -> dict[str, Callable[[bool], list[torch.Tensor]]]:
    """GINO with its default kernel networks, before and after."""
    from neuralop.models import gino

    arguments: dict[str, Any] = dict(
        in_channels=1, out_channels=1, in_gno_radius=0.15, out_gno_radius=0.15, fno_in_channels=16,
        fno_n_modes=(8, 8, 8), fno_hidden_channels=32, fno_n_layers=2,
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = gino.GINO(**arguments)
    with gt.patch_neuraloperator():
        ours = gino.GINO(**arguments)
    ours.load_state_dict(theirs.state_dict())
    axes = torch.meshgrid(*3 * [torch.linspace(0, 1, 12)], indexing="ij")
    inputs = {
        "input_geom": torch.rand(1, 2000, 3),
        "latent_queries": torch.stack(axes, dim=-1)[None],
        "output_queries": torch.rand(1, 2000, 3),
        "x": torch.randn(1, 2000, 1),
    }

    def step(model: torch.nn.Module) -> list[torch.Tensor]:
        out = model(**inputs)
        leaves = [p for p in model.parameters() if p.requires_grad]
        return [out, *torch.autograd.grad(out.square().sum(), leaves, allow_unused=True)]

    return {"before": lambda _: step(theirs), "after": lambda _: step(ours)}


def peak(name: str, n_edges: int, threads: int) -> int:
    """Memory of a training step, results included."""
    torch.set_num_threads(threads)
    gg.set_num_threads(threads)
    step = blocks(n_edges)[name]
    return peak_memory(lambda: step(True))[0]


def face_of(steps: dict[str, Any], training: bool) -> dict[str, Any]:
    """Steps with gradients, or without."""
    return {name: partial(step, training) for name, step in steps.items()}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--edges", type=int, default=262_144)
    add_clock(parser)
    add_option(parser)
    arguments = parser.parse_args(argv)
    results, by_processor = Results(arguments.json), arguments.clock == "processor"
    case = f"GNOBlock, {arguments.edges:,} edges"
    layers = [128 * 256, 256 * 128, 128 * CHANNELS]
    work = {"value": 2 * arguments.edges * sum(layers)}
    work["training"] = 4 * work["value"]  # forth, again, and back twice
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        gg.set_num_threads(threads)
        steps = blocks(arguments.edges)
        compare(face_of(steps, True), 1e-4)
        rate = sgemm_rate()
        print(f"{threads} threads, sgemm {rate / 1e9:.0f} GFLOP/s")
        for training in (False, True):
            face = "training" if training else "value"
            taken = times(face_of(steps, training), arguments.repeats)
            (theirs, their_cpu), (ours, our_cpu) = taken.values()
            print(
                f"GNOBlock {face:9} neuraloperator {theirs:6.3f} s, gnograd {ours:6.3f} s: "
                f"{theirs / ours:.2f} times; of the processor {their_cpu / our_cpu:.2f} times; "
                f"{work[face] / ours / rate:.0%} of sgemm"
            )
            for name, (wall, processor) in taken.items():
                mine, other = (our_cpu, processor) if by_processor else (ours, wall)
                results.add(case, face, name, threads=threads, seconds=other, ratio=other / mine)
        memory = {}
        for name in steps:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                memory[name] = pool.submit(peak, name, arguments.edges, threads).result()
            results.add(case, "memory of training", name, threads=threads, memory=memory[name])
        print("peak memory of training:", {n: f"{m / 2**20:.0f} MiB" for n, m in memory.items()})
    try:
        gino = models()
        compare(face_of(gino, True), 1e-2)
        taken = times(face_of(gino, True), arguments.repeats)
        (before, before_cpu), (after, after_cpu) = taken.values()
        print(
            f"GINO training: before {before:.3f} s, after {after:.3f} s: "
            f"{before / after:.2f} times; "
            f"of the processor {before_cpu / after_cpu:.2f} times"
        )
        threads = arguments.threads[-1]
        for name, (wall, processor) in zip(
            ("neuraloperator", "gnograd"), taken.values(), strict=True
        ):
            mine, other = (after_cpu, processor) if by_processor else (after, wall)
            results.add(
                "GINO, search included", "training", name, threads=threads, seconds=other,
                ratio=other / mine,
            )  # fmt: skip
    except ImportError as error:
        print("GINO:", error)


if __name__ == "__main__":
    main()
