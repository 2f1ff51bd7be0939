# SPDX-License-Identifier: MIT
"""Layers with PyG's arguments beside PyG's own: a training step, eager and compiled.

A step is forward and backward from an edge_index to the gradients of all parameters (16 features,
2 heads of 8 where there are heads). Values and gradients are compared before anything is timed;
contestants take turns, so that what disturbs one disturbs all, and a time is the median of runs.

eager    the layers as they are
compile  the same through torch.compile(dynamic=True): the first step on a graph, which compiles,
         the same table, and how many programs were compiled for it and 10 graphs of other sizes

    python benchmarks/torch_layers.py [--parts eager compile] [--runs 9] [--threads 1]
                                      [--clock processor] [--json FILE]

Needs PyTorch and torch_geometric; compiling needs a C++ compiler.
"""

import argparse
import time
from collections.abc import Callable

import torch
import torch._dynamo.testing
import torch_geometric.nn as pyg
from results import CLOCKS, Results, add_clock, add_option

import gnograd as gg
import gnograd.torch as gt
from calls import microseconds

SIZES = [(100, 400), (1000, 6000), (10_000, 100_000)]
LAYERS = {
    "GATConv": {"out_channels": 8, "heads": 2},
    "GATv2Conv": {"out_channels": 8, "heads": 2},
    "TransformerConv": {"out_channels": 8, "heads": 2},
    "SAGEConv": {"out_channels": 16},
    "GCNConv": {"out_channels": 16},
    "RGCNConv": {"out_channels": 16, "num_relations": 8, "num_bases": 4},
}
FEATURES = 16

Step = Callable[[], tuple[torch.Tensor, ...]]


def graph(name: str, nodes: int, edges: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Features and random edges, with their types for a layer that has relations."""
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, nodes, (2, edges), generator=generator)
    x = torch.randn(nodes, FEATURES, generator=generator)
    relations = LAYERS[name].get("num_relations")
    if relations is None:
        return x, edge_index
    return x, edge_index, torch.randint(0, relations, (edges,), generator=generator)


def layers(name: str) -> dict[str, torch.nn.Module]:
    """Ours and PyG's with the same parameters."""
    theirs = getattr(pyg, name)(FEATURES, **LAYERS[name])
    ours = getattr(gt, name)(FEATURES, **LAYERS[name])
    ours.load_state_dict(theirs.state_dict())
    return {"gnograd": ours, "PyG": theirs}


def step(module: Callable, parameters: list, *given: torch.Tensor) -> Step:
    def call() -> tuple[torch.Tensor, ...]:
        out = module(*given)
        return out.detach(), *torch.autograd.grad(out.square().mean(), parameters)

    return call


def steps(
    name: str, modules: dict[str, Callable], parameters: dict, nodes: int, edges: int
) -> dict[str, Step]:
    """A step of each contestant, found to be equal."""
    data = graph(name, nodes, edges)
    found = {who: step(module, parameters[who], *data) for who, module in modules.items()}
    for a, b in zip(*(call() for call in found.values()), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    return found


def table(
    title: str,
    options: argparse.Namespace,
    results: Results,
    of_layers: Callable[[str, dict], tuple[dict, str]],
) -> None:
    print(f"\n{title:16} {'nodes':>7} {'edges':>8} {'gnograd':>12} {'PyG':>12} {'ratio':>7}")
    for name in LAYERS:
        contestants = layers(name)
        parameters = {who: list(layer.parameters()) for who, layer in contestants.items()}
        modules, note = of_layers(name, contestants)
        for nodes, edges in SIZES:
            taken = microseconds(
                steps(name, modules, parameters, nodes, edges), options.runs, CLOCKS[options.clock]
            )
            for who, time_of_one in taken.items():
                results.add(
                    f"{name}, {edges:,} edges", title, who, threads=options.threads,
                    seconds=1e-6 * time_of_one, ratio=time_of_one / taken["gnograd"],
                )  # fmt: skip
            print(
                f"{name:16} {nodes:7} {edges:8} {taken['gnograd']:9.0f} us {taken['PyG']:9.0f} us "
                f"{taken['PyG'] / taken['gnograd']:6.2f}x",
                flush=True,
            )
        if note:
            print(note, flush=True)


def eager(options: argparse.Namespace, results: Results) -> None:
    table("eager", options, results, lambda name, contestants: (contestants, ""))


def compiled(options: argparse.Namespace, results: Results) -> None:
    def compile_all(name: str, contestants: dict) -> tuple[dict, str]:
        torch._dynamo.reset()
        modules, notes = {}, []
        for who, layer in contestants.items():
            counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
            modules[who] = torch.compile(layer, backend=counter, dynamic=True)
            parameters = list(layer.parameters())
            start = time.perf_counter()
            step(modules[who], parameters, *graph(name, 900, 5000))()
            first = time.perf_counter() - start
            for k in range(10):
                data = graph(name, 900 + 10 * k, 5000 + 100 * k, seed=k)
                step(modules[who], parameters, *data)()
            notes.append(f"{who} {first:.1f} s at first, {counter.frame_count} programs")
        return modules, f"{'':16} {'; '.join(notes)}"

    table("compile", options, results, compile_all)


PARTS: dict[str, Callable[[argparse.Namespace, Results], None]] = {
    "eager": eager,
    "compile": compiled,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    add_clock(parser)
    add_option(parser)
    options = parser.parse_args()
    results = Results(options.json)
    torch.set_num_threads(options.threads)
    gg.set_num_threads(options.threads)
    for part in options.parts:
        PARTS[part](options, results)


if __name__ == "__main__":
    main()
