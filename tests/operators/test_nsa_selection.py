# SPDX-License-Identifier: MIT
"""Compressed tokens, and the blocks that are selected by them."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
import table
from faces import convert, error, like, rms
from memory import needs_linux, temporary_bytes
from reference import nsa as reference

COMPRESS = table.the("compress")

# ---- compress ----


@pytest.mark.parametrize("case", table.of("compress", large=False), ids=str)
def test_compressed_offsets(case, rng):
    static = case.arguments()
    offsets = gg.compressed_offsets(static.get("cu", [0, 20]), static["block"], static["stride"])
    assert offsets[-1] == len(gg.compress(*case.inputs(None, rng), **static))


def test_compress_float32(rng):
    """The error is at most twice that of the formula in float32 NumPy."""
    static = {"block": 32, "stride": 16}
    formula = partial(reference.compress, **static)
    draws = []
    for _ in range(4):
        inputs = COMPRESS.change(**static, T=3000, Hk=2, D=8).inputs(None, rng, np.float32)
        tangents = like(inputs, rng)
        cotangent = like([formula(*inputs)], rng)[0]

        def plain(x, w, tangents, cotangent):
            dx, dw = tangents
            grad_x = np.zeros_like(x)
            grad_w = np.zeros_like(w)
            for c, g in enumerate(cotangent):
                for i in range(32):
                    grad_x[16 * c + i] += w[i][:, None] * g
                    grad_w[i] += np.sum(g * x[16 * c + i], axis=1)
            return [formula(x, w), formula(dx, w) + formula(x, dw), grad_x, grad_w]

        actual = [
            gg.compress(*inputs, **static),
            gg.compress.jvp(inputs, tangents, **static),
            *gg.compress.vjp(cotangent, inputs, **static),
        ]
        exact = plain(*convert(inputs, float), convert(tangents, float), cotangent.astype(float))
        draws.append((error(actual, exact), error(plain(*inputs, tangents, cotangent), exact)))
    ours, theirs = zip(*draws, strict=True)
    assert np.all(rms(ours) <= 2 * rms(theirs))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"block": 0}, ValueError, "block is 0, needs at least 1"),
        ({"stride": 0}, ValueError, "stride is 0, needs at least 1"),
        ({"cu": np.array([0, 19])}, ValueError, "cu must rise from 0"),
        ({"cu": np.array([0, 12, 10, 20])}, ValueError, "cu must rise from 0"),
        ({"cu": np.array([0, 20], np.int32)}, TypeError, "cu is int32, needs int64"),
        ({"n_compressed": 8}, ValueError, "out has shape 2 3 8, needs 2 3 9"),
    ],
)
def test_compress_refused(change, error, message, rng):
    arguments = dict(zip("xw", COMPRESS.inputs(None, rng), strict=True))
    with pytest.raises(error, match=f"^compress: .*{message}"):
        gg.compress(**{**arguments, "block": 4, "stride": 2, **change})


# ---- select_blocks ----

COMPRESSED = {"block": 4, "stride": 2}
SELECT = {
    "plain": {},
    "causal": {"causal": True},
    "forced": {"causal": True, "first_blocks": 1, "local_blocks": 2},
    "offset": {"causal": True, "q_offset": 9, "n_keys": 40, "local_blocks": 1},
    "negative-offset": {"causal": True, "q_offset": -9, "local_blocks": 1},
    "balls": {"query_block": 8, "exclude_own": True},
    "ragged-balls": {"query_block": 7, "exclude_own": True, "n_keys": 53, "scale": 0.3},
    "shared-local": {"query_block": 4, "local_blocks": 1, "first_blocks": 1, "causal": True},
    "packed": {
        "cu_q": np.array([0, 12, 12, 16, 31], np.int64),
        "cu_k": np.array([0, 20, 25, 28, 57], np.int64),
        "query_block": 4,
    },
    "uneven": {"block": 5, "stride": 3, "block_size": 7, "causal": True},
    "sparse": {"block": 2, "stride": 11},
    "long": {"block": 30, "stride": 1},
    "nothing-compressed": {"block": 60},
    "all-blocks": {"n_blocks": 9},
}
every_select = pytest.mark.parametrize("change", SELECT.values(), ids=list(SELECT))


def select_inputs(change, rng, dtype=np.float64, heads=(4, 2), n_queries=31):
    """Arrays, and static arguments for them."""
    static = {**COMPRESSED, "block_size": 8, "n_blocks": 3, **change}
    n_keys = static.get("n_keys", n_queries)
    borders = static.get("cu_k", [0, n_keys])
    compressed = {k: static[k] for k in ("scale", "causal", "q_offset", "cu_q") if k in static}
    compressed |= {k: static[k] for k in ("block", "stride")}
    offsets = gg.compressed_offsets(borders, static["block"], static["stride"])
    q = rng.normal(size=(n_queries, heads[0], 6)).astype(dtype)
    k = rng.normal(size=(offsets[-1], heads[1], 6)).astype(dtype)
    cu_k = offsets if "cu_k" in static else None
    _, lse = gg.compressed_attention(q, k, k, cu_k=cu_k, **compressed)
    return (q, k, lse), static


@every_select
@pytest.mark.parametrize("heads", [(4, 2), (3, 3), (70, 1)], ids=str)
def test_select_blocks(change, heads, rng):
    (q, k, lse), static = select_inputs(change, rng, heads=heads)
    actual = gg.select_blocks(q, k, lse, **static)
    assert actual.dtype == np.int32
    assert_array_equal(actual, reference.select_blocks(q, k, **static))


def test_select_blocks_over_many_panels(rng):
    inputs, static = select_inputs({"block_size": 64}, rng, n_queries=700, heads=(2, 1))
    blocks = gg.select_blocks(*inputs, **static)
    q, k, _ = inputs
    x = np.einsum("qhd,kd->qhk", q, k[:, 0]) / np.sqrt(6)
    p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    tokens = np.zeros((700, 700))
    for c, row in enumerate(p.sum(1).T):
        tokens[:, 2 * c : 2 * c + 4] += row[:, None]
    scores = np.add.reduceat(tokens, np.arange(0, 700, 64), axis=1)
    assert_array_equal(blocks[:, 0], np.argsort(-scores, axis=1)[:, :3])


def test_equal_scores_go_by_number():
    q, k = np.zeros((16, 1, 2)), np.zeros((16, 1, 2))
    lse = np.full((16, 1), np.log(16))
    blocks = gg.select_blocks(q, k, lse, block=1, stride=1, block_size=4, n_blocks=3)
    assert_array_equal(blocks, np.broadcast_to([0, 1, 2], (16, 1, 3)))


def test_large_logits(rng):
    (q, k, _), static = select_inputs({"causal": True}, rng, np.float32)
    q *= 1e3
    _, lse = gg.compressed_attention(q, k, k, causal=True, **COMPRESSED)
    blocks = gg.select_blocks(q, k, lse, **static)
    assert_array_equal(blocks[-1] >= 0, True)
    # without a visible compressed token the visible blocks are taken in order
    assert_array_equal(blocks[:3], np.broadcast_to([0, -1, -1], (3, 2, 3)))


@every_select
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_select_blocks_same_bits(change, dtype, threads, rng):
    inputs, static = select_inputs(change, rng, dtype)
    results = []
    for n in (1, 2, 3, 3):
        threads(n)
        results.append(gg.select_blocks(*inputs, **static))
    for other in results[1:]:
        assert_array_equal(other, results[0])


DOWN = {
    "plain": {},
    "balls": {"query_block": 8, "exclude_own": True},
    "ragged-balls": {"query_block": 7, "exclude_own": True, "n_keys": 53, "scale": 0.3},
    "forced": {"first_blocks": 1, "local_blocks": 1, "query_block": 4, "n_blocks": 5},
    "first, but not own": {"first_blocks": 2, "exclude_own": True, "query_block": 4},
    "forced-only": {"first_blocks": 2, "local_blocks": 1, "query_block": 40},
    "packed": SELECT["packed"],
    "uneven": {"block": 5, "stride": 3, "block_size": 7},
    "sparse": {"block": 2, "stride": 11, "block_size": 4},
    "long": {"block": 30, "stride": 1, "block_size": 2},
    "offset": {"q_offset": 9, "n_keys": 90, "exclude_own": True, "block_size": 4},
    "nothing-compressed": {"block": 60},
}
every_way_down = pytest.mark.parametrize("change", DOWN.values(), ids=list(DOWN))


@every_way_down
@pytest.mark.parametrize("keep", [1, 2, 3])
@pytest.mark.parametrize("with_lse", [True, False])
def test_select_blocks_down_the_tree(change, keep, with_lse, rng):
    for heads in (4, 2), (3, 3):
        (q, k, lse), static = select_inputs({"block_size": 4, **change}, rng, heads=heads)
        lse = lse if with_lse else None
        actual = gg.select_blocks(q, k, lse, keep=keep, **static)
        assert_array_equal(actual, reference.select_blocks(q, k, lse=lse, keep=keep, **static))


@every_way_down
def test_the_whole_tree_is_the_full_selection(change, rng):
    (q, k, lse), static = select_inputs(change, rng)
    expected = gg.select_blocks(q, k, lse, **static)
    for keep in 40, 2**70:
        assert_array_equal(gg.select_blocks(q, k, lse, keep=keep, **static), expected)
        if not {"exclude_own", "first_blocks"} & static.keys():  # else not all are candidates
            assert_array_equal(gg.select_blocks(q, k, keep=keep, **static), expected)


@pytest.mark.exhaustive
def test_down_the_tree_over_many_panels(rng):
    """More keys than a panel has, of more queries, and heads in several groups."""
    change = {"block_size": 16, "query_block": 90, "n_blocks": 5}
    (q, k, lse), static = select_inputs(change, rng, n_queries=1000, heads=(4, 2))
    for given in lse, None:
        actual = gg.select_blocks(q, k, given, keep=12, **static)
        assert_array_equal(actual, reference.select_blocks(q, k, lse=given, keep=12, **static))


def test_few_and_extreme_tokens_down_the_tree(rng):
    static = {"block": 2, "stride": 2, "block_size": 2, "n_blocks": 2, "keep": 2}
    for n in 0, 1, 2, 3, 17:
        q = rng.normal(size=(n, 2, 4))
        blocks = gg.select_blocks(q, rng.normal(size=(n // 2, 1, 4)), **static)
        assert blocks.shape == (n, 1, 2)
        assert_array_equal((blocks >= 0).sum(-1), min(-(-n // 2), 2))
    q, k = rng.normal(size=(2, 64, 1, 4)).astype(np.float32)
    k[40] = 1e30 * q[3]
    blocks = gg.select_blocks(q, k, **{**static, "block": 1, "stride": 1})
    assert blocks[3, 0, 0] == 20


@every_way_down
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_down_the_tree_same_bits(change, dtype, threads, rng):
    (q, k, _), static = select_inputs(
        change, rng, dtype, n_queries=310 if "cu_q" not in change else 31
    )
    results = []
    for n in (1, 2, 3, 3):
        threads(n)
        results.append(gg.select_blocks(q, k, keep=3, **static))
    for other in results[1:]:
        assert_array_equal(other, results[0])


def down_a_large_tree():
    gg.set_num_threads(1)
    q, k = np.random.default_rng(0).normal(size=(2, 2**17, 1, 8)).astype(np.float32)
    static = {"block": 1, "stride": 1, "block_size": 2, "n_blocks": 2, "query_block": 2}
    gg.select_blocks(q[:64], k[:64], keep=4, **static)
    return lambda: (gg.select_blocks(q, k, keep=4, **static),)


@needs_linux
def test_memory_down_the_tree():
    """A mean and three integers for every two blocks, and little a thread: no array of pairs."""
    keys = 4 * 8 * 2**17
    assert temporary_bytes(down_a_large_tree) <= 2 * keys + 2**20


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"keep": 0}, ValueError, "keep is 0, needs at least 1"),
        ({"keep": 2, "causal": True}, NotImplementedError, "keep needs causal=False"),
        ({"lse": None}, ValueError, "lse is missing, without which only keep selects"),
        ({"block_size": 0}, ValueError, "block_size is 0, needs at least 1"),
        ({"query_block": 0}, ValueError, "query_block is 0, needs at least 1"),
        ({"n_blocks": -1}, ValueError, "n_blocks is -1, needs at least 0"),
        ({"stride": 0}, ValueError, "stride is 0, needs at least 1"),
        ({"n_keys": 40}, ValueError, "k must have the compressed tokens of all keys"),
        ({"first_blocks": 2, "local_blocks": 2}, ValueError, "are more than n_blocks"),
        ({"local_blocks": 1, "exclude_own": True}, ValueError, "exclude_own contradicts"),
        ({"first_blocks": -1}, ValueError, "first_blocks is -1, needs at least 0"),
        ({"lse": np.ones((31, 3))}, ValueError, "lse has shape"),
        ({"cu_q": np.array([0, 30]), "cu_k": np.array([0, 31])}, ValueError, "cu_q must rise"),
        (
            {"cu_q": np.array([0, 9, 31]), "cu_k": np.array([0, 0, 31]), "query_block": 2},
            ValueError,
            "sequences in cu_q must begin at multiples of query_block",
        ),
    ],
)
def test_select_blocks_refused(change, error, message, rng):
    inputs, static = select_inputs({}, rng)
    named = dict(zip(("q", "k", "lse"), inputs, strict=True))
    with pytest.raises(error, match=f"^select_blocks: .*{message}"):
        gg.select_blocks(**{**named, **static, **change})


# ---- together ----


def test_branches_of_a_layer(rng):
    """Compress, attend, select, attend: what is selected is where most of the attention lies."""
    q, k, v = rng.normal(size=(3, 200, 2, 16))
    k[130:134] = 3 * q[190]  # the last queries' own choice
    w = np.full((8, 2), 1 / 8)
    compressed = {"block": 8, "stride": 4, "causal": True}
    k_c, v_c = (gg.compress(x, w, block=8, stride=4) for x in (k, v))
    _, lse = gg.compressed_attention(q, k_c, v_c, **compressed)
    blocks = gg.select_blocks(q, k_c, lse, block_size=16, n_blocks=4, **compressed)
    assert np.all(blocks[190, :, 0] == 130 // 16)
    full = gg.window_attention(q, k, v, causal=True)
    some = gg.selected_attention(q, k, v, block_index=blocks, block_size=16, causal=True)
    assert_allclose(some[190], full[190], atol=1e-2)
