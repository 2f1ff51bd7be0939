# SPDX-License-Identifier: MIT
"""Dense attention and its adjoint by the values."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
from faces import convert, error, like
from memory import needs_linux, temporary_bytes
from reference import dense as reference
from reference import derivatives

OPERATORS = [gg.attention, gg.attention_pool]
every_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: o.name)


@dataclass(frozen=True)
class Case:
    """Sizes of the inputs, and static arguments."""

    name: str
    sizes: tuple[int, ...] = (7, 11, 4, 2, 3, 2)
    """Queries, keys, query heads, key/value heads, features of keys and of values."""
    static: dict[str, Any] = field(default_factory=dict)
    biased: bool = False
    temperatures: int | None = None
    """Rows of temperatures; None: no temperature."""

    def __str__(self) -> str:
        return self.name

    def inputs(self, operator, rng, dtype=np.float64):
        t_q, t_k, h_q, h_k, d_k, d_v = self.sizes
        content = (t_k, h_k, d_v) if operator is gg.attention else (t_q, h_q, d_v)
        shapes = [(t_q, h_q, d_k), (t_k, h_k, d_k), content]
        inputs = [rng.normal(size=shape).astype(dtype) for shape in shapes]
        bias = rng.normal(size=(t_k, h_k)).astype(dtype) if self.biased else None
        n = self.temperatures
        heat = None if n is None else rng.uniform(0.5, 2, (n, h_q)).astype(dtype)
        return (*inputs, bias, heat)

    def cotangent(self, operator, rng, dtype=np.float64):
        t_q, t_k, h_q, h_k, _, d_v = self.sizes
        shape = (t_q, h_q, d_v) if operator is gg.attention else (t_k, h_k, d_v)
        return rng.normal(size=shape).astype(dtype)


def int64(*numbers):
    return np.array(numbers, np.int64)


PACKED = {"cu_q": int64(0, 3, 3, 7), "cu_k": int64(0, 4, 6, 11)}
WITHOUT_KEYS = {"cu_q": int64(0, 3, 5, 7), "cu_k": int64(0, 4, 4, 11)}
CASES = [
    Case("plain"),
    Case("scale", static={"scale": 0.7}),
    Case("bias", biased=True),
    Case("temperature", temperatures=7),
    Case("temperature-of-heads", temperatures=1, biased=True),
    Case("packed", static=PACKED, biased=True, temperatures=7),
    Case("without-keys", static=WITHOUT_KEYS, biased=True, temperatures=1),
    Case("one-key", (5, 1, 2, 2, 3, 2), biased=True, temperatures=5),
    Case("one-query", (1, 9, 3, 1, 1, 4), biased=True, temperatures=1),
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)

# one block of keys and several parts of queries, several blocks, and what is cut: few queries of
# many keys, few keys of many queries
LARGE = [
    Case("some", (300, 100, 6, 2, 8, 5), biased=True, temperatures=300),
    Case("blocks", (300, 401, 4, 2, 8, 8), biased=True, temperatures=300),
    Case("few-queries", (60, 1300, 2, 1, 8, 5), biased=True, temperatures=1),
    Case("few-keys", (1300, 3, 4, 4, 5, 8), biased=True, temperatures=1300),
    Case("few-queries-packed", (90, 1700, 2, 2, 4, 3),
         {"cu_q": int64(0, 29, 50, 50, 90), "cu_k": int64(0, 900, 900, 1000, 1700)}, True, 90),
    Case("few-keys-packed", (1700, 30, 2, 1, 4, 3),
         {"cu_q": int64(0, 900, 900, 1000, 1700), "cu_k": int64(0, 9, 20, 20, 30)}, True, 1),
]  # fmt: skip
every_large_case = pytest.mark.parametrize("case", LARGE, ids=str)


def expected_faces(case, operator, inputs, g, tangents):
    """Value, tangent, gradients and their tangents of either operator from attention's."""
    q, k, x, bias, heat = inputs
    zero = [None if t is None else np.zeros_like(t) for t in (x, g)]
    if operator is gg.attention:
        return reference.faces(*inputs, g, (*tangents, zero[1]), **case.static)
    t = (*tangents[:2], zero[1], *tangents[3:], tangents[2])
    value, t_value, gradients, seconds = reference.faces(q, k, g, bias, heat, x, t, **case.static)
    grads = [[*y[:2], v, *y[3:]] for y, v in ((gradients, value), (seconds, t_value))]
    return [gradients[2], seconds[2], *grads]


def close(actual, expected, tolerance):
    assert [a is None for a in actual] == [e is None for e in expected]
    for a, e in zip(actual, expected, strict=True):
        if e is not None:
            assert_allclose(a, e, rtol=tolerance, atol=tolerance)


# ---- all faces ----


@every_operator
@pytest.mark.parametrize("case", CASES + LARGE, ids=str)
def test_faces(case, operator, rng):
    inputs, g = case.inputs(operator, rng), case.cotangent(operator, rng)
    tangents = like(inputs, rng)
    value, t_value, gradients, seconds = expected_faces(case, operator, inputs, g, tangents)
    out, saved = operator.forward(*inputs, return_saved=True, **case.static)
    close([out], [value], 1e-11)
    close(operator.vjp(g, inputs, **case.static), gradients, 1e-11)
    close(operator.vjp(g, inputs, saved=saved, **case.static), gradients, 1e-11)
    close([operator.jvp(inputs, tangents, **case.static)], [t_value], 1e-11)
    close(operator.hvp(g, inputs, tangents, **case.static), seconds, 1e-10)


@every_operator
@every_case
def test_formula_and_its_derivatives(case, operator, rng):
    """The value is the formula's, and its derivatives those of a complex step."""
    inputs, g = case.inputs(operator, rng), case.cotangent(operator, rng)
    tangents = like(inputs, rng)
    formula = partial(getattr(reference, operator.name), **case.static)
    assert_allclose(operator(*inputs, **case.static), formula(*inputs), rtol=1e-12, atol=1e-12)
    close(operator.vjp(g, inputs, **case.static), derivatives.vjp(formula, inputs, g), 1e-11)
    expected = derivatives.jvp(formula, inputs, tangents)
    assert_allclose(operator.jvp(inputs, tangents, **case.static), expected, rtol=1e-11, atol=1e-11)
    close(
        operator.hvp(g, inputs, tangents, **case.static),
        derivatives.hvp(formula, inputs, g, tangents),
        1e-6,
    )


@pytest.mark.parametrize("case", CASES + LARGE, ids=str)
def test_operators_are_adjoint(case, rng):
    inputs = case.inputs(gg.attention, rng)
    c = case.cotangent(gg.attention, rng)
    pooled = gg.attention_pool(*inputs[:2], c, *inputs[3:], **case.static)
    out = gg.attention(*inputs, **case.static)
    assert_allclose(np.vdot(inputs[2], pooled), np.vdot(c, out), rtol=1e-11, atol=1e-12)
    grad_v = gg.attention.vjp(c, inputs, wrt="v", **case.static)[2]
    assert_allclose(pooled, grad_v, rtol=1e-12, atol=1e-13)


@every_operator
@every_large_case
def test_gradients_do_not_depend_on_which_are_wanted(case, operator, rng):
    inputs, g = case.inputs(operator, rng), case.cotangent(operator, rng)
    tangents = like(inputs, rng)
    for face in (
        partial(operator.vjp, g, inputs, **case.static),
        partial(operator.hvp, g, inputs, tangents, **case.static),
    ):
        everything = face()
        for k, name in enumerate(operator.inputs):
            assert_array_equal(face(wrt=[name])[k], everything[k])


@every_operator
@pytest.mark.parametrize("case", [CASES[5], *LARGE[:4]], ids=str)
def test_absent_tangents_are_zero(case, operator, rng):
    inputs, g = case.inputs(operator, rng), case.cotangent(operator, rng)
    tangents = like(inputs, rng)
    for kept in range(-1, len(inputs)):
        some = [t if i == kept else None for i, t in enumerate(tangents)]
        zeros = [t if i == kept else np.zeros_like(t) for i, t in enumerate(tangents)]
        for face in (
            partial(operator.jvp, inputs, **case.static),
            partial(operator.hvp, g, inputs, **case.static),
        ):
            a, b = (face(t) if isinstance(face(t), tuple) else (face(t),) for t in (some, zeros))
            close(a, b, 1e-12)


# ---- float32 ----


@every_operator
@every_large_case
def test_float32_is_as_good_as_the_plain_formula(case, operator, rng):
    def errors():
        single = case.inputs(operator, rng, np.float32)
        g = case.cotangent(operator, rng, np.float32)
        tangents = like(single, rng)

        def flat(value, tangent, gradients, seconds):
            return [x for x in (value, tangent, *gradients, *seconds) if x is not None]

        exact, plain = (
            flat(*expected_faces(case, operator, convert(single, kind), g.astype(kind),
                                 convert(tangents, kind)))
            for kind in (np.float64, np.float32)
        )  # fmt: skip
        actual = flat(
            operator(*single, **case.static),
            operator.jvp(single, tangents, **case.static),
            operator.vjp(g, single, **case.static),
            operator.hvp(g, single, tangents, **case.static),
        )
        assert all(x.dtype == np.float32 for x in actual)
        return error(actual, exact), error(plain, exact)

    draws = 5 if case.sizes[0] < 200 else 2  # with few rows, one may decide
    ours, plain = (
        np.median(e, axis=0) for e in zip(*(errors() for _ in range(draws)), strict=True)
    )
    assert np.all(ours <= 2 * plain + np.finfo(np.float32).eps)


# ---- degenerate ----


@every_operator
@pytest.mark.parametrize("t_q", [0, 3])
@pytest.mark.parametrize("t_k", [0, 5])
def test_nothing_there(t_q, t_k, operator, rng):
    case = Case("", (t_q, t_k, 2, 2, 3, 4), biased=True, temperatures=1)
    inputs, g = case.inputs(operator, rng), case.cotangent(operator, rng)
    tangents = like(inputs, rng)
    value = operator(*inputs)
    every = [
        value, operator.jvp(inputs, tangents), *operator.vjp(g, inputs),
        *operator.hvp(g, inputs, tangents),
    ]  # fmt: skip
    assert value.shape == g.shape
    if not t_q * t_k:
        assert not any(x.any() for x in every)
    assert all(np.isfinite(x).all() for x in every)


@pytest.mark.parametrize("n_keys", [5, 300, 1300])
def test_queries_without_keys(n_keys, rng):
    """They have value 0, an lse of -infinity, and no part in anything."""
    static = {"cu_q": int64(0, 2, 4), "cu_k": int64(0, n_keys, n_keys)}
    case = Case("", (4, n_keys, 2, 1, 3, 2), static, True, 4)
    inputs, g = case.inputs(gg.attention, rng), case.cotangent(gg.attention, rng)
    out, (_, lse) = gg.attention.forward(*inputs, return_saved=True, **static)
    assert np.isneginf(lse[2:]).all()
    assert np.isfinite(lse[:2]).all()
    assert not out[2:].any()
    gradients = gg.attention.vjp(g, inputs, **static)
    seconds = gg.attention.hvp(g, inputs, like(inputs, rng), **static)
    for grads in (gradients, seconds):
        assert all(np.isfinite(x).all() for x in grads)
        assert not grads[0][2:].any()
        assert not grads[4][2:].any()


@every_operator
@pytest.mark.parametrize("n_keys", [6, 200, 1300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_logits(n_keys, dtype, operator, rng):
    """Logits of 1e30: one key takes everything, and nothing overflows."""
    case = Case("", (5, n_keys, 2, 2, 2, 3), {"scale": 1.0}, True, 1)
    inputs, g = case.inputs(operator, rng, dtype), case.cotangent(operator, rng, dtype)
    inputs[0][:] = 1e15
    inputs[1][:] = -5e14
    inputs[1][4] = 5e14
    inputs[3][:] = 1e29
    value = operator(*inputs, **case.static)
    if operator is gg.attention:
        assert_array_equal(value, np.broadcast_to(inputs[2][4], value.shape))
    else:
        assert_allclose(value[4], inputs[2].sum(axis=0), rtol=1e-6)
        assert not np.delete(value, 4, axis=0).any()
    for grads in (
        operator.vjp(g, inputs, **case.static),
        operator.hvp(g, inputs, like(inputs, rng), **case.static),
        [operator.jvp(inputs, like(inputs, rng), **case.static)],
    ):
        assert all(np.isfinite(x).all() for x in grads)


@every_operator
def test_keys_may_be_hidden_by_their_bias(operator, rng):
    """A key with a bias of -infinity has weight 0."""
    case = Case("", (7, 11, 2, 2, 3, 2), biased=True)
    inputs = case.inputs(operator, rng)
    inputs[3][[2, 9]] = -np.inf
    fewer = [x if x is None or len(x) == 7 else np.delete(x, [2, 9], axis=0) for x in inputs]
    value, expected = operator(*inputs), operator(*fewer)
    if operator is gg.attention_pool:
        assert not value[[2, 9]].any()
        value = np.delete(value, [2, 9], axis=0)
    assert_allclose(value, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_keys", [11, 300, 1300])
@pytest.mark.parametrize("which", range(5))
def test_nan_reaches_the_rows_that_see_it_and_no_others(which, n_keys, dtype, rng):
    static = {"cu_q": int64(0, 3, 7), "cu_k": int64(0, 4, n_keys)}
    case = Case("", (7, n_keys, 4, 2, 3, 2), static, True, 7)
    inputs, c = case.inputs(gg.attention, rng, dtype), case.cotangent(gg.attention, rng, dtype)
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


# ---- determinism ----


@every_operator
@every_large_case
def test_bits_do_not_depend_on_threads(case, operator, rng):
    inputs = case.inputs(operator, rng, np.float32)
    g, tangents = case.cotangent(operator, rng, np.float32), like(inputs, rng)

    def every():
        return [
            operator(*inputs, **case.static),
            operator.jvp(inputs, tangents, **case.static),
            *operator.vjp(g, inputs, **case.static),
            *operator.hvp(g, inputs, tangents, **case.static),
        ]

    before, found = gg.get_num_threads(), []
    try:
        for n in (1, 3):
            gg.set_num_threads(n)
            found.append(every())
    finally:
        gg.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        assert_array_equal(a, b)


def _gradients_of(n_queries, n_keys):
    q, k = np.ones((n_queries, 2, 4), np.float32), np.ones((n_keys, 2, 4), np.float32)
    return partial(gg.attention.vjp, q, (q, k, k))


@needs_linux
@pytest.mark.parametrize("sizes", [(4000, 4000), (100_000, 128), (128, 100_000)])
def test_no_array_of_queries_times_keys(sizes):
    """One such array of both heads would have a hundred megabytes."""
    assert temporary_bytes(_gradients_of, *sizes) < 32e6


# ---- errors ----


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": np.ones((7, 3, 3))}, ValueError, "query heads must be a multiple of"),
        ({"k": np.ones((11, 2, 4))}, ValueError, r"k has shape \(11, 2, 4\)"),
        ({"v": np.ones((10, 2, 2))}, ValueError, r"v has shape \(10, 2, 2\)"),
        ({"v": np.ones((11, 2, 257))}, ValueError, "head dimensions must lie between 1 and 256"),
        ({"bias": np.ones((11, 4))}, ValueError, r"bias has shape \(11, 4\)"),
        ({"temperature": np.ones((7, 2))}, ValueError, r"temperature has shape \(7, 2\)"),
        ({"temperature": np.ones((6, 4))}, ValueError, "one row of heads, or one for every query"),
        ({"temperature": np.zeros((1, 4))}, ValueError, "temperature must be positive"),
        ({"temperature": -np.ones((7, 4))}, ValueError, "temperature must be positive"),
        ({"cu_q": int64(0, 3, 7)}, ValueError, "different numbers of sequences|cu_k"),
        ({"cu_q": int64(0, 8), "cu_k": int64(0, 11)}, ValueError, "cu_q must rise from 0"),
        ({"cu_k": np.array([0, 11], np.int32)}, TypeError, "cu_k is int32, needs int64"),
        ({"k": np.ones((11, 2, 3), np.float32)}, TypeError, "float32"),
    ],
)
def test_refused(change, error, message, rng):
    inputs = dict(zip(gg.attention.inputs, CASES[0].inputs(gg.attention, rng), strict=True))
    with pytest.raises(error, match=f"^attention: .*({message})"):
        gg.attention(**{**inputs, **change})


def test_window_attention_without_a_window_is_the_same(rng):
    q, k, v = rng.normal(size=(3, 150, 2, 8))
    assert_allclose(gg.window_attention(q, k, v), gg.attention(q, k, v), rtol=1e-13, atol=1e-14)
