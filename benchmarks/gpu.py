# SPDX-License-Identifier: MIT
"""The CUDA kernels beside PyTorch and PyG on the same GPU (sparse attention: benchmarks/nsa.py).

The same tensors go through all contestants, values and gradients are compared, and then timed by
CUDA events:

forward     the output
training    output and all gradients

Of neighbours within a radius, the search with the wait for their number is timed, beside the k-d
tree on the host.

GB/s counts every array read or written once, and a row of features for every edge that gathers
one; its fraction is of the bandwidth of a copy, measured in the same run. A peer that runs out of
memory has no ratio. The table is printed and appended to benchmarks/results/gpu.md, with the device
and the date.

    make gpu-bench
    python benchmarks/gpu.py [--repeats 20]
                             [--cases power-law mesh triplets gno physics edges neighbors]
"""

import argparse
import datetime
import functools
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dimenet
import numpy as np

import gnograd as gg

FORWARD_ONLY = {"CSR product"}  # its gradient to the weights is a dense product first
RESULTS = Path(__file__).parent / "results" / "gpu.md"


# ---- graphs ----


def power_law(nodes: int = 100_000, edges: int = 2_000_000) -> gg.Graph:
    """Few nodes with very many edges."""
    rng = np.random.default_rng(0)
    weight = np.arange(1, nodes + 1) ** -0.8
    dst = rng.choice(nodes, edges, p=weight / weight.sum())
    return gg.Graph.from_edges(rng.integers(0, nodes, edges), np.sort(dst), nodes, nodes)


def mesh(side: int = 1000) -> gg.Graph:
    """Periodic triangle mesh: six neighbours a node."""
    i, j = np.divmod(np.arange(side * side), side)
    steps = [(0, 1), (1, 0), (1, 1), (0, -1), (-1, 0), (-1, -1)]
    src = np.stack([(i + a) % side * side + (j + b) % side for a, b in steps], axis=1)
    return gg.Graph(6 * np.arange(side * side + 1), src.ravel())


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
    graph = mesh(side)
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


CASES = {
    "power-law": lambda device: aggregations(power_law(), 128, device),
    "mesh": lambda device: aggregations(mesh(), 64, device),
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


def milliseconds(call: Callable, repeats: int) -> float:
    """Median time of a call on the GPU."""
    import torch

    times = []
    for _ in range(repeats + 3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[3:])


def copy_bandwidth(device, repeats: int, megabytes: int = 512) -> float:
    """Bytes a second, read and written."""
    import torch

    source = torch.ones(megabytes << 18, device=device)
    target = torch.empty_like(source)
    return 2 * 4 * source.numel() / (1e-3 * milliseconds(lambda: target.copy_(source), repeats))


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


def searches(device, repeats: int, n: int = 200_000, degree: int = 20) -> Iterator[str]:
    """Lines of the table for neighbours among random points, found and compared."""
    import torch

    import gnograd.torch as gt

    for d, ball in ((2, np.pi), (3, 4 / 3 * np.pi)):
        radius = (degree / (n * ball)) ** (1 / d)
        points = torch.rand(n, d, device=device)
        found = gt.neighbor_search(points, points, radius)
        host = points.cpu()
        start = time.perf_counter()
        expected = gt.neighbor_search(host, host, radius)
        seconds = time.perf_counter() - start
        if not all(torch.equal(found[name].cpu(), expected[name]) for name in expected):
            raise SystemExit("neighbours on the GPU are not those on the host")
        ms = milliseconds(functools.partial(gt.neighbor_search, points, points, radius), repeats)
        yield (
            f"| {n} points in {d}-D | neighbor_search | {len(found['neighbors_index'])} edges "
            f"| {ms:.3f} ms | | | k-d tree {1e3 * seconds / ms:.0f}x |"
        )


def measure(options: argparse.Namespace, device, device_name: str) -> Iterator[str]:
    """Lines of the table."""
    import torch

    rate = copy_bandwidth(device, options.repeats)
    yield f"\n## {device_name}, {datetime.date.today()}\n"
    yield f"PyTorch {torch.__version__}, float32; copy {rate / 1e9:.0f} GB/s\n"
    yield "| graph | operator | | time | GB/s | of copy | ratios |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for case in options.cases:
        if case == "neighbors":
            yield from searches(device, options.repeats)
            continue
        for name, inputs, *floats, peers in CASES[case](device):
            cotangent = torch.randn_like(peers["gnograd"](*inputs))
            calls = {peer: faces(f, inputs, cotangent) for peer, f in peers.items()}
            failed = set()
            for peer in calls.keys() - {"gnograd"}:
                try:
                    validate(calls, peer)
                except torch.OutOfMemoryError:
                    failed.add(peer)
            for face, numbers in zip(("forward", "training"), floats, strict=True):
                ms = {
                    peer: milliseconds(calls[peer][face], options.repeats)
                    for peer in calls.keys()
                    - failed
                    - (FORWARD_ONLY if face != "forward" else set())
                }
                ours = ms.pop("gnograd")
                speed = 4 * numbers / (1e-3 * ours)
                ratios = [f"{peer} {t / ours:.1f}x" for peer, t in sorted(ms.items())]
                ratios += [f"{peer} out of memory" for peer in sorted(failed)]
                yield (
                    f"| {case} | {name} | {face} | {ours:.3f} ms | {speed / 1e9:.0f} | "
                    f"{100 * speed / rate:.0f} % | {', '.join(ratios)} |"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--cases", nargs="+", choices=[*CASES, "neighbors"], default=[*CASES, "neighbors"]
    )
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        sys.exit("benchmarks/gpu.py compares with PyTorch: install torch with CUDA")
    import torch

    if not torch.cuda.is_available():
        print("no GPU that this PyTorch can use; nothing was timed")
        return
    if not gg.get_config()["cuda"]:
        sys.exit("gnograd was built without CUDA kernels")
    RESULTS.parent.mkdir(exist_ok=True)
    for line in measure(options, torch.device("cuda"), torch.cuda.get_device_name()):
        print(line, flush=True)
        with RESULTS.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
