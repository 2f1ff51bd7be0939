# SPDX-License-Identifier: MIT
"""Modules of gnograd.torch on a distributed graph: values, gradients, and training steps."""

import copy

import numpy as np
import torch
from setting import NODES, edges, everything, power_law, world
from torch import nn

import gnograd as gg
import gnograd.torch as gt

torch.set_default_dtype(torch.float64)
RNG = np.random.default_rng(11)
GRAPH = power_law(NODES, 150, seed=3)
ENDS = torch.tensor(np.stack([GRAPH.src, GRAPH.dst]))
X, E = torch.tensor(RNG.normal(size=(NODES, 6))), torch.tensor(RNG.normal(size=(150, 3)))
POINTS = torch.tensor(RNG.uniform(size=(NODES, 2)))
WEIGHTS = torch.tensor(RNG.uniform(0.5, 1.5, size=150))
RELATIONS = torch.tensor(RNG.integers(0, 3, 150))
KINDS = torch.tensor(RNG.integers(0, NODES, NODES))


def modules():
    """A module, and its call with rows of nodes, edges and the graph."""
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(4 + 6, 8), nn.GELU(), nn.Linear(8, 6))
    return {
        "GATConv": (gt.GATConv(6, 4, heads=2, edge_dim=3), lambda m, x, e, g: m(x, g, e["e"])),
        "GATConv, weights": (
            gt.GATConv(6, 4, add_self_loops=False),
            lambda m, x, e, g: (m(x, g), m(x, g, return_attention_weights=True)[1][1]),
        ),
        "GATv2Conv": (gt.GATv2Conv(6, 4, heads=2), lambda m, x, e, g: m(x, g)),
        "TransformerConv": (
            gt.TransformerConv(6, 4, heads=2, edge_dim=3, beta=True),
            lambda m, x, e, g: m(x, g, e["e"]),
        ),
        "SAGEConv": (gt.SAGEConv(6, 5, aggr=["mean", "max"]), lambda m, x, e, g: m(x, g)),
        "GCNConv": (gt.GCNConv(6, 5), lambda m, x, e, g: m(x, g)),
        "GCNConv, weights": (gt.GCNConv(6, 5), lambda m, x, e, g: m(x, g, e["weights"])),
        "RGCNConv": (gt.RGCNConv(6, 5, 3), lambda m, x, e, g: m(x, g, e["relations"])),
        "GNO": (
            gt.GNO(6, 5, 2, 8),
            lambda m, x, e, g: m(x, e["e"][:, :2], as_graph(g), e["weights"]),
        ),
        "MeshGraphNet": (
            gt.MeshGraphNet(
                6,
                3,
                2,
                processor_size=3,
                hidden_dim_processor=8,
                hidden_dim_node_encoder=8,
                hidden_dim_edge_encoder=8,
                hidden_dim_node_decoder=8,
            ),
            lambda m, x, e, g: m(x, e["e"], g),
        ),
        "MeshGraphNet, checkpoints": (
            gt.MeshGraphNet(
                6,
                3,
                2,
                processor_size=3,
                hidden_dim_processor=8,
                hidden_dim_node_encoder=8,
                hidden_dim_edge_encoder=8,
                hidden_dim_node_decoder=8,
                num_processor_checkpoint_segments=2,
                mlp_activation_fn="elu",
            ),
            lambda m, x, e, g: m(x, e["e"], g),
        ),
        "AGNO": (
            gt.AGNO(
                channel_mlp_layers=[4, 8, 6],
                use_attn=True,
                attention_type="dot_product",
                coord_dim=2,
            ),
            lambda m, x, e, g: m(e["points"], as_neighbors(g), e["points"], x),
        ),
        "GraphCastProcessor": (
            gt.GraphCastProcessor("sum", 2, 6, 3, 8),
            lambda m, x, e, g: m(e["e"], x, as_graph(g))[1],
        ),
        "GNOBlock": (
            gt.GNOBlock(
                6, 6, 2, 0.3, channel_mlp=mlp, transform_type="nonlinear", pos_embedding_type=None
            ),
            lambda m, x, e, g: m(e["points"], e["points"], x, neighbors=as_neighbors(g)),
        ),
    }


def as_graph(graph):
    return gt.Graph.from_edge_index(ENDS, NODES) if isinstance(graph, torch.Tensor) else graph


def as_neighbors(graph):
    return graph if not isinstance(graph, torch.Tensor) else gt.Graph.from_csc(*csc(graph))


def csc(ends):
    order = np.argsort(ends[1].numpy(), kind="stable")
    counts = np.bincount(ends[1].numpy(), minlength=NODES)
    offsets = torch.tensor(np.concatenate([[0], np.cumsum(counts)]))
    return offsets, ends[0][torch.tensor(order)], NODES


def close(a, b, of):
    worst = (a - b).abs().max().item() if b.numel() else 0
    assert worst <= 1e-12 * max(b.abs().max().item() if b.numel() else 0, 1), f"{of}: {worst}"


def check(comm, label, module, call):
    owner = np.random.default_rng(comm.size).integers(0, comm.size, NODES)
    dg = gg.DistributedGraph.from_global(GRAPH.graph, owner, comm)
    theirs = copy.deepcopy(module)
    rows, of_edges = torch.tensor(dg.owned), torch.tensor(dg.edges)
    whole = {"e": E, "weights": WEIGHTS, "relations": RELATIONS, "points": POINTS}
    part = {k: v[of_edges] if k != "points" else v[rows] for k, v in whole.items()}
    x, mine = X.clone().requires_grad_(), X[rows].clone().requires_grad_()
    for _ in range(2):
        for net in (module, theirs):
            net.zero_grad()
        x.grad = mine.grad = None
        expected = everything(call(module, x, whole, ENDS))
        got = everything(call(theirs, mine, part, dg))
        close(got[0], expected[0][rows], f"{label}: value")
        if len(got) > 1:
            close(got[1], expected[1][of_edges], f"{label}: attention weights")
        n = expected[0].shape[1]
        (expected[0].square().sum() / (NODES * n)).backward()
        loss = got[0].square().sum() / (NODES * n)
        loss.backward()
        dg.sum_gradients(theirs)
        close(dg.sum(loss.detach()), expected[0].square().mean(), f"{label}: loss")
        close(mine.grad, x.grad[rows], f"{label}: gradient to x")
        for (name, p), q in zip(module.named_parameters(), theirs.parameters(), strict=True):
            if p.grad is not None:
                close(q.grad, p.grad, f"{label}: gradient to {name}")
        for net in (module, theirs):
            torch.optim.SGD(net.parameters(), lr=0.1).step()
    assert all(
        torch.equal(p, q) for p, q in zip(theirs.parameters(), same(comm, theirs), strict=True)
    )


def same(comm, module):
    """Parameters of process 0, which all have to have."""
    return [
        dist if comm.rank == 0 else p
        for p, dist in (
            (p, gt.distributed.sum(comm, p.detach() * (comm.rank == 0)))
            for p in module.parameters()
        )
    ]


def main():
    comm = world()
    every = modules()
    for label, (module, call) in every.items():
        try:
            check(comm, label, module, call)
        except Exception as error:
            raise AssertionError(label) from error
    bipartite(comm)
    if comm.rank == 0:
        print(f"{len(every)} modules on {comm.size} processes")


def bipartite(comm):
    """Case of edges from a grid to a mesh, whose nodes have owners of their own."""
    pairs = RNG.integers(0, (17, 9), (50, 2))
    graph = edges([(int(a), int(b)) for a, b in pairs], 17, 9)
    rng = np.random.default_rng(2 + comm.size)
    dg = gg.DistributedGraph.from_global(
        graph.graph, rng.integers(0, comm.size, 9), comm, rng.integers(0, comm.size, 17)
    )
    layer = gt.SAGEConv((4, 3), 5)
    grid, mesh = torch.tensor(RNG.normal(size=(17, 4))), torch.tensor(RNG.normal(size=(9, 3)))
    whole = layer((grid, mesh), torch.tensor(np.stack([graph.src, graph.dst])))
    close(layer((grid[dg.owned], mesh[dg.owned_dst]), dg), whole[dg.owned_dst], "bipartite")


main()
