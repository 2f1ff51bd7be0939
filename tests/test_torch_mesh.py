# SPDX-License-Identifier: MIT
"""Blocks and models of meshes: against the formulas in PyTorch, loaded from state dicts."""

import copy
from itertools import pairwise
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gnograd as gg  # noqa: E402
import gnograd.torch as gt  # noqa: E402


class PlainMLP(nn.Module):
    """Layers with PhysicsNeMo's names."""

    def __init__(self, n_in, n_out, hidden, layers, activation, norm=True):
        super().__init__()
        widths = [n_in, *[hidden] * layers]
        parts = [p for a, b in pairwise(widths) for p in (nn.Linear(a, b), activation)]
        parts.append(nn.Linear(widths[-1], n_out))
        self.model = nn.Sequential(*parts, *([nn.LayerNorm(n_out)] if norm else []))

    def forward(self, x):
        return self.model(x)


class PlainBlocks(nn.Module):
    """Gather, concatenate, network, scatter."""

    def __init__(self, size, n_nodes, n_edges, hidden, layers, activation, aggregation):
        super().__init__()
        self.aggregation = aggregation
        self.processor_layers = nn.ModuleList()
        for _ in range(size):
            edge, node = nn.Module(), nn.Module()
            edge.edge_mlp = PlainMLP(n_edges + 2 * n_nodes, n_edges, hidden, layers, activation)
            node.node_mlp = PlainMLP(n_nodes + n_edges, n_nodes, hidden, layers, activation)
            self.processor_layers += [edge, node]

    def forward(self, e, x, edge_index):
        src, dst = edge_index
        for edge, node in zip(self.processor_layers[::2], self.processor_layers[1::2], strict=True):
            e = e + edge.edge_mlp(torch.cat([e, x[src], x[dst]], dim=1))
            total = torch.zeros(len(x), e.shape[1], dtype=e.dtype).index_add(0, dst, e)
            if self.aggregation == "mean":
                total = total / torch.bincount(dst, minlength=len(x)).clamp(min=1)[:, None]
            x = x + node.node_mlp(torch.cat([total, x], dim=1))
        return e, x


class PlainMeshGraphNet(nn.Module):
    def __init__(self, n_nodes, n_edges, n_out, size, width, activation, aggregation):
        super().__init__()
        self.edge_encoder = PlainMLP(n_edges, width, width, 2, activation)
        self.node_encoder = PlainMLP(n_nodes, width, width, 2, activation)
        self.node_decoder = PlainMLP(width, n_out, width, 2, activation, norm=False)
        self.processor = PlainBlocks(size, width, width, width, 2, activation, aggregation)

    def forward(self, x, e, edge_index):
        e, x = self.processor(self.edge_encoder(e), self.node_encoder(x), edge_index)
        return self.node_decoder(x)


ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh, "elu": nn.ELU}
"""Activations by name; gnograd does not have the last one."""


def mesh(n=30, n_edges=90, seed=0):
    torch.manual_seed(seed)
    edge_index = torch.randint(n, (2, n_edges))
    edge_index[1, edge_index[1] == 3] = 4  # node 3 has no edges
    return edge_index


def pair_of(activation="relu", aggregation="sum", trick=False, **options):
    """A model, and the plain one of the same parameters."""
    model = gt.MeshGraphNet(
        4, 3, 2, processor_size=3, mlp_activation_fn=activation, hidden_dim_processor=16,
        hidden_dim_node_encoder=16, hidden_dim_edge_encoder=16, hidden_dim_node_decoder=16,
        aggregation=aggregation, do_concat_trick=trick, **options,
    ).double()  # fmt: skip
    plain = PlainMeshGraphNet(4, 3, 2, 3, 16, ACTIVATIONS[activation](), aggregation).double()
    return model, plain


def split_first(state):
    """A state dict as PhysicsNeMo's ``do_concat_trick`` has it."""
    out = {}
    for key, value in state.items():
        before, found, after = key.partition("edge_mlp.model.")
        if not found:
            out[key] = value
        elif after == "0.weight":
            width = value.shape[1] // 3
            for name, part in zip(("efeat", "src", "dst"), value.split(width, dim=1), strict=True):
                out[f"{before}edge_mlp.lin_{name}"] = part
        elif after == "0.bias":
            out[f"{before}edge_mlp.bias"] = value
        else:
            number, _, what = after.partition(".")
            out[f"{before}edge_mlp.model.{int(number) - 1}.{what}"] = value
    return out


def inputs(n=30, n_edges=90):
    nodes = torch.randn(n, 4, dtype=torch.float64, requires_grad=True)
    edges = torch.randn(n_edges, 3, dtype=torch.float64, requires_grad=True)
    return nodes, edges


# ---- values and gradients ----


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("aggregation", ["sum", "mean"])
@pytest.mark.parametrize("trick", [False, True])
def test_model_is_the_plain_formula(activation, aggregation, trick):
    model, plain = pair_of(activation, aggregation, trick)
    state = plain.state_dict()
    model.load_state_dict(split_first(state) if trick else state)
    edge_index = mesh()
    nodes, edges = inputs()
    expected = plain(nodes, edges, edge_index)
    given = torch.autograd.grad(expected.square().sum(), [nodes, edges, *plain.parameters()])
    out = model(nodes, edges, edge_index)
    torch.testing.assert_close(out, expected, rtol=1e-11, atol=1e-11)
    grads = torch.autograd.grad(out.square().sum(), [nodes, edges, *model.parameters()])
    ours = dict(zip([n for n, _ in model.named_parameters()], grads[2:], strict=True))
    theirs = dict(zip([n for n, _ in plain.named_parameters()], given[2:], strict=True))
    theirs = split_first(theirs) if trick else theirs
    assert set(ours) == set(theirs)
    for name, grad in ours.items():
        torch.testing.assert_close(grad, theirs[name], rtol=1e-9, atol=1e-9)
    for a, b in zip(grads[:2], given[:2], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_state_dict_is_physicsnemos():
    model = gt.MeshGraphNet(4, 3, 2, processor_size=1)
    linear = [f"{k}.{what}" for k in (0, 2, 4) for what in ("weight", "bias")]
    norm = ["5.weight", "5.bias"]
    networks = {
        "edge_encoder": linear + norm,
        "node_encoder": linear + norm,
        "node_decoder": linear,
        "processor.processor_layers.0.edge_mlp": linear + norm,
        "processor.processor_layers.1.node_mlp": linear + norm,
    }
    expected = [f"{network}.model.{key}" for network, keys in networks.items() for key in keys]
    assert list(model.state_dict()) == expected


def test_state_dict_of_transformer_engine_loads():
    model, plain = pair_of()
    state = plain.state_dict()
    state["edge_encoder.model.5._extra_state"] = torch.zeros(0)
    model.load_state_dict(state)


@pytest.mark.parametrize("trick", [False, True])
def test_block_of_edges_and_of_nodes(trick):
    """Blocks can be called one by one, on graphs whose sources are not their destinations."""
    torch.manual_seed(0)
    block = gt.MeshEdgeBlock(5, 6, 6, 16, 1, nn.SiLU(), "LayerNorm", trick).double()
    x_src, x_dst = torch.randn(7, 5).double(), torch.randn(9, 5).double()
    e = torch.randn(20, 6).double()
    edge_index = torch.stack([torch.randint(7, (20,)), torch.randint(9, (20,))])
    src, dst = edge_index
    weight, bias = block.edge_mlp.first_layer()
    z = torch.cat([e, x_src[src], x_dst[dst]], dim=1) @ weight.t() + bias
    expected = e + nn.Sequential(*block.edge_mlp.behind())(z)
    out, nodes = block(e, (x_src, x_dst), edge_index)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    assert nodes[0] is x_src and nodes[1] is x_dst

    node_block = gt.MeshNodeBlock("mean", 5, 6, 5, 16).double()
    graph = gt.Graph.from_edge_index(edge_index, 7, 9)
    _, new = node_block(out, x_dst, graph)
    mean = torch.zeros(9, 6).double().index_add(0, dst, out)
    mean = mean / torch.bincount(dst, minlength=9).clamp(min=1)[:, None]
    expected = x_dst + node_block.node_mlp(torch.cat([mean, x_dst], dim=1))
    torch.testing.assert_close(new, expected, rtol=1e-12, atol=1e-12)


def test_graphcast_processor_and_transfers():
    torch.manual_seed(1)
    edge_index = mesh()
    processor = gt.GraphCastProcessor("sum", 2, 8, 8, 16).double()
    plain = PlainBlocks(2, 8, 8, 16, 1, nn.SiLU(), "sum").double()
    processor.load_state_dict(plain.state_dict())
    e, x = torch.randn(90, 8).double(), torch.randn(30, 8).double()
    for ours, theirs in zip(processor(e, x, edge_index), plain(e, x, edge_index), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)

    encoder = gt.MeshGraphEncoder("mean", 5, 4, 3, 5, 4, 7, 16, do_concat_trick=True).double()
    decoder = gt.MeshGraphDecoder("sum", 4, 5, 3, 5, 7, 16).double()
    grid, nodes, e = torch.randn(20, 5).double(), torch.randn(30, 4).double(), e[:, :3]
    src, dst = torch.randint(20, (90,)), torch.randint(30, (90,))
    new_grid, new_nodes = encoder(e, grid, nodes, torch.stack([src, dst]))

    def messages(network, x_src, x_dst, src, dst):
        weight, bias = network.first_layer()
        z = torch.cat([e, x_src[src], x_dst[dst]], dim=1) @ weight.t() + bias
        return (
            torch.zeros(len(x_dst), 7)
            .double()
            .index_add(0, dst, nn.Sequential(*network.behind())(z))
        )

    mean = messages(encoder.edge_mlp, grid, nodes, src, dst)
    mean = mean / torch.bincount(dst, minlength=30).clamp(min=1)[:, None]
    expected = nodes + encoder.dst_node_mlp(torch.cat([mean, nodes], dim=1))
    torch.testing.assert_close(new_nodes, expected, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(new_grid, grid + encoder.src_node_mlp(grid))
    out = decoder(e, grid, nodes, torch.stack([dst, src]))
    total = messages(decoder.edge_mlp, nodes, grid, dst, src)
    expected = grid + decoder.node_mlp(torch.cat([total, grid], dim=1))
    torch.testing.assert_close(out, expected, rtol=1e-11, atol=1e-11)


# ---- as users call them ----


def test_graphs_of_other_packages():
    """PyG's Data and HeteroData, and what DGL's graphs answer to."""
    model, _ = pair_of()
    edge_index = mesh()
    nodes, edges = inputs()
    expected = model(nodes, edges, edge_index)
    of_dgl = SimpleNamespace(edges=lambda order: tuple(edge_index) if order == "eid" else None)
    graphs = [
        gg.Graph.from_edges(*edge_index.numpy(), n_src=30, n_dst=30),
        gt.Graph.from_edge_index(edge_index, 30),
        SimpleNamespace(edge_index=edge_index),
        of_dgl,
    ]
    try:
        from torch_geometric.data import Data, HeteroData
    except ImportError:
        pass
    else:
        hetero = HeteroData()
        hetero["a", "to", "a"].edge_index = edge_index
        graphs += [Data(edge_index=edge_index, num_nodes=30), hetero]
    for graph in graphs:
        assert torch.equal(model(nodes, edges, graph), expected)


@pytest.mark.parametrize("segments", [1, 2, 3, 6])
@pytest.mark.parametrize("offload", [False, True])
def test_checkpointing_changes_no_number(segments, offload):
    model, _ = pair_of()
    again = copy.deepcopy(model)
    again.processor.set_checkpoint_segments(segments)
    again.processor.checkpoint_offloading = offload
    edge_index = mesh()
    nodes, edges = inputs()
    grads = []
    for each in (model, again):
        out = each(nodes, edges, edge_index).square().sum()
        grads.append([out, *torch.autograd.grad(out, [nodes, edges, *each.parameters()])])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_second_order():
    model = gt.MeshEdgeBlock(3, 4, 4, 6, 1, nn.Tanh()).double()
    edge_index = mesh(5, 8)
    e = torch.randn(8, 4, dtype=torch.float64, requires_grad=True)
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    parameters = dict(model.named_parameters())

    def function(e, x, *values):
        given = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(model, given, (e, x, edge_index))[0]

    values = [p.detach().clone().requires_grad_() for p in parameters.values()]
    assert torch.autograd.gradcheck(function, (e, x, *values))
    assert torch.autograd.gradgradcheck(function, (e, x, *values))


@pytest.mark.exhaustive
def test_compiled():
    model, _ = pair_of()
    edge_index = mesh()
    nodes, edges = inputs()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    out = compiled(nodes, edges, edge_index)
    torch.testing.assert_close(out, model(nodes, edges, edge_index))
    out.sum().backward()
    assert all(p.grad is not None for p in model.node_encoder.parameters())


def test_autocast_outside_backward():
    model, _ = pair_of()
    model = model.float()
    edge_index = mesh()
    nodes, edges = (x.detach().float() for x in inputs())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(nodes, edges, edge_index)
    out.float().square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.exhaustive
def test_trains():
    """The model learns the mean of its neighbours' first feature."""
    torch.manual_seed(0)
    edge_index = mesh(60, 240)
    model = gt.MeshGraphNet(
        1, 1, 1, processor_size=2, hidden_dim_processor=16, hidden_dim_node_encoder=16,
        hidden_dim_edge_encoder=16, hidden_dim_node_decoder=16, aggregation="mean",
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    edges = torch.zeros(240, 1)
    losses = []
    for _ in range(150):
        nodes = torch.randn(60, 1)
        target = gt.agg_simple(
            nodes, graph=gt.Graph.from_edge_index(edge_index, 60), aggregation="mean"
        )
        loss = (model(nodes, edges, edge_index) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.1 * sum(losses[:10])


# ---- errors ----


def test_errors():
    with pytest.raises(ValueError, match="mlp_activation_fn is 'what', needs one of"):
        gt.MeshGraphNet(1, 1, 1, mlp_activation_fn="what")
    with pytest.raises(ValueError, match="norm_type is 'batch', needs one of"):
        gt.MeshGraphNet(1, 1, 1, norm_type="batch")
    with pytest.raises(ValueError, match="aggregation is 'max', needs one of"):
        gt.MeshGraphNet(1, 1, 1, aggregation="max")
    with pytest.raises(ValueError, match="checkpoint_segments is 4, needs a divisor"):
        gt.GraphCastProcessor(
            processor_layers=3, input_dim_nodes=4, input_dim_edges=4
        ).set_checkpoint_segments(4)
    with pytest.raises(ValueError, match="MeshEdgeBlock: output_dim is 5"):
        gt.MeshEdgeBlock(3, 4, 5)
    model = gt.MeshGraphNet(2, 1, 1, processor_size=1)
    with pytest.raises(ValueError, match=r"node_features has shape \(5, 3\), needs \(n, 2\)"):
        model(torch.rand(5, 3), torch.rand(4, 1), mesh(5, 4))
    with pytest.raises(ValueError, match="edge_mlp: e has shape"):
        model(torch.rand(5, 2), torch.rand(3, 1), mesh(5, 4))
