# SPDX-License-Identifier: MIT
"""GAOT's layers on the operators of gnograd, against formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import gnograd as gg
from conftest import few
from memory import needs_linux, temporary_bytes
from reference import gaot as reference

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
F = torch.nn.functional

N, M, CHANNELS = 14, 6, 3
HIDDEN = {"one hidden": [8], "three hidden": [6, 5, 6], "wider than hidden": [3]}
ATTENTION = [None, "cosine", "dot_product"]


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def points(d=2, n=N, m=M, seed=0):
    """Points and queries, the last of which has no neighbours."""
    generator = torch.Generator().manual_seed(seed)
    y, x = (torch.rand(k, d, dtype=torch.float64, generator=generator) for k in (n, m))
    x[-1] = 9
    return y, x


def array(x):
    return None if x is None else x.detach().numpy()


def numpy_of(module):
    return lambda x: array(module(torch.from_numpy(x)))


def ends(graph):
    return graph.src.numpy(), graph.dst.numpy()


def make(hidden, attention, transform_type="linear", d=2):
    torch.manual_seed(1)
    enters = CHANNELS if transform_type.startswith("nonlinear") else 0
    layers = [2 * d + enters, *hidden, CHANNELS]
    return gt.AGNO(
        channel_mlp_layers=layers, channel_mlp_non_linearity=F.gelu, transform_type=transform_type,
        use_attn=attention is not None, attention_type=attention or "cosine", coord_dim=d,
    ).double()  # fmt: skip


def expected(layer, y, x, graph, f=None, weights=None):
    attention = layer.attention_type if layer.use_attn else None
    projections = None
    if attention == "dot_product":
        pairs = layer.query_proj, layer.key_proj
        projections = [(array(p.weight), array(p.bias)) for p in pairs]
    return torch.from_numpy(
        reference.agno(
            numpy_of(layer.channel_mlp), array(y), array(x), *ends(graph), array(f), attention,
            projections, array(weights), layer.transform_type,
        )
    )  # fmt: skip


# ---- AGNO: forward ----


@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("transform_type", ["linear", "nonlinear_kernelonly", "nonlinear"])
@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_formula(hidden, transform_type, attention, weighted):
    y, x = points()
    graph = gt.Graph.radius(y, 0.5, x)
    layer = make(hidden, attention, transform_type)
    batch, weights = normal(3, N, CHANNELS), normal(N, seed=1).abs() if weighted else None
    want = torch.stack([expected(layer, y, x, graph, f, weights) for f in batch])
    torch.testing.assert_close(layer(y, graph, x, batch, weights), want)
    torch.testing.assert_close(layer(y, graph, x, batch[0], weights), want[0])


@pytest.mark.parametrize("attention", ATTENTION)
def test_without_a_function(attention):
    y, _ = points()
    layer = make([8], attention)
    graph = gt.Graph.radius(y, 0.4)
    torch.testing.assert_close(layer(y, graph), expected(layer, y, y, graph))


@pytest.mark.parametrize("d", [1, 3, 70])
def test_scores_of_any_number_of_coordinates(d):
    """Scores are right for projections that are wider or narrower than the coordinates."""
    y, x = points(d)
    graph = gt.Graph.from_edge_index(torch.tensor([[0, 3, 1, 4, 2], [0, 0, 1, 1, 1]]), N, M)
    graph = gt.Graph.from_csc(graph.offsets, graph.indices, N)
    layer, f = make([8], "dot_product", d=d), normal(N, CHANNELS)
    torch.testing.assert_close(layer(y, graph, x, f), expected(layer, y, x, graph, f))


def test_weights_of_edges_multiply(rng):
    y, x = points()
    found = gt.neighbor_search(y, x, 0.5)
    layer, f = make([8], "cosine"), normal(N, CHANNELS)
    ones = torch.ones(len(found["neighbors_index"]), dtype=torch.float64)
    torch.testing.assert_close(layer(y, found | {"weights": 3 * ones}, x, f),
                               3 * layer(y, found, x, f))  # fmt: skip


def test_padded_graph():
    y, x = points()
    graph, layer, f = gt.Graph.radius(y, 0.5, x), make([6, 5], "dot_product"), normal(N, CHANNELS)
    padded = graph.pad(graph.n_edges + 9)
    torch.testing.assert_close(layer(y, padded, x, f), layer(y, graph, x, f))


# ---- AGNO: derivatives ----


def function_of(layer, graph):
    names = [name for name, _ in layer.named_parameters()]

    def apply(y, x, f, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, given, (y, graph, x, f))

    return apply


def leaves_of(layer, *tensors):
    every = [*tensors, *layer.parameters()]
    return [t.detach().clone().requires_grad_() for t in every]


@pytest.mark.parametrize("attention", ATTENTION[1:])
@pytest.mark.parametrize("hidden", [[8], [5, 6]], ids=str)
def test_gradients_to_second_order(attention, hidden):
    y, x = points()
    graph = gt.Graph.radius(y, 0.4, x)
    layer = make(hidden, attention)
    f, inputs = function_of(layer, graph), leaves_of(layer, y, x, normal(2, N, CHANNELS))
    assert torch.autograd.gradcheck(f, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(f, inputs, fast_mode=True)


def test_second_order_is_that_of_the_plain_formula():
    y, x = points()
    graph = gt.Graph.radius(y, 0.5, x)
    layer = make([6, 5, 6], "dot_product")
    leaves = leaves_of(layer, y, x, normal(N, CHANNELS))
    names = [name for name, _ in layer.named_parameters()]
    src, dst = graph.src, graph.dst

    def plain(y, x, f, *parameters):
        p = dict(zip(names, parameters, strict=True))
        q = x[dst] @ p["query_proj.weight"].t() + p["query_proj.bias"]
        k = y[src] @ p["key_proj.weight"].t() + p["key_proj.bias"]
        share = ((q * k).sum(1) / 8).exp()
        total = share.new_zeros(M).index_add(0, dst, share)
        mlp = {name[12:]: v for name, v in p.items() if name.startswith("channel_mlp.")}
        kernel = torch.func.functional_call(layer.channel_mlp, mlp, torch.cat([y[src], x[dst]], 1))
        term = (share / total[dst])[:, None] * kernel * f[src]
        return term.new_zeros(M, CHANNELS).index_add(0, dst, term)

    results = []
    for value in (function_of(layer, graph), plain):
        out = value(*leaves)
        first = torch.autograd.grad(out.tanh().sum(), leaves, create_graph=True)
        loss = sum(g.square().sum() for g in first)
        results.append([out, *first, *torch.autograd.grad(loss, leaves)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


# ---- AGNO: compiled, autocast ----


@pytest.mark.parametrize("attention", ATTENTION[1:])
@pytest.mark.parametrize("hidden", few([[8], [5, 6]], "[8]"), ids=str)
def test_compiles_whole(attention, hidden):
    y, x = points()
    graph, f = gt.Graph.radius(y, 0.5, x), normal(2, N, CHANNELS).requires_grad_()
    layer = make(hidden, attention)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    results = []
    for module in (layer, compiled):
        out = module(y, graph, x, f)
        leaves = [f, *layer.parameters()]
        results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_backward_outside_of_autocast():
    y, x = (p.float() for p in points())
    graph, f = gt.Graph.radius(y, 0.5, x), normal(2, N, CHANNELS).float()
    layer = make([8, 8], "dot_product").float()
    exact = layer(y, graph, x, f)
    gradients = torch.autograd.grad(exact.square().sum(), list(layer.parameters()))
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(y, graph, x, f)
        loss = out.float().square().sum()
    torch.testing.assert_close(out.float(), exact, rtol=0.05, atol=0.05 * exact.abs().max().item())
    rounded = torch.autograd.grad(loss, list(layer.parameters()))
    largest = max(g.abs().max().item() for g in gradients)
    for ours, theirs in zip(rounded, gradients, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=0.1, atol=0.05 * largest)


# ---- AGNO: degenerate, errors, memory ----


@pytest.mark.parametrize("attention", ATTENTION)
def test_no_edges_no_points(attention):
    layer = make([8], attention)
    for n, m in ((0, 0), (0, 3), (4, 0), (4, 3)):
        y, x, f = normal(n, 2), 9 + normal(m, 2), normal(2, n, CHANNELS).requires_grad_()
        out = layer(y, gt.neighbor_search(y, x, 0.1), x, f)
        assert torch.equal(out, torch.zeros(2, m, CHANNELS, dtype=torch.float64))
        parameters = list(layer.parameters())
        gradients = torch.autograd.grad(out.sum(), [f, *parameters], allow_unused=True)
        assert all(g is None or not g.any() for g in gradients)


def test_errors():
    with pytest.raises(ValueError, match="AGNO: needs coord_dim with use_attn"):
        gt.AGNO(channel_mlp_layers=[4, 8, 3], use_attn=True)
    with pytest.raises(ValueError, match="AGNO: attention_type is 'linear', needs one of 'cosine'"):
        gt.AGNO(channel_mlp_layers=[4, 8, 3], use_attn=True, coord_dim=2, attention_type="linear")
    y, x = points()
    layer = make([8], "cosine")
    layer.coord_dim = 3
    with pytest.raises(ValueError, match="AGNO: y and x have 2 and 2 coordinates, need coord_dim"):
        layer(y, gt.Graph.radius(y, 0.5, x), x)


def _training_step(attention):
    torch.set_num_threads(1)
    gg.set_num_threads(1)
    side, reach = 64, 4
    axis = torch.linspace(0.1, 1, side)
    x = torch.cartesian_prod(axis, axis)
    graph = gt.Graph.radius(x, 0.9 * (reach + 1e-3) / (side - 1))
    layer = make([64, 64, 64], attention).float()
    f = torch.rand(len(x), CHANNELS, requires_grad=True)
    leaves = [f, *layer.parameters()]

    def work():
        return [g.numpy() for g in torch.autograd.grad(layer(x, graph, x, f).sum(), leaves)]

    work()
    return work


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize("attention", ATTENTION[1:])
def test_memory_of_edges(attention):
    """Memory of an edge is some numbers and indices, not the 384 numbers of its hidden layers."""
    n_edges = 64**2 * 49
    slab = 4 * 256 * 256 * (64 + CHANNELS) + 16 * 256 * 256
    sums = 64 * 8 * (4 * 64 + 2 * 64 * 64 + 64 * 3 + 200)
    assert temporary_bytes(_training_step, attention) < 4 * 24 * n_edges + slab + sums + 2**23


# ---- moments, embeddings ----


def test_neighborhood_moments_as_tensors(any_graph, rng):
    edges = any_graph
    x, y = (torch.from_numpy(rng.normal(size=(n, 2))) for n in (edges.n_src, edges.n_dst))
    ours = gt.neighborhood_moments(x, edges.graph, y)
    for a, b in zip(ours, gg.neighborhood_moments(array(x), edges.graph, array(y)), strict=True):
        np.testing.assert_allclose(array(a), b, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_moments_are_differentiable_to_second_order(d):
    """Derivatives equal differences, also for queries with one neighbour or none."""
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.rand(n, d, dtype=torch.float64, generator=generator) for n in (7, 4))
    src, dst = [0, 1, 2, 3, 4, 5, 6, 2, 3, 5], [0, 0, 0, 0, 1, 1, 1, 1, 1, 2]
    graph = gg.Graph.from_edges(src, dst, 7, 4)

    def apply(x, y):
        return gt.neighborhood_moments(x, graph, y)[1:]

    inputs = [x.requires_grad_(), y.requires_grad_()]
    assert torch.autograd.gradcheck(apply, inputs)
    assert torch.autograd.gradgradcheck(apply, inputs)


def test_moments_in_jax(rng):
    jax = pytest.importorskip("jax")
    gj = pytest.importorskip("gnograd.jax")
    edges = gg.Graph.from_edges([0, 1, 2, 3, 0], [0, 0, 0, 1, 1], 4, 3)
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    with jax.enable_x64(True):
        ours = gj.neighborhood_moments(jax.numpy.asarray(x), edges, jax.numpy.asarray(y))
        for a, b in zip(ours, gg.neighborhood_moments(x, edges, y), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)
        weights = rng.normal(size=(3, 2))

        def loss(x):
            return (gj.neighborhood_moments(x, edges, jax.numpy.asarray(y))[4] * weights).sum()

        gradient = jax.jit(jax.grad(loss))(jax.numpy.asarray(x))
    tensor = torch.from_numpy(x).requires_grad_()
    found = gt.neighborhood_moments(tensor, edges, torch.from_numpy(y)).eigenvalues
    (want,) = torch.autograd.grad((found * torch.from_numpy(weights)).sum(), tensor)
    np.testing.assert_allclose(gradient, array(want), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("d", [2, 3])
def test_statistical_embedding(d):
    y, x = points(d, 40, 12)
    graph = gt.Graph.radius(y, 0.45, x)
    torch.manual_seed(0)
    layer = gt.GeometricEmbedding(d, 5).double()
    features = torch.from_numpy(reference.statistics(array(y), array(x), *ends(graph)))
    torch.testing.assert_close(layer(y, x, graph), layer.mlp(features))


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_pointnet_embedding(pooling):
    y, x = points(2, 40, 12)
    graph = gt.Graph.radius(y, 0.45, x)
    torch.manual_seed(0)
    layer = gt.GeometricEmbedding(2, 5, "pointnet", pooling).double()
    network, last = numpy_of(layer.pointnet_mlp), numpy_of(layer.fc)
    want = reference.pointnet(network, last, array(y), array(x), *ends(graph), pooling)
    torch.testing.assert_close(layer(y, x, graph), torch.from_numpy(want))


def test_features_that_do_not_vary():
    """Embeddings of features that do not vary, as of one query, are finite with their gradients."""
    y, x = points()
    layer = gt.GeometricEmbedding(2, 5).double()
    y = y.requires_grad_()
    for queries in (x[:1], x[:1].expand(3, -1).contiguous(), x[:0]):
        out = layer(y, queries, gt.Graph.radius(y.detach(), 0.5, queries))
        (gradient,) = torch.autograd.grad(out.sum(), y)
        assert out.shape == (len(queries), 5)
        assert out.isfinite().all() and gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_moments_in_half_precision(dtype):
    x = torch.rand(30, 2, generator=torch.Generator().manual_seed(0)).to(dtype)
    graph = gt.Graph.knn(x.float(), 6)
    found = gt.neighborhood_moments(x, graph)
    for part, exact in zip(found[1:], gt.neighborhood_moments(x.double(), graph)[1:], strict=True):
        assert part.dtype is dtype
        torch.testing.assert_close(part.double(), exact, rtol=0.05, atol=0.01)
