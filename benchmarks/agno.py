# SPDX-License-Identifier: MIT
"""GAOT's AGNO, beside the same with gathers and scatters of PyTorch.

Training (value, gradients to the functions and the parameters) and value of a layer as GAOT's
encoder has it by default: points in the plane, kernel network with three hidden layers of 64, gelu,
32 channels, attention by cosine or dot product, for one function and for a batch on the same
points. The other formulation is that of layers on torch_scatter: input of the network, hidden
layers, scores, softmax and messages are arrays of all edges; sums over neighbours are
`torch.segment_reduce`, as fast as torch_scatter's, and the maximum of the softmax takes no part in
gradients. The neighbours are found once, for both, and not timed. Values and gradients are
compared.

Contestants take turns; times are medians, of the wall clock, and of the processor where other
programs run. Memory is the peak of a step beside what was there, in a process of its own.

usage: python benchmarks/agno.py [--threads N ...] [--repeats N] [--edges N] [--batch N ...]
                                 [--clock processor] [--json FILE]
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import torch
from alone import peak_memory
from contest import compare, times
from results import Results, add_clock, add_option
from torch import Tensor
from torch.nn.functional import normalize

import gnograd as gg
import gnograd.torch as gt

CHANNELS, NEIGHBOURS, HIDDEN = 32, 16, [64, 64, 64]
PEER = "PyTorch, scatter"

Step = Callable[[bool], list[Tensor]]


def with_scatter(layer: Any, y: Tensor, x: Tensor, f: Tensor, index: Tensor, splits: Tensor) -> Any:
    """The layer by arrays of all edges."""
    degree = splits.diff()
    of_y = y[index]
    of_x = x.repeat_interleave(degree, dim=0, output_size=len(index))
    if layer.attention_type == "cosine":
        score = (normalize(of_x, dim=1) * normalize(of_y, dim=1)).sum(1)
    else:
        score = (layer.query_proj(of_x) * layer.key_proj(of_y)).sum(1) / 8
    top = torch.segment_reduce(score.detach(), "max", offsets=splits, initial=-1e30)
    weight = (score - top.repeat_interleave(degree, output_size=len(index))).exp()
    total = torch.segment_reduce(weight, "sum", offsets=splits)
    alpha = weight / total.repeat_interleave(degree, output_size=len(index))
    kernel = layer.channel_mlp(torch.cat([of_y, of_x], dim=1))
    messages = alpha[:, None] * (kernel * f[:, index])
    return torch.stack([torch.segment_reduce(m, "sum", offsets=splits) for m in messages])


def steps(attention: str, n_edges: int, batch: int) -> dict[str, Step]:
    """Steps of both, which agree."""
    torch.manual_seed(0)
    n = n_edges // NEIGHBOURS
    y, x = torch.rand(n, 2), torch.rand(n, 2)
    f = torch.randn(batch, n, CHANNELS).requires_grad_()
    cotangent = torch.randn(batch, n, CHANNELS)
    index = torch.randint(0, n, (n, NEIGHBOURS)).sort(1).values.flatten()
    splits = torch.arange(0, n_edges + 1, NEIGHBOURS)
    graph = gt.Graph.from_csc(splits, index, n)
    layer = gt.AGNO(
        channel_mlp_layers=[4, *HIDDEN, CHANNELS], use_attn=True, coord_dim=2,
        attention_type=attention,
    )  # fmt: skip

    def step(apply: Callable[[], Tensor], training: bool) -> list[Tensor]:
        with torch.set_grad_enabled(training):
            out = apply()
        if not training:
            return [out]
        # the keys' bias is common to all neighbours: its gradient is nothing but rounding
        leaves = [p for name, p in layer.named_parameters() if name != "key_proj.bias"]
        return [out, *torch.autograd.grad(out, [f, *leaves], cotangent)]

    return {
        PEER: lambda training: step(lambda: with_scatter(layer, y, x, f, index, splits), training),
        "gnograd": lambda training: step(lambda: layer(y, graph, x, f), training),
    }


def peak(name: str, attention: str, n_edges: int, batch: int, threads: int) -> int:
    """Memory of a training step, results included."""
    torch.set_num_threads(threads)
    gg.set_num_threads(threads)
    steps(attention, 64 * NEIGHBOURS, 1)[name](True)  # libraries keep memory of a first call
    step = steps(attention, n_edges, batch)[name]
    return peak_memory(lambda: step(True))[0]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--edges", type=int, default=262_144)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    add_clock(parser)
    add_option(parser)
    arguments = parser.parse_args(argv)
    results, by_processor = Results(arguments.json), arguments.clock == "processor"
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        gg.set_num_threads(threads)
        for batch in arguments.batch:
            for attention in ("cosine", "dot_product"):
                print(f"{threads} threads, {batch} functions, {attention}")
                case = f"{attention}, {batch} function{'s' * (batch > 1)}"
                contestants = steps(attention, arguments.edges, batch)
                compare({name: partial(step, True) for name, step in contestants.items()}, 1e-4)
                for training in (False, True):
                    faces = {name: partial(step, training) for name, step in contestants.items()}
                    taken = times(faces, arguments.repeats)
                    (theirs, their_cpu), (ours, our_cpu) = taken.values()
                    face = "training" if training else "value"
                    print(
                        f"  {face:8}  scatter {theirs:6.3f} s, "
                        f"gnograd {ours:6.3f} s: {theirs / ours:.2f} times; "
                        f"of the processor {their_cpu / our_cpu:.2f} times",
                        flush=True,
                    )
                    for name, (wall, processor) in taken.items():
                        mine, other = (our_cpu, processor) if by_processor else (ours, wall)
                        results.add(
                            case, face, name, threads=threads, seconds=other, ratio=other / mine
                        )
                memory = []
                for name in contestants:
                    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                        call = pool.submit(peak, name, attention, arguments.edges, batch, threads)
                        memory.append(call.result())
                    results.add(
                        case, "memory of training", name, threads=threads, memory=memory[-1]
                    )
                print(
                    f"  peak memory of training: scatter {memory[0] / 2**20:.0f} MiB, "
                    f"gnograd {memory[1] / 2**20:.0f} MiB: {memory[0] / memory[1]:.1f} times",
                    flush=True,
                )


if __name__ == "__main__":
    main()
