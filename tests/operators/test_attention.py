# SPDX-License-Identifier: MIT
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import faces
import gnograd as gg
import table
from conftest import Edges, power_law
from gnograd import _core
from gnograd.backends.cpu import address
from memory import needs_linux, temporary_bytes
from reference import attention as reference
from table import SEED

ALL = [case for case in table.of("attention") if case.name != "edge_softmax"]
DROPPED = [case for case in ALL if "dropout" in case.static]
PLAIN = [case for case in ALL if "dropout" not in case.static and not case.many]
every_case = pytest.mark.parametrize("case", ALL, ids=str)
plain_cases = pytest.mark.parametrize("case", PLAIN, ids=str)
dropped_cases = pytest.mark.parametrize("case", DROPPED, ids=str)
PLAIN_OF = {name: table.the(name, num_heads=2) for name in ("mha_gat", "mha_gat_v2", "mha_simple")}
SIMPLE = PLAIN_OF["mha_simple"]


# ---- forward ----


def test_scores_far_apart(rng):
    """Softmax neither overflows nor loses the largest score."""
    edges = power_law(30, 300)
    for factor in (1e3, 1e30):
        q, k, v, _ = (
            None if x is None else x.astype(np.float32) for x in SIMPLE.inputs(edges, rng)
        )
        static = {"graph": edges.graph, "num_heads": 2}
        out = gg.mha_simple(factor * q, k, v, **static)
        expected = reference.mha_simple(
            factor * q.astype(float), k, v, None, edges.src, edges.dst, 30, num_heads=2
        )
        assert_allclose(out, expected, atol=1e-3)
        gradients = gg.mha_simple.vjp(out, (factor * q, k, v), **static)
        assert all(np.all(np.isfinite(g)) for g in gradients if g is not None)


# ---- vjp ----


def saved_scores(operator, static, inputs, graph, d):
    """Forward and vjp by the C interface with the scores of every edge."""
    E, H = graph.n_edges, static["num_heads"]
    sizes = [H, d // H] + ([0] if operator is gg.mha_gat else [])
    codes = [1, 1] if operator is gg.mha_simple else [1, 0, 0.2]
    codes += [0.0, 0]
    extra = [np.empty((E, d))] if operator is gg.mha_gat_v2 else []
    out, scores = np.empty((graph.n_dst, d)), np.empty((2, H, E))
    gradients = [None if x is None else np.empty_like(x) for x in inputs]

    def call(face, *arrays):
        function = getattr(_core, f"gnograd_{operator.name}_{face}_r64")
        assert function(graph.handle, *sizes, *codes, *map(address, arrays)) == 0

    call("forward", *inputs, out, None, scores, *extra)
    call("vjp", out, *inputs, None, None, scores, *extra, *gradients)
    return out, scores, gradients


@pytest.mark.parametrize("case", PLAIN_OF.values(), ids=str)
def test_saved_scores(case, rng):
    edges, operator = power_law(20, 100), case.operator
    inputs, static = case.inputs(edges, rng), {"num_heads": 2}
    out, (s, alpha), gradients = saved_scores(operator, static, inputs, edges.graph, 4)
    assert_allclose(out, operator(*inputs, graph=edges.graph, **static), rtol=1e-13)
    expected = operator.vjp(out, inputs, graph=edges.graph, **static)
    faces.assert_all_close(gradients, expected, rtol=1e-11, atol=1e-12)
    offsets = edges.graph.offsets
    for i in range(20):
        row = slice(offsets[i], offsets[i + 1])
        weights = np.exp(s[:, row])
        assert_allclose(alpha[:, row], weights / weights.sum(axis=1, keepdims=True), rtol=1e-12)


# ---- lists of edges and whole vectors (most tests have rows and heads that fill none) ----


def lists(lengths):
    """Rows of these lengths."""
    return Edges(
        src=np.random.default_rng(0).integers(0, 20, sum(lengths)),
        dst=np.repeat(np.arange(len(lengths)), lengths),
        n_src=20,
        n_dst=len(lengths),
    )


# rows that end just before, at and behind the end of a list of 32 edges
LISTS = lists([0, 1, 31, 32, 33, 63, 0, 64, 65, 32, 2, 30])
FEW_LISTS = lists([0, 1, 30, 34, 0, 31, 32, 33, 2])


@plain_cases
def test_rows_and_lists(case, rng):
    faces.check_forward(case, FEW_LISTS, rng)
    faces.check_vjp(case, FEW_LISTS, rng)
    faces.check_hvp(case, FEW_LISTS, rng)


@pytest.mark.parametrize(
    ("num_heads", "channels"),
    [(8, 16), (4, 32), (3, 16), (1, 512), (8, 8), (6, 8), (4, 4), (12, 4)],
)
@plain_cases
def test_whole_vectors(case, num_heads, channels, rng):
    """Derivatives are adjoint and symmetric, and float32 is what float64 is."""
    case = case.change(num_heads=num_heads, C=channels)
    faces.check_adjoint(case, LISTS, rng)
    faces.check_symmetric(case, LISTS, rng)
    double = faces.Call(case, LISTS, rng)
    if not case.static.get("norm_by_dim", True):  # scores as large as with the norm
        double.inputs = double.inputs[0] / np.sqrt(channels), *double.inputs[1:]
    single = double.convert(np.float32)
    for a, b in zip(single.everything(), double.everything(), strict=True):
        if b is not None:
            assert np.linalg.norm(a - b) < 1e-4 * np.linalg.norm(b)


@pytest.mark.parametrize(("num_heads", "channels"), [(1, 3), (4, 2)])
def test_rows_in_blocks(num_heads, channels, rng):
    """Rows and sources that fit blocks of edges, that do not, and that threads share."""
    edges = lists([0, 700, 3, 0, 6000, *[6] * 200, 512, 513])
    often = rng.random(edges.n_edges) < 0.7
    src = np.where(often, 7, rng.integers(0, 300, edges.n_edges))
    edges = Edges(src, edges.dst, 300, edges.n_dst)
    for concat_heads in (True, False):
        case = PLAIN_OF["mha_gat"].change(
            num_heads=num_heads, C=channels, concat_heads=concat_heads
        )
        faces.check_forward(case, edges, rng)
        faces.check_adjoint(case, edges, rng)


# ---- dropout (all faces run with it above) ----


def weights_of(operator, edges, **static):
    """The weights of all edges after dropout, (n_edges, num_heads); each edge has a channel."""
    n, heads = edges.n_edges, static["num_heads"]
    own = Edges(src=np.arange(n), dst=edges.dst, n_src=n, n_dst=edges.n_dst)
    values = np.repeat(np.eye(n)[:, None], heads, axis=1).reshape(n, heads * n)
    zeros = np.zeros((edges.n_dst, heads * n))
    if operator is gg.mha_simple:
        inputs = zeros, np.zeros_like(values), values
    else:
        inputs = values, zeros, np.zeros(heads * n * (2 if operator is gg.mha_gat else 1))
    out = operator(*inputs, graph=own.graph, **static).reshape(edges.n_dst, heads, n)
    return out[edges.dst, :, np.arange(n)]


every_operator = pytest.mark.parametrize("operator", [gg.mha_gat, gg.mha_gat_v2, gg.mha_simple])


@every_operator
@pytest.mark.parametrize("seed", [0, -1, 2**63 - 1, -(2**63)])
def test_weights_are_dropped_by_row_and_head(operator, seed):
    edges = power_law(20, 100)
    plain = weights_of(operator, edges, num_heads=3)
    dropped = weights_of(operator, edges, num_heads=3, dropout=0.4, seed=np.array([seed]))
    factors = reference.dropout_factors(100, 3, 0.4, [seed])
    assert_array_equal(dropped == 0, factors == 0)
    assert_allclose(dropped, factors * plain, rtol=1e-15)


def test_share_of_dropped_weights():
    """The share is binomial, and independent between heads and seeds."""
    n = 200_000
    for p in (0.01, 0.5, 0.9):
        a, b = (reference.dropout_factors(n, 2, p, [seed]) == 0 for seed in (0, 1))
        for share, expected in (
            (a.mean(axis=0), p),
            ((a & b).mean(axis=0), p * p),
            ((a[:, 0] & a[:, 1]).mean(), p * p),
            ((a[1:] & a[:-1]).mean(axis=0), p * p),
        ):
            assert np.all(np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / n))


@plain_cases
def test_dropout_changes_nothing_in_the_mean(case, rng):
    edges = power_law(10, 60)
    inputs, static = case.inputs(edges, rng), case.arguments(edges)
    n = 1000
    sample = np.array(
        [case.operator(*inputs, **static, dropout=0.4, seed=np.array([k])) for k in range(n)]
    )
    error = np.abs(sample.mean(axis=0) - case.operator(*inputs, **static))
    assert np.all(error <= 5 * sample.std(axis=0) / np.sqrt(n) + 1e-12)


@dropped_cases
def test_dropout_goes_by_the_row_of_the_edge_table(case, rng):
    """The order in which a graph has its edges does not matter."""
    edges = power_law(10, 60)
    call = faces.Call(case, edges, rng)
    inputs, tangents, (cotangent,), static = (
        call.inputs,
        call.tangents,
        call.cotangents,
        call.static,
    )
    by_destination = rng.permutation(60)
    by_destination = by_destination[np.argsort(edges.dst[by_destination], kind="stable")]
    shuffled = gg.Graph(
        edges.graph.offsets, edges.src[by_destination].astype(np.int32), edges.n_src, by_destination
    )
    assert not np.array_equal(shuffled.edge_ids, edges.graph.edge_ids)
    other = {**static, "graph": shuffled}
    for face, *arguments in (
        ("vjp", cotangent, inputs),
        ("hvp", cotangent, inputs, tangents),
    ):
        call = getattr(case.operator, face)
        faces.assert_all_close(
            call(*arguments, **other), call(*arguments, **static), rtol=1e-11, atol=1e-12
        )
    assert_allclose(case.operator(*inputs, **other), case.operator(*inputs, **static), rtol=1e-11)


@plain_cases
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_dropout_and_nothing_else(case, dtype, rng):
    edges = power_law(10, 60)
    call = faces.Call(case, edges, rng, dtype)
    inputs, tangents, c, static = call.inputs, call.tangents, call.cotangents, call.static

    def everything(**dropout):
        given = static | dropout
        out, (_, lse, *_) = case.operator.forward(*inputs, return_saved=True, **given)
        return [
            out,
            lse,
            case.operator.jvp(inputs, tangents, **given),
            *case.operator.vjp(c, inputs, **given),
            *case.operator.hvp(c, inputs, tangents, **given),
        ]

    plain, none, all_ = (
        everything(),
        everything(dropout=0.0, seed=SEED),
        everything(dropout=1.0, seed=SEED),
    )
    for a, b in zip(plain, none, strict=True):
        assert_array_equal(a, b)
    assert_array_equal(plain[1], all_[1])  # the softmax is that of all edges
    assert all(not np.any(x) for x in (all_[0], *all_[2:]) if x is not None)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dropout": -0.1}, ValueError, "dropout is -0.1, needs a number from 0 to 1"),
        ({"dropout": 1.01}, ValueError, "dropout is 1.01, needs a number from 0 to 1"),
        ({"dropout": np.nan}, ValueError, "dropout is nan, needs a number from 0 to 1"),
        ({"dropout": "0.5"}, TypeError, "dropout is '0.5', needs a number"),
        ({"seed": None}, TypeError, r"seed is missing, needs an array of shape \(1,\)"),
        ({"seed": 3}, TypeError, "seed is of type int, needs an array"),
        ({"seed": np.array([3], np.int32)}, TypeError, "seed is int32, needs int64"),
        ({"seed": np.array([1, 2])}, ValueError, r"seed has shape \(2,\), needs \(1,\)"),
    ],
)
@every_operator
def test_wrong_dropout_is_refused(operator, change, error, message, rng):
    edges = power_law(6, 20)
    static = {"graph": edges.graph, "num_heads": 2, "dropout": 0.5, "seed": SEED} | change
    inputs = PLAIN_OF[operator.name].inputs(edges, rng)
    with pytest.raises(error, match=f"^{operator.name}: {message}"):
        operator(*inputs, **static)
    with pytest.raises(error, match=f"^{operator.name}: {message}"):
        operator.vjp(np.ones((6, 4)), inputs, **static)


# ---- degenerate graphs (all faces run on every graph above) ----


NAN_EDGES = power_law(60, 700)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_case
def test_nan_reaches_the_rows_that_see_it_and_no_others(case, dtype, rng):
    inputs = case.inputs(NAN_EDGES, rng, dtype)
    src, dst = NAN_EDGES.src, NAN_EDGES.dst
    for k, x in enumerate(inputs):
        if x is None:
            continue
        spoilt = list(inputs)
        spoilt[k] = x.copy()
        spoilt[k][::23] = np.nan
        rows = np.zeros(NAN_EDGES.n_dst, bool)
        nan = np.isnan(spoilt[k]).reshape(len(x), -1).any(axis=1)
        if x.ndim == 1:
            rows[dst] = True
        elif len(x) == NAN_EDGES.n_edges:
            rows[dst[nan]] = True
        elif k == (0 if case.operator is gg.mha_simple else 1):
            rows[dst[nan[dst]]] = True
        else:
            rows[dst[nan[src]]] = True
        out = case.operator(*spoilt, **case.arguments(NAN_EDGES))
        assert_array_equal(np.isnan(out).any(axis=1), rows)
        gradients = case.operator.vjp(np.ones_like(out), spoilt, **case.arguments(NAN_EDGES))
        sources = np.isin(np.arange(NAN_EDGES.n_src), src[rows[dst]])
        value = 2 if case.operator is gg.mha_simple else 0
        assert_array_equal(np.isnan(gradients[value]).any(axis=1) | (value == k) & sources, sources)


# ---- errors ----


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"a": np.ones(9)}, ValueError, r"a has shape \(9,\)"),
        ({"a": np.ones(10)}, ValueError, "a has weights for edge features, but e is missing"),
    ],
)
def test_refused(change, error, message, rng):
    edges = power_law(6, 20)
    named = dict(zip(gg.mha_gat.inputs, PLAIN_OF["mha_gat"].inputs(edges, rng), strict=True))
    with pytest.raises(error, match=f"^mha_gat: {message}"):
        gg.mha_gat(**{**named, "graph": edges.graph, "num_heads": 2, **change})


def test_error_of_the_library_leaves_the_output(rng):
    edges = power_law(6, 20)
    x, y, a, _ = PLAIN_OF["mha_gat"].inputs(edges, rng)
    graph, out = edges.graph, np.full((6, 4), 7.0)
    for sizes, activation in (((0, 2, 0), 0), ((2, 2, 0), 7), ((2, 2, 1), 0)):
        arrays = map(address, (x, y, a, None, out, None, None))
        status = _core.gnograd_mha_gat_forward_r64(
            graph.handle, *sizes, 1, activation, 0.2, 0.0, 0, *arrays
        )
        assert status == 1
        assert np.all(out == 7)


# ---- memory ----


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize(
    ("case", "face"),
    [(PLAIN[0], "forward"), (PLAIN[0], "vjp"), (PLAIN[3], "hvp"), (PLAIN[5], "hvp")],
    ids=str,
)
def test_peak_memory_is_as_documented(case, face):
    pieces = 2 + 1024 + 200_000 // 4096
    fields = {"forward": 0, "vjp": 2, "hvp": 4}[face]
    bound = 8 * (pieces * (64 * 4 + 8 * 64) + 4 * 4 * 20_000 + fields * 4 * 200_000)
    slack = 4 * 2**20  # stacks of threads, rounding to pages
    case = case.change(num_heads=4, C=16)
    measured = temporary_bytes(faces.large_call, case, face, 20_000, 200_000)
    assert measured <= bound + slack
