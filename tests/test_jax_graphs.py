# SPDX-License-Identifier: MIT
"""Graphs as data of JAX programs: arguments, room for more edges, transforms, files."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import calls
import gnograd as gg
from conftest import few, pairs
from gnograd.notation import shapes

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
gj = pytest.importorskip("gnograd.jax")

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)

NAMES = [name for name in calls.calls() if "graph" in getattr(gg, name).static]
FORMS = [name for name in calls.FORMS if name in NAMES]
every_operator = pytest.mark.parametrize("name", few(NAMES, *FORMS))
"""The rest of the operators is exhaustive: `gnograd.jax` treats all in one way."""
N, ROOM = 8, 11
"""Edges of the graph that all tests use, and rows of edge arrays where there is room for more."""


def random_graph(seed, n_edges=N, n_src=5, n_dst=5):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n_src, n_edges), rng.integers(0, n_dst, n_edges)
    return gg.Graph.from_edges(*ends, n_src, n_dst)


def bind(name, n_edges=N):
    """Inputs, and the operator on JAX arrays with the graph as its first argument.

    Static arrays with a number an edge have `n_edges` of them.
    """
    inputs, static = calls.calls()[name]
    static = static | of_edges(name, n_edges)

    def function(graph, *inputs, **arrays):
        return getattr(gj, name)(*inputs, graph=graph, **(static | arrays))

    return tuple(inputs), function, static


def of_edges(name, n_edges):
    """Static arrays with a number an edge."""
    arrays, static = getattr(gg, name).declaration.arrays, calls.calls()[name][1]
    return {key: np.resize(static[key], n_edges) for key in arrays if "n_edges" in arrays[key]}


def is_on_edges(spec):
    """True if an array has a row for every edge."""
    return spec.removeprefix("real ").startswith("n_edges")


def outputs_of(result):
    return result if isinstance(result, tuple) else (result,)


def assert_same(actual, expected):
    for a, e in zip(outputs_of(actual), outputs_of(expected), strict=True):
        assert_array_equal(np.asarray(a), e)


def faces(function):
    """Value, vjp, jvp and hvp in one program: of a graph, inputs, cotangent and tangents."""

    def everything(graph, inputs, cotangent, tangents):
        def pulled(*x):
            return jax.vjp(lambda *x: function(graph, *x), *x)[1](cotangent)

        value, changed = jax.jvp(lambda *x: function(graph, *x), inputs, tangents)
        vjp, hvp = jax.jvp(pulled, inputs, tangents)
        return value, changed, vjp, hvp

    return everything


def like(arrays, seed):
    return jax.tree.map(lambda a: np.random.default_rng(seed).normal(size=np.shape(a)), arrays)


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
        found = longer(outputs_of(arrays), are_on_edges, fill)
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


def energy(x, graph, layers):
    h, *layers = layers
    coords = x[graph.dst] - x[graph.src]
    return jnp.sin(gj.gno(h, coords, *layers, graph=graph, activation="tanh")).sum()


def energy_arguments():
    h, _, *layers = map(jnp.asarray, calls.gno_inputs(weighted=False))
    return jnp.asarray(*calls.normal((5, 2), seed=1)), [h, *layers]


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


# ---- training, with what people train with ----


def test_optax():
    optax = pytest.importorskip("optax")
    layers = energy_arguments()[1]
    rng = np.random.default_rng(0)
    optimizer = optax.adam(1e-2)

    def loss(layers, x, graph, target):
        h, *network = layers
        coords = x[graph.dst] - x[graph.src]
        out = gj.gno(h, coords, *network, graph=graph, activation="tanh", reduction="mean")
        return jnp.mean((out - target) ** 2)

    @jax.jit
    def step(layers, state, x, graph, target):
        value, gradient = jax.value_and_grad(loss)(layers, x, graph, target)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(layers, updates), state, value

    state, losses = optimizer.init(layers), []
    data = [(rng.random((5, 2)), random_graph(n, n).pad(12)) for n in range(6, 12)]
    for _ in range(30):
        total = 0.0
        for x, graph in data:
            layers, state, value = step(layers, state, x, graph, np.sin(x))
            total += float(value)
        losses.append(total)
    assert losses[-1] < 0.1 * losses[0]
    assert step._cache_size() == 1


def test_equinox():
    eqx = pytest.importorskip("equinox")

    class Layer(eqx.Module):
        h: jax.Array
        layers: list[jax.Array]
        graph: gj.Graph

        def __call__(self, x):
            return energy(x, self.graph, [self.h, *self.layers])

    x, (h, *layers) = energy_arguments()
    model = Layer(h, layers, gj.Graph.of(random_graph(0)))
    value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(lambda model: model(x)))(model)
    assert_allclose(value, energy(x, random_graph(0), [h, *layers]), rtol=1e-13)
    expected = jax.grad(energy, argnums=2)(x, random_graph(0), [h, *layers])
    for a, e in zip([gradient.h, *gradient.layers], expected, strict=True):
        assert_allclose(a, e, rtol=1e-12, atol=1e-14)
    assert not jax.tree.leaves(gradient.graph)


# ---- other processes ----


def run_in_new_process(code, *arguments, **environment):
    found = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=300,
        env=dict(os.environ, JAX_PLATFORMS="cpu", **environment),
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


PRELUDE = """
import sys
import numpy as np, jax, jax.numpy as jnp
from jax import export
jax.config.update("jax_enable_x64", True)
import gnograd as gg, gnograd.jax as gj

def random_graph(seed, n_edges=8, n=5):
    rng = np.random.default_rng(seed)
    return gg.Graph.from_edges(rng.integers(0, n, n_edges), rng.integers(0, n, n_edges), n, n)

rng = np.random.default_rng(0)
h, kappa = rng.normal(size=(5, 3)), rng.normal(size=(8, 3, 2))
"""


def exported(function, *arguments, **more):
    export = pytest.importorskip("jax.export")
    known = [export.DisabledSafetyCheck.custom_call("gnograd")]
    program = export.export(jax.jit(function), disabled_checks=known)(*arguments)
    pytest.importorskip("flatbuffers")
    return program.serialize(**more)


@pytest.mark.exhaustive
def test_export(tmp_path):
    h, kappa = np.random.default_rng(0).normal(size=(5, 3)), np.zeros((8, 3, 2))

    def apply(h, kappa, graph):
        return gj.gno_aggregate(h, kappa, graph=graph)

    (tmp_path / "program").write_bytes(
        exported(apply, h, kappa, gj.Graph.of(random_graph(0)), vjp_order=1)
    )
    run_in_new_process(
        PRELUDE + """
program = export.deserialize(open(sys.argv[1], "rb").read())
for seed in (1, 2):
    graph = random_graph(seed)
    out = gg.gno_aggregate(h, kappa, graph=graph)
    np.testing.assert_array_equal(program.call(h, kappa, gj.Graph.of(graph)), out)
    to_h, to_kappa = jax.grad(
        lambda h, k: jnp.vdot(out, program.call(h, k, gj.Graph.of(graph))), argnums=(0, 1)
    )(jnp.asarray(h), jnp.asarray(kappa))
    expected = gg.gno_aggregate.vjp(out, (h, kappa), graph=graph)
    np.testing.assert_array_equal(to_h, expected[0])
    np.testing.assert_array_equal(to_kappa, expected[1])
""", tmp_path / "program",
    )  # fmt: skip


@every_operator
def test_export_for_any_sizes(name):
    export = pytest.importorskip("jax.export")
    inputs, function, _ = bind(name)
    sizes = dict(zip(("n_src", "n_dst", "n_edges"), export.symbolic_shape("s, d, e"), strict=True))
    specs = getattr(gg, name).declaration.inputs.values()

    def shaped(array, spec):
        dims = shapes.parse(spec).dims
        shape = (sizes.get(dim, n) for dim, n in zip(dims, array.shape, strict=True))
        return jax.ShapeDtypeStruct(tuple(shape), array.dtype)

    def gradients(graph, inputs, arrays):
        def loss(inputs):
            outputs = function(graph, *inputs, **arrays)
            return sum(jnp.sin(out).sum() for out in outputs_of(outputs))

        return jax.grad(loss)(inputs)

    every = tuple(shaped(*pair) for pair in zip(inputs, specs, strict=False))
    arrays = {key: shaped(array, "n_edges") for key, array in of_edges(name, N).items()}
    graph = gj.Graph.shaped(*sizes.values())
    program = export.deserialize(exported(gradients, graph, every, arrays))
    graph = gj.Graph.of(random_graph(3, 9))
    inputs = tuple(
        np.concatenate([x, x[:1]]) if is_on_edges(spec) else x
        for x, spec in zip(inputs, specs, strict=False)
    )
    arguments = graph, inputs, of_edges(name, 9)
    assert_same(program.call(*arguments), jax.jit(gradients)(*arguments))


@pytest.mark.parametrize("wide", [True, False])
def test_what_a_graph_tells_for_any_sizes(wide):
    export = pytest.importorskip("jax.export")
    sizes = export.symbolic_shape("s, d, e")

    def told(graph):
        return graph.offsets, graph.edge_ids, graph.in_degree, graph.is_edge, graph.src, graph.dst

    graph = gj.Graph.of(random_graph(3, 9).pad(12))
    try:
        jax.config.update("jax_enable_x64", wide)
        program = export.export(jax.jit(told))(gj.Graph.shaped(*sizes))
        assert_same(program.call(graph), told(graph))
    finally:
        jax.config.update("jax_enable_x64", True)


@pytest.mark.exhaustive
def test_kept_compilations(tmp_path):
    code = """
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.split("/")[-1]))
graph = random_graph(int(sys.argv[2]))
out = jax.jit(gj.gno_aggregate)(h, kappa, graph=graph)
np.testing.assert_array_equal(out, gg.gno_aggregate(h, kappa, graph=graph))
print(events.count("cache_hits"), events.count("cache_misses"))
"""
    assert run_in_new_process(PRELUDE + code, tmp_path, 1).split() == ["0", "1"]
    assert run_in_new_process(PRELUDE + code, tmp_path, 2).split() == ["1", "0"]


@pytest.mark.exhaustive
def test_many_devices():
    """Data-parallel training: a graph a device, parameters on all, gradients summed."""
    run_in_new_process(
        PRELUDE + """
from jax.sharding import PartitionSpec as P
graphs = [random_graph(seed, n_edges).pad(10) for seed, n_edges in ((0, 8), (1, 5))]
kappa = rng.normal(size=(10, 3, 2))
stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(gj.Graph.of, graphs))

def loss(h, kappa, graph):
    return jnp.sin(gj.gno_aggregate(h, kappa, graph=graph)).sum()

def local(h, kappa, graph):
    mine = jax.tree.map(lambda leaf: leaf[0], graph)
    return jax.lax.psum(loss(h, kappa, mine), "devices")

mesh = jax.make_mesh((2,), ("devices",))
specs = dict(mesh=mesh, in_specs=(P(), P(), P("devices")), out_specs=P())
total = jax.shard_map(local, **specs)
stacked = jax.device_put(stacked, jax.sharding.NamedSharding(mesh, P("devices")))
value, gradient = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))(h, kappa, stacked)
expected = [jax.value_and_grad(loss, argnums=(0, 1))(h, kappa, graph) for graph in graphs]
np.testing.assert_allclose(value, expected[0][0] + expected[1][0], rtol=1e-13)
for got, *each in zip(gradient, expected[0][1], expected[1][1]):
    np.testing.assert_allclose(got, sum(each), rtol=1e-12, atol=1e-14)
inside = jax.jit(jax.shard_map(jax.grad(local), **specs))(h, kappa, stacked)
np.testing.assert_allclose(inside, gradient[0], rtol=1e-12, atol=1e-14)
hessian = jax.jit(jax.hessian(total))(h, kappa, stacked)
each = [jax.hessian(loss)(h, kappa, graph) for graph in graphs]
np.testing.assert_allclose(hessian, sum(each), rtol=1e-12, atol=1e-13)
""", XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(jax, "set_mesh"), reason="needs a JAX that has jax.set_mesh")
def test_meshes_with_explicit_axes():
    """Types name the parts of arrays there, of which an operator takes the whole."""
    run_in_new_process(
        """
import jax
import jax.numpy as jnp
import numpy as np
import gnograd as gg
import gnograd.jax as gj
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

jax.config.update("jax_enable_x64", True)
graph = gg.Graph.from_edges([0, 1, 2, 3, 0], [1, 0, 3, 2, 2])
rng = np.random.default_rng(0)
x, w = rng.normal(size=(4, 6)), rng.normal(size=5)
batch = rng.normal(size=(4, 4, 6))

def loss(x, w):
    return jnp.sin(gj.agg_weighted(x, w, graph=graph)).sum()

functions = [
    (jax.value_and_grad(loss, (0, 1)), (x, w), (P(None, "d"), P())),
    (jax.hessian(loss), (x, w), (P("d"), P())),
    (jax.vmap(jax.grad(loss), (0, None)), (batch, w), (P("d"), P())),
]
mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Explicit,))
for function, arrays, specs in functions:
    expected = function(*arrays)
    with jax.set_mesh(mesh):
        parts = [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(arrays, specs)]
        got = jax.jit(function)(*parts)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected)):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
""", XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )  # fmt: skip


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
