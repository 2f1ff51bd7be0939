# SPDX-License-Identifier: MIT
"""PyTorch's transforms on graphs, layers and operators that nothing else has used before.

A graph that was used keeps what its first use has made, so every call here has objects of its own:
what is expected is computed afterwards, of others that are equal.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import calls
import gnograd as gg

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from torch.func import (  # noqa: E402
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

N, M = 6, 14
"""Nodes and edges of the graphs of layers."""
ITEMS = 3
"""Items of a batch."""
OPERATORS = list(calls.calls())

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def edges(seed=0, n=N, m=M):
    return torch.randint(n, (2, m), generator=torch.Generator().manual_seed(seed))


def close(got, expected, tolerance=1e-9):
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


# ---- layers: how they are made, and their inputs, of which the first is differentiated ----


def convolution(name, *more, **options):
    """A layer of PyG's arguments, on an ``edge_index``."""
    return (
        lambda: getattr(gt, name)(3, 2, **options),
        lambda seed: (rand(N, 3, seed=seed), edges(seed), *(make(seed) for make in more)),
    )


def attributes(width):
    return lambda seed: rand(*((M, width) if width else (M,)), seed=seed + 50)


def on_a_graph(make):
    """A layer of the mesh networks, on a graph of tensors."""
    return make, lambda seed: (
        rand(N, 3, seed=seed), rand(M, 2, seed=seed + 50),
        gt.Graph.from_edge_index(edges(seed), N),
    )  # fmt: skip


def points(seed, n=N):
    return rand(n, 2, seed=seed)


class Plain(torch.nn.Module):
    """A module that calls a function of its own layer."""

    def __init__(self, layer, call):
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, *inputs):
        return self.call(self.layer, *inputs)


SMALL_MESH = dict(
    hidden_dim_processor=4, hidden_dim_node_encoder=4, hidden_dim_edge_encoder=4,
    hidden_dim_node_decoder=4,
)  # fmt: skip
SPARSE = dict(
    compress_block_size=2, compress_stride=1, selection_block_size=2, num_selected_blocks=2,
    window_size=3, local_blocks=1,
)  # fmt: skip


def mesh(segments=0):
    net = gt.MeshGraphNet(
        3, 2, 1, processor_size=2, num_processor_checkpoint_segments=segments, **SMALL_MESH
    )
    return Plain(net, lambda net, x, e, graph: net(x, e, graph))


def dimenet(call):
    net = gt.DimeNetPlusPlus(
        4, 1, 1, 4, 2, 4, 2, 2, cutoff=2.0, output_initializer="glorot_orthogonal"
    )
    return Plain(net, call)


ATOMS = torch.tensor([8, 1, 1, 6])


def atoms(seed):
    return 1.5 * rand(4, 3, seed=seed)


def tanh_network(n_in, n_out):
    """A kernel network that PyTorch evaluates."""
    return torch.nn.Sequential(
        torch.nn.Linear(n_in, 5), torch.nn.Tanhshrink(), torch.nn.Linear(5, n_out)
    )


def magno():
    config = gt.MAGNOConfig(radius=0.6, hidden_size=4, scales=[1.0, 1.5], lifting_channels=4)
    return gt.MAGNOEncoder(2, 4, config)


LAYERS = {
    "GATConv": convolution("GATConv"),
    "GATConv, edge features": convolution(
        "GATConv", attributes(2), edge_dim=2, heads=2, concat=False
    ),
    "GATv2Conv": convolution("GATv2Conv", attributes(2), edge_dim=2),
    "TransformerConv": convolution("TransformerConv", attributes(2), edge_dim=2, beta=True),
    "GCNConv": convolution("GCNConv"),
    "GCNConv, weights": convolution("GCNConv", attributes(0)),
    "SAGEConv": convolution("SAGEConv"),
    "SAGEConv, max": convolution("SAGEConv", aggr="max", normalize=True),
    "RGCNConv": convolution(
        "RGCNConv", lambda seed: edges(seed + 9, 2)[0], num_relations=2, num_bases=2
    ),
    "MeshGraphNet": on_a_graph(mesh),
    "MeshGraphNet, checkpoints": on_a_graph(lambda: mesh(2)),
    "GNO": (
        lambda: gt.GNO(3, 2, coord_dim=2, hidden_channels=4),
        lambda seed: (
            rand(N, 3, seed=seed), rand(M, 2, seed=seed + 1),
            gt.Graph.from_edge_index(edges(seed), N),
        ),
    ),
    "GNOBlock": (
        lambda: gt.GNOBlock(2, 2, 2, 0.7, channel_mlp_layers=[8], pos_embedding_channels=2),
        lambda seed: (points(seed), points(seed + 1, 4), rand(N, 2, seed=seed + 2)),
    ),
    "GNOBlock, a network of PyTorch": (
        lambda: gt.GNOBlock(
            2, 2, 2, 0.7, "nonlinear", pos_embedding_type=None, channel_mlp=tanh_network(6, 2)
        ),
        lambda seed: (points(seed), points(seed + 1, 4), rand(N, 2, seed=seed + 2)),
    ),
    "IntegralTransform": (
        lambda: Plain(
            gt.IntegralTransform(channel_mlp_layers=[4, 5, 4, 2]),
            lambda layer, y, x, f: layer(y, gt.neighbor_search(y, x, 0.7), x, f),
        ),
        lambda seed: (points(seed), points(seed + 1, 4), rand(N, 2, seed=seed + 2)),
    ),
    "IntegralTransform, weights": (
        lambda: Plain(
            gt.IntegralTransform(
                channel_mlp_layers=[4, 5, 2],
                weighting_fn=gt.dispatch_weighting_fn("quartic", sq_radius=0.49),
            ),
            lambda layer, y, x, f: layer(
                y, gt.neighbor_search(y, x, 0.7, return_norm=True), x, f
            ),
        ),
        lambda seed: (points(seed), points(seed + 1, 4), rand(N, 2, seed=seed + 2)),
    ),
    "AGNO": (
        lambda: Plain(
            gt.AGNO(channel_mlp_layers=[4, 5, 4, 2], use_attn=True, coord_dim=2),
            lambda layer, y, x, f: layer(y, gt.Graph.radius(y, 0.7, x), x, f),
        ),
        lambda seed: (points(seed), points(seed + 1, 4), rand(N, 2, seed=seed + 2)),
    ),
    "GeometricEmbedding": (
        lambda: Plain(
            gt.GeometricEmbedding(2, 3),
            lambda layer, y, x: layer(y, x, gt.Graph.knn(y, 4, x)),
        ),
        lambda seed: (points(seed), points(seed + 1, 4)),
    ),
    "GeometricEmbedding, pointnet": (
        lambda: Plain(
            gt.GeometricEmbedding(2, 3, method="pointnet"),
            lambda layer, y, x: layer(y, x, gt.Graph.radius(y, 0.7, x)),
        ),
        lambda seed: (points(seed), points(seed + 1, 4)),
    ),
    "MAGNOEncoder": (
        magno,
        lambda seed: (points(seed), rand(1, N, 2, seed=seed + 1), points(seed + 2, 4)),
    ),
    "DimeNetPlusPlus": (
        lambda: dimenet(lambda net, pos: net(ATOMS, pos)),
        lambda seed: (atoms(seed),),
    ),
    "DimeNetPlusPlus, molecules": (
        lambda: dimenet(lambda net, pos: net(ATOMS, pos, batch=torch.tensor([0, 0, 1, 1]))),
        lambda seed: (atoms(seed),),
    ),
    "DimeNetPlusPlus, a graph": (
        lambda: dimenet(
            lambda net, pos: net(ATOMS, pos, gt.Graph.radius(pos, 2.0, include_self=False))
        ),
        lambda seed: (atoms(seed),),
    ),
    "NativeSparseAttention": (
        lambda: gt.NativeSparseAttention(4, 2, **SPARSE),
        lambda seed: (rand(7, 4, seed=seed),),
    ),
    "NativeSparseAttention, cu_seqlens": (
        lambda: Plain(
            gt.NativeSparseAttention(4, 2, **SPARSE),
            lambda layer, x: layer(x, cu_seqlens=torch.tensor([0, 3, 7])),
        ),
        lambda seed: (rand(7, 4, seed=seed),),
    ),
    "NativeSparseAttention, padding": (
        lambda: Plain(
            gt.NativeSparseAttention(4, 2, **SPARSE),
            lambda layer, x: layer(
                x, key_padding_mask=torch.arange(4) >= torch.tensor([[4], [3]])
            ),
        ),
        lambda seed: (rand(2, 4, 4, seed=seed),),
    ),
    "BallSparseAttention": (
        lambda: gt.BallSparseAttention(
            4, 2, ball_size=2, compress_size=2, num_selected_balls=1, position_dim=2
        ),
        lambda seed: (rand(7, 4, seed=seed), points(seed, 7)),
    ),
    "BallSparseAttention, clouds": (
        lambda: Plain(
            gt.BallSparseAttention(
                4, 2, ball_size=2, compress_size=2, num_selected_balls=1, distance_bias=True
            ),
            lambda layer, x, p: layer(x, p, cu_seqlens=[0, 3, 7]),
        ),
        lambda seed: (rand(7, 4, seed=seed), points(seed, 7)),
    ),
    "SliceAttention": (
        lambda: gt.SliceAttention(4, 2, 3, 5), lambda seed: (rand(2, 7, 4, seed=seed),)
    ),
    "SliceAttention, plus": (
        lambda: gt.SliceAttention(4, 2, 3, 5, plus=True), lambda seed: (rand(7, 4, seed=seed),)
    ),
    "SliceAttention, cu_seqlens": (
        lambda: Plain(
            gt.SliceAttention(4, 2, 3, 5), lambda layer, x: layer(x, torch.tensor([0, 3, 3, 7]))
        ),
        lambda seed: (rand(7, 4, seed=seed),),
    ),
    "TransolverBlock": (
        lambda: gt.TransolverBlock(2, 4, last_layer=True, out_dim=2, slice_num=3),
        lambda seed: (rand(2, 7, 4, seed=seed),),
    ),
    "FLARE": (
        lambda: gt.FLARE(4, 2, 3, n_global_queries=5), lambda seed: (rand(2, 7, 4, seed=seed),)
    ),
    "GALE": (
        lambda: gt.GALE(4, 2, 3, 5, context_dim=3),
        lambda seed: (rand(2, 7, 4, seed=seed), rand(2, 2, 4, 3, seed=seed + 1)),
    ),
    "GALE_FA": (
        lambda: gt.GALE_FA(4, 2, 3, n_global_queries=5, context_dim=3),
        lambda seed: (rand(2, 7, 4, seed=seed), rand(2, 2, 4, 3, seed=seed + 1)),
    ),
    **{
        f"PointAttention, {name}": (
            lambda settings=settings: Plain(
                gt.PointAttention(4, 2, 2, coord_dim=2, **settings),
                lambda layer, x, p: layer(x, p, cu_seqlens=[0, 3, 7]),
            ),
            lambda seed: (rand(7, 4, seed=seed), points(seed, 7)),
        )
        for name, settings in {
            "balls": dict(pooled=False, distance_bias=True),
            "pooled": dict(norm=True, offsets=False),
            "selected": dict(selected=1),
            "tree": dict(selected=1, keep=1, pooled=False),
            "all": dict(head_dim=4, selected=1, keep=1, distance_bias=True, rotary=True),
            "BSA": dict(
                selected=1, selected_size=1, distance_bias=True, compression="mlp",
                query_compression="mlp", coarse_queries=True, shared_kv=True,
            ),
        }.items()
    },
    "RotaryPoints": (
        lambda: gt.RotaryPoints(4, 2), lambda seed: (rand(7, 2, 4, seed=seed), points(seed, 7))
    ),
    "scaled_dot_product_attention": (
        lambda: Plain(
            torch.nn.Linear(3, 3),
            lambda layer, q, k, mask: gt.scaled_dot_product_attention(q, layer(k), k, mask),
        ),
        lambda seed: (
            rand(2, 2, 4, 3, seed=seed), rand(2, 2, 5, 3, seed=seed + 1),
            rand(1, 5, seed=seed + 2),
        ),
    ),
    "scaled_dot_product_attention, causal": (
        lambda: Plain(
            torch.nn.Linear(3, 3),
            lambda layer, q, k: gt.scaled_dot_product_attention(
                q, layer(k), k, is_causal=True, enable_gqa=True
            ),
        ),
        lambda seed: (rand(2, 2, 4, 3, seed=seed), rand(2, 1, 5, 3, seed=seed + 1)),
    ),
    "MAGNOEncoder, pointnet": (
        lambda: gt.MAGNOEncoder(2, 4, gt.MAGNOConfig(
            radius=0.6, hidden_size=4, scales=[1.0, 1.5], lifting_channels=4,
            use_scale_weights=True, embedding_method="pointnet", attention_type="dot_product",
        )),
        lambda seed: (points(seed), rand(1, N, 2, seed=seed + 1), points(seed + 2, 4)),
    ),
    "MAGNODecoder": (
        lambda: gt.MAGNODecoder(4, 2, gt.MAGNOConfig(radius=0.6, hidden_size=4)),
        lambda seed: (points(seed), rand(2, N, 4, seed=seed + 1), points(seed + 2, 4)),
    ),
    "moments": (
        lambda: Plain(torch.nn.Linear(2, 2), lambda layer, y, x: torch.cat(
                [t.flatten() for t in gt.neighborhood_moments(
                    layer(y), gt.Graph.knn(y, 4, x), x
                )[:3]]
            )),
        lambda seed: (points(seed), points(seed + 1, 4)),
    ),
}  # fmt: skip


def made(name):
    """A layer with always the same parameters."""
    torch.manual_seed(0)
    return LAYERS[name][0]().double().eval()


def inputs_of(name, seed=0):
    return LAYERS[name][1](seed)


def loss_of(out):
    return out.sin().sum()


def plain_gradient(layer, inputs, order=1):
    """The loss' gradient by the first input, and its derivative along that input's cosine."""
    x = inputs[0].clone().requires_grad_()
    first = torch.autograd.grad(loss_of(layer(x, *inputs[1:])), x, create_graph=True)[0]
    second = torch.autograd.grad((first * x.detach().cos()).sum(), x)[0]
    return first.detach(), second


# ---- derivatives of layers ----


@pytest.mark.parametrize("name", LAYERS)
def test_derivatives_of_layers(name):
    layer = made(name)

    def loss(x, *rest):
        return loss_of(layer(x, *rest))

    first, second = plain_gradient(made(name), inputs_of(name))
    direction = inputs_of(name)[0].cos()
    for transform in (grad, jacrev, jacfwd):
        close(transform(loss)(*inputs_of(name)), first)
    x, *rest = inputs_of(name)
    pull = vjp(lambda x: loss(x, *rest), x)[1]
    close(pull(torch.tensor(2.0, dtype=x.dtype))[0], 2 * first)
    x, *rest = inputs_of(name)
    close(jvp(lambda x: loss(x, *rest), (x,), (direction,))[1], (first * direction).sum())
    x, *rest = inputs_of(name)
    along = jvp(lambda x: grad(loss)(x, *rest), (x,), (direction,))[1]
    close(along, second)
    x, *rest = inputs_of(name)
    twice = grad(lambda x: (grad(loss)(x, *rest) * direction).sum())(x)
    close(twice, second)


@pytest.mark.parametrize("name", LAYERS)
def test_derivatives_by_parameters(name):
    layer, again = made(name), made(name)
    parameters = dict(layer.named_parameters())
    got = grad(lambda p: loss_of(functional_call(layer, p, inputs_of(name))))(parameters)
    loss = loss_of(again(*inputs_of(name)))
    wanted = list(again.parameters())
    expected = torch.autograd.grad(loss, wanted, allow_unused=True) if wanted else []
    for (label, a), b in zip(got.items(), expected, strict=True):
        close(a, torch.zeros_like(a) if b is None else b, 1e-8)
        assert label


# ---- layers under vmap ----


def stacked(inputs, dims=None):
    """Inputs of several items as one of each."""
    return torch.utils._pytree.tree_map(lambda *leaves: torch.stack(leaves), *inputs)


@pytest.mark.parametrize("name", LAYERS)
def test_batches_of_graphs(name):
    """Everything has a batch axis: features, edges or points, and the parameters."""
    layer = made(name)
    items = [inputs_of(name, seed) for seed in range(ITEMS)]
    expected = [made(name)(*inputs_of(name, seed)) for seed in range(ITEMS)]
    close(vmap(layer)(*stacked(items)), torch.stack(expected))

    def gradient(x, *rest):
        return grad(lambda x: loss_of(layer(x, *rest)))(x)

    items = [inputs_of(name, seed) for seed in range(ITEMS)]
    expected = [plain_gradient(made(name), inputs_of(name, seed))[0] for seed in range(ITEMS)]
    close(vmap(gradient)(*stacked(items)), torch.stack(expected))


@pytest.mark.parametrize("name", ["GATConv", "SAGEConv", "MeshGraphNet", "GNOBlock"])
def test_batches_of_parameters_and_graphs(name):
    layers = []
    for seed in range(ITEMS):
        torch.manual_seed(seed)
        layers.append(LAYERS[name][0]().double())
    parameters, buffers = stack_module_state(layers)
    items = [inputs_of(name, seed) for seed in range(ITEMS)]
    got = vmap(lambda p, b, inputs: functional_call(layers[0], (p, b), inputs))(
        parameters, buffers, stacked(items)
    )
    expected = [layer(*inputs_of(name, seed)) for seed, layer in enumerate(layers)]
    close(got, torch.stack(expected))


def test_nested_batches_along_other_axes():
    layer = gt.GATConv(3, 2).double()
    x, e = rand(N, 2, 3, 3), torch.stack([edges(k) for k in range(3)], dim=2)
    inner = vmap(layer, in_dims=(1, 2), out_dims=2)  # (N, 3, 3) and (2, M, 3)
    got = vmap(inner, in_dims=(1, None), out_dims=1)(x, e)
    expected = [
        torch.stack([layer(x[:, a, b], e[..., b].clone()) for b in range(3)], dim=2)
        for a in range(2)
    ]
    close(got, torch.stack(expected, dim=1))
    both = torch.stack([torch.stack([edges(3 * a + b) for b in range(3)]) for a in range(2)])
    got = vmap(vmap(layer))(x.permute(1, 2, 0, 3), both)
    expected = [
        torch.stack([layer(x[:, a, b], both[a, b].clone()) for b in range(3)]) for a in range(2)
    ]
    close(got, torch.stack(expected))


@pytest.mark.parametrize("name", OPERATORS)
def test_batches_of_nothing(name):
    """Results of no items have the shapes and types of those of an item."""
    given, static = calls.call_of(name, calls.graph())
    static = {k: torch.as_tensor(v) if isinstance(v, np.ndarray) else v for k, v in static.items()}
    inputs = [torch.as_tensor(x) for x in given]
    operator = getattr(gt.functional, name)

    def function(*inputs):
        outputs = operator(*inputs, **static)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    none = [x.new_empty((0, *x.shape)) for x in inputs]
    for got, item in zip(vmap(function)(*none), function(*inputs), strict=True):
        assert got.shape == (0, *item.shape)
        assert (got.dtype, got.device) == (item.dtype, item.device)
    gradients = vmap(grad(lambda *x: function(*x)[0].sum()))(*none)
    assert gradients.shape == none[0].shape


def test_nested_batches_of_nothing():
    layer, edge_index = gt.GATConv(3, 2).double(), edges()
    for sizes in ((2, 0), (0, 2)):
        x = rand(*sizes, N, 3)
        assert vmap(vmap(lambda x: layer(x, edge_index)))(x).shape == (*sizes, N, 2)


@pytest.mark.parametrize("name", ["GATConv", "GCNConv, weights", "GNO", "GNOBlock"])
def test_jacobians_of_a_batch(name):
    """Jacobians and Hessians of a batch of different graphs equal those of its items."""
    layer = made(name)
    for transform in (jacrev, jacfwd):
        got = vmap(transform(layer))(*stacked([inputs_of(name, k) for k in range(ITEMS)]))
        for k in range(ITEMS):
            x, *rest = inputs_of(name, k)
            close(got[k], torch.autograd.functional.jacobian(lambda x: layer(x, *rest), x))  # noqa: B023
    second = vmap(hessian(lambda *inputs: loss_of(layer(*inputs))))(
        *stacked([inputs_of(name, k) for k in range(ITEMS)])
    )
    x, *rest = inputs_of(name, 1)
    plain = torch.autograd.functional.hessian(lambda x: loss_of(layer(x, *rest)), x)
    close(second[1], plain)
    x = inputs_of(name)[0]

    def outside(x):
        items = [(x, *inputs_of(name, k)[1:]) for k in range(2)]
        return loss_of(vmap(layer)(*stacked(items)))

    each = [plain_gradient(layer, (x, *inputs_of(name, k)[1:]))[0] for k in range(2)]
    close(grad(outside)(x), sum(each))


# ---- batches of torch.autograd ----


@pytest.mark.parametrize("name", LAYERS)
def test_vectorized_derivatives_of_layers(name):
    layer = made(name)
    functional = torch.autograd.functional
    x, *rest = inputs_of(name)

    def function(x):
        return layer(x, *rest)

    if name == "MeshGraphNet, checkpoints":
        pytest.skip("PyTorch has no checkpoints under its vmap")
    rows = functional.jacobian(function, x.clone())
    for strategy in ("reverse-mode", "forward-mode"):
        close(functional.jacobian(function, x.clone(), vectorize=True, strategy=strategy), rows)
    along = functional.vhp(lambda x: loss_of(function(x)), x, x.cos())[1]
    strategies = ["reverse-mode", "forward-mode"]
    if name in ("GeometricEmbedding", "MAGNOEncoder", "MAGNODecoder", "moments"):
        strategies.pop()  # x[:, columns] has no derivative of second order there
    for strategy in strategies:
        second = functional.hessian(
            lambda x: loss_of(function(x)), x, vectorize=True, outer_jacobian_strategy=strategy
        )
        close((second * x.cos()).flatten(x.dim()).sum(-1), along)


# ---- operators ----


def bind(name):
    """Inputs of an operator, and the operator on a graph that nobody has used."""
    arrays, static = calls.calls()[name]
    static = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in static.items()}
    if "graph" in getattr(gg, name).static:
        pairs = torch.tensor([calls.SRC[::-1], calls.DST[::-1]])
        static["graph"] = gt.Graph.from_edge_index(pairs, 5)
    inputs = tuple(torch.from_numpy(a) for a in arrays)

    def total(*inputs):
        results = getattr(gt, name)(*inputs, **static)
        results = results if isinstance(results, tuple) else (results,)
        return sum((k + 1) * y.sin().sum() for k, y in enumerate(results))

    return inputs, total


def cosines(inputs):
    return tuple(x.cos() for x in inputs)


@pytest.mark.parametrize("name", OPERATORS)
def test_derivatives_of_operators(name):
    inputs, total = bind(name)
    everything = tuple(range(len(inputs)))
    first = grad(total, everything)(*inputs)
    inputs, total = bind(name)
    value, along = jvp(total, inputs, cosines(inputs))
    inputs, total = bind(name)
    forward = jvp(grad(total, everything), inputs, cosines(inputs))[1]
    inputs, total = bind(name)
    reverse = grad(
        lambda *inputs: jvp(total, inputs, tuple(map(torch.cos, bind(name)[0])))[1], everything
    )(*inputs)
    inputs, total = bind(name)
    batch = tuple(torch.stack([x, x.cos()]) for x in inputs)
    rows = vmap(grad(total, everything))(*batch)

    inputs, total = bind(name)
    leaves = [x.requires_grad_() for x in inputs]
    plain = torch.autograd.grad(total(*leaves), leaves, create_graph=True)
    product = sum((g * x.detach().cos()).sum() for g, x in zip(plain, leaves, strict=True))
    close(value, total(*leaves).detach())
    close(along, product.detach())
    second = torch.autograd.grad(product, leaves, allow_unused=True)
    for k, (a, b) in enumerate(zip(plain, second, strict=True)):
        close(first[k], a.detach())
        close(rows[k][0], a.detach())
        close(forward[k], torch.zeros_like(a) if b is None else b)
        close(reverse[k], torch.zeros_like(a) if b is None else b)


@pytest.mark.parametrize("name", OPERATORS)
def test_batches_of_derivatives_of_operators(name):
    """Batched derivatives equal single ones, to second order, in reverse and in forward mode."""
    inputs, total = bind(name)
    leaves = [x.requires_grad_() for x in inputs]
    first = torch.autograd.grad(total(*leaves), leaves, create_graph=True)
    cotangents = [torch.stack([x.cos(), x.sin(), x]) for x in map(torch.Tensor.detach, leaves)]
    options = dict(retain_graph=True, allow_unused=True)
    got = torch.autograd.grad(first, leaves, cotangents, is_grads_batched=True, **options)
    for k in range(3):
        each = torch.autograd.grad(first, leaves, [c[k] for c in cotangents], **options)
        for a, b in zip(got, each, strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                close(a[k], b)
    inputs, total = bind(name)
    assert torch.autograd.gradcheck(
        lambda *x: total(*x)[None], [x.requires_grad_() for x in inputs], check_forward_ad=True,
        check_batched_grad=True, check_batched_forward_grad=True,
        fast_mode=True,
    )  # fmt: skip


# ---- graphs made and mapped ----


def union(p):
    return gt.Graph.union(gt.Graph.radius(p, 0.3), gt.Graph.radius(p, 0.5))


EDGES = edges()
PAIRS = EDGES.numpy()
CONSTRUCTORS = {
    "radius": lambda p: gt.Graph.radius(p, 0.5),
    "radius, all options": lambda p: gt.Graph.radius(
        p, 0.5, include_self=False, period=1.0, max_neighbors=2
    ),
    "radius, items": lambda p: gt.Graph.radius(p, 0.5, batch=torch.tensor([0, 0, 0, 1, 1, 1])),
    "radii": lambda p: gt.Graph.radius(p, [0.3, 0.6])[1],
    "knn": lambda p: gt.Graph.knn(p, 3),
    "knn, items": lambda p: gt.Graph.knn(p, 2, batch=torch.tensor([0, 0, 0, 1, 1, 1])),
    "from_edge_index": lambda p: gt.Graph.from_edge_index(EDGES.clone(), N),
    "graph_from_edge_index": lambda p: gt.graph_from_edge_index(EDGES.clone(), N, N),
    "from_csc": lambda p: gt.Graph.from_csc(
        torch.arange(N + 1) * 2, torch.arange(2 * N).flip(0) % N
    ),
    "reverse": lambda p: gt.Graph.from_edge_index(EDGES.clone(), N).reverse(),
    "with_self_loops": lambda p: gt.Graph.knn(p, 3).with_self_loops(),
    "pad": lambda p: gt.Graph.knn(p, 3).pad(30),
    "of": lambda p: gt.Graph.of(gg.Graph.from_edges(*PAIRS, N, N)),
    "batch": lambda p: gt.Graph.batch([gt.Graph.knn(p, 3)] * 2).unbatch()[1],
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_graphs_made_inside(name):
    """Graphs of points inside a function can be differentiated and batched."""

    def loss(p):
        graph = CONSTRUCTORS[name](p)
        repr(graph)
        offset = p[graph.src] - p[graph.dst]
        return gt.agg_simple(p, offset, graph=graph).sin().sum()

    expected = torch.autograd.functional.hessian(loss, points(0))
    close(hessian(loss)(points(0)), expected)
    close(jacrev(jacfwd(loss))(points(0)), expected)
    if name == "batch":  # looks at numbers
        return
    batch = torch.stack([points(k) for k in range(ITEMS)])
    got = vmap(grad(loss))(batch)
    for k in range(ITEMS):
        close(got[k], torch.autograd.functional.jacobian(loss, points(k)))


def test_unions_inside_and_what_cannot_be_mapped():
    def loss(p):
        return gt.agg_simple(p, graph=union(p)).sin().sum()

    close(grad(loss)(points(0)), torch.autograd.functional.jacobian(loss, points(0)))
    batch = torch.stack([points(k) for k in range(5)])
    with pytest.raises(ValueError, match=r"first_edges: under .* items give results"):
        vmap(loss)(batch)


@pytest.mark.parametrize("kind", ["edges", "near", "room"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_stacked_graphs(kind, dim):
    """Graphs stack as pytrees; those with edges in the order of destinations lack two arrays."""
    make = {
        "edges": lambda k: gt.Graph.from_edge_index(edges(k), N),
        "near": lambda k: gt.Graph.knn(points(k), 3),
        "room": lambda k: gt.Graph.radius(points(k), 0.5).pad(40),
    }[kind]
    tree_map = torch.utils._pytree.tree_map
    graphs = tree_map(lambda *a: torch.stack(a, dim), *[make(k) for k in range(ITEMS)])
    x = torch.stack([points(k + 5) for k in range(ITEMS)], dim)

    def loss(x, graph):
        return gt.agg_simple(x, graph=graph, aggregation="mean").sin().sum()

    got = vmap(grad(loss), in_dims=dim)(x, graphs)
    for k in range(ITEMS):
        item = points(k + 5)
        plain = torch.autograd.functional.jacobian(lambda x: loss(x, make(k)), item)  # noqa: B023
        close(got[k], plain)


def test_a_graph_that_leaves_a_transform():
    """A graph that leaves a transform works as any other."""
    made = []

    def loss(p):
        made.append(gt.Graph.radius(p, 0.5))
        return gt.agg_simple(p, graph=made[0]).sum()

    grad(loss)(points(0))
    x, graph = rand(N, 2), gt.Graph.radius(points(0), 0.5)
    assert torch.equal(gt.agg_simple(x, graph=made[0]), gt.agg_simple(x, graph=graph))


# ---- other ways to call ----


def test_fake_tensors():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x, e = torch.randn(N, 3), torch.randint(N, (2, M))
        for layer in (gt.GATConv(3, 2), gt.GCNConv(3, 2), gt.SAGEConv(3, 2), gt.GATv2Conv(3, 2)):
            out = layer(x.requires_grad_(), e)
            assert out.shape == (N, 2)
            assert torch.autograd.grad(out.sum(), x)[0].shape == x.shape
        graph = gt.Graph.from_edge_index(e, N)
        assert gt.agg_simple(x, graph=graph).shape == x.shape
    e = edges()
    layer = gt.GATConv(3, 2)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert layer(mode.from_tensor(torch.randn(N, 3)), e).shape == (N, 2)
    assert torch.equal(layer(torch.ones(N, 3), e), layer(torch.ones(N, 3), edges()))


@pytest.mark.parametrize("name", ["GATConv", "GNOBlock", "DimeNetPlusPlus", "MeshGraphNet"])
def test_checkpoints_and_forward_mode(name):
    from torch.autograd import forward_ad
    from torch.utils.checkpoint import checkpoint

    layer = made(name)
    x, *rest = inputs_of(name)
    x.requires_grad_()
    out = checkpoint(layer, x, *rest, use_reentrant=False)
    first, _ = plain_gradient(made(name), inputs_of(name))
    close(torch.autograd.grad(loss_of(out), x)[0], first)
    x, *rest = inputs_of(name)
    with forward_ad.dual_level():
        out = layer(forward_ad.make_dual(x, x.cos()), *rest)
        along = forward_ad.unpack_dual(loss_of(out)).tangent
    close(along, (first * x.cos()).sum())


COMPILED = {
    "jvp": lambda f, x: jvp(f, (x,), (x.cos(),))[1],
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "jacrev": lambda f, x: jacrev(lambda x: f(x)[..., :1])(x),  # each row is compiled
    "grad": lambda f, x: grad(lambda x: loss_of(f(x)))(x),
    "forward over reverse": lambda f, x: jvp(grad(lambda x: loss_of(f(x))), (x,), (x.cos(),))[1],
}


def dual(function, x):
    with torch.autograd.forward_ad.dual_level():
        out = function(torch.autograd.forward_ad.make_dual(x, x.cos()))
        return torch.autograd.forward_ad.unpack_dual(out).tangent


@pytest.mark.parametrize("name", ["GATConv", "SliceAttention"])
@pytest.mark.parametrize("transform", COMPILED)
def test_transforms_and_compilers(transform, name):
    """Both ways round; the compiled function is used without a transform, too."""
    transform = COMPILED[transform]
    x, *rest = inputs_of(name)
    if name == "SliceAttention":
        x = x[:, :2].contiguous()  # each row of a Jacobian is compiled
    layer, again = made(name), made(name)
    inside = torch.compile(lambda x: transform(lambda x: layer(x, *rest), x), backend="aot_eager")
    got = inside(x)  # first: what is made of edges is made here
    expected = transform(lambda x: again(x, *rest), x)
    close(got, expected)
    outside = torch.compile(lambda x: layer(x, *rest), backend="aot_eager")
    close(outside(x), made(name)(x, *rest))
    close(transform(outside, x), expected)
    close(outside(x), made(name)(x, *rest))


@pytest.mark.parametrize("name", ["GATConv", "SliceAttention"])
def test_dual_numbers_and_compilers(name):
    """AOTAutograd has none: what it compiled is an error there, never a tangent that is 0."""
    layer, (x, *rest) = made(name), inputs_of(name)
    expected = dual(lambda x: made(name)(x, *rest), x)
    inside = torch.compile(lambda x: dual(lambda x: layer(x, *rest), x), backend="eager")
    close(inside(x), expected)
    outside = torch.compile(lambda x: layer(x, *rest), backend="aot_eager")
    for _ in range(2):
        with pytest.raises(NotImplementedError, match="forward mode"):
            dual(outside, x)
        close(outside(x), made(name)(x, *rest))


def test_vmap_does_not_break_compiled_graphs():
    layer, x = made("GATConv"), rand(ITEMS, N, 3)
    compiled = torch.compile(
        lambda x, edges: vmap(layer, (0, None))(x, edges), backend="aot_eager", fullgraph=True
    )
    close(compiled(x, edges()), torch.stack([made("GATConv")(each, edges()) for each in x]))


@pytest.mark.parametrize("transform", ["jvp", "jacfwd", "dual"])
def test_exported_programs_refuse_forward_mode(transform):
    program = torch.export.export(made("SliceAttention"), inputs_of("SliceAttention")).module()
    x = inputs_of("SliceAttention")[0]
    with pytest.raises(NotImplementedError, match="no forward mode of exported or compiled"):
        {**COMPILED, "dual": dual}[transform](program, x)
    close(program(x), made("SliceAttention")(x))


def test_large_kernel_networks(monkeypatch):
    """Networks that PyTorch evaluates in parts, keeping nothing, are right under torch.func."""
    monkeypatch.setattr(gt.neuralop, "_EDGE_NUMBERS", 64)
    name = "GNOBlock, a network of PyTorch"
    layer = made(name)
    inputs = inputs_of(name)
    got = grad(lambda y: loss_of(layer(y, *inputs[1:])))(inputs[0])
    close(got, plain_gradient(made(name), inputs_of(name))[0])


def test_first_use_in_a_process():
    code = """
import torch, gnograd.torch as gt
layer, x = gt.GATConv(3, 2).double(), torch.rand(5, 3).double()
e = torch.tensor([[0, 1, 2, 3, 4, 4], [1, 2, 3, 4, 0, 2]])
loss = lambda x: layer(x, e).sin().sum()
got = torch.func.hessian(loss)(x)
torch.testing.assert_close(got, torch.autograd.functional.hessian(loss, x))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
