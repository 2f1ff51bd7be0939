# SPDX-License-Identifier: MIT
"""Operators on the edges of a graph beside PyTorch's usual forms of them.

edge_mlp    The edge update of MeshGraphNets and the sum of the new edges at their destinations: 128
            features, layers [128, 128, 128], SiLU, LayerNorm, residual, float32, on a triangulated
            mesh. A step gives the values and the gradients to edges, nodes and weights. PyTorch's
            forms are `concatenate`, which gathers both ends, concatenates, and adds the results
            to the destinations, and `split`, which has the products of the first layer with nodes
            made once a node.
agno        GAOT's layer beside the same with gathers and scatters, as agno.py.
gnoblock    neuraloperator's GNOBlock with its defaults, as neuraloperator.py.
neighbors   Searches beside scipy and torch_cluster, as neighbors.py.

Contestants compute the same, which is looked at first, and take turns; times are medians, of the
wall clock, and of the processor where other programs run. Rates are of the multiplications of a
step that keeps everything (9 of 128 x 128 an edge and 6 a node), as a share of sgemm's, measured
between the turns. Memory is the peak of a step beside what was there and what it returns, in a
process of its own.

usage: python benchmarks/edges.py [--parts PART ...] [--threads N ...] [--repeats N] [--edges N]
                                  [--shuffled]
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

import agno
import neighbors
import neuraloperator
import torch
from alone import peak_memory
from contest import compare, sgemm_rate, times
from results import Results, add_option
from torch import Tensor
from torch.nn import functional as F

import gnograd as gg
import gnograd.torch as gt

WIDTH = 128

Step = Callable[[], list[Tensor]]


def mesh(n_edges: int, shuffled: bool = False) -> tuple[Tensor, Tensor, int]:
    """Edges of a triangulated square in the order of their destinations; some six a node."""
    n = max(int((n_edges / 6) ** 0.5), 2)
    at = torch.arange(n * n).reshape(n, n)
    pairs = [(at[1:], at[:-1]), (at[:, 1:], at[:, :-1]), (at[1:, 1:], at[:-1, :-1])]
    one = torch.cat([a.flatten() for a, _ in pairs])
    other = torch.cat([b.flatten() for _, b in pairs])
    src, dst = torch.cat([one, other]), torch.cat([other, one])
    if shuffled:
        numbers = torch.randperm(n * n)
        src, dst = numbers[src], numbers[dst]
    order = (dst * n * n + src).argsort()
    return src[order], dst[order], n * n


def edge_mlp_steps(n_edges: int, shuffled: bool, compile: bool = False) -> dict[str, Step]:
    """A training step of each form; of `split` also through torch.compile."""
    torch.manual_seed(0)
    src, dst, n = mesh(n_edges, shuffled)
    graph = gt.Graph.from_edge_index(torch.stack([src, dst]), n, n)
    e, x = torch.randn(len(src), WIDTH).requires_grad_(), torch.randn(n, WIDTH).requires_grad_()
    to_edges, to_nodes = torch.randn_like(e), torch.randn_like(x)
    matrices = [torch.randn(WIDTH, WIDTH).div_(WIDTH**0.5).requires_grad_() for _ in range(5)]
    W_e, W_s, W_d, W_1, W_2 = matrices
    vectors = [torch.randn(WIDTH).requires_grad_() for _ in range(5)]
    b_0, b_1, b_2, gamma, beta = vectors
    leaves = [e, x, *matrices, *vectors]

    def first_of_all(x: Tensor) -> Tensor:
        seen = torch.cat([e, x[src], x[dst]], dim=1)
        return F.linear(seen, torch.cat([W_e, W_s, W_d]).T, b_0)

    def first_of_nodes(x: Tensor) -> Tensor:
        return torch.addmm(b_0, e, W_e) + (x @ W_s)[src] + (x @ W_d)[dst]

    def update(first: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        m = F.linear(F.silu(first(x)), W_1.T, b_1)
        m = F.linear(F.silu(m), W_2.T, b_2)
        edges = e + F.layer_norm(m, (WIDTH,), gamma, beta)
        return edges, torch.zeros_like(x).index_add(0, dst, edges)

    def step(first: Callable[[Tensor], Tensor], update: Callable = update) -> list[Tensor]:
        edges, nodes = update(first)
        gradients = torch.autograd.grad([edges, nodes], leaves, [to_edges, to_nodes])
        return [edges.detach(), nodes.detach(), *gradients]

    def ours() -> list[Tensor]:
        parts = W_e, W_s, W_d, b_0, W_1, b_1, W_2, b_2, gamma, beta
        weights = torch.cat([part.flatten() for part in parts])
        edges, nodes = gt.edge_mlp(e, x, x, weights, graph=graph, widths=[WIDTH] * 3)
        gradients = torch.autograd.grad([edges, nodes], leaves, [to_edges, to_nodes])
        return [edges.detach(), nodes.detach(), *gradients]

    steps: dict[str, Step] = {
        "concatenate": lambda: step(first_of_all),
        "split": lambda: step(first_of_nodes),
        "gnograd": ours,
    }
    if compile:
        quick = torch.compile(update, dynamic=False)
        steps["compiled"] = lambda: step(first_of_nodes, quick)
    return steps


def edge_mlp(arguments: argparse.Namespace) -> None:
    """Times, rates and memory of edge_mlp."""
    results = Results(arguments.json, "sgemm")
    src, _, n = mesh(arguments.edges)
    work = 2 * WIDTH**2 * (9 * len(src) + 6 * n)
    print(f"edge_mlp, {len(src)} edges, {n} nodes, {WIDTH} features, training step")
    steps = edge_mlp_steps(arguments.edges, arguments.shuffled)
    compare(steps, 1e-4)
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        gg.set_num_threads(threads)
        taken, rate = times(steps, arguments.repeats), sgemm_rate()
        ours, our_cpu = taken["gnograd"]
        for name, (wall, processor) in taken.items():
            ratios = f"{wall / ours:.2f} times ours; of the processor {processor / our_cpu:.2f}"
            print(
                f"  {threads} threads, {name:12} {wall:7.3f} s, {ratios}; "
                f"{work / wall / rate:.0%} of sgemm, {rate / 1e9:.0f} GFLOP/s"
            )
            results.add(
                f"{len(src):,} edges", "training", name, threads=threads, seconds=wall,
                ratio=wall / ours, share=work / wall / rate,
            )  # fmt: skip
    del steps
    state = 4 * WIDTH * len(src)
    for name in ("concatenate", "split", "gnograd"):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            where = arguments.edges, arguments.shuffled, name
            found = pool.submit(edge_mlp_memory, *where).result()
        print(f"  {name:12} extra memory {found / 2**20:6.0f} MiB, {found / state:.2f} edge states")
        results.add(f"{len(src):,} edges", "memory of training", name, threads=1, memory=found)


def edge_mlp_memory(n_edges: int, shuffled: bool, name: str) -> int:
    """Peak memory of one form, in this process."""
    step = edge_mlp_steps(n_edges, shuffled)[name]
    step()
    peak, results = peak_memory(step)
    return peak - sum(4 * x.numel() for x in results)


def other(program: Callable[[Sequence[str]], None]) -> Callable[[argparse.Namespace], None]:
    """A program of this folder with the threads and repeats of this one."""

    def part(arguments: argparse.Namespace) -> None:
        threads = map(str, arguments.threads)
        program(["--threads", *threads, "--repeats", str(arguments.repeats)])

    return part


PARTS = {
    "edge_mlp": edge_mlp,
    "agno": other(agno.main),
    "gnoblock": other(neuraloperator.main),
    "neighbors": other(neighbors.main),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--edges", type=int, default=1_000_000, help="of edge_mlp")
    parser.add_argument("--shuffled", action="store_true", help="its nodes numbered at random")
    add_option(parser)
    arguments = parser.parse_args()
    for part in arguments.parts:
        print(f"---- {part} ----", flush=True)
        PARTS[part](arguments)


if __name__ == "__main__":
    main()
