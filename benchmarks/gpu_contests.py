# SPDX-License-Identifier: MIT
"""Contests of the peers of `gpu.py`: functions of the same tensors, ours first."""

import functools
import importlib.util
from collections.abc import Callable, Iterator

import numpy as np
from case import mesh, power_law
from cases_sparse import TOKENS, selection
from gpu_clock import OnGpu

import gnograd as gg

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
