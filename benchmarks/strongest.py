# SPDX-License-Identifier: MIT
"""Operators and layers beside the fastest code that users would write or install instead.

sum      weighted sum over the edges of a mesh (160,000 nodes, 6 edges each, 64 features) and of a
         power law (50,000 nodes, 1,000,000 edges, 128 features)
gat      graph attention on both: heads of 16 features
gno      the integral of a neural operator, kernel network of 64 hidden values, 32 channels
edges    the edge update of MeshGraphNets (128 features, 200,000 edges)
layers   three GATConv on 1,000 nodes and 6,000 edges, and on 100 and 400
slices   Transolver's slice attention, 20,000 points
nearest  16 nearest of 100,000 points, all within a radius, and all near 108,000 atoms in a cell

The contestants do the same work: gnograd; PyTorch eager, with the products factorised where that is
faster; the same through torch.compile; PyG; products with sparse matrices of MKL (PyTorch's CSR)
and of scipy; scipy's tree; DGL, with libxsmm, and vesin where they are installed. Results are
compared before anything is timed, and contestants take turns. A face is a forward pass (without
gradients) or a training step: values and gradients to all inputs. The table has the median time of
gnograd and, for each other, its own over that; the last column names the fastest. On one thread
times are the processor's, on several the wall clock's.

    python benchmarks/strongest.py [--cases sum gat ...] [--threads 1 2] [--repeats 7] [--json FILE]

Needs PyTorch, torch_geometric, scipy and a C++ compiler.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import attention
import edges
import graph as graphs
import neighbors
import numpy as np
import torch
import torch_geometric.nn as pyg
from contest import times
from results import Results, add_option
from torch import Tensor
from torch.nn import functional

import gnograd as gg
import gnograd.torch as gt

Form = Callable[..., Any]
Problem = tuple[str, tuple[Tensor, ...], dict[str, Form]]
"""What is solved, its inputs, and contestants as functions of these."""

HIDDEN, CHANNELS = 64, 32


def known_graphs() -> Iterator[tuple[str, int, gg.Graph, gt.Graph, Tensor, Tensor]]:
    """Name, features, and the graph in three forms."""
    for name, width, plain in (
        ("mesh", 64, graphs.mesh(400)),
        ("power law", 128, graphs.power_law(50_000, 1_000_000)),
    ):
        src, dst = (torch.from_numpy(np.asarray(x)).long() for x in (plain.src, plain.dst))
        ours = gt.Graph.from_edge_index(torch.stack([src, dst]), plain.n_src, plain.n_dst)
        yield name, width, plain, ours, src, dst


def compiled(form: Form) -> Form:
    return torch.compile(form, dynamic=False)


def separate(function: Form, name: str) -> Form:
    """Copy with code of its own, by which PyTorch keeps programs, and functions that broke one."""
    code = function.__code__.replace(co_name=name)
    return FunctionType(
        code, function.__globals__, name, function.__defaults__, function.__closure__
    )


def dgl_graph(plain: gg.Graph, src: Tensor, dst: Tensor) -> Any:
    import dgl

    made = dgl.graph((src.int(), dst.int()), num_nodes=plain.n_src).formats(["csc", "csr", "coo"])
    made.create_formats_()
    return made


def sums() -> Iterator[Problem]:
    for name, width, plain, ours, src, dst in known_graphs():
        n = plain.n_dst
        x, w = torch.randn(n, width), torch.rand(len(src))

        def eager(x: Tensor, w: Tensor, n=n, src=src, dst=dst) -> Tensor:
            return x.new_zeros(n, x.shape[1]).index_add(0, dst, x[src] * w[:, None])

        offsets, indices = (torch.from_numpy(np.array(a)) for a in (plain.offsets, plain.indices))

        def csr(x: Tensor, w: Tensor, n=n, offsets=offsets, indices=indices) -> Tensor:
            return torch.sparse_csr_tensor(offsets, indices, w, (n, n)) @ x

        forms = {
            "gnograd": lambda x, w, ours=ours: gt.agg_weighted(x, w, graph=ours),
            "eager": eager,
            "compiled": compiled(eager),
            "CSR": csr,
        }
        if find_spec("dgl"):
            import dgl

            known = dgl_graph(plain, src, dst)
            forms["DGL"] = lambda x, w, known=known: dgl.ops.u_mul_e_sum(known, x, w[:, None])
        yield f"sum, {name}", (x, w), forms


def gats() -> Iterator[Problem]:
    for name, width, plain, ours, src, dst in known_graphs():
        n, heads = plain.n_dst, width // 16
        x, a_src, a_dst = torch.randn(n, width), torch.randn(heads, 16), torch.randn(heads, 16)

        def scores(x: Tensor, a: Tensor, heads=heads) -> Tensor:
            return (x.view(-1, heads, 16) * a).sum(-1)

        def eager(x: Tensor, a_src: Tensor, a_dst: Tensor, n=n, src=src, dst=dst) -> Tensor:
            s = functional.leaky_relu(scores(x, a_src)[src] + scores(x, a_dst)[dst], 0.2)
            highest = s.new_full((n, s.shape[1]), -torch.inf)
            highest = highest.scatter_reduce(0, dst[:, None].expand_as(s), s.detach(), "amax")
            e = (s - highest[dst]).exp()
            total = s.new_zeros(n, s.shape[1]).index_add(0, dst, e)
            rows = x.view(n, -1, 16)[src] * (e / total[dst])[..., None]
            return x.new_zeros(x.shape).index_add(0, dst, rows.reshape(len(src), -1))

        def gnograd(x: Tensor, a_src: Tensor, a_dst: Tensor, ours=ours, heads=heads) -> Tensor:
            a = torch.cat([a_src.reshape(-1), a_dst.reshape(-1)])
            return gt.mha_gat(x, x, a, graph=ours, num_heads=heads, negative_slope=0.2)

        forms: dict[str, Form] = {
            "gnograd": gnograd, "eager": eager, "compiled": compiled(eager)
        }  # fmt: skip
        if find_spec("dgl"):
            import dgl
            from dgl.nn.functional import edge_softmax

            known = dgl_graph(plain, src, dst)

            def by_dgl(x: Tensor, a_src: Tensor, a_dst: Tensor, known=known) -> Tensor:
                from_src, to_dst = (scores(x, a)[..., None] for a in (a_src, a_dst))
                s = functional.leaky_relu(dgl.ops.u_add_v(known, from_src, to_dst), 0.2)
                rows = x.view(len(x), -1, 16)
                return dgl.ops.u_mul_e_sum(known, rows, edge_softmax(known, s)).reshape(x.shape)

            forms["DGL"] = by_dgl
        yield f"gat, {name}", (x, a_src, a_dst), forms


def gnos() -> Iterator[Problem]:
    at = torch.linspace(0, 1, 61)
    points = torch.cartesian_prod(at, at)
    ours = gt.Graph.radius(points, 0.1)
    src, dst, n = ours.src.long(), ours.dst.long(), len(points)
    offsets = points[src] - points[dst]
    inputs = (
        torch.randn(n, CHANNELS),
        torch.randn(2, HIDDEN),
        torch.randn(HIDDEN),
        torch.randn(HIDDEN, CHANNELS, CHANNELS) / 40,
        torch.randn(CHANNELS, CHANNELS) / 40,
    )

    def gnograd(f: Tensor, U: Tensor, b_u: Tensor, V: Tensor, b_v: Tensor) -> Tensor:
        return gt.gno(f, offsets, U, b_u, V, b_v, graph=ours, activation="relu", reduction="sum")

    def factorised(f: Tensor, U: Tensor, b_u: Tensor, V: Tensor, b_v: Tensor) -> Tensor:
        """One product with V a node, of the sum of outer products of its edges."""
        h, rows = torch.relu(torch.addmm(b_u, offsets, U)), f[src]
        outer = (h[:, :, None] * rows[:, None]).reshape(len(src), -1)
        sums = f.new_zeros(n, outer.shape[1]).index_add(0, dst, outer)
        plain = torch.zeros_like(f).index_add(0, dst, rows)
        return sums @ V.reshape(-1, CHANNELS) + plain @ b_v

    forms = {"gnograd": gnograd, "eager": factorised, "compiled": compiled(factorised)}
    yield f"gno, {len(src):,} edges", inputs, forms


def layers() -> Iterator[Problem]:
    for nodes, n_edges in (100, 400), (1000, 6000):
        edge_index = torch.randint(0, nodes, (2, n_edges))
        x = torch.randn(nodes, 64)

        def stack(package: Any) -> torch.nn.ModuleList:
            torch.manual_seed(0)
            return torch.nn.ModuleList([package.GATConv(64, 16, heads=4) for _ in range(3)])

        theirs, ours = stack(pyg), stack(gt)
        ours.load_state_dict(theirs.state_dict())

        def network(x: Tensor, module: torch.nn.ModuleList, edge_index=edge_index) -> Tensor:
            for layer in module:
                x = torch.relu(layer(x, edge_index))
            return x

        forms: dict[str, Form] = {}
        for name, module in {"gnograd": ours, "PyG": theirs}.items():
            own = separate(network, name)

            def form(x: Tensor, module=module, own=own) -> Tensor:
                return own(x, module)

            forms[name] = separate(form, f"{name}_form")
            forms[f"{name} compiled"] = compiled(forms[name])
        yield f"3 GATConv, {nodes:,} nodes", (x,), forms


def slices() -> Iterator[Problem]:
    inputs, forms, _ = attention.slices(20_000)
    forms = {"gnograd": forms["gnograd"], "eager": forms["PyTorch"]}
    yield "slices, 20,000 points", inputs, forms | {"compiled": compiled(forms["eager"])}


def differentiable(problem: Problem) -> Iterator[tuple[str, str, dict[str, Callable]]]:
    """Its faces, without what cannot do one."""
    name, inputs, forms = problem
    cotangent = torch.randn_like(forms["gnograd"](*inputs))
    for face in "forward", "training":
        step = attention.forward if face == "forward" else attention.training
        rest = (inputs,) if face == "forward" else (inputs, cotangent)
        calls = {who: step(form, *rest) for who, form in forms.items()}
        if face == "training":
            calls.pop("CSR", None)  # has no gradient to the weights
        attention.check(calls)
        yield name, face, calls


def edge_updates() -> Iterator[tuple[str, str, dict[str, Callable]]]:
    steps = edges.edge_mlp_steps(200_000, shuffled=False, compile=True)
    edges.compare(steps, 1e-4)
    yield "edge_mlp, 200,000 edges", "training", steps


def searches() -> Iterator[tuple[str, str, dict[str, Callable]]]:
    points = np.random.default_rng(0).random((100_000, 3))
    radius, k = 0.034, 16

    def found(graph: gg.Graph) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(graph.offsets), np.asarray(graph.indices)

    calls: dict[str, Callable] = {
        "gnograd": lambda: gg.Graph.knn(points, k=k),
        "scipy": lambda: neighbors.scipy_knn(points, k, torch.get_num_threads()),
    }
    neighbors.same_rows(found(calls["gnograd"]()), calls["scipy"]())
    yield "16 nearest, 100,000 points", "forward", calls
    calls = {
        "gnograd": lambda: gg.Graph.radius(points, radius),
        "scipy": lambda: neighbors.scipy_radius(points, radius),
    }
    yield "radius, 100,000 points", "forward", calls
    yield from cells()


def cells() -> Iterator[tuple[str, str, dict[str, Callable]]]:
    """All neighbours of the atoms of a large crystal, with shifts, distances and vectors."""
    side, length, cutoff = 30, 3.6, 6.0
    corners = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    grid = np.stack(np.meshgrid(*3 * [np.arange(side)], indexing="ij"), axis=-1)
    atoms = length * (grid.reshape(-1, 1, 3) + corners).reshape(-1, 3)
    atoms += np.random.default_rng(0).normal(0, 0.05, atoms.shape)
    cell = length * side * np.eye(3)
    calls: dict[str, Callable] = {"gnograd": lambda: gg.neighbor_list(atoms, cutoff, cell)}
    if find_spec("vesin"):
        from vesin import NeighborList

        search = NeighborList(cutoff=cutoff, full_list=True)
        calls["vesin"] = lambda: search.compute(atoms, cell, True, "ijSdD")
        assert len(calls["vesin"]()[0]) == len(calls["gnograd"]().indices)
    if len(calls) > 1:
        yield f"cell of {len(atoms):,} atoms", "forward", calls


PARTS: dict[str, Callable[[], Iterator]] = {
    "sum": sums, "gat": gats, "gno": gnos, "edges": edge_updates, "layers": layers,
    "slices": slices, "nearest": searches,
}  # fmt: skip


def faces(part: str) -> Iterator[tuple[str, str, dict[str, Callable]]]:
    for problem in PARTS[part]():
        if part in ("edges", "nearest"):
            yield problem
        else:
            yield from differentiable(problem)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--repeats", type=int, default=7)
    add_option(parser)
    given = parser.parse_args()
    results = Results(given.json)
    warnings.filterwarnings("ignore", "Sparse (CSR|invariant)")
    for threads in given.threads:
        torch.set_num_threads(threads)
        gg.set_num_threads(threads)
        torch._dynamo.reset()
        for part in given.cases:
            torch.manual_seed(0)
            for case, face, calls in faces(part):
                for call in calls.values():  # compiles, and touches memory
                    call()
                taken = {
                    who: processor if threads == 1 else wall
                    for who, (wall, processor) in times(calls, given.repeats).items()
                }
                ours = taken["gnograd"]
                for who, seconds in taken.items():
                    results.add(
                        case, face, who, threads=threads, seconds=seconds, ratio=seconds / ours
                    )
                others = {who: t / ours for who, t in taken.items() if "gnograd" not in who}
                shown = "  ".join(f"{who} {t / ours:.2f}" for who, t in taken.items() if t != ours)
                best = min(others, key=others.__getitem__)
                print(
                    f"{case:28} {face:8} {threads} thread{'s' * (threads > 1)}  "
                    f"{1e3 * ours:8.2f} ms  {shown}  strongest: {best} {others[best]:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
