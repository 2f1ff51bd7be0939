# SPDX-License-Identifier: MIT
"""The CUDA kernels on a GPU, alone and beside PyTorch and PyG (sparse attention: nsa.py, too).

about     rates of this GPU that the time model takes for granted: copy, L2, gathers, products
calls     the host's time of a call (gpu_calls.py)
kernels   every case of cases.py, the most telling first, under the names that the model gives them
          (docs/gpu.md): times, whether two calls give the same bits, numbers that are not finite,
          workspace
peers     the same tensors through gnograd and others, values and gradients compared; forward, or
          training: output and all gradients

A time is that of the GPU, between two events. Calls are queued before the first one starts, behind
a kernel that sleeps, so that the host's time is not in it. Cold: the median of calls each between
events of its own, with the L2 cache overwritten before; warm: calls between two events; host: what
a call takes the host. Searches, whose results the host waits for, have one time, with that wait.

GB/s counts every array read or written once, and a row of features for every edge that gathers
one; its fraction is of the bandwidth of a copy, measured in the same run. Large arrays are drawn on
the GPU, where the host would take minutes. With --json every entry is a line, written at once;
behind --seconds nothing new begins.

    python benchmarks/gpu.py [--parts about calls kernels peers] [--repeats 20] [--seconds 90]
                             [--cases agg_sum_128 gat ...] [--json FILE]
                             [--peers power-law attention gno edges mesh triplets physics compiled]

--try runs the faces of the cases once, at a size that the SIMT library computes in seconds, and
compares them with the CPU in place of timing anything. --once runs each once, for a profiler.
"""

import argparse
import contextlib
import functools
import gc
import importlib.util
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from case import Case, mesh, normal, power_law
from cases import CASES
from cases_sparse import TOKENS, selection

import gnograd as gg

FORWARD_ONLY = {"CSR product"}  # its gradient to the weights is a dense product first
OTHERS = {"flash", "cudnn"}  # dense attention: another result
PARTS = ("about", "calls", "kernels", "peers")
FIRST = [
    "agg_sum_128", "agg_sum_128_bf16", "gat", "gat_bf16", "mha_simple", "gno_64", "gno_64_bf16",
    "nsa", "window", "icosahedron_h_to_h", "edge_mlp", "edge_to_edge", "neighbors", "knn",
    "laplacian", "compressed", "select_blocks", "nsa_points", "agg_max_128", "agg_sum_64_mesh",
    "gat_v2", "gno_diagonal", "icosahedron_era_to_h", "icosahedron_h_to_era", "relational",
    "edge_updates", "agg_sum_128_hubs", "nsa_mha", "gno_kernel", "edge_softmax", "radial",
    "neighbor_list",
]  # fmt: skip
"""Cases that decide most; the others follow in their order."""


# ---- contestants: functions of tensors, ours first ----
# name, tensors, bytes or (attention) operations that forward and training cannot do without,
# contestants by name


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


def attention(device) -> Iterator[tuple]:
    """Selected blocks and a window of 64k tokens, beside FlexAttention and dense attention."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    from torch.nn.functional import scaled_dot_product_attention

    import gnograd.torch as gt

    heads, kv_heads, d, window = 64, 4, 128, 512
    inputs = tuple(
        torch.randn(TOKENS, h, d, device=device, dtype=torch.bfloat16, requires_grad=True)
        for h in (heads, kv_heads, kv_heads)
    )
    index = selection(TOKENS, kv_heads, True, OnGpu(0))

    def of_batch(attend, q, k, v):
        rows = (x.transpose(0, 1)[None] for x in (q, k, v))
        return attend(*rows)[0].transpose(0, 1)

    def dense(backend, q, k, v):
        with sdpa_kernel(backend):
            return of_batch(
                lambda *x: scaled_dot_product_attention(*x, is_causal=True, enable_gqa=True),
                q,
                k,
                v,
            )

    def in_window(_batch, _head, i, j):
        return (j <= i) & (i - j < window)

    @functools.cache
    def flex():
        # compiled: uncompiled it would make a mask of tokens x tokens
        mask = create_block_mask(
            in_window, None, None, TOKENS, TOKENS, device=device, _compile=True
        )
        compiled = torch.compile(flex_attention)
        return lambda *rows: compiled(*rows, block_mask=mask, enable_gqa=True)

    products = 512.0 * heads * TOKENS
    yield "selected 16 of 64, causal", inputs, products * 1024, 3.5 * products * 1024, {
        "gnograd": lambda q, k, v: gt.selected_attention(
            q, k, v, block_index=index, block_size=64, causal=True
        ),
        "flash": lambda *x: dense(SDPBackend.FLASH_ATTENTION, *x),
        "cudnn": lambda *x: dense(SDPBackend.CUDNN_ATTENTION, *x),
    }  # fmt: skip
    yield f"window {window}, causal", inputs, products * window, 3.5 * products * window, {
        "gnograd": lambda q, k, v: gt.window_attention(q, k, v, window=window, causal=True),
        "FlexAttention": lambda *x: of_batch(flex(), *x),
    }  # fmt: skip


def compiled(device) -> Iterator[tuple]:
    """The weighted sum, beside what torch.compile makes of gathering and scattering."""
    import torch

    for name, inputs, *work, peers in aggregations(
        power_law(100_000, 20, np.random.default_rng(0)), 128, device
    ):
        with_compiler = torch.compile(peers["gather-scatter"])
        ours = {"gnograd": peers["gnograd"], "compiled gather-scatter": with_compiler}
        yield f"{name}, compiled", inputs, *work, ours
        return


PEERS = {
    "power-law": lambda device: aggregations(
        power_law(100_000, 20, np.random.default_rng(0)), 128, device
    ),
    "attention": attention,
    "gno": neural_operator,
    "edges": edge_networks,
    "mesh": lambda device: aggregations(mesh(1_000_000), 64, device),
    "triplets": triplets,
    "physics": physics,
    "compiled": compiled,
}
OPERATIONS = {"attention"}
"""Contests whose useful work is operations; that of the others is floats moved."""


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


def about(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rates that the time model takes for granted."""
    import torch

    clock, properties = Clock(options.repeats), torch.cuda.get_device_properties(0)
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    cached = source[: 16 << 20].view(torch.float32)
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    rows, picked = torch.randn(100_000, 128, device="cuda"), 2_000_000
    index = torch.randint(0, len(rows), (picked,), device="cuda")

    def rate(work: float, call: Callable) -> float:
        return round(work / clock(call)["warm"] / 1e9, 3)

    yield {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "L2, bytes": getattr(properties, "L2_cache_size", 0),
        "torch": torch.__version__,
        "copy, TB/s": rate(2 * source.numel(), lambda: target.copy_(source)),
        "read of L2, TB/s": rate(4 * cached.numel(), cached.sum),
        "products of bfloat16, TFLOP/s": rate(2 * 8192**3, lambda: matrix @ matrix),
        "gather of 512 bytes, TB/s": rate(512 * picked, lambda: rows[index]),
    }


def calls(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The host's time of calls, as multiples of the CPU's eager call."""
    import gpu_calls

    yield gpu_calls.measure()


# ---- the cases of the model ----


def on_device(x: Any) -> Any:
    """Copies on the device, in arrays of gnograd's own."""
    from gnograd.backends import cuda

    if isinstance(x, tuple):
        return tuple(map(on_device, x))
    return cuda.to_device(x) if isinstance(x, np.ndarray) else x


def as_tensor(x: Any) -> Any:
    """A tensor on the GPU of an array of NumPy; tensors stay."""
    import torch

    if isinstance(x, tuple):
        return tuple(map(as_tensor, x))
    if not isinstance(x, np.ndarray):
        return x
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.astype(np.float32)).to("cuda", torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(x)).to("cuda")


class Memory:
    """PyTorch's memory on its current stream, as users of gnograd.torch have it."""

    def __init__(self) -> None:
        self.workspace = 0
        """Bytes of the largest workspace since it was set to 0."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        import torch

        if dtype == "uint8":
            self.workspace = max(self.workspace, math.prod(shape))
        return torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")

    def using(self) -> contextlib.AbstractContextManager[None]:
        import torch

        from gnograd.backends import cuda

        return cuda.using(torch.cuda.current_stream().cuda_stream, self.empty)


def faces_of(
    case: Case, size: int, move: Callable, rng: np.random.Generator
) -> dict[str, Callable]:
    """The faces of a case as calls without arguments, its arrays moved to the device."""
    operator, inputs, static = case.make(size, rng)
    # a cotangent is drawn before it is moved, the same for all devices
    inputs, static = move(tuple(inputs)), {k: move(v) for k, v in static.items()}
    calls = {case.faces[0]: lambda: operator(*inputs, **static)}
    if "vjp" not in case.faces:
        return calls
    out, saved = operator.forward(*inputs, return_saved=True, **static)
    outs = out if isinstance(out, tuple) else (out,)
    kinds = [(o.shape, str(o.dtype).removeprefix("torch.")) for o in outs]
    drawn = tuple(move(normal(rng, *shape, dtype=dtype)) for shape, dtype in kinds)
    cotangent = drawn if isinstance(out, tuple) else drawn[0]
    calls["vjp"] = lambda: operator.vjp(cotangent, inputs, saved=saved, **static)
    return calls


def chosen(options: argparse.Namespace) -> list[Case]:
    """Cases that were named, in that order, or all usual ones."""
    if options.cases:
        return [CASES[name] for name in options.cases]
    usual = [c.name for c in CASES.values() if c.usual]
    return [CASES[name] for name in dict.fromkeys([*FIRST, *usual]) if CASES[name].usual]


def checked(call: Callable) -> dict[str, Any]:
    """True for the same bits in two calls, and the count of numbers that are not finite."""
    import torch

    first, second = (
        [x for x in flat(call()) if isinstance(x, torch.Tensor) and x.numel()] for _ in range(2)
    )
    pairs = zip(first, second, strict=True)
    return {
        "same_bits": all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in pairs),
        "not_finite": sum(int((~torch.isfinite(x)).sum()) for x in first if x.is_floating_point()),
    }


def kernels(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Entries of the cases of the model, timed at full size."""
    import torch

    clock, memory = Clock(options.repeats), Memory()
    for case in chosen(options):
        if options.left() < 0:
            yield {"label": case.name, "ended": "no time was left"}
            continue
        try:
            with memory.using():
                calls = faces_of(case, case.full, as_tensor, OnGpu(0))
                for face, call in calls.items():
                    entry = {"label": f"{case.name}/{face}", "what": case.what}
                    memory.workspace = 0
                    entry |= checked(call) | {"workspace": memory.workspace}
                    search = case.faces == ("search",)
                    entry["ms"] = waiting(call, options.repeats) if search else clock(call)
                    if face in case.useful:
                        entry["flops" if case.type else "bytes"] = case.useful[face]
                    yield entry
        except Exception as problem:  # the others shall be timed all the same
            yield failure(case.name, problem)
            torch.cuda.synchronize()  # raises if the device is lost
        calls = call = None
        gc.collect()
        torch.cuda.empty_cache()


def failure(label: str, problem: Exception) -> dict[str, Any]:
    return {"label": label, "ended": f"{type(problem).__name__}: {problem}"[:400]}


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
            faces_of(case, size, on_device, np.random.default_rng(0)).items(),
            faces_of(case, size, stay, np.random.default_rng(0)).values(),
            strict=True,
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


def faces(function: Callable, inputs, cotangent) -> dict[str, Callable]:
    import torch

    def forward():
        with torch.no_grad():
            return function(*inputs)

    def training():
        out = function(*inputs)
        return out, *torch.autograd.grad(out, inputs, cotangent)

    return {"forward": forward, "training": training}


def difference(calls: dict[str, dict[str, Callable]], peer: str) -> float:
    """Largest error of values and gradients beside gnograd's."""
    if peer in OTHERS:
        calls[peer]["forward"]()
        return 0.0
    if peer in FORWARD_ONLY:
        pairs = [(calls["gnograd"]["forward"](), calls[peer]["forward"]())]
    else:
        pairs = zip(calls["gnograd"]["training"](), calls[peer]["training"](), strict=True)
    return max(
        float((ours.float() - theirs.float()).abs().max() / theirs.float().abs().max())
        for ours, theirs in pairs
    )


def peers(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Contestants on the same tensors."""
    import torch

    clock, device = Clock(options.repeats), torch.device("cuda")
    for contest in options.peers:
        if options.left() < 0:
            yield {"label": contest, "ms": {}, "failed": {"all": "no time was left"}}
            continue
        try:
            for name, inputs, *work, functions in PEERS[contest](device):
                yield from contest_of(options, clock, contest, name, inputs, work, functions)
        except Exception as problem:
            yield {"label": contest, "ms": {}, "failed": {"all": f"{problem}"[:300]}}


def contest_of(options, clock, contest, name, inputs, work, functions) -> Iterator[dict[str, Any]]:
    """Two entries, forward and training; contestants that fail or differ have no time."""
    import torch

    cotangent = torch.randn_like(functions["gnograd"](*inputs))
    calls = {peer: faces(f, inputs, cotangent) for peer, f in functions.items()}
    failed = {}
    most = 3e-2 if inputs[0].dtype == torch.bfloat16 else 1e-3
    for peer in functions.keys() - {"gnograd"}:
        try:
            error = difference(calls, peer)
            if not error < most:
                failed[peer] = f"differs by {error:.1e}"
        except Exception as problem:
            failed[peer] = f"{type(problem).__name__}: {problem}"[:300]
    for face, amount in zip(("forward", "training"), work, strict=True):
        left_out = failed.keys() | (FORWARD_ONLY | OTHERS if face != "forward" else set())
        ms = {p: clock(calls[p][face], 0.6) for p in functions if p not in left_out}
        entry = {"label": f"{name}, {contest}, {face}", "ms": ms, "failed": failed}
        operations = contest in OPERATIONS
        yield entry | {"flops" if operations else "bytes": amount * (1 if operations else 4)}


# ---- the program ----


def shown(entry: dict[str, Any], copy: float) -> str:
    """Row of the table; `copy` is the bandwidth of a copy in TB/s, 0 if it is not known."""
    if "ms" not in entry:
        return f"| {entry['label']} | | | | | {entry['ended']} |"
    ms = entry["ms"]
    peers = {}
    if "failed" in entry:
        peers, ms = ms, ms.get("gnograd", {})
    if not ms:
        return f"| {entry['label']} | | | | | {entry['failed']} |"
    speed = share = ""
    if "bytes" in entry:
        # cold: from memory, not from the cache
        rate = entry["bytes"] / (1e-3 * ms["cold"])
        speed, share = f"{rate / 1e9:.0f} GB/s", f"{rate / copy / 1e12:.0%}" if copy else ""
    elif "flops" in entry:
        speed = f"{entry['flops'] / (1e-3 * ms['warm']) / 1e12:.3g} TFLOP/s"
    notes = [f"{p} {t['warm'] / ms['warm']:.1f}x" for p, t in peers.items() if p != "gnograd"]
    notes += [f"{p}: {why}" for p, why in entry.get("failed", {}).items()]
    if entry.get("same_bits") is False or entry.get("not_finite"):
        notes.append(f"same bits: {entry['same_bits']}, not finite: {entry['not_finite']}")
    times = f"{ms['cold']:.3f} | {ms['warm']:.3f}"
    return f"| {entry['label']} | {times} | {speed} | {share} | {', '.join(notes)} |"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="CASE", help="of cases.py")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--repeats", type=int, default=20, help="calls timed, at most")
    parser.add_argument("--seconds", type=float, default=math.inf, help="behind which none begins")
    parser.add_argument("--json", type=Path, help="file to which every entry is added as a line")
    parser.add_argument("--try", action="store_true", dest="tried", help="tiny sizes, no times")
    parser.add_argument("--once", action="store_true", help="full size, no times")
    options = parser.parse_args(arguments)
    end = time.perf_counter() + options.seconds
    options.left = lambda: end - time.perf_counter()
    return options


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
            with Memory().using():
                for call in faces_of(case, case.full, as_tensor, OnGpu(0)).values():
                    call()
        torch.cuda.synchronize()
        return
    print("| case | cold, ms | warm, ms | rate | of copy | others |")
    print("| --- | --: | --: | --: | --: | --- |")
    parts, copy = {"about": about, "calls": calls, "kernels": kernels, "peers": peers}, 0.0
    for part in options.parts:
        for entry in parts[part](options):
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({"part": part} | entry) + "\n")
            copy = entry.get("copy, TB/s", copy)
            text = shown(entry, copy) if "label" in entry else json.dumps(entry)
            print(text, flush=True)


if __name__ == "__main__":
    main()
