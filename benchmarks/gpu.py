# SPDX-License-Identifier: MIT
"""The CUDA kernels on a GPU, alone and beside PyTorch and PyG (sparse attention: nsa.py).

kernels     every case of cases.py, forward and vjp, by the names that the time model gives them
            (docs/gpu.md)
published   edge attention on icosahedral graphs beside times that others have published
peers       the same tensors through gnograd and others, values and gradients compared; forward, or
            training: output and all gradients
neighbors   searches, with the wait for their number, beside the k-d tree on the host

A time is that of the GPU, between two events. Calls are queued before the first one starts, behind
a kernel that sleeps, so that the host's time is not in it. Cold: the median of calls each between
events of its own, with the L2 cache overwritten before; warm: 20 or more calls between two events.

GB/s counts every array read or written once, and a row of features for every edge that gathers
one; its fraction is of the bandwidth of a copy, measured in the same run. A peer that runs out of
memory has no ratio. The table is printed and appended to benchmarks/results/gpu.md, with the device
and the date, and with --json written as data.

    make gpu-bench
    python benchmarks/gpu.py [--parts kernels published peers neighbors] [--repeats 20]
                             [--cases agg_sum_128 gat ...] [--json FILE]
                             [--peers power-law mesh triplets gno physics edges]

--try runs the faces of the cases once, at a size that the SIMT library computes in seconds, and
compares them with the CPU in place of timing anything. --once runs each once, for a profiler.
"""

import argparse
import datetime
import functools
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cases import CASES, PUBLISHED, Case, mesh, power_law

import gnograd as gg

FORWARD_ONLY = {"CSR product"}  # its gradient to the weights is a dense product first
RESULTS = Path(__file__).parent / "results" / "gpu.md"
PARTS = ("kernels", "published", "peers", "neighbors")


# ---- contestants: functions of tensors, ours first ----
# name, tensors, floats moved forward and in training, contestants by name


def drawer(device) -> Callable:
    """A maker of random tensors that want gradients."""
    import torch

    rng = np.random.default_rng(1)

    def tensor(*shape, scale=1.0):
        values = scale * rng.standard_normal(shape, dtype=np.float32)
        return torch.from_numpy(values).to(device).requires_grad_()

    return tensor


def aggregations(graph: gg.Graph, width: int, device) -> Iterator[tuple]:
    """Weighted sums and maxima, and graph attention."""
    import torch

    import gnograd.torch as gt

    tensor = drawer(device)
    n, edges = graph.n_dst, graph.n_edges
    offsets, indices = (
        torch.from_numpy(np.array(a, np.int64)).to(device) for a in (graph.offsets, graph.indices)
    )
    src, dst = indices, torch.from_numpy(np.array(graph.dst, np.int64)).to(device)
    x, w = tensor(graph.n_src, width), tensor(edges)

    def gather_scatter(x, w, reduce):
        out = x.new_zeros(n, width)
        messages = w[:, None] * x[src]
        return out.scatter_reduce(
            0, dst[:, None].expand(-1, width), messages, reduce, include_self=False
        )

    forward = edges * (width + 1) + n * width
    backward = 2 * edges * (width + 1) + n * width + graph.n_src * width
    for aggregation, reduce in (("sum", "sum"), ("max", "amax")):
        peers = {
            "gnograd": lambda x, w, a=aggregation: gt.agg_weighted(
                x, w, graph=graph, aggregation=a
            ),
            "gather-scatter": lambda x, w, r=reduce: gather_scatter(x, w, r),
        }
        if aggregation == "sum":
            peers["CSR product"] = lambda x, w: (
                torch.sparse_csr_tensor(offsets, indices, w, (n, graph.n_src)) @ x
            )
        yield f"agg_weighted {aggregation}", (x, w), forward, forward + backward, peers

    for heads, channels in ((8, 16), (4, 32)):
        d = heads * channels
        inputs = tensor(graph.n_src, d), tensor(2 * d)

        def ours(x, a, heads=heads):
            return gt.mha_gat(x, x, a, graph=graph, num_heads=heads)

        def plain(x, a, heads=heads, channels=channels):
            rows = x.view(-1, heads, channels)
            left, right = a.view(2, heads, channels)
            score = (rows * left).sum(-1)[src] + (rows * right).sum(-1)[dst]
            score = torch.nn.functional.leaky_relu(score, 0.2)
            top = score.new_full((n, heads), -torch.inf)
            top = top.scatter_reduce(0, dst[:, None].expand(-1, heads), score, "amax").detach()
            e = (score - top[dst]).exp()
            total = e.new_zeros(n, heads).index_add(0, dst, e)
            out = rows.new_zeros(n, heads, channels)
            return out.index_add(0, dst, (e / total[dst])[:, :, None] * rows[src]).flatten(1)

        forward = edges * (d + 2 * heads) + n * 2 * d
        backward = edges * (3 * d + 4 * heads) + n * 4 * d
        peers = {"gnograd": ours, "plain PyTorch": plain}
        if importlib.util.find_spec("torch_geometric"):
            peers["PyG softmax"] = pyg_attention(graph, src, dst, heads)
        yield f"mha_gat {heads} x {channels}", inputs, forward, forward + backward, peers


def triplets(device, n_edges: int = 200_000) -> Iterator[tuple]:
    """DimeNet++'s sum over triplets, beside PyG's formulation."""
    import dimenet
    import torch

    import gnograd.torch as gt

    vector, graph = dimenet.crystal(n_edges)
    gathered = dimenet.Gathered(graph)
    gathered.kj, gathered.ji = gathered.kj.to(device), gathered.ji.to(device)
    n_basis, n_emb, n_mid = dimenet.N_SPHERICAL * dimenet.N_RADIAL, dimenet.N_EMB, dimenet.N_MID
    tensor = drawer(device)
    inputs = (
        torch.from_numpy(vector).to(device).requires_grad_(),
        tensor(graph.n_edges, n_basis, scale=0.1),
        tensor(graph.n_edges, n_emb),
        tensor(n_basis + n_emb, n_mid, scale=0.1),
    )

    def ours(*inputs):
        return gt.agg_edge_to_edge(*inputs, graph=graph, exclude="same_node")

    forward = graph.n_edges * (3 + n_basis + 2 * n_emb)
    backward = graph.n_edges * (2 * (3 + n_basis) + 3 * n_emb)
    peers = {"gnograd": ours, "PyG formulation": gathered}
    yield "agg_edge_to_edge", inputs, forward, forward + backward, peers


def neural_operator(
    device, n: int = 20_000, degree: int = 8, width: int = 32, hidden: int = 128
) -> Iterator[tuple]:
    """The GNO sum, beside a kernel matrix an edge."""
    import torch

    import gnograd.torch as gt

    rng = np.random.default_rng(0)
    graph = gg.Graph(degree * np.arange(n + 1), rng.integers(0, n, degree * n), n_src=n)
    src, dst = (torch.from_numpy(np.array(a, np.int64)).to(device) for a in (graph.src, graph.dst))
    tensor = drawer(device)
    inputs = (
        tensor(n, width),
        tensor(graph.n_edges, 2),
        tensor(2, hidden),
        tensor(hidden),
        tensor(hidden, width, width, scale=hidden**-0.5),
        tensor(width, width),
    )

    def ours(*inputs):
        return gt.gno(*inputs, graph=graph, activation="gelu")

    def plain(h, coords, u, b_u, v, b_v):
        hid = torch.nn.functional.gelu(coords @ u + b_u)
        kappa = (hid @ v.flatten(1)).view(-1, width, width) + b_v
        return h.new_zeros(n, width).index_add(0, dst, (h[src, None] @ kappa)[:, 0])

    forward = graph.n_edges * (width + 2) + n * width + hidden * width**2
    backward = graph.n_edges * (2 * width + 4) + 2 * n * width + 2 * hidden * width**2
    peers = {"gnograd": ours, "matrix an edge": plain}
    yield f"gno {width} x {hidden}", inputs, forward, forward + backward, peers


def physics(
    device, n: int = 20_000, degree: int = 16, width: int = 8, hidden: tuple[int, ...] = (64, 64)
) -> Iterator[tuple]:
    """Value, gradient and Laplacian of the GNO, beside nested backward passes."""
    import torch

    import gnograd.torch as gt

    rng = np.random.default_rng(0)
    graph = gg.Graph(degree * np.arange(n + 1), rng.integers(0, n, degree * n), n_src=n)
    src, dst = (torch.from_numpy(np.array(a, np.int64)).to(device) for a in (graph.src, graph.dst))
    tensor = drawer(device)
    befores = (2, *hidden[:-1])
    packed = torch.cat(
        [
            tensor(*shape, scale=before**-0.5).detach().flatten()
            for before, size in zip(befores, hidden, strict=True)
            for shape in ((before, size), (size,))
        ]
    )
    inputs = (
        tensor(n, width),
        tensor(n, 2),
        tensor(n, 2),
        packed.requires_grad_(),
        tensor(hidden[-1], width, 1, scale=hidden[-1] ** -0.5),
        tensor(width, 1),
    )

    def ours(*inputs):
        u, gradient, laplacian = gt.gno_with_laplacian(*inputs, graph=graph, widths=list(hidden))
        return torch.cat([u, gradient.flatten(1), laplacian], dim=1)

    @torch.enable_grad()
    def plain(h, x, y, packed, v, b_v):
        z, start = x[dst] - y[src], 0
        for before, size in zip(befores, hidden, strict=True):
            middle, end = start + before * size, start + (before + 1) * size
            z = torch.nn.functional.gelu(
                z @ packed[start:middle].view(before, size) + packed[middle:end]
            )
            start = end
        message = (h[src] * (z @ v[:, :, 0] + b_v[:, 0])).sum(1, keepdim=True)
        value = h.new_zeros(n, 1).index_add(0, dst, message)
        # a destination's value depends on its own position alone
        (gradient,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        laplacian = sum(
            torch.autograd.grad(gradient[:, a].sum(), x, create_graph=True)[0][:, a, None]
            for a in range(2)
        )
        return torch.cat([value, gradient, laplacian], dim=1)

    parameters = sum(i.numel() for i in inputs[3:])
    forward = graph.n_edges * (width + 4) + n * 4 + parameters
    backward = graph.n_edges * (2 * width + 8) + n * (width + 8) + 2 * parameters
    peers = {"gnograd": ours, "nested backward": plain}
    yield "gno_with_laplacian", inputs, forward, forward + backward, peers


def edge_networks(device, side: int = 400, width: int = 128) -> Iterator[tuple]:
    """The edge update of a MeshGraphNet with its sum, beside the network on concatenations."""
    import torch

    import gnograd.torch as gt

    functional = torch.nn.functional
    graph = mesh(side * side)
    src, dst = (torch.from_numpy(np.array(a, np.int64)).to(device) for a in (graph.src, graph.dst))
    tensor, n = drawer(device), side * side
    shapes = [(width, width)] * 3 + [(width,), (width, width), (width,)] + [(width,)] * 2
    inputs = (
        tensor(graph.n_edges, width),
        tensor(n, width),
        *(tensor(*shape, scale=width**-0.5) for shape in shapes),
    )

    def ours(e, x, *weights):
        packed = torch.cat([part.flatten() for part in weights])
        edges, nodes = gt.edge_mlp(e, x, x, packed, graph=graph, widths=[width, width])
        return torch.cat([edges, nodes])

    def behind(z, e, W, b, gamma, beta):
        m = functional.silu(z) @ W + b
        edges = e + functional.layer_norm(m, (width,), gamma, beta)
        return torch.cat([edges, e.new_zeros(n, width).index_add(0, dst, edges)])

    def concatenated(e, x, W_e, W_s, W_d, b, *rest):
        z = torch.cat([e, x[src], x[dst]], dim=1) @ torch.cat([W_e, W_s, W_d]) + b
        return behind(z, e, *rest)

    def split(e, x, W_e, W_s, W_d, b, *rest):
        return behind(e @ W_e + (x @ W_s)[src] + (x @ W_d)[dst] + b, e, *rest)

    parameters = sum(i.numel() for i in inputs[2:])
    forward = width * (4 * graph.n_edges + 2 * n) + parameters
    backward = width * (5 * graph.n_edges + 3 * n) + 2 * parameters
    peers = {"gnograd": ours, "concatenated": concatenated, "split": split}
    yield f"edge_mlp {width}", inputs, forward, forward + backward, peers


PEERS = {
    "power-law": lambda device: aggregations(
        power_law(100_000, 20, np.random.default_rng(0)), 128, device
    ),
    "mesh": lambda device: aggregations(mesh(1_000_000), 64, device),
    "triplets": triplets,
    "gno": neural_operator,
    "physics": physics,
    "edges": edge_networks,
}


def pyg_attention(graph: gg.Graph, src, dst, heads: int) -> Callable:
    """GATConv without its linear layers, by PyG's own functions."""
    import torch
    from torch_geometric.utils import scatter, softmax

    def attention(x, a):
        rows, (left, right) = x.view(len(x), heads, -1), a.view(2, heads, -1)
        score = (rows * left).sum(-1)[src] + (rows * right).sum(-1)[dst]
        alpha = softmax(torch.nn.functional.leaky_relu(score, 0.2), dst, num_nodes=graph.n_dst)
        return scatter(alpha[:, :, None] * rows[src], dst, dim_size=graph.n_dst).flatten(1)

    return attention


# ---- what is measured ----


class Clock:
    """Times of calls on the GPU that PyTorch has current."""

    def __init__(self, repeats: int):
        import torch

        self.torch, self.repeats = torch, max(repeats, 20)
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

    def __call__(self, call: Callable) -> dict[str, float]:
        """Milliseconds, cold and warm."""
        call()
        self.torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        queueing = (time.perf_counter() - start) * self.repeats
        self.torch.cuda.synchronize()
        # busy while calls are queued, the GPU shows its own time between events
        self.queue(queueing)
        pairs = []
        for _ in range(self.repeats):
            self.flushed.zero_()
            begin = self.event()
            call()
            pairs.append((begin, self.event()))
        self.torch.cuda.synchronize()
        cold = statistics.median(begin.elapsed_time(end) for begin, end in pairs)
        self.queue(queueing)
        begin = self.event()
        for _ in range(self.repeats):
            call()
        end = self.event()
        self.torch.cuda.synchronize()
        return {"cold": cold, "warm": begin.elapsed_time(end) / self.repeats}


def waiting(call: Callable, repeats: int) -> float:
    """Median milliseconds of calls that the host waits in, one after another."""
    import torch

    times = []
    for _ in range(repeats + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[3:])


# ---- the cases of the model ----


def on_device(x: Any) -> Any:
    from gnograd.backends import cuda

    if isinstance(x, tuple):
        return tuple(map(on_device, x))
    return cuda.to_device(x) if isinstance(x, np.ndarray) else x


def faces_of(case: Case, size: int, move: Callable = on_device) -> dict[str, Callable]:
    """The faces of a case as calls without arguments, its arrays moved to the device."""
    rng = np.random.default_rng(0)
    operator, inputs, static = case.make(size, rng)
    # a cotangent is drawn before it is moved, the same for all devices
    inputs, static = move(tuple(inputs)), {k: move(v) for k, v in static.items()}
    calls = {case.faces[0]: lambda: operator(*inputs, **static)}
    if "vjp" not in case.faces:
        return calls
    out, saved = operator.forward(*inputs, return_saved=True, **static)
    outs = out if isinstance(out, tuple) else (out,)
    drawn = tuple(move(rng.standard_normal(o.shape, np.float32).astype(o.dtype)) for o in outs)
    cotangent = drawn if isinstance(out, tuple) else drawn[0]
    calls["vjp"] = lambda: operator.vjp(cotangent, inputs, saved=saved, **static)
    return calls


def chosen(options: argparse.Namespace) -> list[Case]:
    return [c for c in CASES.values() if (c.name in options.cases if options.cases else c.usual)]


def kernels(options: argparse.Namespace, clock: Clock, rate: float) -> Iterator[dict[str, Any]]:
    """Entries of the cases of the model, timed at full size."""
    for case in chosen(options):
        try:
            calls = faces_of(case, case.full)
            for face, call in calls.items():
                entry = {"part": "kernels", "label": f"{case.name}/{face}", "what": case.what}
                if case.faces == ("search",):
                    entry["ms"] = {"waiting": waiting(call, options.repeats)}
                else:
                    entry["ms"] = clock(call)
                if face in case.useful:
                    entry["flops" if case.type else "bytes"] = case.useful[face]
                    entry["copy"] = rate
                yield entry
        except Exception as problem:  # the others shall be timed all the same
            kind = type(problem).__name__
            yield {"part": "kernels", "label": case.name, "failed": f"{kind}: {problem}"[:200]}


def published(options: argparse.Namespace, clock: Clock) -> Iterator[dict[str, Any]]:
    """Forward and backward together, beside what others measured on an H200."""
    for name, theirs in PUBLISHED.items():
        calls = faces_of(CASES[name], CASES[name].full)

        def both(calls: dict[str, Callable] = calls) -> None:
            calls["forward"]()
            calls["vjp"]()

        yield {
            "part": "published",
            "label": name,
            "what": CASES[name].what,
            "ms": clock(both),
            "published_ms": theirs,
            "published_on": "H200, anemoi-core pull request 631",
        }


TRIED = 24  # times as small as what the model counts, about


def tried(options: argparse.Namespace) -> Iterator[str]:
    """Every face at a tiny size, held against the CPU."""

    def stay(x: Any) -> Any:
        # the CPU has float32 and float64
        if isinstance(x, tuple):
            return tuple(map(stay, x))
        half = isinstance(x, np.ndarray) and x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
        return x.astype(np.float32) if half else x

    for case in chosen(options):
        size = case.small if case.small <= 400 else max(case.small // TRIED, 128)
        if case.name.startswith("icosahedron"):
            size = 42
        elif "mesh" in case.name:
            size = round(size**0.5) ** 2
        worst = 0.0
        for (face, ours), theirs in zip(
            faces_of(case, size).items(), faces_of(case, size, stay).values(), strict=True
        ):
            for a, b in zip(flat(ours()), flat(theirs()), strict=True):
                a, b = np.asarray(a.get() if hasattr(a, "get") else a, float), np.asarray(b, float)
                if a.shape != b.shape:
                    raise SystemExit(f"{case.name}/{face}: shapes {a.shape} and {b.shape}")
                there = np.isfinite(b)
                if a.size:
                    scale = np.max(np.abs(b), where=there, initial=1e-30)
                    worst = max(worst, np.max(np.abs(a - b), where=there, initial=0) / scale)
        half = any(t in case.what + case.name for t in ("bf16", "bfloat16", "float16"))
        if not worst < (0.1 if half else 1e-3):
            raise SystemExit(f"{case.name}: {worst:.1e} from the CPU's results")
        yield f"{case.name}: size {size}, within {worst:.1e} of the CPU"


def flat(x: Any) -> list[Any]:
    """Arrays of a result, without what is None."""
    if isinstance(x, tuple):
        return [a for y in x for a in flat(y)]
    return [] if x is None else [x]


# ---- peers ----


def copy_bandwidth(clock: Clock, megabytes: int = 1024) -> float:
    """Bytes a second, read and written."""
    import torch

    source = torch.ones(megabytes << 18, device="cuda")
    target = torch.empty_like(source)
    return 2 * 4 * source.numel() / (1e-3 * clock(lambda: target.copy_(source))["warm"])


def faces(function: Callable, inputs, cotangent) -> dict[str, Callable]:
    import torch

    def forward():
        with torch.no_grad():
            return function(*inputs)

    def training():
        out = function(*inputs)
        return out, *torch.autograd.grad(out, inputs, cotangent)

    return {"forward": forward, "training": training}


def validate(calls: dict[str, dict[str, Callable]], peer: str) -> None:
    """Same values and gradients, or stop."""
    if peer in FORWARD_ONLY:
        pairs = [(calls["gnograd"]["forward"](), calls[peer]["forward"]())]
    else:
        pairs = zip(calls["gnograd"]["training"](), calls[peer]["training"](), strict=True)
    for ours, theirs in pairs:
        error = float((ours - theirs).abs().max() / theirs.abs().max())
        if not error < 1e-3:
            raise SystemExit(f"{peer} and gnograd differ by {error:.1e}")


def searches(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Neighbours among random points, found and compared."""
    import torch

    import gnograd.torch as gt

    n, degree = 200_000, 20
    for d, ball in ((2, np.pi), (3, 4 / 3 * np.pi)):
        radius = (degree / (n * ball)) ** (1 / d)
        points = torch.rand(n, d, device="cuda")
        found = gt.neighbor_search(points, points, radius)
        host = points.cpu()
        start = time.perf_counter()
        expected = gt.neighbor_search(host, host, radius)
        seconds = time.perf_counter() - start
        if not all(torch.equal(found[name].cpu(), expected[name]) for name in expected):
            raise SystemExit("neighbours on the GPU are not those on the host")
        call = functools.partial(gt.neighbor_search, points, points, radius)
        yield {
            "part": "neighbors",
            "label": f"neighbor_search, {n} points in {d}-D",
            "what": f"{len(found['neighbors_index'])} edges",
            "ms": {"waiting": waiting(call, options.repeats)},
            "peers": {"k-d tree": 1e3 * seconds},
        }


def compare(options: argparse.Namespace, clock: Clock, rate: float) -> Iterator[dict[str, Any]]:
    """Contestants on the same tensors."""
    import torch

    for graph in options.peers:
        for name, inputs, *floats, peers in PEERS[graph](torch.device("cuda")):
            cotangent = torch.randn_like(peers["gnograd"](*inputs))
            calls = {peer: faces(f, inputs, cotangent) for peer, f in peers.items()}
            failed = set()
            for peer in calls.keys() - {"gnograd"}:
                try:
                    validate(calls, peer)
                except torch.OutOfMemoryError:
                    failed.add(peer)
            for face, numbers in zip(("forward", "training"), floats, strict=True):
                left_out = failed | (FORWARD_ONLY if face != "forward" else set())
                ms = {p: clock(calls[p][face]) for p in calls.keys() - left_out}
                yield {
                    "part": "peers",
                    "label": f"{name}, {graph}, {face}",
                    "what": "float32",
                    "ms": ms.pop("gnograd"),
                    "peers": {p: t["warm"] for p, t in sorted(ms.items())},
                    "failed_peers": sorted(failed),
                    "bytes": 4 * numbers,
                    "copy": rate,
                }


def line(entry: dict[str, Any]) -> str:
    """Row of the table."""
    if "failed" in entry:
        return f"| {entry['label']} | | | | | failed: {entry['failed']} |"
    ms = entry["ms"]
    cold = f"{ms['cold']:.3f}" if "cold" in ms else ""
    best = ms["warm"] if "warm" in ms else ms["waiting"]
    speed = share = ""
    if "bytes" in entry:
        # cold, as far as it is: from memory, not from the cache
        rate = entry["bytes"] / (1e-3 * ms.get("cold", best))
        speed, share = f"{rate / 1e9:.0f} GB/s", f"{rate / entry['copy']:.0%}"
    elif "flops" in entry:
        speed = f"{entry['flops'] / (1e-3 * best) / 1e12:.3g} TFLOP/s"
    ratios = [f"{peer} {t / best:.1f}x" for peer, t in entry.get("peers", {}).items()]
    ratios += [f"{peer} out of memory" for peer in entry.get("failed_peers", [])]
    if "published_ms" in entry:
        ratios.append(f"published {entry['published_ms']} ms ({entry['published_on']})")
    return f"| {entry['label']} | {cold} | {best:.3f} | {speed} | {share} | {', '.join(ratios)} |"


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    clock = Clock(options.repeats)
    rate = copy_bandwidth(clock)
    yield {
        "part": "copy",
        "label": "copy of 1 GiB",
        "ms": {"warm": 2**31 / rate * 1e3},
        "bytes": 2**31,
        "copy": rate,
    }
    parts: dict[str, Callable] = {
        "kernels": lambda: kernels(options, clock, rate),
        "published": lambda: published(options, clock),
        "peers": lambda: compare(options, clock, rate),
        "neighbors": lambda: searches(options),
    }
    for part in options.parts:
        yield from parts[part]()


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="CASE", help="of cases.py")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--repeats", type=int, default=20, help="calls timed, at least 20")
    parser.add_argument("--json", type=Path, help="where to write the times as data")
    parser.add_argument("--try", action="store_true", dest="tried", help="tiny sizes, no times")
    parser.add_argument("--once", action="store_true", help="full size, no times")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    if not gg.get_config()["cuda"]:
        sys.exit("gnograd was built without CUDA kernels")
    if options.tried:
        for text in tried(options):
            print(text, flush=True)
        return
    if not importlib.util.find_spec("torch"):
        sys.exit("benchmarks/gpu.py compares with PyTorch: install torch with CUDA")
    import torch

    if not torch.cuda.is_available():
        print("no GPU that this PyTorch can use; nothing was timed")
        return
    if options.once:
        for case in chosen(options):
            for call in faces_of(case, case.full).values():
                call()
        torch.cuda.synchronize()
        return
    device = torch.cuda.get_device_name()
    RESULTS.parent.mkdir(exist_ok=True)
    title = [
        f"\n## {device}, {datetime.date.today()}\n",
        f"PyTorch {torch.__version__}\n",
        "| case | cold, ms | warm, ms | rate | of copy | others |",
        "| --- | --: | --: | --: | --: | --- |",
    ]
    entries: list[dict[str, Any]] = []
    with RESULTS.open("a") as file:
        for text in title:
            print(text)
            file.write(text + "\n")
        for entry in measure(options):
            entries.append(entry)
            text = line(entry)
            print(text, flush=True)
            file.write(text + "\n")
            if options.json:  # keep what there is, should it end early
                data = {"device": device, "torch": torch.__version__, "entries": entries}
                options.json.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
