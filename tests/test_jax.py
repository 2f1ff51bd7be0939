# SPDX-License-Identifier: MIT
"""The JAX front: values and derivatives of every operator, transforms, programs, errors."""

from __future__ import annotations

import functools
import gc
import inspect
import pickle
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import calls
import gnograd as gg
from faces import tuple_of
from gnograd.faces.recent import Recent

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
gj = pytest.importorskip("gnograd.jax")

from calls_of_jax import assert_same  # noqa: E402

NAMES = list(calls.calls())
every_operator = pytest.mark.parametrize("name", NAMES)


def bind(name, graph):
    """Inputs, the operator on JAX arrays, and static arguments."""
    inputs, static = calls.call_of(name, graph)
    return tuple(inputs), lambda *x: getattr(gj, name)(*x, **static), static


def like(arrays, seed):
    rng = np.random.default_rng(seed)
    found = [rng.normal(size=np.shape(a)) for a in tuple_of(arrays)]
    return tuple(found) if isinstance(arrays, tuple) else found[0]


# ---- every operator: the faces are gnograd's own, to the last bit ----


def test_every_operator_is_there():
    others = "DistributedGraph", "Graph", "halo", "jax_operator", "neighborhood_moments"
    assert set(gj.__all__) == {*calls.FUNCTIONS, *others}


@every_operator
def test_vjp_jvp_hvp(name, graph):
    inputs, function, static = bind(name, graph)
    op = getattr(gg, name)
    assert_same(function(*inputs), op(*inputs, **static))
    out, pull = jax.vjp(function, *inputs)
    cotangent, tangents = like(out, 1), like(inputs, 2)
    _, saved = op.forward(*inputs, return_saved=True, **static)
    vjp = op.vjp(cotangent, inputs, saved=saved, **static)[: len(inputs)]
    assert_same(pull(jax.tree.map(jnp.asarray, cotangent)), vjp)
    assert_same(jax.jvp(function, inputs, tangents)[1], op.jvp(inputs, tangents, **static))

    hvp = op.hvp(cotangent, inputs, tangents, **static)[: len(inputs)]

    def pulled(*x):
        return jax.vjp(function, *x)[1](jax.tree.map(jnp.asarray, cotangent))

    assert_same(jax.jit(lambda x, t: jax.jvp(pulled, x, t)[1])(inputs, tangents), hvp)

    def pushed(*x):
        changes = jax.jvp(function, x, tangents)[1]
        return sum(
            jnp.vdot(c, t) for c, t in zip(*map(tuple_of, (cotangent, changes)), strict=True)
        )

    assert_same(jax.grad(pushed, argnums=tuple(range(len(inputs))))(*inputs), hvp)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_seeds_are_data_of_programs(graph, dtype):
    """One program drops other weights with another seed, in training too."""
    inputs, static = calls.call_of("mha_gat", graph)
    compiled = []

    @jax.jit
    def loss(inputs, seed):
        compiled.append(1)
        out = gj.mha_gat(*inputs, **static, dropout=0.5, seed=seed)
        return jnp.sum(out * jnp.arange(1, out.size + 1).reshape(out.shape))

    gradients = jax.jit(jax.grad(loss))
    for seed in (1, 2, -3):
        seeds = np.array([seed])
        given = static | {"dropout": 0.5, "seed": seeds}
        value = gg.mha_gat(*inputs, **given)
        weights = np.arange(1.0, value.size + 1).reshape(value.shape)
        expected = np.sum(weights * value)
        assert_allclose(loss(inputs, jnp.asarray(seeds, dtype)), expected, rtol=1e-13)
        by_hand = gg.mha_gat.vjp(weights, tuple(inputs), **given)
        for a, b in zip(gradients(inputs, jnp.asarray(seeds, dtype)), by_hand, strict=True):
            assert_allclose(a, b, rtol=1e-12)
    assert len(compiled) == 1
    with pytest.raises(TypeError, match="mha_gat: seed is missing, needs an array of shape"):
        gj.mha_gat(*inputs, **static, dropout=0.5)


def test_selection_has_no_derivative():
    q, k = calls.normal((6, 2, 3), (5, 1, 3))
    static = dict(block=2, stride=1, block_size=2, n_blocks=2)

    def select(q, k, **more):
        _, lse = gj.compressed_attention(q, k, k, block=2, stride=1)
        return gj.select_blocks(q, k, lse, **static, **more)

    _, lse = gg.compressed_attention(q, k, k, block=2, stride=1)
    expected = gg.select_blocks(q, k, lse, **static)
    assert_same(select(q, k), expected)
    cu = [np.array([0, len(q)]), np.array([0, 6])]
    packed = jax.jit(lambda *a: select(*a[:2], cu_q=a[2], cu_k=a[3], n_keys=6))
    assert_same(packed(q, k, *cu), expected)

    def attend(q):
        v = jnp.concatenate([k, k[:1]])
        return gj.selected_attention(q, v, v, block_index=select(q, k), block_size=2).sum()

    v = np.concatenate([k, k[:1]])
    vjp = gg.selected_attention.vjp(
        np.ones((6, 2, 3)), (q, v, v), block_index=expected, block_size=2
    )
    assert_allclose(jax.jit(jax.grad(attend))(q), vjp[0], rtol=1e-13, atol=1e-15)


# ---- transforms ----


def loss_of_coords(graph):
    h, coords, *rest = calls.gno_inputs()
    static = dict(graph=graph, activation="tanh")
    return coords, lambda c: jnp.sin(gj.gno(h, c, *rest, **static)).sum()


def test_hessians(graph):
    coords, loss = loss_of_coords(graph)
    forward_over_reverse = jax.jit(jax.hessian(jax.jit(loss)))(coords)
    for outer, inner in ((jax.jacrev, jax.jacrev), (jax.jacrev, jax.jacfwd)):
        hessian = jax.jit(outer(inner(loss)))(coords)
        assert_allclose(hessian, forward_over_reverse, rtol=1e-12, atol=1e-14)
    flat = hessian.reshape(16, 16)
    assert_allclose(flat, flat.T, rtol=1e-12, atol=1e-14)


def test_vmap(graph):
    coords, loss = loss_of_coords(graph)
    batch = jnp.stack([coords, 2 * coords, coords - 1])
    gradient = jax.grad(loss)
    each = jnp.stack([gradient(c) for c in batch])
    assert_allclose(jax.vmap(gradient)(batch), each, rtol=1e-14)
    summed = jax.grad(lambda b: jax.vmap(loss)(b).sum())
    assert_allclose(jax.jit(summed)(batch), each, rtol=1e-14)


def test_vmap_over_integers():
    (q, k, v), _, static = bind("selected_attention", None)
    batch = jnp.stack([static.pop("block_index"), np.zeros_like(calls.SELECTED)])

    def attend(blocks):
        return gj.selected_attention(q, k, v, block_index=blocks, **static)

    assert_same(jax.vmap(attend, out_axes=1)(batch), np.stack(list(map(attend, batch)), 1))


def test_scan_and_checkpoint(graph):
    h, kappa = calls.normal((5, 3), (8, 3, 3))

    def step(h, _):
        return jnp.tanh(gj.gno_aggregate(h, kappa, graph=graph)), None

    def scanned(h):
        return jax.lax.scan(jax.checkpoint(step), h, length=3)[0].sum()

    def unrolled(h):
        return sum(step(step(step(h, None)[0], None)[0], None)[:1]).sum()

    assert_allclose(jax.grad(scanned)(h), jax.grad(unrolled)(h), rtol=1e-13, atol=1e-15)


def test_gradient_of_one_of_two_outputs():
    inputs, function, static = bind("compressed_attention", None)
    for k in (0, 1):
        cotangents = [None, None]
        cotangents[k] = np.ones(np.shape(function(*inputs)[k]))
        expected = gg.compressed_attention.vjp(tuple(cotangents), inputs, **static)
        got = jax.grad(lambda *x, k=k: function(*x)[k].sum(), argnums=(0, 1, 2))(*inputs)
        for a, e in zip(got, expected, strict=True):
            assert_allclose(a, e, rtol=1e-12, atol=1e-14)


def test_integers_have_float0_tangents():
    (q, k, v), _, static = bind("selected_attention", None)
    blocks = static.pop("block_index").astype(np.int64)

    @jax.jit
    def attend(q, blocks):
        return gj.selected_attention(q, k, v, block_index=blocks, **static).sum()

    to_q, to_blocks = jax.grad(attend, argnums=(0, 1), allow_int=True)(q, blocks)
    assert to_blocks.dtype == jax.dtypes.float0
    vjp = gg.selected_attention.vjp(
        np.ones((7, 4, 2)), (q, k, v), block_index=calls.SELECTED, **static
    )
    assert_allclose(to_q, vjp[0], rtol=1e-13)


# ---- programs and memory ----


def spy_on_kernels(patch):
    """Log of calls of kernels: (operator, face, addresses of arrays)."""
    seen = []
    run = gg.backends.cpu.run

    def spy(operator, face, dtype, arguments):
        arrays = arguments[-len([a for a in arguments if a is None or isinstance(a, np.ndarray)]) :]
        seen.append((operator, face, [None if a is None else a.ctypes.data for a in arrays]))
        run(operator, face, dtype, arguments)

    patch.setattr(gg.backends.cpu, "run", spy)
    patch.setattr(gg.gno_aggregate, "known", Recent(8))  # as if it were the first call
    return seen


def test_buffers_are_not_copied(graph, monkeypatch):
    h, kappa = map(jnp.asarray, calls.normal((5, 3), (8, 3, 2)))
    seen = spy_on_kernels(monkeypatch)
    out = jax.block_until_ready(gj.gno_aggregate(h, kappa, graph=graph))
    pointers = [x.unsafe_buffer_pointer() for x in (h, kappa, out)]
    assert seen == [("gno_aggregate", "forward", pointers)]


def test_repeated_calls(graph, monkeypatch):
    """The second call of a kind goes to the kernel at once, with other buffers."""
    seen = spy_on_kernels(monkeypatch)
    gradient = jax.jit(
        jax.grad(lambda h, kappa: jnp.sin(gj.gno_aggregate(h, kappa, graph=graph)).sum())
    )
    for seed in range(3):
        h, kappa = calls.normal((5, 3), (8, 3, 2), seed=seed)
        cotangent = np.cos(gg.gno_aggregate(h, kappa, graph=graph))
        seen.clear()
        got = gradient(h, kappa)
        assert [face for _, face, _ in seen] == ([] if seed else ["forward", "vjp"])
        (expected, _) = gg.gno_aggregate.vjp(cotangent, (h, kappa), graph=graph)
        assert_allclose(got, expected, rtol=1e-13)


def test_unwanted_gradients_are_not_computed(graph, monkeypatch):
    h, kappa = map(jnp.asarray, calls.normal((5, 3), (8, 3, 2)))
    seen = spy_on_kernels(monkeypatch)
    jax.block_until_ready(jax.grad(lambda k: gj.gno_aggregate(h, k, graph=graph).sum())(kappa))
    (arrays,) = [arrays for _, face, arrays in seen if face == "vjp"]
    assert arrays[-2] is None
    assert arrays[-1] is not None


def test_absent_inputs_and_names(graph):
    h, coords, U, b_u, V, b_v = calls.gno_inputs(weighted=False)
    expected = gg.gno(h, coords, U, b_u, V, b_v, graph=graph)
    assert_same(gj.gno(h, coords, U=U, b_u=b_u, V=V, b_v=b_v, graph=graph), expected)
    with pytest.raises(TypeError, match="gno: h is given twice"):
        gj.gno(h, coords, U, b_u, V, b_v, h=h, graph=graph)


def test_programs_outlive_their_graphs():
    h, kappa = calls.normal((5, 3), (8, 3, 2))
    expected = gg.gno_aggregate(h, kappa, graph=calls.graph())
    graph = calls.graph()
    alive = weakref.ref(graph)
    function = functools.partial(gj.gno_aggregate, kappa=kappa, graph=graph)
    program = jax.jit(function).lower(h).compile()
    inside = jax.jit(lambda h: gj.gno_aggregate(h, kappa, graph=calls.graph()))
    _, pull = jax.vjp(lambda h: gj.gno_aggregate(h, kappa, graph=calls.graph()), h)
    del graph, function
    jax.clear_caches()
    gc.collect()
    assert alive() is None
    for run in (program, program, inside, inside):
        assert_same(run(h), expected)
    (vjp, _) = gg.gno_aggregate.vjp(expected, (h, kappa), graph=calls.graph())
    assert_same(pull(jnp.asarray(expected))[0], vjp)


def test_temporary_programs(graph):
    """The last Python object of a program goes while XLA is still at it."""
    coords, loss = loss_of_coords(graph)
    expected = jax.grad(loss)(coords)
    for k in range(10):
        assert_allclose(jax.jit(jax.grad(lambda c, k=k: loss(c) + k))(coords), expected)


def test_graph_as_static_argument(graph):
    h, kappa = calls.normal((5, 3), (8, 3, 2))
    program = jax.jit(gj.gno_aggregate, static_argnames=("graph", "reduction"))
    other = gg.Graph.from_edges(calls.DST, calls.SRC, 5, 5)
    for g in (graph, other, graph):
        assert_same(
            program(h, kappa, graph=g, reduction="mean"),
            gg.gno_aggregate(h, kappa, graph=g, reduction="mean"),
        )
    assert program._cache_size() == 2


def test_many_threads(graph):
    coords, loss = loss_of_coords(graph)
    gradient = jax.jit(jax.grad(loss))
    expected = gradient(coords)
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: np.asarray(gradient(coords)), range(64)):
            assert_array_equal(got, expected)


def test_no_nodes():
    graph = gg.Graph([0], [])
    out = gj.gno_aggregate(np.ones((0, 3)), np.ones((0, 3, 2)), graph=graph)
    assert out.shape == (0, 2)


@pytest.fixture
def single_precision():
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


@pytest.mark.usefixtures("single_precision")
def test_without_x64(graph):
    inputs, function, static = bind("selected_attention", None)
    single = tuple(x.astype(np.float32) for x in inputs)
    expected = gg.selected_attention(*single, **static)
    # JAX's integers have 32 bits here, gnograd needs 64
    out = jax.jit(function)(*inputs)
    assert out.dtype == jnp.float32
    assert_same(out, expected)


def test_disabled_jit(graph):
    coords, loss = loss_of_coords(graph)
    expected = jax.grad(loss)(coords)
    with jax.disable_jit():
        assert_allclose(jax.grad(loss)(coords), expected, rtol=1e-14)


# ---- errors ----


def test_nan_is_found(graph):
    x = jnp.ones((graph.n_src, 2)).at[0, 0].set(jnp.nan)
    weights = jnp.ones(graph.n_edges)

    def sums(x, weights):
        return gj.agg_weighted(x, weights, graph=graph)

    with jax.debug_nans(True):
        for function in (sums, jax.jit(sums)):
            with pytest.raises(FloatingPointError, match=r"\(nan\).* agg_weighted \(forward\)"):
                function(x, weights)
        assert np.isfinite(sums(jnp.nan_to_num(x), weights)).all()
    kept = jax.vjp(sums, x, weights)[1]
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"agg_weighted \(vjp\)"):
        kept(jnp.ones((graph.n_dst, 2)))


def test_errors_when_traced(graph):
    inputs = calls.gno_inputs()
    with pytest.raises(TypeError, match="gno: h is float32 but coords is float64"):
        gj.gno(inputs[0].astype(np.float32), *inputs[1:], graph=graph)
    with pytest.raises(TypeError, match="gno: b_v is missing, needs an array of shape"):
        gj.gno(*inputs[:5], graph=graph)
    with pytest.raises(ValueError, match=r"gno: U has shape \(2, 4\), needs \(d=1, H\)"):
        jax.jit(lambda *x: gj.gno(*x, graph=graph))(inputs[0], inputs[1][:, :1], *inputs[2:])
    with pytest.raises(TypeError, match="gno: h is of type list, needs an array"):
        gj.gno(inputs[0].tolist(), *inputs[1:], graph=graph)
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    with pytest.raises(TypeError, match="gno: h is of type ShapeDtypeStruct, needs an array"):
        gj.gno(*shapes, graph=graph)
    assert jax.eval_shape(lambda *x: gj.gno(*x, graph=graph), *shapes).shape[0] == graph.n_dst
    with pytest.raises(TypeError, match=r"gno: graph is of type int, needs a gnograd\.Graph"):
        gj.gno(*inputs, graph=3)
    with pytest.raises(TypeError, match="gno: unknown argument 'edges'"):
        gj.gno(*inputs, graph=graph, edges=graph)
    wanted = jax.ShapeDtypeStruct
    half = [wanted(x.shape, jnp.bfloat16) for x in inputs]
    with pytest.raises(TypeError, match="gno: h is bfloat16, needs float32 or float64"):
        jax.eval_shape(lambda *x: gj.gno(*x, graph=graph), *half)
    with pytest.raises(TypeError, match="gno: h is int32, needs float32 or float64"):
        gj.gno(np.ones((5, 3), np.int32), *inputs[1:], graph=graph)
    selected, _, static = bind("selected_attention", None)
    with pytest.raises(TypeError, match="block_index is float64, needs int32"):
        jax.eval_shape(
            lambda *x: gj.selected_attention(*x, **static | {"block_index": 1.0 * calls.SELECTED}),
            *selected,
        )
    q, k, v, *_ = bind("window_attention", None)[0]
    with pytest.raises(TypeError, match="window_attention: scale is a JAX array"):
        jax.jit(lambda scale: gj.window_attention(q, k, v, scale=scale))(0.5)


def test_errors_when_computed():
    inputs, _, static = bind("selected_attention", None)
    outside = dict(static, block_index=calls.SELECTED + 1)
    # JAX raises one or the other, as XLA is done with it before the call returns or not
    kinds = (jax.errors.JaxRuntimeError, ValueError)
    with pytest.raises(
        kinds, match=r"INVALID_ARGUMENT: selected_attention: .* a block that the seq"
    ):
        jax.block_until_ready(gj.selected_attention(*inputs, **outside))


def test_functions_are_pickled_and_have_signatures():
    for name in gj.__all__:
        function = getattr(gj, name)
        assert pickle.loads(pickle.dumps(function)) is function
    parameters = inspect.signature(gj.gno).parameters
    assert list(parameters) == list(inspect.signature(gg.gno).parameters)
    assert parameters["graph"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["reduction"].default == "sum"
    assert parameters["edge_weight"].annotation == "jax.Array | None"
    assert gj.gno.__module__ == "gnograd.jax"


def test_a_tangent_is_linear_in_its_direction(graph):
    """The derivative of a jvp by its direction is the jvp along the other one."""
    coords, loss = loss_of_coords(graph)
    first, second = like((coords, coords), 1)

    def along(t):
        return jax.jvp(loss, (coords,), (t,))[1]

    for mapped in (lambda f: f, jax.jit):
        _, moved = mapped(lambda: jax.jvp(along, (first,), (second,)))()
        assert_allclose(moved, along(second), rtol=1e-12)


def test_derivatives_that_there_are_not(graph):
    coords, loss = loss_of_coords(graph)
    with pytest.raises(NotImplementedError, match="gno: there is no second derivative in forward"):
        jax.jit(jax.jacfwd(jax.jacfwd(loss)))(coords)
    for third in (jax.jacrev(jax.hessian(loss)), jax.jacrev(jax.jacrev(jax.jacrev(loss)))):
        with pytest.raises(NotImplementedError, match="gno: there are no third derivatives"):
            jax.jit(third)(coords)


def test_programs_of_other_versions():
    from gnograd.jax import task, xla

    text = task.Task(gg.agg_weighted, (("aggregation", "sum"),)).text
    assert task.Task.read(text.encode()).op is gg.agg_weighted
    with pytest.raises(RuntimeError, match="needs the operator agg_heavy, which there is not"):
        task.Task.read(text.replace("agg_weighted", "agg_heavy").encode())
    with pytest.raises(RuntimeError, match="made for another version"):
        xla.Call(xla._CallFrame())


@pytest.mark.parametrize(
    "code",
    [
        "import sys, gnograd; assert 'jax' not in sys.modules",
        """
import sys
sys.modules["jax"] = None
try:
    import gnograd.jax
except ImportError as error:
    assert "gnograd.jax needs JAX" in str(error) and "pip install" in str(error)
else:
    raise SystemExit("no error")
""",
    ],
    ids=["not imported", "missing"],
)
def test_jax_is_optional(code):
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("wrong", [2**31, 2**32 + 1, 2**63 - 1, -(2**32)])
@pytest.mark.parametrize("x64", [True, False])
def test_integers_are_not_cut(wrong, x64):
    """Large integers are refused, not cut to their lower half."""
    graph = gg.Graph.from_edges([0, 1, 2, 2], [1, 2, 0, 1])
    x, kinds = np.ones((3, 2), np.float32), np.array([0, 1, wrong, 1])
    q = np.ones((4, 1, 2), np.float32)
    with jax.enable_x64(x64):
        given = [kinds, jnp.asarray(kinds)] if x64 else [kinds]
        for kinds in given:
            with pytest.raises(Exception, match=r"agg_relational: edge_type\[2\]"):
                jax.block_until_ready(
                    gj.agg_relational(x, graph=graph, edge_type=kinds, n_relations=3)
                )
        cu = np.array([0, wrong + 4])
        with pytest.raises(Exception, match="window_attention: cu_q"):
            jax.block_until_ready(gj.window_attention(q, q, q, window=2, cu_q=cu, cu_k=cu))
    swapped = gj.agg_simple(x.astype(">f4"), graph=graph)
    np.testing.assert_array_equal(swapped, gj.agg_simple(x, graph=graph))
