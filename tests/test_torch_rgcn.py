# SPDX-License-Identifier: MIT
"""`RGCNConv` beside PyG's own, in float64."""

import random

import pytest

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric")

import gnograd as gg  # noqa: E402
import gnograd.torch as gt  # noqa: E402
from test_torch_pyg import close, pair, real, same  # noqa: E402

FORMS = [{}, {"num_bases": 3}, {"num_blocks": 2}]
of_every_form = pytest.mark.parametrize("form", FORMS, ids=["plain", "bases", "blocks"])


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def edges_of(n_src, n_dst, n_edges=30, n_relations=4):
    ends = torch.stack([torch.randint(n, (n_edges,)) for n in (n_src, n_dst)])
    return dict(edge_index=ends, edge_type=torch.randint(n_relations, (n_edges,)))


# ---- values and gradients ----


@pytest.mark.parametrize("draw", range(40))
def test_random_configuration(draw):
    torch.manual_seed(draw)
    choose = random.Random(draw).choice
    n_src, n_relations = choose([1, 5, 9]), choose([1, 4, 7])
    bipartite = choose([False, True])
    n_dst = choose([1, 4, 12]) if bipartite else n_src
    options = dict(
        aggr=choose(["add", "sum", "mean"]), root_weight=choose([True, False]),
        bias=choose([True, False]), is_sorted=choose([True, False]), **choose(FORMS),
    )  # fmt: skip
    if not bipartite:
        options["flow"] = choose(["source_to_target", "target_to_source"])
    channels = (6, 3) if bipartite else 6
    theirs, ours = pair("RGCNConv", channels, 4, n_relations, **options)
    edges = edges_of(n_src, n_dst, choose([0, 1, 7, 40]), n_relations)
    if options["is_sorted"]:
        edges["edge_type"] = edges["edge_type"].sort()[0]
    x = (real(n_src, 6), real(n_dst, 3)) if bipartite else real(n_src, 6)
    same(theirs, ours, dict(x=x, **edges))


@pytest.mark.parametrize("aggr", ["mean", "sum"])
@pytest.mark.parametrize("form", FORMS[:2], ids=["plain", "bases"])
def test_nodes_without_features(form, aggr):
    """Numbers of nodes without features name rows of the weights."""
    theirs, ours = pair("RGCNConv", 8, 4, 4, aggr=aggr, **form)
    (out,) = same(theirs, ours, dict(x=None, **edges_of(8, 8)))
    (named,) = same(theirs, ours, dict(x=torch.arange(8), **edges_of(8, 8)))
    assert out.shape == named.shape
    some = torch.tensor([3, 3, 0, 7, 5])
    same(theirs, ours, dict(x=some, **edges_of(5, 5)))
    theirs, ours = pair("RGCNConv", (8, 6), 4, 4, aggr=aggr, **form)
    same(theirs, ours, dict(x=(some, torch.tensor([5, 0, 1])), **edges_of(5, 3)))
    same(theirs, ours, dict(x=(None, torch.tensor([5, 0, 1])), **edges_of(8, 3)))


@pytest.mark.parametrize("form", FORMS[:2], ids=["plain", "bases"])
def test_one_hot_features_are_numbers(form):
    """One-hot features give the result of nodes without features."""
    layer = gt.RGCNConv(8, 4, 4, **form).double()
    edges = edges_of(8, 8)
    close(layer(torch.eye(8, dtype=torch.float64), **edges), layer(None, **edges))


@of_every_form
def test_second_derivatives(form):
    layer = gt.RGCNConv(6, 4, 3, **form).double()
    edges = edges_of(4, 4, 10, 3)
    parameters = list(layer.parameters())

    def call(x, *values):
        names = (name for name, _ in layer.named_parameters())
        given = dict(zip(names, values, strict=True))
        return torch.func.functional_call(layer, given, (x,), edges)

    inputs = (real(4, 6), *parameters)
    assert torch.autograd.gradcheck(call, inputs)
    assert torch.autograd.gradgradcheck(call, inputs)


@of_every_form
def test_forms_of_edges(form):
    layer = gt.RGCNConv(6, 4, 4, **form).double()
    x, edges = real(7, 6), edges_of(7, 7)
    expected = layer(x, **edges)
    index, kinds = edges["edge_index"], edges["edge_type"]
    close(layer(x, index, kinds.to(torch.int32)), expected)
    close(layer(x, gt.Graph.from_edge_index(index, 7), kinds), expected)
    close(layer(x, gg.Graph.from_edges(*index.numpy(), 7, 7), kinds), expected)
    order = kinds.argsort()
    close(layer(x, index[:, order], kinds[order]), expected)
    # a matrix has an entry a pair of nodes: its values are the relations
    index, places = torch.unique(index, dim=1, return_inverse=True)
    kinds = torch.zeros(index.shape[1], dtype=torch.long).scatter(0, places, kinds)
    matrix = torch.sparse_coo_tensor(index.flip(0), kinds, (7, 7))
    close(layer(x, matrix.to_sparse_csr()), layer(x, index, kinds))


@pytest.mark.parametrize("x", ["features", "numbers"])
def test_graph_with_free_rows(x):
    layer = gt.RGCNConv(7, 4, 4).double()
    edges = edges_of(7, 7)
    nodes = real(7, 7) if x == "features" else None
    graph = gt.Graph.of(gg.Graph.from_edges(*edges["edge_index"].numpy(), 7, 7).pad(n_edges=40))
    kinds = torch.cat([edges["edge_type"], torch.full((10,), 99)])
    close(layer(nodes, graph, kinds), layer(nodes, **edges))


@pytest.mark.parametrize("aggr", ["mean", "add"])
@pytest.mark.parametrize("root", [True, False])
def test_numbers_of_nodes_and_relations(aggr, root):
    """Negative numbers count from the end, as with PyG; others are refused, in programs too."""
    theirs, ours = pair("RGCNConv", 10, 2, 3, aggr=aggr, root_weight=root)
    edges = dict(
        edge_index=torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]]), edge_type=torch.tensor([0, 1, 2, 0])
    )
    same(theirs, ours, dict(x=torch.tensor([1, -3, -10]), **edges))
    compiled = torch.compile(ours, backend="eager")
    for wrong in (10, 12, -11, 2**32 + 1, 2**63 - 1):
        x = torch.tensor([1, 2, wrong])
        with pytest.raises(IndexError, match=rf"RGCNConv: x\[2\] is {wrong}, not one of 10 nodes"):
            ours(x, **edges)
        with pytest.raises(IndexError):
            compiled(x, **edges)
    for wrong in (3, -1, 2**32, -(2**63)):
        kinds = torch.tensor([0, 1, wrong, 0])
        for layer in (ours, compiled):
            with pytest.raises(IndexError):
                layer(torch.tensor([1, 2, 3]), edges["edge_index"], kinds)
    with pytest.raises(IndexError, match=r"RGCNConv: edge_type\[2\] is -1, not one of 3 relations"):
        ours(torch.tensor([1, 2, 3]), edges["edge_index"], torch.tensor([0, 1, -1, 0]))
    with pytest.raises(TypeError, match=r"RGCNConv: edge_type is torch\.float32, needs integers"):
        ours(torch.tensor([1, 2, 3]), edges["edge_index"], torch.rand(4))
    matrix = torch.sparse_coo_tensor(edges["edge_index"], torch.tensor([0.0, 1, 1.5, 1]), (3, 3))
    with pytest.raises(ValueError, match="values that are no integers"):
        ours(torch.tensor([1, 2, 3]), matrix)


# ---- parameters and programs ----


@of_every_form
def test_a_seed_gives_pygs_parameters(form):
    states = []
    for library in (pyg.nn, gt):
        torch.manual_seed(3)
        layer = library.RGCNConv((6, 2), 4, 5, **form)
        layer.reset_parameters()
        states.append(layer.state_dict())
    assert list(states[0]) == list(states[1])
    for name, value in states[0].items():
        assert torch.equal(states[1][name], value), name


def test_model_of_pyg_trains_alike():
    """Two layers on numbered nodes, as PyG's example has them."""
    edges = edges_of(20, 20, 120, 6)
    labels, losses = torch.randint(3, (20,)), []
    for library in (pyg.nn, gt):
        torch.manual_seed(1)
        layers = [library.RGCNConv(20, 8, 6, num_bases=4), library.RGCNConv(8, 3, 6, num_bases=4)]
        model = torch.nn.ModuleList(layers).double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        curve = []
        for _ in range(10):
            hidden = layers[0](None, **edges).relu()
            loss = torch.nn.functional.cross_entropy(layers[1](hidden, **edges), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curve.append(loss.detach())
        losses.append(torch.stack(curve))
    close(*losses)


def test_one_program_for_all_graphs():
    layer = gt.RGCNConv(6, 4, 4, num_bases=2).double()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for n_edges in (30, 50, 70):
        x, edges = real(9, 6), edges_of(9, 9, n_edges)
        close(compiled(x, **edges), layer(x, **edges))


# ---- errors ----


def test_refused():
    for options, message in (
        (dict(aggr="max"), "aggr is 'max', needs one of 'add', 'sum', 'mean'"),
        (dict(num_bases=2, num_blocks=2), "num_bases and num_blocks are given"),
        (dict(num_blocks=4), "num_blocks is 4, which does not divide 6 input and 4 output"),
    ):
        with pytest.raises(ValueError, match="RGCNConv: " + message):
            gt.RGCNConv(6, 4, 3, **options)
    edges = edges_of(6, 6, n_relations=3)
    with pytest.raises(ValueError, match="RGCNConv: num_blocks needs features of the nodes"):
        gt.RGCNConv(6, 4, 3, num_blocks=2)(None, **edges)
    layer = gt.RGCNConv(6, 4, 2)
    with pytest.raises(ValueError, match="RGCNConv: edge_type is missing"):
        layer(torch.rand(6, 6), edges["edge_index"])
    with pytest.raises(IndexError, match=r"agg_relational: edge_type\[\d+\] is 2, not one of 2"):
        layer(torch.rand(6, 6), **edges)
