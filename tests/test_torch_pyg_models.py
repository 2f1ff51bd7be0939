# SPDX-License-Identifier: MIT
"""Layers with PyG's arguments in the programs that PyG's users write."""

import copy
import io

import pytest

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric")

import torch_geometric.data  # noqa: E402
import torch_geometric.loader  # noqa: E402
import torch_geometric.nn.models as models  # noqa: E402
from torch.nn.parameter import UninitializedParameter  # noqa: E402

import gnograd as gg  # noqa: E402
import gnograd.torch as gt  # noqa: E402

float64 = torch.float64
LAYERS = ["GATConv", "GATv2Conv", "TransformerConv", "SAGEConv", "GCNConv"]
BIPARTITE = LAYERS[:4]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def nodes_and_edges(n=8, n_edges=30):
    return torch.randn(n, 6, dtype=float64), torch.randint(n, (2, n_edges))


# ---- parameters ----


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("GATConv", dict(heads=2, edge_dim=3, residual=True)),
        ("GATConv", dict(in_channels=(6, 3))),
        ("GATv2Conv", dict(heads=2, edge_dim=3, residual=True)),
        ("TransformerConv", dict(heads=2, edge_dim=3, beta=True)),
        ("SAGEConv", dict(project=True)),
        ("SAGEConv", dict(in_channels=(6, 3), root_weight=False)),
        ("GCNConv", dict()),
    ],
)
def test_a_seed_gives_pygs_parameters(name, arguments):
    arguments = dict(in_channels=6, out_channels=4) | arguments
    states = []
    for library in (pyg.nn, gt):
        torch.manual_seed(3)
        layer = getattr(library, name)(**arguments)
        first = {key: value.clone() for key, value in layer.state_dict().items()}
        layer.reset_parameters()
        states.append((first, layer.state_dict()))
    for theirs, ours in zip(*states, strict=True):
        assert list(theirs) == list(ours)
        for key, value in theirs.items():
            assert torch.equal(ours[key], value), key


@pytest.mark.parametrize("name", LAYERS)
def test_lazy_layer(name):
    x, edges = nodes_and_edges()
    ours = getattr(gt, name)(-1, 4).double()
    theirs = getattr(pyg.nn, name)(-1, 4).double()
    assert repr(ours) == repr(theirs) == repr(copy.deepcopy(ours))
    lazy = [isinstance(p, UninitializedParameter) for _, p in sorted(ours.named_parameters())]
    assert any(lazy)
    # parameters that are not there yet go through a state dict, a copy and a file
    state = copy.deepcopy(ours.state_dict())
    assert {k for k, v in state.items() if isinstance(v, UninitializedParameter)} == {
        k for k, v in theirs.state_dict().items() if isinstance(v, UninitializedParameter)
    }
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    stored = torch.load(file, weights_only=False).double()  # PyTorch forgets the type
    width = copy.deepcopy(ours)(x, edges).shape
    assert stored(x, edges).shape == theirs(x, edges).shape == width
    assert not any(isinstance(p, UninitializedParameter) for p in stored.parameters())
    # weights may come before the first input
    ours.load_state_dict(theirs.state_dict(), strict=True)
    close(ours(x, edges), theirs(x, edges))
    # and what is lazy makes a layer so
    stored.load_state_dict(state)
    assert any(isinstance(p, UninitializedParameter) for p in stored.parameters())
    assert stored(x[:, :2], edges).shape == width


def test_lazy_bipartite_layers_and_edge_features():
    x, edges = (torch.randn(8, 6), torch.randn(5, 3)), torch.randint(5, (2, 20))
    for name in BIPARTITE:
        assert getattr(gt, name)((-1, -1), 4)(x, edges).shape == (5, 4)
    layer = gt.TransformerConv(-1, 4, edge_dim=-1)
    assert layer(x[0], edges, torch.randn(20, 2)).shape == (8, 4)
    assert layer.lin_edge.in_features == 2
    with pytest.raises(ValueError, match="does not support lazy in_channels with project"):
        gt.SAGEConv(-1, 4, project=True)


@pytest.mark.parametrize("name", LAYERS)
def test_optimizer_state_of_pyg(name):
    """Adam's state goes by the order of the parameters."""
    x, edges = nodes_and_edges()
    theirs, ours = (getattr(library, name)(6, 4).double() for library in (pyg.nn, gt))
    ours.load_state_dict(theirs.state_dict())
    optimizers = [torch.optim.Adam(layer.parameters(), lr=0.1) for layer in (theirs, ours)]
    theirs(x, edges).square().sum().backward()
    optimizers[0].step()
    ours.load_state_dict(theirs.state_dict())
    optimizers[1].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
    for layer, optimizer in zip((theirs, ours), optimizers, strict=True):
        for _ in range(3):
            optimizer.zero_grad()
            layer(x, edges).square().sum().backward()
            optimizer.step()
    for key, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[key], value, rtol=1e-8, atol=1e-8)


# ---- arguments ----


@pytest.mark.parametrize("name", LAYERS)
def test_arguments_of_message_passing(name):
    make = getattr(gt, name)
    layer = make(6, 4, flow="target_to_source", decomposed_layers=2)
    assert (layer.flow, make(6, 4).flow) == ("target_to_source", "source_to_target")
    x, edges = torch.randn(8, 6), torch.randint(8, (2, 30))
    graph = gg.Graph.from_edges(*edges.numpy(), 8, 8)
    out = layer(x, edges)
    assert torch.equal(layer(x, graph), out)
    layer.flow = "source_to_target"
    torch.testing.assert_close(layer(x, edges.flip(0)), out)
    with pytest.raises(ValueError, match=f"{name}: flow is 'up', needs one of 'source_to_target'"):
        make(6, 4, flow="up")
    if name != "SAGEConv":
        assert (layer.aggr, make(6, 4, aggr="sum").aggr) == ("add", "sum")
        with pytest.raises(ValueError, match=f"{name}: aggr is 'max', needs 'add' or 'sum'"):
            make(6, 4, aggr="max")
        with pytest.raises(ValueError, match=f"{name}: aggr_kwargs is"):
            make(6, 4, aggr_kwargs={"learn": True})
    with pytest.raises(TypeError, match="unexpected keyword argument 'head'"):
        make(6, 4, head=2)


@pytest.mark.parametrize("name", ["SAGEConv", "GCNConv"])
@pytest.mark.parametrize("node_dim", [-2, 0])
def test_nodes_with_more_axes(name, node_dim):
    theirs, ours = (
        getattr(library, name)(6, 4, node_dim=node_dim).double() for library in (pyg.nn, gt)
    )
    ours.load_state_dict(theirs.state_dict())
    batch = torch.randn(3, 8, 6, dtype=float64)
    edges = torch.randint(8, (2, 30))
    x = batch if node_dim == -2 else batch.transpose(0, 1)
    out = ours(x, edges)
    if (name, node_dim) != ("GCNConv", 0):  # PyG's weights of that one go along another axis
        close(out, theirs(x, edges))
    alone = torch.stack([ours(each, edges) for each in batch])
    close(out, alone if node_dim == -2 else alone.transpose(0, 1))


def test_edge_features_may_be_absent():
    x, edges = nodes_and_edges()
    for name in LAYERS[:2]:
        theirs, ours = (
            getattr(library, name)(6, 4, edge_dim=3).double() for library in (pyg.nn, gt)
        )
        ours.load_state_dict(theirs.state_dict())
        close(ours(x, edges), theirs(x, edges))
    with pytest.raises(ValueError, match="TransformerConv: edge_attr goes with edge_dim"):
        gt.TransformerConv(6, 4, edge_dim=3).double()(x, edges)


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("name", LAYERS[:2])
def test_weights_that_dropout_leaves(name, flow):
    """Returned weights are those of the result, also if self-loops took the place of others."""
    x, edges = nodes_and_edges()
    edges[:, :3] = torch.tensor([0, 4, 4])
    options = dict(edge_dim=3, bias=False, flow=flow, dropout=0.5)
    layer = getattr(gt, name)(6, 4, **options).double()
    rows = torch.randn(30, 3, dtype=float64)
    out, (ends, alpha) = layer(x, edges, rows, return_attention_weights=True)
    assert 0 < (alpha == 0).sum() < len(alpha)
    src, dst = ends if flow == "source_to_target" else ends.flip(0)
    h = (layer.lin if name == "GATConv" else layer.lin_l)(x)
    close(out, torch.zeros_like(out).index_add(0, dst, alpha * h[src]))


# ---- GCN ----


def test_gcn_keeps_degrees_if_asked():
    x, edges = nodes_and_edges()
    layer = gt.GCNConv(6, 4, cached=True).double()
    first = layer(x, edges)
    assert torch.equal(layer(x, edges[:, :3]), first)
    layer.lin.weight.data.mul_(2)
    torch.testing.assert_close(layer(x, edges[:, :3]), 2 * first)
    message = f"GCNConv: x has 2 nodes, but the graph of the first call.* has {len(x)}"
    with pytest.raises(ValueError, match=message):
        layer(x[:2], torch.tensor([[0, 1], [1, 0]]))
    layer.reset_parameters()
    layer(x, edges[:, :3])
    layer.cached = False
    known = layer(x, edges)
    layer.reset_parameters()
    assert not torch.equal(layer(x, edges), known)
    with pytest.raises(ValueError, match="does not support adding self-loops without normalize"):
        gt.GCNConv(6, 4, normalize=False, add_self_loops=True)
    with pytest.raises(ValueError, match="GCNConv: x is of type tuple, needs a tensor"):
        layer((x, x), edges)


@pytest.mark.parametrize("add_self_loops", [True, False])
def test_second_order_of_gcn(add_self_loops):
    x, edges = torch.randn(4, 3, dtype=float64), torch.randint(4, (2, 9))
    edges = edges[:, edges[0] != edges[1]]
    weight = torch.rand(edges.shape[1], dtype=float64) + 0.5
    layer = gt.GCNConv(3, 2, add_self_loops=add_self_loops).double()
    inputs = (x.requires_grad_(), weight.requires_grad_())
    assert torch.autograd.gradcheck(lambda x, w: layer(x, edges, w), inputs)
    assert torch.autograd.gradgradcheck(lambda x, w: layer(x, edges, w), inputs)


def test_gradient_where_nothing_ends():
    """PyG's gradient to the weights is NaN here: 0 ** -1.5."""
    x, edges = torch.randn(3, 6, dtype=float64), torch.tensor([[0], [1]])
    weight = torch.ones(1, dtype=float64, requires_grad=True)
    layer = gt.GCNConv(6, 4, add_self_loops=False).double()
    (gradient,) = torch.autograd.grad(layer(x, edges, weight).sum(), weight)
    assert torch.isfinite(gradient).all()


# ---- SAGE ----


@pytest.mark.parametrize("aggr", ["std", "median", "softmax", ["mean", "std", "max"]])
def test_aggregations_of_pyg(aggr):
    x, edges = nodes_and_edges()
    theirs, ours = (library.SAGEConv(6, 4, aggr=aggr).double() for library in (pyg.nn, gt))
    ours.load_state_dict(theirs.state_dict(), strict=True)
    assert repr(ours) == repr(theirs)
    close(ours(x, edges), theirs(x, edges))
    graph = gt.Graph.from_edge_index(edges, 8)
    close(ours(x, graph.pad(40)), theirs(x, edges))


def test_module_as_aggregation():
    x, edges = nodes_and_edges()
    edges = edges[:, edges[1].argsort(stable=True)]
    theirs, ours = (
        library.SAGEConv(6, 4, aggr=pyg.nn.LSTMAggregation(6, 6)).double()
        for library in (pyg.nn, gt)
    )
    ours.load_state_dict(theirs.state_dict(), strict=True)
    close(ours(x, edges), theirs(x, edges))


def test_aggregation_that_nobody_knows(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "torch_geometric.nn.resolver", None)
    with pytest.raises(ValueError, match="SAGEConv: aggr is 'std', needs one or several of 'add'"):
        gt.SAGEConv(6, 4, aggr="std")


# ---- programs ----


@pytest.mark.parametrize("name", LAYERS)
def test_copies_and_files(name):
    x, edges = nodes_and_edges()
    layer = getattr(gt, name)(6, 4).double()
    out = layer(x, edges)
    assert torch.equal(copy.deepcopy(layer)(x, edges), out)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x, edges), out)


@pytest.mark.parametrize("name", LAYERS)
def test_sequential(name):
    x, edges = nodes_and_edges()
    results = []
    for library in (pyg.nn, gt):
        torch.manual_seed(1)
        make = getattr(library, name)
        model = pyg.nn.Sequential(
            "x, edge_index",
            [
                (make(6, 5), "x, edge_index -> x"),
                torch.nn.ReLU(),
                (make(5, 4), "x, edge_index -> x"),
            ],
        ).double()
        results.append(model(x, edges))
    close(*results)


def hetero(n_edges=12):
    x = {"paper": torch.randn(7, 6), "author": torch.randn(5, 3)}
    ends = {
        ("author", "writes", "paper"): (5, 7),
        ("paper", "by", "author"): (7, 5),
        ("paper", "cites", "paper"): (7, 7),
    }
    edges = {
        key: torch.stack([torch.randint(n, (n_edges,)) for n in sizes])
        for key, sizes in ends.items()
    }
    return x, edges


@pytest.mark.parametrize("name", BIPARTITE)
def test_hetero_conv(name):
    x, edges = hetero()
    loops = {} if name in ("TransformerConv", "SAGEConv") else {"add_self_loops": False}
    results = []
    for library in (pyg.nn, gt):
        torch.manual_seed(1)
        make = getattr(library, name)
        convolutions = {key: make((-1, -1), 4, **loops) for key in edges}
        model = pyg.nn.HeteroConv(convolutions, aggr="sum").double()
        results.append(model({k: v.double() for k, v in x.items()}, edges))
    for key in ("paper", "author"):
        close(results[0][key], results[1][key])


class Two(torch.nn.Module):
    def __init__(self, library, name, options):
        super().__init__()
        make = getattr(library, name)
        if library is gt:  # to_hetero looks for PyG's class
            make = type(name, (make, pyg.nn.MessagePassing), {})
        self.conv1, self.conv2 = make((-1, -1), 8, **options), make((-1, -1), 4, **options)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


@pytest.mark.parametrize("name", BIPARTITE)
def test_to_hetero(name):
    x, edges = hetero()
    loops = {} if name in ("TransformerConv", "SAGEConv") else {"add_self_loops": False}
    results = []
    for library in (pyg.nn, gt):
        torch.manual_seed(1)
        model = pyg.nn.to_hetero(Two(library, name, loops), (list(x), list(edges))).double()
        results.append(model({k: v.double() for k, v in x.items()}, edges))
    for key in ("paper", "author"):
        close(results[0][key], results[1][key])


class GAT(models.GAT):
    def init_conv(self, in_channels, out_channels, **options):
        heads, concat = options.pop("heads", 1), options.pop("concat", True)
        if getattr(self, "_is_conv_to_out", False):
            concat = False
        width = out_channels // heads if concat else out_channels
        return gt.GATConv(in_channels, width, heads=heads, concat=concat, **options)


class GraphSAGE(models.GraphSAGE):
    def init_conv(self, in_channels, out_channels, **options):
        return gt.SAGEConv(in_channels, out_channels, **options)


class GCN(models.GCN):
    def init_conv(self, in_channels, out_channels, **options):
        return gt.GCNConv(in_channels, out_channels, **options)


@pytest.mark.parametrize("ours", [GAT, GraphSAGE, GCN])
def test_models_of_pyg(ours):
    x, edges = nodes_and_edges()
    arguments = dict(hidden_channels=8, num_layers=3, out_channels=4, norm="batch_norm", jk="cat")
    if ours is GAT:
        arguments["heads"] = 2
    results = []
    for model in (getattr(models, ours.__name__), ours):
        torch.manual_seed(2)
        results.append(model(6, **arguments).double()(x, edges))
    close(*results)


@pytest.mark.parametrize("name", LAYERS)
def test_training_on_batches_of_a_loader(name):
    graphs = []
    for n in (4, 7, 5, 6):
        x, edges = nodes_and_edges(n, 3 * n)
        graphs.append(torch_geometric.data.Data(x=x, edge_index=edges, y=torch.randn(1).double()))
    losses = []
    for library in (pyg.nn, gt):
        torch.manual_seed(1)
        layer = getattr(library, name)(6, 1).double()
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
        losses.append([])
        for _ in range(3):
            for batch in torch_geometric.loader.DataLoader(graphs, batch_size=2):
                out = layer(batch.x, batch.edge_index)
                mean = pyg.nn.global_mean_pool(out, batch.batch)[:, 0]
                loss = (mean - batch.y).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses[-1].append(float(loss))
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LAYERS)
def test_edge_index_class(name):
    x, edges = nodes_and_edges()
    edges = edges[:, edges[1].argsort()]
    layer = getattr(gt, name)(6, 4).double()
    of_class = pyg.EdgeIndex(edges, sparse_size=(8, 8), sort_order="col")
    close(layer(x, of_class), layer(x, edges))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LAYERS)
def test_half_precision(name, dtype):
    x, edges = nodes_and_edges()
    layer = getattr(gt, name)(6, 4).to(dtype)
    x = x.to(dtype)
    out = layer(x, edges)
    assert out.dtype == dtype
    expected = layer.double()(x.double(), edges)
    assert (out.double() - expected).norm() <= 0.05 * expected.norm()


@pytest.mark.parametrize("aggr", ["min", "max"])
def test_first_of_equal_edges_gets_the_gradient(aggr):
    """The first of equal edges gets the gradient, as docs/howto/pyg.md says; PyG shares it."""
    layer = gt.SAGEConv(1, 1, aggr=aggr, root_weight=False).double()
    x = torch.zeros(4, 1, dtype=torch.float64, requires_grad=True)
    layer(x, torch.tensor([[2, 1, 3, 3], [0, 0, 0, 1]]))[:2].sum().backward()
    w = layer.lin_l.weight.item()
    close(x.grad[:, 0], torch.tensor([0, 0, w, w], dtype=torch.float64))
