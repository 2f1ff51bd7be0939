# SPDX-License-Identifier: MIT
"""The branches of native sparse attention."""

import mmap
import sys
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
import table
from faces import convert, error, like
from reference import nsa as reference
from table import selected
from table_case import SIZES, int64

CASES, LARGE = (
    [case for case in table.of("nsa", large=large) if case.name != "compress"]
    for large in (False, True)
)
BLOCKS = table.the("selected_attention", block_size=4)


def first(outputs):
    return outputs[0] if isinstance(outputs, tuple) else outputs


def cotangents(case, out, lse=None):
    """A cotangent of out in the form that the operator takes."""
    return (out, lse) if case.operator is gg.compressed_attention else out


# ---- forward ----


@pytest.mark.parametrize("case", CASES + LARGE, ids=str)
def test_forward(case, rng):
    inputs, static = case.inputs(None, rng), case.arguments()
    _, (out, lse) = case.operator.forward(*inputs, return_saved=True, **static)
    expected_out, expected_lse = case.oracle(static)(*inputs)
    assert_allclose(out, expected_out, rtol=1e-12, atol=1e-12)
    assert_allclose(lse, expected_lse, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("d_k", [1, 16, 33, 256])
@pytest.mark.parametrize("block_size", [1, 5, 16, 256])
def test_sizes_of_every_kind(d_k, block_size, rng):
    sizes = dict(Tq=20, Tk=3 * block_size + 1, Hq=5, Hk=1, Dk=d_k, Dv=257 - d_k, n=3)
    case = selected(block_size=block_size, **sizes)
    inputs, static = case.inputs(None, rng), case.arguments()
    assert_allclose(
        gg.selected_attention(*inputs, **static), case.oracle(static)(*inputs)[0],
        rtol=1e-11, atol=1e-11,
    )  # fmt: skip


def test_groups_wider_than_a_panel(rng):
    case = selected(block_size=4, Tq=5, Tk=9, Hq=100, Hk=1)
    inputs, static = case.inputs(None, rng), case.arguments()
    expected = case.oracle(static)(*inputs)[0]
    assert_allclose(gg.selected_attention(*inputs, **static), expected, rtol=1e-12, atol=1e-12)


def test_duplicates(rng):
    inputs = BLOCKS.inputs(None, rng)
    once = np.array([[[0, 2, -1]] * 2] * 7, np.int32)
    twice = np.array([[[0, 2, 0]] * 2] * 7, np.int32)
    attend = partial(gg.selected_attention, *inputs, block_size=4)
    assert_array_equal(attend(block_index=twice), attend(block_index=once))
    assert not np.allclose(
        attend(block_index=twice, duplicates="count"), attend(block_index=once), atol=1e-3
    )
    with pytest.raises(ValueError, match="block_index names a block twice for query 0"):
        attend(block_index=twice, duplicates="error")


def test_the_order_of_the_selection_does_not_matter(rng):
    case = CASES[2]
    inputs, static = case.inputs(None, rng), case.arguments()
    turned = {**static, "block_index": static["block_index"][..., ::-1].copy()}
    assert_array_equal(
        gg.selected_attention(*inputs, **static), gg.selected_attention(*inputs, **turned)
    )


def test_branches_agree(rng):
    """All blocks selected, one window and compressed tokens of one token are the same."""
    inputs = BLOCKS.inputs(None, rng)[:3]
    blocks = np.broadcast_to(np.arange(3, dtype=np.int32), (7, 2, 3))
    static = {"causal": True, "q_offset": 4}
    dense = gg.window_attention(*inputs, **static)
    selected = gg.selected_attention(*inputs, block_index=blocks, block_size=4, **static)
    compressed, _ = gg.compressed_attention(*inputs, block=1, stride=1, **static)
    assert_allclose(selected, dense, rtol=1e-12, atol=1e-12)
    assert_allclose(compressed, dense, rtol=1e-12, atol=1e-12)


# ---- hvp ----


def test_double_backward_formulas(rng):
    """The formulas of the double backward pass with cotangents a, b, c of dq, dk, dv."""
    (q, k, v), (a, b, c) = rng.normal(size=(2, 3, 40, 6))
    g = rng.normal(size=(40, 6))
    scale = 6**-0.5
    p = np.exp(scale * q @ k.T)
    p /= p.sum(1, keepdims=True)
    d = np.sum(g * (p @ v), 1, keepdims=True)
    dp = g @ v.T
    gb = scale * (a @ k.T + q @ b.T)
    rho = np.sum(gb * p, 1, keepdims=True)
    pb = gb * (dp - d) - rho * dp + g @ c.T
    sb = p * (pb - np.sum(p * pb, 1, keepdims=True))
    ds = p * (dp - d)
    t = p * (gb - rho)
    expected = scale * (sb @ k + ds @ b), scale * (sb.T @ q + ds.T @ a), t.T @ g
    heads = [x[:, None] for x in (q, k, v, a, b, c, g)]
    blocks = np.broadcast_to(np.arange(5, dtype=np.int32), (40, 1, 5))
    static = {"block_index": blocks, "block_size": 8}
    actual = gg.selected_attention.hvp(heads[6], heads[:3], heads[3:6], **static)
    for x, y in zip(actual, expected, strict=False):
        assert_allclose(x[:, 0], y, rtol=1e-10, atol=1e-10)
    tangent = gg.selected_attention.jvp(heads[:3], heads[3:6], **static)
    assert_allclose(tangent[:, 0], t @ v + p @ c, rtol=1e-10, atol=1e-10)


# ---- float32 ----


@pytest.mark.parametrize("case", [LARGE[k] for k in (0, 2, 4, 5)], ids=str)
def test_float32_is_as_good_as_the_plain_formula(case, rng):
    """The error against float64 is at most twice that of the formulas in float32 NumPy.

    Errors are of every array of every face, in the median over draws: gradients to slopes are six
    numbers that may nearly cancel, and one such draw would outweigh all others in a mean.
    """
    ours, plain = zip(*(float32_errors(case, rng) for _ in range(3)), strict=True)
    ours, plain = (np.median(errors, axis=0) for errors in (ours, plain))
    assert np.all(ours <= 2 * plain + np.finfo(np.float32).eps)


def float32_errors(case, rng):
    """Errors of forward, jvp, vjp and hvp: the operator's, the plain formulas'."""
    static = case.arguments()
    single = case.inputs(None, rng, np.float32)
    tangents = like(single, rng)
    shape = (*single[0].shape[:2], single[2].shape[2])
    cotangent = rng.normal(size=shape).astype(np.float32)

    def formulas(dtype):
        x, t, (g,) = (convert(a, dtype) for a in (single, tangents, (cotangent,)))
        evaluate = partial(reference.faces, cotangent=g, tangents=t)
        return case.oracle(static)(*x, evaluate=evaluate)

    given = cotangents(case, cotangent)
    actual = [
        first(case.operator(*single, **static)),
        first(case.operator.jvp(single, tangents, **static)),
        *there(case.operator.vjp(given, single, **static)),
        *there(case.operator.hvp(given, single, tangents, **static)),
    ]
    assert all(x.dtype == np.float32 for x in actual)
    exact, plain = there(formulas(float)), there(formulas(np.float32))
    return error(actual, exact), error(plain, exact)


def there(arrays):
    return [x for x in arrays if x is not None]


# ---- degenerate ----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 1e3, 1e18])
def test_rows_without_keys_are_zero_and_never_nan(size, dtype, rng):
    case = selected(True, block_size=4, causal=True, q_offset=-2)
    inputs, static = case.inputs(None, rng, dtype), case.arguments()
    inputs = inputs[0] * dtype(size), *inputs[1:]
    static["block_index"][:] = [0, -1]
    static["block_index"][4] = -1
    inputs[3][6] = 0
    out, (_, lse) = gg.selected_attention.forward(*inputs, return_saved=True, **static)
    tangents, cotangent = like(inputs, rng), like([out], rng)[0]
    gradients = gg.selected_attention.vjp(cotangent, inputs, **static)
    tangent = gg.selected_attention.jvp(inputs, tangents, **static)
    seconds = gg.selected_attention.hvp(cotangent, inputs, tangents, **static)
    assert all(np.isfinite(x).all() for x in (out, *gradients, tangent, *seconds))
    blind = [0, 1, 4, 6]
    assert np.isneginf(lse[blind]).all()
    assert np.isfinite(lse[[2, 3, 5]]).all()
    for x in (out, tangent, gradients[0], seconds[0], gradients[3], seconds[3]):
        assert not x[blind].any()
    for x in (*gradients[1:3], *seconds[1:3]):
        assert not x[4:].any()


def sizes_of(case):
    return [(SIZES | case.sizes)[name] for name in ("Tq", "Tk", "Hq", "Hk")]


def gated(case):
    return "slot_gate" in case.operator.inputs and "slot_gate" not in case.absent


def sees(case, static):
    """Mask of the keys that queries see, by key/value head."""
    t_q, t_k, _, h_k = sizes_of(case)
    q, k = np.ones((t_q, h_k, 1)), np.ones((t_k, h_k, 1))
    # a cotangent in one row gives gradients to the values that this row sees
    static = {name: value for name, value in static.items() if name != "scale"}
    out = np.zeros((t_q, t_k, h_k), bool)
    gate = (np.ones((t_q, h_k, (SIZES | case.sizes)["n"])),) if gated(case) else ()
    for t in range(t_q):
        g = np.zeros((t_q, h_k, 1))
        g[t] = 1
        inputs = (q, k, np.ones((t_k, h_k, 1)), *gate)
        inputs += (None,) * (len(case.operator.inputs) - len(inputs))
        grad_v = case.operator.vjp(cotangents(case, g), inputs, wrt="v", **static)[2]
        out[t] = grad_v[..., 0] != 0
    return out


PLAIN = "positions_q positions_k slope"
ONE_NAN = [
    *CASES,
    table.case("window_attention", PLAIN, window=20, Tq=70, Tk=70, Hq=2, Dk=5, Dv=3),
    table.case("window_attention", PLAIN, window=9, causal=True, Tq=150, Tk=150, Dk=5, Dv=3),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("case", "which"),
    [(case, which) for case in ONE_NAN for which in range(4 if gated(case) else 3)],
    ids=str,
)
def test_nan_reaches_the_rows_that_see_it_and_no_others(case, which, dtype, rng):
    inputs, static = case.inputs(None, rng, dtype), case.arguments()
    t_q, t_k, h_q, h_k = sizes_of(case)
    group = h_q // h_k
    visible = sees(case, static)
    spoilt = list(inputs)
    spoilt[which] = inputs[which].copy()
    token, head = inputs[which].shape[0] // 2, h_k - 1
    if which == 0:
        spoilt[0][token, h_q - 1, 0] = np.nan
        rows = np.zeros((t_q, h_q), bool)
        rows[token, h_q - 1] = visible[token, :, head].any()
    elif which in (1, 2):
        spoilt[which][token, head, 0] = np.nan
        rows = np.zeros((t_q, h_k), bool)
        rows[:, head] = visible[:, token, head]
        rows = np.repeat(rows, group, 1)
    else:
        spoilt[3][token, head] = np.nan
        rows = np.zeros((t_q, h_k), bool)
        rows[token, head] = visible[token, :, head].any()
        rows = np.repeat(rows, group, 1)
    keys = np.zeros((t_k, h_k), bool)
    for h in range(h_q):
        keys[:, h // group] |= visible[rows[:, h], :, h // group].any(axis=0)

    out, (_, lse) = case.operator.forward(*spoilt, return_saved=True, **static)[:2]
    out = first(out)
    gradients = case.operator.vjp(cotangents(case, np.ones_like(out)), spoilt, **static)
    tangents = tuple(None if x is None else np.ones_like(x) for x in inputs)
    tangent = first(case.operator.jvp(spoilt, tangents, **static))
    seconds = case.operator.hvp(cotangents(case, np.ones_like(out)), spoilt, tangents, **static)
    if which != 2:  # a value does not matter to lse
        assert_array_equal(np.isnan(lse), rows)
    for x in (out, tangent):
        assert_array_equal(np.isnan(x).any(axis=2), rows)
    for grads in (gradients, seconds):
        assert_array_equal(np.isnan(grads[0]).any(axis=2), rows)
        assert_array_equal(np.isnan(grads[1]).any(axis=2), keys)
        if which != 2:
            assert_array_equal(np.isnan(grads[2]).any(axis=2), keys)
    # and a cotangent
    g = np.ones_like(out)
    g[token % t_q, h_q - 1, 0] = np.nan
    clean = case.operator.vjp(cotangents(case, g), inputs, **static)
    of_row = visible[token % t_q, :, head]
    assert np.isnan(clean[0]).any(axis=2).sum() == int(of_row.any())
    for grad in clean[1:3]:
        expected = np.zeros((t_k, h_k), bool)
        expected[:, head] = of_row
        assert_array_equal(np.isnan(grad).any(axis=2), expected)


def test_sizes_near_the_largest_integer_are_no_limit(rng):
    q, k, v = (rng.normal(size=(9, 2, 3)) for _ in range(3))
    huge = 2**63 - 1
    blocks = np.zeros((1, 2, 1), np.int32)
    for causal in (False, True):
        for static in ({"window": huge}, {"window": 2**62}):
            out = gg.window_attention(q, k, v, causal=causal, **static)
            assert_allclose(out, gg.window_attention(q, k, v, causal=causal))
    out = gg.selected_attention(q, k, v, block_index=blocks, block_size=9, query_block=huge)
    assert_allclose(out, gg.window_attention(q, k, v))
    out = gg.window_attention(q, k, v, causal=True, q_offset=huge)
    assert_allclose(out, gg.window_attention(q, k, v))


def test_large_logits(rng):
    """One key far above all others takes everything."""
    q = np.full((3, 1, 2), 1e3, np.float32)
    k = np.zeros((6, 1, 2), np.float32)
    k[4] = 1
    v = rng.normal(size=(6, 1, 3)).astype(np.float32)
    blocks = np.array([[[0, 1, 2]]] * 3, np.int32)
    out, (_, lse) = gg.selected_attention.forward(
        q, k, v, block_index=blocks, block_size=2, scale=1.0, return_saved=True
    )
    assert_array_equal(out, np.broadcast_to(v[4], out.shape))
    assert_allclose(lse, 2000)


def test_keys_that_nobody_selected_have_no_gradient(rng):
    case = selected(block_size=4, Tq=30, Tk=40, Dk=8, Dv=8)
    inputs, static = case.inputs(None, rng), case.arguments()
    static["block_index"] = rng.choice([1, 3, 8], (30, 2, 2)).astype(np.int32)
    named = np.isin(np.arange(40) // 4, [1, 3, 8])
    gradients = gg.selected_attention.vjp(np.ones((30, 4, 8)), inputs, **static)
    for gradient in gradients[1:3]:
        assert not gradient[~named].any()
        assert gradient[named].all()


@pytest.mark.parametrize("t_q", [0, 3])
@pytest.mark.parametrize("t_k", [0, 5])
def test_nothing_to_attend(t_q, t_k):
    q, k, v = np.ones((t_q, 2, 3)), np.ones((t_k, 2, 3)), np.ones((t_k, 2, 4))
    blocks = np.full((t_q, 2, 2), -1, np.int32)
    for attend in (
        partial(gg.selected_attention.vjp, block_index=blocks, block_size=2),
        partial(gg.window_attention.vjp, window=2, causal=True, q_offset=-9),
    ):
        gradients = attend(np.ones((t_q, 2, 4)), (q, k, v))
        assert all(not g.any() for g in gradients if g is not None)


def test_no_slots():
    q = np.ones((3, 1, 2))
    out = gg.selected_attention(q, q, q, block_index=np.zeros((3, 1, 0), np.int32), block_size=2)
    assert not out.any()


# ---- offsets beyond 32 bits ----


def untouched(shape):
    """Zeros in float32 that take no memory until they are written."""
    no_reserve = 0x4000  # MAP_NORESERVE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    memory = mmap.mmap(-1, 4 * int(np.prod(shape)), flags=flags)
    return np.frombuffer(memory, np.float32).reshape(shape)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for memory that is never used")
def test_more_keys_than_32_bits_count(rng):
    last, heads, features = 40, 128, 128
    n_keys = 2**31 // (heads * features) + last
    few = [rng.normal(size=(last, heads, features)).astype(np.float32) for _ in range(2)]
    many = [untouched((n_keys, heads, features)) for _ in few]
    for x, end in zip(many, few, strict=True):
        x[-last:] = end
    q, g = rng.normal(size=(2, 3, heads, features)).astype(np.float32)

    def faces(k, v, block):
        static = {"block_index": np.full((3, heads, 1), block, np.int32), "block_size": 256}
        attend, inputs, tangents = gg.selected_attention, (q, k, v, None), (g, v, k, None)
        return [
            attend(*inputs, **static),
            attend.vjp(g, inputs, wrt={"q"}, **static)[0],
            attend.jvp(inputs, tangents, **static),
            attend.hvp(g, inputs, tangents, wrt={"q"}, **static)[0],
        ]

    for a, b in zip(faces(*many, n_keys // 256), faces(*few, 0), strict=True):
        assert a.any()
        assert_array_equal(a, b)


# ---- errors ----


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": np.ones((7, 3, 3))}, ValueError, "query heads must be a multiple of"),
        ({"v": np.ones((11, 2, 257))}, ValueError, "that of q and k is 3, that of v 257"),
        (
            {"q": np.ones((7, 4, 0)), "k": np.ones((11, 2, 0))},
            ValueError,
            "head dimensions must lie between 1 and 256",
        ),
        ({"block_size": 0}, ValueError, "block_size is 0, needs 1 to 256"),
        ({"block_size": 257}, ValueError, "block_size is 257, needs 1 to 256"),
        ({"query_block": 2}, ValueError, "block_index has shape"),
        ({"query_block": 0}, ValueError, "query_block is 0, needs at least 1"),
        ({"block_index": np.zeros((7, 2, 2))}, TypeError, "block_index is float64, needs int32"),
        ({"block_index": None}, TypeError, "block_index is missing"),
        ({"block_index": np.full((7, 2, 2), 3, np.int32)}, IndexError, "of query 0 does not have"),
        ({"block_index": np.full((7, 2, 2), -2, np.int32)}, IndexError, "of query 0 does not have"),
        ({"cu_q": int64(0, 3, 7)}, ValueError, "different numbers of sequences|cu_k"),
        ({"cu_q": int64(0, 8), "cu_k": int64(0, 11)}, ValueError, "cu_q must rise from 0"),
        ({"cu_q": int64(0, 7), "cu_k": int64(1, 11)}, ValueError, "cu_k must rise from 0"),
        ({"cu_q": np.array([0, 7], np.int32)}, TypeError, "cu_q is int32, needs int64"),
        (
            {"slot_gate": np.array([[[1, 2], [3, -4]]] + 6 * [[[1.0, 2], [3, 4]]])},
            ValueError,
            r"slot_gate\[0, 1, 1\] is -4.0, needs a number that is not negative",
        ),
        ({"block_index": np.ma.zeros((7, 2, 2), np.int32)}, TypeError, "is a masked array"),
    ],
)
def test_refused(change, error, message, rng):
    case = CASES[0]
    inputs = dict(zip(("q", "k", "v", "slot_gate"), case.inputs(None, rng), strict=True))
    with pytest.raises(error, match=f"^selected_attention: .*({message})"):
        gg.selected_attention(**{**inputs, **case.arguments(), **change})


def test_refused_windows(rng):
    q = rng.normal(size=(4, 1, 2))
    for window in (-1, 0):
        with pytest.raises(ValueError, match=rf"^window_attention: window is {window}, needs at"):
            gg.window_attention(q, q, q, window=window)
    with pytest.raises(ValueError, match=r"^compressed_attention: stride is 0, needs at least 1"):
        gg.compressed_attention(q, q, q, block=2, stride=0)
    empty, more = q[:, :, :0], {"block": 2, "stride": 1}
    for attention, static in (gg.window_attention, {}), (gg.compressed_attention, more):
        with pytest.raises(ValueError, match=f"^{attention.name}: head dimensions must lie"):
            attention(empty, empty, q, **static)
