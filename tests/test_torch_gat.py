# SPDX-License-Identifier: MIT
"""Layers of graph attention and `WeightedAggregation`: weights, dropout, errors."""

from __future__ import annotations

import pytest

import gnograd as gg
from calls import DST, SRC
from reference.attention import dropout_factors

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
from calls_of_torch import edge_index, tensors  # noqa: E402


@pytest.mark.parametrize("aggr", ["add", "mean", "min", "max"])
def test_weighted_aggregation(aggr):
    x, w = tensors((5, 3), (len(SRC),))
    w = w.detach().abs() + 0.1
    out = gt.WeightedAggregation(aggr)(x, edge_index(), w)
    messages = w[:, None] * x[SRC]
    for i in range(5):
        rows = [k for k, d in enumerate(DST) if d == i]
        expected = torch.zeros(3, dtype=torch.float64)
        if rows:
            m = messages[rows]
            expected = {
                "add": m.sum(0),
                "mean": m.sum(0) / w[rows].sum(),
                "min": m.amin(0),
                "max": m.amax(0),
            }[aggr]
        torch.testing.assert_close(out[i], expected)


LAYERS = ["GATConv", "GATv2Conv", "TransformerConv"]


def attention(name, **options):
    """A layer of two heads, with always the same parameters, in float64."""
    torch.manual_seed(4)
    return getattr(gt, name)(6, 4, heads=2, **options).double()


@pytest.mark.parametrize("name", LAYERS)
def test_attention_weights_of_a_graph(name):
    """They are in the order of the graph's edge arrays, and those of its edges."""
    layer = attention(name, edge_dim=3)
    x, e = tensors((5, 6), (len(SRC), 3))
    _, (edges, alpha) = layer(x, edge_index(), e, return_attention_weights=True)
    graph = gg.Graph.from_edges(SRC, DST, 5, 5)
    _, (of_graph, alpha_of_graph) = layer(x, graph, e, return_attention_weights=True)
    assert torch.equal(of_graph, edges)
    torch.testing.assert_close(alpha_of_graph, alpha)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("name", LAYERS)
def test_sparse_matrices_of_edges(name, layout):
    ours = attention(name)
    (x,) = tensors((5, 6))
    pairs = sorted(set(zip(DST, SRC, strict=True)))
    matrix = torch.sparse_coo_tensor(torch.tensor(pairs).T, torch.ones(len(pairs)), (5, 5))
    matrix = {"coo": matrix, "csr": matrix.to_sparse_csr(), "csc": matrix.to_sparse_csc()}[layout]
    edges = torch.tensor(pairs).T.flip(0)
    out, (weights, alpha) = ours(x, matrix, return_attention_weights=True)
    expected, (edges, expected_alpha) = ours(x, edges, return_attention_weights=True)
    assert torch.equal(out, expected)
    dense = torch.zeros(5, 5, 2, dtype=torch.float64)
    dense[edges[1], edges[0]] = expected_alpha
    assert torch.equal(weights.to_dense(), dense)
    assert weights.layout == matrix.layout
    assert torch.equal((weights.coalesce() if layout == "coo" else weights).values(), alpha)
    with pytest.raises(ValueError, match="needs a row for each of the 4 destinations"):
        ours(x[:4], matrix)


def trained(layer, x, edges, seed):
    """Result and gradients of a step with this seed."""
    torch.manual_seed(seed)
    layer.zero_grad()
    out = layer(x, edges)
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in layer.parameters())]


@pytest.mark.parametrize("name", LAYERS)
def test_training_with_dropout(name):
    """The seed of dropout comes from PyTorch's generator, in eager mode and when compiled."""
    layer = attention(name, dropout=0.5)
    (x,) = tensors((5, 6))
    graph = gt.with_self_loops(gt.graph_from_edge_index(edge_index(), 5, 5))[0]
    layer.train().add_self_loops = False
    assert (layer.dropout, layer.edge_dim) == (0.5, None)
    first, again, other = (trained(layer, x, graph, seed) for seed in (1, 1, 2))
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], other[0])

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for expected, seed in (first, 1), (other, 2):
        torch.manual_seed(seed)
        layer.zero_grad()
        out = compiled(x, graph)
        out.square().sum().backward()
        assert torch.equal(out, expected[0])
        for p, gradient in zip(layer.parameters(), expected[1:], strict=True):
            assert torch.equal(p.grad, gradient)
    assert torch.equal(layer.eval()(x, graph), layer(x, graph))


@pytest.mark.parametrize("name", LAYERS)
def test_mean_of_training_with_dropout_is_the_prediction(name):
    layer = attention(name, dropout=0.3)
    (x,) = tensors((5, 6))
    torch.manual_seed(0)
    with torch.no_grad():
        sample = torch.stack([layer.train()(x, edge_index()) for _ in range(500)])
        error = (sample.mean(0) - layer.eval()(x, edge_index())).abs()
    assert (error <= 5 * sample.std(0) / 500**0.5 + 1e-12).all()


@pytest.mark.parametrize("name", LAYERS)
def test_attention_weights_in_training_with_dropout(name):
    """Weights are those of PyG: after dropout in GATConv and GATv2Conv, else before it."""
    layer = attention(name, dropout=0.4, bias=False)
    (x,) = tensors((5, 6))
    if name == "TransformerConv":
        layer.root_weight = False
    _, (_, alpha) = layer.eval()(x, edge_index(), return_attention_weights=True)
    torch.manual_seed(3)
    out, (edges, dropped) = layer.train()(x, edge_index(), return_attention_weights=True)
    torch.manual_seed(3)
    seed = layer.draw(x)["seed"]
    looped = name != "TransformerConv"
    shape = len(SRC) + 5 * looped, 2  # rows of edge arrays, former self-loops among them
    factors = gt.dropout_factors(seed, *shape, 0.4)
    assert torch.equal(factors, torch.from_numpy(dropout_factors(*shape, 0.4, seed.numpy())))
    if looped:
        src, dst = edge_index()
        factors = factors[torch.cat([src != dst, torch.ones(5, dtype=torch.bool)])]
    weights = dropped if name != "TransformerConv" else factors * dropped
    torch.testing.assert_close(weights, factors * alpha)
    project = {"GATConv": "lin", "GATv2Conv": "lin_l", "TransformerConv": "lin_value"}[name]
    values = getattr(layer, project)(x).view(5, 2, 4)[edges[0]]
    expected = torch.zeros(5, 2, 4, dtype=torch.float64)
    expected = expected.index_add(0, edges[1], weights[..., None] * values).flatten(1)
    torch.testing.assert_close(out, expected)


def test_dropout_factors_are_those_of_the_kernels():
    for p in (0.0, 0.01, 0.5, 1.0):
        for seed in (0, -1, 2**63 - 1):
            expected = torch.from_numpy(dropout_factors(50, 3, p, [seed]))
            assert torch.equal(gt.dropout_factors(torch.tensor([seed]), 50, 3, p), expected)


@pytest.mark.parametrize("name", LAYERS)
def test_new_parameters(name):
    layer = getattr(gt, name)(6, 4, heads=2, edge_dim=3)
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    layer.reset_parameters()
    after = layer.state_dict()
    assert all(not torch.equal(after[k], v) for k, v in before.items() if v.any())


def test_layer_errors():
    layer, x = gt.GATConv(6, 4), torch.ones(5, 6)
    with pytest.raises(ValueError, match=r"edge_index has shape \(8, 2\), needs \(2, n_edges\)"):
        layer(x, edge_index().T)
    with pytest.raises(TypeError, match="edge_index is of type ndarray, needs a tensor of int64"):
        layer(x, edge_index().numpy())
    with pytest.raises(
        ValueError, match=r"edge_attr has shape \(7, 3\), needs one row for each of"
    ):
        gt.GATConv(6, 4, edge_dim=3)(x, edge_index(), torch.ones(7, 3))
    with pytest.raises(ValueError, match="gno: activation is 'mish', needs one of 'relu', 'gelu'"):
        gt.GNO(3, 4, coord_dim=2, activation="mish")
    with pytest.raises(ValueError, match="WeightedAggregation: aggr is 'median', needs one of"):
        gt.WeightedAggregation("median")
    with pytest.raises(ValueError, match="GATConv: edge_attr goes with edge_dim"):
        gt.GATConv(6, 4)(torch.ones(5, 6), edge_index(), torch.ones(len(SRC), 3))
    with pytest.raises(ValueError, match="diagonal kernel needs in_channels == out_channels"):
        gt.GNO(3, 4, coord_dim=2, kernel="diagonal")
    with pytest.raises(ValueError, match="gno: activation is 'mish', needs one of 'relu'"):
        gt.GNO(3, 5, coord_dim=2, activation="mish")
    with pytest.raises(ValueError, match="gno: kernel is 'full ', needs one of"):
        gt.GNO(3, 3, coord_dim=2, kernel="full ")


def test_sizes_of_a_gno_are_named():
    for name in ("in_channels", "out_channels", "coord_dim", "hidden_channels"):
        sizes = {"in_channels": 3, "out_channels": 3, "coord_dim": 2}
        for number in (0, -1):
            with pytest.raises(ValueError, match=f"GNO: {name} is {number}, needs at least 1"):
                gt.GNO(**(sizes | {name: number}))
        with pytest.raises(TypeError, match=rf"GNO: {name} is 2\.5, needs an integer"):
            gt.GNO(**(sizes | {name: 2.5}))
