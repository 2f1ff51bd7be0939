# SPDX-License-Identifier: MIT
"""Graphs that are made, mapped and stacked inside of PyTorch's transforms."""

from __future__ import annotations

import pytest

import gnograd as gg

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from torch.func import grad, hessian, jacfwd, jacrev, vmap  # noqa: E402

from layers_of_torch import ITEMS, N, close, edges, points, rand  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")


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
