# SPDX-License-Identifier: MIT
"""Aggregation and graph attention beside PyG and PyTorch.

The same inputs go through all, values and gradients are compared, and then timed, each contestant
alone:

forward     the output
training    the output, and gradients to features and weights

    power-law   100,000 nodes, 2,000,000 edges, 128 features; both ends of an edge are drawn with
                weights rank^-0.7, nodes are in no order
    mesh        a periodic triangle mesh of 1000 x 1000 nodes, 6,000,000 edges, 64 features
    gat-8x16    graph attention on the power-law graph, 8 heads of 16
    gat-4x32    the same with 4 heads of 32

Peers: "gather/scatter" is what PyG's message passing does, rows of x times weights over all edges
and `torch_geometric.utils.scatter`; "CSR" the product of a PyTorch CSR matrix (MKL) with x, which
has no gradient to the weights; "GATConv" PyG's layer without its linear map.

Two bandwidths are measured in the same run: "copy" is that of a copy too large for the cache, bytes
read and written; "gather" is what compiled code reads when it takes rows of x along the edges, one
by one, into a buffer that stays in the cache (the better of numpy.take and torch.index_select).
"of gather" is the time in which the rows of all edges could be gathered at that rate, once forward
and for training once more for the cotangent, as a fraction of the time taken. "of copy" counts all
bytes: rows, weights and node numbers an edge, tables of nodes once.

    python benchmarks/graph.py [--cases power-law mesh gat-8x16 gat-4x32] [--threads 1 2]
                               [--aggregations sum mean min max] [--repeats 5] [--no-peers]
                               [--no-memory]

PyTorch and torch_geometric are optional.
"""

import argparse
import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from alone import median, peak_bytes, set_threads
from results import Results, add_option

import gnograd as gg

AGGREGATIONS = ("sum", "mean", "min", "max")
FACES = ("forward", "training")
FLOAT, NODE = 4, 4
"""Bytes of a number and of a node's number"""


# ---- inputs ----


def power_law(nodes: int, edges: int) -> gg.Graph:
    rng = np.random.default_rng(0)
    weight = np.arange(1, nodes + 1) ** -0.7
    weight /= weight.sum()
    src, dst = (rng.permutation(nodes)[rng.choice(nodes, edges, p=weight)] for _ in range(2))
    order = np.argsort(dst, kind="stable")
    return gg.Graph.from_edges(src[order], dst[order], nodes, nodes)


def mesh(side: int) -> gg.Graph:
    """Every node of a torus gets edges from its six neighbours in a triangle mesh."""
    row, column = np.divmod(np.arange(side**2), side)
    steps = np.array([(-1, -1), (-1, 0), (0, -1), (0, 1), (1, 0), (1, 1)])
    src = (row[:, None] + steps[:, 0]) % side * side + (column[:, None] + steps[:, 1]) % side
    return gg.Graph(np.arange(side**2 + 1) * len(steps), src.ravel())


@dataclass(frozen=True)
class Case:
    """A graph and what is done on it."""

    graph: str
    width: int
    heads: int = 0
    """Heads of attention; 0: aggregation"""

    def build(self, small: bool = False) -> tuple[gg.Graph, dict[str, np.ndarray]]:
        """Graph and arrays."""
        if self.graph == "mesh":
            graph = mesh(20 if small else 1000)
        else:
            graph = power_law(500, 5000) if small else power_law(100_000, 2_000_000)
        rng = np.random.default_rng(1)
        arrays = {
            "x": rng.standard_normal((graph.n_src, self.width), dtype=np.float32),
            "cotangent": rng.standard_normal((graph.n_dst, self.width), dtype=np.float32),
        }
        if self.heads:
            arrays["a"] = rng.standard_normal(2 * self.width, dtype=np.float32) / 4
        else:
            arrays["w"] = rng.random(graph.n_edges, dtype=np.float32) + np.float32(0.5)
        return graph, arrays


CASES = {
    "power-law": Case("power-law", 128),
    "mesh": Case("mesh", 64),
    "gat-8x16": Case("power-law", 128, heads=8),
    "gat-4x32": Case("power-law", 128, heads=4),
}


# ---- the contestants: face -> function without arguments ----


def gnograd_faces(case: Case, graph, arrays, aggregation) -> dict[str, Callable]:
    if case.heads:
        operator, inputs = gg.mha_gat, (arrays["x"], arrays["x"], arrays["a"])
        static = {"graph": graph, "num_heads": case.heads}
    else:
        operator, inputs = gg.agg_weighted, (arrays["x"], arrays["w"])
        static = {"graph": graph, "aggregation": aggregation}

    def training():
        out, saved = operator.forward(*inputs, **static, return_saved=True)
        grads = operator.vjp(arrays["cotangent"], inputs, saved=saved, **static)
        if not case.heads:
            return out, *grads
        grad_x, grad_dst, grad_a, _ = grads
        grad_x += grad_dst
        return out, grad_x, grad_a

    return {"forward": lambda: operator(*inputs, **static), "training": training}


def torch_inputs(graph, arrays):
    import torch

    src = torch.from_numpy(np.asarray(graph.src, dtype=np.int64))
    dst = torch.from_numpy(np.asarray(graph.dst, dtype=np.int64))
    return src, dst, {name: torch.from_numpy(array) for name, array in arrays.items()}


def torch_faces(forward, leaves, cotangent) -> dict[str, Callable]:
    import torch

    def value():
        with torch.no_grad():
            return forward()

    def training():
        for leaf in leaves:
            leaf.requires_grad_()
        out = forward()
        return out.detach(), *torch.autograd.grad(out, leaves, cotangent)

    return {"forward": value, "training": training}


def scatter_faces(case: Case, graph, arrays, aggregation) -> dict[str, Callable]:
    from torch_geometric.utils import scatter

    src, dst, t = torch_inputs(graph, arrays)
    x, w = t["x"], t["w"]

    def forward():
        message = x.index_select(0, src) * w[:, None]
        if aggregation != "mean":
            return scatter(message, dst, 0, graph.n_dst, aggregation)
        weight = scatter(w, dst, 0, graph.n_dst, "sum")
        total = scatter(message, dst, 0, graph.n_dst, "sum")
        return total / weight.masked_fill(weight == 0, 1)[:, None]

    return torch_faces(forward, (x, w), t["cotangent"])


def csr_faces(case: Case, graph, arrays, aggregation) -> dict[str, Callable]:
    import torch

    _, _, t = torch_inputs(graph, arrays)
    matrix = torch.sparse_csr_tensor(
        torch.from_numpy(graph.offsets.astype(np.int32)), torch.from_numpy(graph.indices.copy()),
        t["w"], (graph.n_dst, graph.n_src),
    )  # fmt: skip
    return {"forward": lambda: matrix @ t["x"]}


def gat_faces(case: Case, graph, arrays, aggregation) -> dict[str, Callable]:
    import torch
    from torch_geometric.nn import GATConv

    src, dst, t = torch_inputs(graph, arrays)
    channels = case.width // case.heads
    layer = GATConv(
        case.width, channels, heads=case.heads, add_self_loops=False, bias=False, negative_slope=0.2
    )
    layer.lin = torch.nn.Identity()
    edges = torch.stack([src, dst])
    parameters = (layer.att_src, layer.att_dst)
    with torch.no_grad():
        for parameter, values in zip(parameters, t["a"].view(2, case.heads, -1), strict=True):
            parameter[0] = values

    faces = torch_faces(lambda: layer(t["x"], edges), (t["x"], *parameters), t["cotangent"])

    def training():
        out, grad_x, *grad_a = faces["training"]()
        return out, grad_x, torch.cat([grad.flatten() for grad in grad_a])

    return {"forward": faces["forward"], "training": training}


PEERS = {
    "gather/scatter": ("torch_geometric", scatter_faces),
    "CSR": ("torch", csr_faces),
    "GATConv": ("torch_geometric", gat_faces),
}


def names(case: Case, aggregation: str | None, with_peers: bool) -> list[str]:
    """Contestants that can do it here."""
    able = ["GATConv"] if case.heads else ["gather/scatter"] + ["CSR"] * (aggregation == "sum")
    return ["gnograd"] + [
        name for name in able if with_peers and importlib.util.find_spec(PEERS[name][0])
    ]


def faces_of(name: str, case: Case, graph, arrays, aggregation) -> dict[str, Callable]:
    make = gnograd_faces if name == "gnograd" else PEERS[name][1]
    return make(case, graph, arrays, aggregation)


def make_call(name: str, case: Case, aggregation, face: str, small: bool) -> Callable:
    """One call of a contestant, for a process of its own."""
    return faces_of(name, case, *case.build(small), aggregation)[face]


# ---- what is measured ----


def validate(faces: dict[str, dict], aggregation: str | None) -> None:
    """Same values and gradients, or stop.

    Among some 10^8 products of min and max a few are equal in float32, and their gradients go to
    the first of them here, to all in equal parts there: numbers that differ may then be one in
    10^5, and are left out.
    """
    ours = faces["gnograd"]["training"]()
    for peer in faces.keys() - {"gnograd"}:
        face = "training" if "training" in faces[peer] else "forward"
        theirs = faces[peer][face]()
        theirs = theirs if isinstance(theirs, tuple) else (theirs,)
        for a, b in zip(ours, theirs, strict=face == "training"):
            difference = a - b.numpy()
            if aggregation in ("min", "max"):
                apart = np.abs(difference) > 1e-5 * np.abs(a).max()
                difference[apart & (apart.mean() < 1e-5)] = 0
            error = np.linalg.norm(difference) / np.linalg.norm(a)
            if not error < 1e-5:
                raise SystemExit(f"{peer} and gnograd differ by {error:.1e}")


def copy_rate(threads: int) -> float:
    """Bytes a second, read and written."""
    pairs = [(np.ones(2**26, np.float32), np.ones(2**26, np.float32)) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        seconds = median(lambda: list(pool.map(lambda pair: np.copyto(*pair), pairs)), 5)
    return 2 * sum(pair[0].nbytes for pair in pairs) / seconds


def gather_rate(x: np.ndarray, indices: np.ndarray, threads: int) -> float:
    """Bytes a second that are read from rows of x, by the better of two libraries."""
    rows = 2**17 // x[0].nbytes  # a buffer of 128 KiB
    streams = np.array_split(indices.astype(np.int64), threads)
    buffers = [np.empty((rows, x.shape[1]), x.dtype) for _ in streams]

    def take(stream, buffer):
        for first in range(0, len(stream) - rows + 1, rows):
            np.take(x, stream[first : first + rows], axis=0, out=buffer, mode="clip")

    takes = [take]
    if importlib.util.find_spec("torch"):
        import torch

        table = torch.from_numpy(x)

        def select(stream, buffer):
            stream, buffer = torch.from_numpy(stream), torch.from_numpy(buffer)
            for first in range(0, len(stream) - rows + 1, rows):
                torch.index_select(table, 0, stream[first : first + rows], out=buffer)

        takes.append(select)
    set_threads(1)  # every stream has one thread
    with ThreadPoolExecutor(threads) as pool:
        seconds = min(
            median(lambda work=work: list(pool.map(work, streams, buffers)), 3) for work in takes
        )
    set_threads(threads)
    gathered = sum(len(stream) // rows for stream in streams) * rows
    return gathered * x[0].nbytes / seconds


def row_bytes(case: Case, graph: gg.Graph, face: str) -> int:
    """Rows that all edges need: of x forward, of the cotangent too for training."""
    return graph.n_edges * case.width * FLOAT * (2 if face == "training" else 1)


def all_bytes(case: Case, graph: gg.Graph, face: str) -> int:
    """Rows; weights or attention and node numbers an edge; every table of nodes once."""
    an_edge = NODE + FLOAT * max(1, case.heads)
    tables = {"forward": 1, "training": 4}[face]  # out; and x, the cotangent, the gradient to x
    edges = graph.n_edges * an_edge * (3 if face == "training" else 1)
    nodes = tables * graph.n_dst * case.width * FLOAT
    return row_bytes(case, graph, face) + edges + nodes


# ---- the table ----


def run(label: str, threads: int, options: argparse.Namespace) -> None:
    case = CASES[label]
    set_threads(threads)
    graph, arrays = case.build()
    gather = gather_rate(arrays["x"], graph.indices, threads)
    copy = copy_rate(threads)
    print(
        f"\n{label}: {graph.n_dst} nodes, {graph.n_edges} edges, {case.width} features, "
        f"{threads} thread{'s' * (threads > 1)}; "
        f"copy {copy / 1e9:.1f} GB/s, gather {gather / 1e9:.1f} GB/s"
    )
    print(
        f"{'':31} {'median':>10} {'ratio':>7} {'of gather':>9} {'of copy':>8} {'peak memory':>12}"
    )
    for aggregation in [None] if case.heads else options.aggregations:
        contestants = names(case, aggregation, options.peers)
        faces = {name: faces_of(name, case, graph, arrays, aggregation) for name in contestants}
        validate(faces, aggregation)
        for face in FACES:
            seconds = {
                name: median(calls[face], options.repeats)
                for name, calls in faces.items()
                if face in calls
            }
            for name, taken in seconds.items():
                shares, share = f"{'':18}", None
                if name == "gnograd":
                    share = row_bytes(case, graph, face) / gather / taken
                    shares = (
                        f"{100 * share:7.0f} % "
                        f"{100 * all_bytes(case, graph, face) / copy / taken:6.0f} %"
                    )
                memory, peak = "", None
                if options.memory:
                    make = partial(make_call, name, case, aggregation, face)
                    peak, _ = peak_bytes(make, threads)
                    memory = f"{peak / 2**20:8.0f} MiB"
                print(
                    f"{aggregation or 'mha_gat':7} {face:8} {name:14} {1e3 * taken:7.1f} ms "
                    f"{taken / seconds['gnograd']:6.1f}x {shares} {memory:>12}",
                    flush=True,
                )
                options.results.add(
                    f"{label}, {aggregation}" if aggregation else label, face, name,
                    threads=threads, seconds=taken, ratio=taken / seconds["gnograd"], share=share,
                    memory=peak,
                )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument(
        "--aggregations", nargs="+", choices=AGGREGATIONS, default=list(AGGREGATIONS)
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--no-memory", dest="memory", action="store_false")
    add_option(parser)
    options = parser.parse_args()
    options.results = Results(options.json, "gather")
    for label in options.cases:
        for threads in options.threads:
            run(label, threads, options)


if __name__ == "__main__":
    main()
