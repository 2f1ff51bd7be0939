# SPDX-License-Identifier: MIT
"""Graphs as arguments of JAX's programs: room for more edges, transforms, errors."""

from __future__ import annotations

import contextlib
import functools
import gc
import pickle
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import calls
import gnograd as gg
from conftest import pairs
from faces import tuple_of

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
gj = pytest.importorskip("gnograd.jax")

from calls_of_jax import (  # noqa: E402
    ROOM,
    N,
    assert_same,
    bind,
    energy,
    energy_arguments,
    every_operator,
    faces,
    is_on_edges,
    like,
    random_graph,
)

# ---- arguments of programs ----


@every_operator
def test_one_program_for_all_graphs(name):
    inputs, function, static = bind(name)
    program = jax.jit(faces(function))
    op = getattr(gg, name)
    tangents = like(inputs, 2)
    for seed in range(4):
        graph = random_graph(seed)
        out, saved = op.forward(*inputs, return_saved=True, graph=graph, **static)
        cotangent = like(out, 1)
        got = program(graph, inputs, cotangent, tangents)
        assert_same(got[0], out)
        assert_same(got[1], op.jvp(inputs, tangents, graph=graph, **static))
        vjp = op.vjp(cotangent, inputs, saved=saved, graph=graph, **static)
        assert_same(got[2], vjp[: len(inputs)])
        hvp = op.hvp(cotangent, inputs, tangents, graph=graph, **static)
        assert_same(got[3], hvp[: len(inputs)])
    assert program._cache_size() == 1


def test_nothing_is_compiled_for_another_graph():
    h, kappa = calls.normal((5, 3), (8, 3, 2))

    def loss(h, graph):
        return jnp.sin(gj.gno_aggregate(h, kappa, graph=graph)).sum()

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if "compile" in event else None
    )
    try:
        programs = jax.jit(loss), jax.jit(jax.grad(loss)), loss  # the last without jit
        first = [np.asarray(program(h, random_graph(0))) for program in programs]
        assert compiled
        compiled.clear()
        for seed in range(1, 100):
            values = [np.asarray(program(h, random_graph(seed))) for program in programs]
            assert values[0] != first[0]
        assert not compiled
    finally:
        jax.monitoring.clear_event_listeners()


@every_operator
def test_room_for_more_edges(name):
    """Rows of edge arrays that belong to no edge change nothing, whatever is in them."""
    inputs, function, _ = bind(name)
    op = getattr(gg, name)
    on_edges = [is_on_edges(spec) for spec in op.declaration.inputs.values()]
    results_on_edges = [is_on_edges(spec) for spec in op.declaration.outputs.values()]

    def longer(arrays, are_on_edges, fill):
        rows = (ROOM - N,)
        return tuple(
            np.concatenate([a, np.full(rows + a.shape[1:], fill)]) if on else a
            for a, on in zip(arrays, are_on_edges, strict=False)
        )

    def padded(arrays, are_on_edges, fill=np.nan):
        found = longer(tuple_of(arrays), are_on_edges, fill)
        return found if isinstance(arrays, tuple) else found[0]

    tangents = like(inputs, 2)
    _, with_room, _ = bind(name, ROOM)
    exact, roomy = jax.jit(faces(function)), jax.jit(faces(with_room))
    for seed in range(3):
        graph = random_graph(seed)
        cotangent = like(jax.eval_shape(function, graph, *inputs), 1)
        expected = exact(graph, inputs, cotangent, tangents)
        got = roomy(
            graph.pad(ROOM), padded(inputs, on_edges), padded(cotangent, results_on_edges),
            padded(tangents, on_edges),
        )  # fmt: skip
        for mine, theirs, sides in zip(
            got, expected, (results_on_edges,) * 2 + (on_edges,) * 2, strict=True
        ):
            assert_same(mine, padded(jax.tree.map(np.asarray, theirs), sides, 0.0))
    assert roomy._cache_size() == 1


@pytest.mark.exhaustive
def test_one_program_for_changing_sizes():
    x, layers = energy_arguments()
    exact, roomy = (jax.jit(jax.grad(energy, argnums=(0, 2))) for _ in range(2))
    for n_edges in (0, 1, 5, 12, 20):
        graph = random_graph(n_edges, n_edges)
        got, expected = roomy(x, graph.pad(20), layers), exact(x, graph, layers)
        for a, e in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            assert_allclose(a, e, rtol=1e-12, atol=1e-14)
    assert exact._cache_size() == 5
    assert roomy._cache_size() == 2  # graphs whose edge_ids are None are another pytree


def test_program_outlives_its_graphs():
    h, kappa = calls.normal((5, 3), (8, 3, 2))
    graph = random_graph(0)
    alive = weakref.ref(graph)
    arrays = gj.Graph.of(graph)
    _, pull = jax.vjp(functools.partial(gj.gno_aggregate, kappa=kappa, graph=graph), h)
    expected = gg.gno_aggregate(h, kappa, graph=graph)
    (vjp, _) = gg.gno_aggregate.vjp(expected, (h, kappa), graph=graph)
    del graph
    gc.collect()
    assert alive() is None
    assert_same(jax.jit(gj.gno_aggregate)(h, kappa, graph=arrays), expected)
    assert_same(pull(jnp.asarray(expected))[0], vjp)


@contextlib.contextmanager
def no_x64():
    jax.config.update("jax_enable_x64", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", True)


def test_without_x64():
    h, kappa = calls.normal((5, 3), (8, 3, 2))
    h, kappa, graph = h.astype(np.float32), kappa.astype(np.float32), random_graph(0)
    arrays = gj.Graph.of(graph)
    program = jax.jit(gj.gno_aggregate)
    with no_x64():
        assert_same(program(h, kappa, graph=graph), gg.gno_aggregate(h, kappa, graph=graph))
        assert arrays.offsets.dtype == jnp.int32
        assert_array_equal(arrays.offsets, graph.offsets)
        largest = jax.grad(
            lambda x: gj.agg_simple(x, graph=graph, aggregation="max").sum()
        )  # saves places of 64 bits
        expected = gg.agg_simple.vjp(np.ones((5, 3), "f"), (h,), graph=graph, aggregation="max")
        assert_same(largest(h), expected[0])
    assert arrays.offsets.dtype == jnp.int64


# ---- what a program sees of a graph ----


@pairs(
    graph=[random_graph(0), gg.Graph([0, 2, 2, 3], [1, 0, 3], 4)], room=[0, 3], jit=[False, True]
)
def test_properties(graph, room, jit):
    graph = graph.pad(graph.n_edges + room) if room else graph

    def look(graph):
        names = "src", "dst", "offsets", "indices", "edge_ids", "in_degree", "is_edge"
        return {name: getattr(graph, name) for name in names}, graph.n_src + 0 * graph.offsets[0]

    found, n_src = (jax.jit(look) if jit else look)(gj.Graph.of(graph))
    assert n_src == graph.n_src
    is_edge = found.pop("is_edge")
    assert_array_equal(is_edge, np.arange(graph.n_edges) < graph.n_edges - room)
    for name, value in found.items():
        expected = getattr(graph, name)
        assert (value is None) == (expected is None)
        assert value is None or np.array_equal(value, expected), name


def test_pytree():
    graph = random_graph(0)
    leaves, structure = jax.tree.flatten(graph)
    same = jax.tree.unflatten(structure, leaves)
    assert isinstance(same, gj.Graph)
    assert repr(same) == "Graph(n_src=5, n_dst=5, n_edges=8)"
    assert all(a is b for a, b in zip(leaves, jax.tree.leaves(gj.Graph.of(graph)), strict=True))
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(graph)]
    assert names[:2] == [".offsets", ".indices"]
    assert "None" in repr(jax.tree.map(lambda _: None, same))
    back = pickle.loads(pickle.dumps(same))
    assert_array_equal(back.src, graph.src)
    shaped = gj.Graph.shaped(*graph.sizes)
    assert jax.tree.map(jnp.shape, same).arrays == jax.tree.map(lambda x: x.shape, shaped).arrays
    with pytest.raises(TypeError, match=r"graph is of type int, needs a gnograd\.Graph"):
        gj.Graph.of(3)
    with pytest.raises(TypeError, match=r"Graph\.shaped: ordered by position, needs ordered="):
        gj.Graph.shaped(*graph.sizes, True)


def test_batch():
    """A program that sums over the nodes of every graph in a batch."""
    graphs = [random_graph(0), random_graph(1, 3, 5, 4)]

    @jax.jit
    def sums(x, graph):
        ends = graph.borders.dst[1:]
        owner = jnp.searchsorted(ends, jnp.arange(graph.n_dst), side="right")
        out = gj.agg_weighted(x, jnp.ones(graph.n_edges), graph=graph)
        return jax.ops.segment_sum(out, owner, len(ends))

    (x,) = calls.normal((10, 2))
    batch = gg.Graph.batch(graphs)
    each = [
        gg.agg_weighted(part, np.ones(g.n_edges), graph=g).sum(0)
        for part, g in zip((x[:5], x[5:]), graphs, strict=True)
    ]
    assert_allclose(sums(x, batch), each, rtol=1e-13)
    assert_allclose(sums(x, batch.pad(20)), each, rtol=1e-13)


# ---- transforms ----


def test_hessian_of_positions():
    x, layers = energy_arguments()
    hessians = [
        jax.jit(outer(inner(energy)))
        for outer, inner in ((jax.jacfwd, jax.jacrev), (jax.jacrev, jax.jacrev))
    ]
    for seed in range(3):
        graph = random_graph(seed)
        values = [hessian(x, graph, layers) for hessian in hessians]
        assert_allclose(values[0], values[1], rtol=1e-12, atol=1e-14)
        step = 1e-5 * calls.normal((5, 2), seed=2)[0]
        gradient = jax.grad(energy)
        change = (gradient(x + step, graph, layers) - gradient(x - step, graph, layers)) / 2
        assert_allclose(jnp.tensordot(values[0], step, 2), change, rtol=1e-5, atol=1e-12)
        assert_allclose(values[0], hessians[0](x, graph.pad(ROOM), layers), rtol=1e-12, atol=1e-14)


def test_scan():
    h, kappa = calls.normal((5, 3), (8, 3, 3))
    graphs = [gj.Graph.of(random_graph(seed)) for seed in range(3)]

    def step(h, graph):
        return jnp.tanh(gj.gno_aggregate(h, kappa, graph=graph))

    def unrolled(h, graphs):
        for graph in graphs:
            h = step(h, graph)
        return h.sum()

    def over_graphs(h, graphs):
        return jax.lax.scan(lambda h, graph: (step(h, graph), None), h, graphs)[0].sum()

    def with_one(h, graph):
        def body(carry, _):
            h, graph = carry
            return (step(h, graph), graph), None

        return jax.lax.scan(body, (h, graph), length=3)[0][0].sum()

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *graphs)
    for program, given, same in (
        (over_graphs, stacked, graphs),
        (with_one, graphs[0], graphs[:1] * 3),
    ):
        assert_allclose(
            jax.jit(jax.grad(program))(h, given), jax.grad(unrolled)(h, same), rtol=1e-13
        )


def test_cond_and_loops():
    h, kappa = calls.normal((5, 3), (8, 3, 3))
    graphs = [gj.Graph.of(random_graph(seed)) for seed in range(2)]

    @jax.jit
    def either(first, h):
        graph = jax.lax.cond(first, lambda a, _: a, lambda _, b: b, *graphs)
        return jax.lax.fori_loop(
            0, 2, lambda _, h: jnp.tanh(gj.gno_aggregate(h, kappa, graph=graph)), h
        )

    for first, graph in zip((True, False), graphs, strict=True):
        expected = h
        for _ in range(2):
            expected = jnp.tanh(gj.gno_aggregate(expected, kappa, graph=graph))
        assert_allclose(either(first, h), expected, rtol=1e-13)


def test_vmap():
    h, kappa = calls.normal((4, 5, 3), (8, 3, 2))
    graphs = [random_graph(seed) for seed in range(4)]
    one = graphs[0]

    def apply(h, graph):
        return gj.gno_aggregate(h, kappa, graph=graph)

    expected = [gg.gno_aggregate(x, kappa, graph=one) for x in h]
    assert_same(jax.jit(jax.vmap(apply, in_axes=(0, None)))(h, one), np.stack(expected))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(gj.Graph.of, graphs))
    expected = [gg.gno_aggregate(x, kappa, graph=g) for x, g in zip(h, graphs, strict=True)]
    assert_same(jax.vmap(apply)(h, stacked), np.stack(expected))
    assert_same(jax.lax.map(lambda pair: apply(*pair), (h, stacked)), np.stack(expected))
    gradient = jax.grad(
        lambda k: jax.vmap(lambda x, g: gj.gno_aggregate(x, k, graph=g))(h, stacked).sum()
    )
    each = [
        gg.gno_aggregate.vjp(np.ones((5, 2)), (x, kappa), graph=g)[1]
        for x, g in zip(h, graphs, strict=True)
    ]
    assert_allclose(gradient(kappa), sum(each), rtol=1e-13)


def test_gradient_leaves_graphs_alone():
    h, kappa = calls.normal((5, 3), (8, 3, 2))

    def loss(pair):
        h, graph = pair
        return gj.gno_aggregate(h, kappa, graph=graph).sum()

    to_h, to_graph = jax.grad(loss, allow_int=True)((h, random_graph(0)))
    assert to_h.shape == h.shape
    assert {leaf.dtype for leaf in jax.tree.leaves(to_graph)} == {jax.dtypes.float0}


# ---- errors ----


def test_errors():
    h, kappa = calls.normal((5, 3), (8, 3, 2))
    graphs = [gj.Graph.of(random_graph(seed)) for seed in range(2)]

    def apply(graph):
        return gj.gno_aggregate(h, kappa, graph=graph)

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *graphs)
    with pytest.raises(
        ValueError,
        match=r"gno_aggregate: offsets of graph has shape \(2, 6, 2\), needs 2 axes; "
        r"several graphs, stacked, are for jax.vmap",
    ):
        apply(stacked)
    with pytest.raises(TypeError, match="gno_aggregate: offsets of graph is float64, needs int32"):
        apply(jax.tree.map(lambda leaf: 1.0 * leaf, graphs[0]))
    with pytest.raises(TypeError, match="gno_aggregate: offsets of graph is of type NoneType"):
        apply(jax.tree.map(lambda leaf: None, graphs[0]))
    with pytest.raises(ValueError, match=r"edge_ids of graph has shape \(7, 2\), needs \(8, 2\)"):
        arrays = graphs[0].arrays
        apply(jax.tree.unflatten(
            jax.tree.structure(graphs[0]), arrays._replace(edge_ids=arrays.edge_ids[1:])
        ))  # fmt: skip
    with pytest.raises(ValueError, match=r"kappa has shape \(8, 3, 2\), needs \(n_edges=11"):
        jax.jit(apply)(random_graph(0).pad(ROOM))
    with pytest.raises(ValueError, match=r"(?s)inconsistent sizes.*graph\.indices"):
        jax.vmap(apply)(random_graph(0))


def test_a_donated_graph_is_copied_anew():
    graph = gg.Graph.from_edges([0, 1, 2, 0], [1, 0, 1, 2])
    x = jnp.ones((3, 2))

    def total(graph, x):
        return gj.agg_simple(x, graph=graph, aggregation="sum")

    expected = total(graph, x)
    donating = jax.jit(lambda graph, x: (graph, total(graph, x)), donate_argnums=0)
    for _ in range(2):
        np.testing.assert_array_equal(donating(gj.Graph.of(graph), x)[1], expected)
        np.testing.assert_array_equal(total(graph, x), expected)


def test_values_are_no_linear_functions():
    graph = gg.Graph.from_edges([0, 1, 2, 0], [1, 0, 1, 2])
    for of in (
        lambda x: gj.agg_weighted(x, jnp.ones(4), graph=graph, aggregation="max"),
        lambda x: gj.agg_weighted(x, x[0, :1] * jnp.ones(4), graph=graph),
        lambda x: gj.edge_softmax(jnp.concatenate([x, x[:1]]), graph=graph)[:3],
    ):
        with pytest.raises(NotImplementedError, match=r"jax\.linear_transpose"):
            jax.linear_transpose(of, jnp.ones((3, 2)))(jnp.ones((3, 2)))


def test_bilinear_operators_are_transposed_by_each_input():
    graph, rng = gg.Graph.from_edges([0, 1, 2, 0], [1, 0, 1, 2]), np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(rng.standard_normal(shape), jnp.float32)

    for of, given in (
        (lambda x, w: gj.agg_weighted(x, w, graph=graph), (normal(3, 2), normal(4))),
        (lambda h, k: gj.gno_aggregate(h, k, graph=graph), (normal(3, 2), normal(4, 2, 5))),
    ):
        out, pull = jax.vjp(of, *given)
        cotangent = normal(*out.shape)
        for k, expected in enumerate(pull(cotangent)):

            def one(x, of=of, given=given, k=k):
                return of(*given[:k], x, *given[k + 1 :])

            def transposed(c, one=one, x=given[k]):
                return jax.linear_transpose(one, x)(c)[0]

            np.testing.assert_array_equal(transposed(cotangent), expected)
            np.testing.assert_array_equal(jax.jit(transposed)(cotangent), expected)

    # an implicit solver transposes the operator of its system
    def solved(b):
        def system(x):
            return 4 * x + gj.agg_weighted(x, jnp.full(4, 0.5, jnp.float32), graph=graph)

        return jax.lax.custom_linear_solve(
            system,
            b,
            solve=lambda a, b: jax.scipy.sparse.linalg.gmres(a, b, tol=1e-7)[0],
            transpose_solve=lambda a, b: jax.scipy.sparse.linalg.gmres(a, b, tol=1e-7)[0],
        )

    matrix = jax.jacrev(
        lambda x: 4 * x + gj.agg_weighted(x, jnp.full(4, 0.5, jnp.float32), graph=graph)
    )(jnp.zeros((3, 1), jnp.float32))[:, 0, :, 0]
    found = jax.grad(lambda b: solved(b).sum())(normal(3, 1))
    np.testing.assert_allclose(found[:, 0], np.linalg.solve(matrix.T, np.ones(3)), rtol=1e-4)


def test_graphs_that_are_stacked_tell_so():
    """No numbers of one graph are told of several, outside of vmap."""
    one = gj.Graph.of(gg.Graph.from_edges([0, 1, 2, 0], [1, 0, 1, 2]))
    stacked = jax.tree.map(lambda x: jnp.stack([x, x]), one)
    for name in ("n_src", "n_dst", "n_edges", "sizes", "src", "dst", "is_edge"):
        with pytest.raises(ValueError, match=r"several graphs, stacked, are for jax\.vmap"):
            getattr(stacked, name)
        if name in ("src", "dst", "is_edge"):
            assert jax.vmap(lambda g, n=name: getattr(g, n))(stacked).shape == (2, 4)
    assert "n_src" not in repr(stacked)


def test_damaged_graphs_are_refused():
    graph = gj.Graph.of(gg.Graph.from_edges([0, 1, 2, 0], [1, 0, 1, 2]))
    assert jax.tree.all(
        jax.tree.map(np.array_equal, pickle.loads(pickle.dumps(graph)).arrays, graph.arrays)
    )
    for name, array in graph.arrays._asdict().items():
        wrong = gj.Graph(graph.arrays._replace(**{name: array.at[-1].set(2**30)}))
        with pytest.raises(ValueError, match="graph: "):
            pickle.loads(pickle.dumps(wrong))
