# SPDX-License-Identifier: MIT
"""Dense attention and its adjoint by the values."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
import table
from faces import Call, assert_all_close, error, like
from memory import needs_linux, temporary_bytes
from reference import dense as reference
from table_case import case, int64

OPERATORS = ["attention", "attention_pool"]
every_operator = pytest.mark.parametrize("name", OPERATORS)
every_large_case = pytest.mark.parametrize("large", table.of("dense", large=True), ids=str)


def expected_faces(call):
    """Value, tangent, gradients and their tangents of either operator from attention's."""
    q, k, x, bias, heat = inputs = call.inputs
    (g,), tangents, static = call.cotangents, call.tangents, call.static
    zero = [None if t is None else np.zeros_like(t) for t in (x, g)]
    if call.operator is gg.attention:
        return reference.faces(*inputs, g, (*tangents, zero[1]), **static)
    t = (*tangents[:2], zero[1], *tangents[3:], tangents[2])
    value, t_value, gradients, seconds = reference.faces(q, k, g, bias, heat, x, t, **static)
    grads = [[*y[:2], v, *y[3:]] for y, v in ((gradients, value), (seconds, t_value))]
    return [gradients[2], seconds[2], *grads]


# ---- all faces ----


@every_large_case
def test_faces_by_their_formulas(large, rng):
    call = Call(large, None, rng)
    value, t_value, gradients, seconds = expected_faces(call)
    out, saved = call.operator.forward(*call.inputs, return_saved=True, **call.static)
    for actual, expected in (
        ([out], [value]),
        (call.vjp(), gradients),
        (call.vjp(saved=saved), gradients),
        (call.jvp(), [t_value]),
    ):
        assert_all_close(actual, expected, rtol=1e-11, atol=1e-11)
    assert_all_close(call.hvp(), seconds, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("attention", table.of("attention_pool"), ids=str)
def test_operators_are_adjoint(attention, rng):
    call = Call(replace(attention, name="attention"), None, rng)
    inputs, (c,), static = call.inputs, call.cotangents, call.static
    pooled = gg.attention_pool(*inputs[:2], c, *inputs[3:], **static)
    assert_allclose(np.vdot(inputs[2], pooled), np.vdot(c, *call.forward()), rtol=1e-11, atol=1e-12)
    assert_allclose(pooled, call.vjp(wrt="v")[2], rtol=1e-12, atol=1e-13)


# ---- float32 ----


@pytest.mark.exhaustive
@every_large_case
def test_float32_is_as_good_as_the_plain_formula(large, rng):
    def errors():
        single = Call(large, None, rng, np.float32)
        exact, plain = (
            [x for group in ([a], [b], c, d) for x in group if x is not None]
            for a, b, c, d in map(expected_faces, (single.convert(float), single))
        )
        actual = [
            x for face in (single.forward, single.jvp, single.vjp, single.hvp) for x in face()
            if x is not None
        ]  # fmt: skip
        assert all(x.dtype == np.float32 for x in actual)
        return error(actual, exact), error(plain, exact)

    draws = 5 if large.sizes["Tq"] < 200 else 2  # with few rows, one may decide
    ours, plain = (
        np.median(e, axis=0) for e in zip(*(errors() for _ in range(draws)), strict=True)
    )
    assert np.all(ours <= 2 * plain + np.finfo(np.float32).eps)


# ---- degenerate ----


@every_operator
@pytest.mark.parametrize("t_q", [0, 3])
@pytest.mark.parametrize("t_k", [0, 5])
def test_nothing_there(t_q, t_k, name, rng):
    call = Call(case(name, Tq=t_q, Tk=t_k, Hq=2, Dv=4, Tt=1), None, rng)
    every = call.everything()
    assert every[0].shape == (t_q if name == "attention" else t_k, 2, 4)
    if not t_q * t_k:
        assert not any(x.any() for x in every)
    assert all(np.isfinite(x).all() for x in every)


@pytest.mark.parametrize("n_keys", [5, 300, 1300])
def test_queries_without_keys(n_keys, rng):
    """They have value 0, an lse of -infinity, and no part in anything."""
    static = {"cu_q": int64(0, 2, 4), "cu_k": int64(0, n_keys, n_keys)}
    call = Call(case("attention", Tq=4, Tk=n_keys, Hq=2, Hk=1, Tt=4, **static), None, rng)
    out, (_, lse) = gg.attention.forward(*call.inputs, return_saved=True, **static)
    assert np.isneginf(lse[2:]).all()
    assert np.isfinite(lse[:2]).all()
    assert not out[2:].any()
    for grads in (call.vjp(), call.hvp()):
        assert all(np.isfinite(x).all() for x in grads)
        assert not grads[0][2:].any()
        assert not grads[4][2:].any()


@every_operator
@pytest.mark.parametrize(
    ("cu_q", "cu_k"), [((0, 2, 5, 5), (0, 20, 21, 621)), ((0, 0, 5), (0, 600, 600))]
)
def test_many_keys_of_sequences_without_queries(cu_q, cu_k, name, rng):
    static = {"cu_q": int64(*cu_q), "cu_k": int64(*cu_k)}
    sizes = {"Tq": cu_q[-1], "Tk": cu_k[-1], "Hq": 2, "Hk": 1, "Tt": 1}
    call = Call(case(name, **sizes, **static), None, rng)
    value, t_value, gradients, seconds = expected_faces(call)
    assert_all_close(call.forward(), [value], rtol=1e-11, atol=1e-11)
    assert_all_close(call.jvp(), [t_value], rtol=1e-11, atol=1e-11)
    assert_all_close(call.vjp(), gradients, rtol=1e-11, atol=1e-11)
    assert_all_close(call.hvp(), seconds, rtol=1e-10, atol=1e-10)


@every_operator
@pytest.mark.parametrize("n_keys", [6, 200, 1300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_logits(n_keys, dtype, name, rng):
    """Logits of 1e30: one key takes everything, and nothing overflows."""
    large = case(name, Tq=5, Tk=n_keys, Hq=2, Dk=2, Dv=3, Tt=1, scale=1.0)
    call = Call(large, None, rng, dtype)
    inputs = call.inputs
    inputs[0][:] = 1e15
    inputs[1][:] = -5e14
    inputs[1][4] = 5e14
    inputs[3][:] = 1e29
    (value,) = call.forward()
    if name == "attention":
        assert_array_equal(value, np.broadcast_to(inputs[2][4], value.shape))
    else:
        assert_allclose(value[4], inputs[2].sum(axis=0), rtol=1e-6)
        assert not np.delete(value, 4, axis=0).any()
    assert all(np.isfinite(x).all() for x in call.everything())


@every_operator
def test_large_logits_beside_small_ones(name, rng):
    """Of rows that are computed together, some need their largest logit subtracted."""
    call = Call(case(name, Tq=5, Tk=11, Hq=2, Dk=2, Dv=3, Tt=1, scale=1.0), None, rng)
    call.inputs[0][2] *= 1e3
    value, t_value, gradients, seconds = expected_faces(call)
    for actual, expected in (
        (call.forward(), [value]),
        (call.jvp(), [t_value]),
        (call.vjp(), gradients),
        (call.hvp(), seconds),
    ):
        assert_all_close(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_of_values_near_the_largest_number(dtype):
    q, k = np.zeros((5, 1, 2), dtype), np.zeros((64, 1, 2), dtype)
    v = np.full((64, 1, 3), np.finfo(dtype).max / 2, dtype)
    assert_allclose(gg.attention(q, k, v), v[:5], rtol=1e-6)


@every_operator
def test_keys_may_be_hidden_by_their_bias(name, rng):
    """A key with a bias of -infinity has weight 0."""
    biased = case(name, "temperature", Hq=2)
    inputs, operator = biased.inputs(None, rng), biased.operator
    inputs[3][[2, 9]] = -np.inf
    fewer = [x if x is None or len(x) == 7 else np.delete(x, [2, 9], axis=0) for x in inputs]
    value, expected = operator(*inputs), operator(*fewer)
    if name == "attention_pool":
        assert not value[[2, 9]].any()
        value = np.delete(value, [2, 9], axis=0)
    assert_allclose(value, expected, rtol=1e-12, atol=1e-14)


@every_operator
@pytest.mark.parametrize("n_keys", [11, 300, 1300])
@pytest.mark.parametrize("n_queries", [7, 600])
def test_hidden_keys_need_not_be_finite(n_queries, n_keys, name, rng):
    """Results are those without the keys, and gradients to them 0."""
    sizes = {"Tq": n_queries, "Tk": n_keys, "Tt": n_queries}
    call = Call(case(name, **sizes, cu_q=None, cu_k=None), None, rng)
    hidden = [2, n_keys - 2]
    spoilt, fewer = [], []
    for arrays in (call.inputs, call.tangents, call.cotangents):
        fewer.append([np.delete(x, hidden, 0) if len(x) == n_keys else x for x in arrays])
        spoilt.append([x.copy() for x in arrays])
        for x in spoilt[-1]:
            if len(x) == n_keys:
                x[hidden] = np.nan
    spoilt[0][3][hidden] = -np.inf

    def faces(inputs, tangents, cotangents):
        operator, static = call.operator, call.static
        yield operator(*inputs, **static)
        yield operator.jvp(inputs, tangents, **static)
        yield from operator.vjp(cotangents[0], inputs, **static)
        yield from operator.hvp(cotangents[0], inputs, tangents, **static)

    for found, expected in zip(faces(*spoilt), faces(*fewer), strict=True):
        if len(found) == n_keys:
            assert not found[hidden].any()
            found = np.delete(found, hidden, 0)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_keys", [11, 300, 1300])
@pytest.mark.parametrize("which", range(5))
def test_nan_reaches_the_rows_that_see_it_and_no_others(which, n_keys, dtype, rng):
    static = {"cu_q": int64(0, 3, 7), "cu_k": int64(0, 4, n_keys)}
    call = Call(case("attention", Tk=n_keys, **static), None, rng, dtype)
    inputs, (c,) = call.inputs, call.cotangents
    spoilt = [x.copy() for x in inputs]
    rows, keys = np.zeros((7, 4), bool), np.zeros((n_keys, 2), bool)
    if which in (0, 4):
        spoilt[which][5, 3] = np.nan
        rows[5, 3] = True
    else:
        spoilt[which][n_keys - 2, 1] = np.nan
        rows[3:, 2:] = True
    keys[4:, 1] = True
    tangents = like(inputs, rng)
    out = gg.attention(*spoilt, **static)
    tangent = gg.attention.jvp(spoilt, tangents, **static)
    for x in (out, tangent):
        assert_array_equal(np.isnan(x).any(axis=2), rows)
    for grads in (gg.attention.vjp(c, spoilt, **static),
                  gg.attention.hvp(c, spoilt, tangents, **static)):  # fmt: skip
        assert_array_equal(np.isnan(grads[0]).any(axis=2), rows)
        assert_array_equal(np.isnan(grads[1]).any(axis=2), keys)
        assert_array_equal(np.isnan(grads[3]), keys)
        assert_array_equal(np.isnan(grads[4]), rows)
    if which != 2:
        pool = [*spoilt[:2], c, *spoilt[3:]]
        for pooled in (gg.attention_pool(*pool, **static),
                       gg.attention_pool.jvp(pool, like(pool, rng), **static)):  # fmt: skip
            assert_array_equal(np.isnan(pooled).any(axis=2), keys)


# ---- memory ----


def _gradients_of(n_queries, n_keys, width=4):
    q, k = np.ones((n_queries, 2, width), np.float32), np.ones((n_keys, 2, width), np.float32)
    return partial(gg.attention.vjp, q, (q, k, k))


@needs_linux
@pytest.mark.parametrize("sizes", [(4000, 4000), (100_000, 128), (128, 100_000)])
def test_no_array_of_queries_times_keys(sizes):
    """One such array of both heads would have a hundred megabytes."""
    assert temporary_bytes(_gradients_of, *sizes) < 32e6


@needs_linux
def test_gradients_of_few_keys_need_no_outputs():
    """They would have 26 MB; all else has 6 to 9, as memory happens to be mapped."""
    assert temporary_bytes(_gradients_of, 50_000, 64, 64) < 16e6


# ---- errors ----


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": np.ones((7, 3, 3))}, ValueError, "query heads must be a multiple of"),
        ({"v": np.ones((11, 2, 257))}, ValueError, "head dimensions must lie between 1 and 256"),
        ({"temperature": np.ones((6, 4))}, ValueError, "one row of heads, or one for every query"),
        ({"temperature": np.zeros((1, 4))}, ValueError, "temperature must be positive"),
        ({"temperature": -np.ones((7, 4))}, ValueError, "temperature must be positive"),
        ({"cu_q": int64(0, 3, 7)}, ValueError, "different numbers of sequences|cu_k"),
        ({"cu_q": int64(0, 8), "cu_k": int64(0, 11)}, ValueError, "cu_q must rise from 0"),
        ({"cu_k": np.array([0, 11], np.int32)}, TypeError, "cu_k is int32, needs int64"),
    ],
)
def test_refused(change, error, message, rng):
    inputs = dict(
        zip(gg.attention.inputs, table.the("attention", scale=0.7).inputs(None, rng), strict=True)
    )
    with pytest.raises(error, match=f"^attention: .*({message})"):
        gg.attention(**{**inputs, **change})


def test_window_attention_without_a_window_is_the_same(rng):
    q, k, v = rng.normal(size=(3, 150, 2, 8))
    assert_allclose(gg.window_attention(q, k, v), gg.attention(q, k, v), rtol=1e-13, atol=1e-14)
