# SPDX-License-Identifier: MIT
"""The functions of torch_npu: in its order, of arrays and of tensors, against their formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gnograd.compat import ascend

ENDS = [9, 9, 60, 112]
BLOCK, STRIDE, SELECTED, COUNT = 32, 16, 64, 3
torch = pytest.importorskip("torch")


def in_both(function):
    """Arrays as they are, and as tensors."""
    return pytest.mark.parametrize(
        "move", [lambda x: x, torch.from_numpy], ids=["arrays", "tensors"]
    )(function)


def same_kind(found, move):
    assert isinstance(found, torch.Tensor if move is torch.from_numpy else np.ndarray)
    return np.asarray(found.detach() if isinstance(found, torch.Tensor) else found)


# ---- compression ----


def compressed(x, w, ends):
    rows, first = [], 0
    for end in ends:
        for start in range(first, end - BLOCK + 1, STRIDE):
            rows.append(np.einsum("ind,in->nd", x[start : start + BLOCK], w))
        first = end
    return np.array(rows)


@in_both
def test_compress(move, rng):
    x, w = rng.normal(size=(112, 2, 3)), rng.normal(size=(BLOCK, 2))
    out = ascend.npu_nsa_compress(move(x), move(w), BLOCK, STRIDE, actual_seq_len=ENDS)
    expected = compressed(x, w, ENDS)
    assert_allclose(same_kind(out, move), expected, atol=1e-13)
    c = rng.normal(size=expected.shape)
    gradients = ascend.npu_nsa_compress_grad(
        move(c), move(x), move(w), BLOCK, STRIDE, actual_seq_len=np.array(ENDS)
    )
    grad_x, grad_w = np.zeros_like(x), np.zeros_like(w)
    for k, start in enumerate([9, 25, 60, 76]):
        rows = slice(start, start + BLOCK)
        grad_x[rows] += w[:, :, None] * c[k]
        grad_w += (x[rows] * c[k]).sum(-1)
    for a, b in zip(gradients, (grad_x, grad_w), strict=True):
        assert_allclose(same_kind(a, move), b, atol=1e-13)


def test_compress_has_gradients(rng):
    x, w = (torch.from_numpy(rng.normal(size=s)).requires_grad_() for s in ((64, 2, 3), (BLOCK, 2)))
    assert torch.autograd.gradcheck(
        lambda x, w: ascend.npu_nsa_compress(x, w, BLOCK, STRIDE, actual_seq_len=[64]), (x, w)
    )


@in_both
def test_compress_in_half_precision(move, rng):
    x, w = (rng.normal(size=s).astype(np.float16) for s in ((112, 2, 3), (BLOCK, 2)))
    out = ascend.npu_nsa_compress(move(x), move(w), BLOCK, STRIDE, actual_seq_len=ENDS)
    wide = [a.astype(np.float32) for a in (x, w)]
    expected = ascend.npu_nsa_compress(*wide, BLOCK, STRIDE, actual_seq_len=ENDS)
    assert_array_equal(same_kind(out, move), expected.astype(np.float16))


PAGE, PAGES = 48, np.array([[3, 0, 5], [1, -1, -1], [4, 2, -1], [6, -1, -1]], np.int32)
LENGTHS = [112, 32, 81, 20]
"""Sequences whose last block is full: the first two."""


def tokens(cache, lengths=LENGTHS):
    """Tokens of every sequence, gathered from the pages."""
    return [
        np.concatenate([cache[p] for p in row if p >= 0])[:n]
        for row, n in zip(PAGES, lengths, strict=True)
    ]


@in_both
def test_compress_infer(move, rng):
    x, w = rng.normal(size=(7, PAGE, 2, 3)), rng.normal(size=(BLOCK, 2))
    before = rng.normal(size=(5, 2, 3))
    cache, slots = move(before.copy()), move(np.array([4, 1, 0, 2], np.int32))
    out = ascend.npu_nsa_compress_infer(
        move(x), move(w), slots, BLOCK, STRIDE, PAGE, block_table=move(PAGES),
        actual_seq_len=LENGTHS, cache=cache,
    )  # fmt: skip
    assert out is cache
    expected = before.copy()
    for slot, sequence in zip((4, 1), tokens(x), strict=False):
        expected[slot] = compressed(sequence[-BLOCK:], w, [BLOCK])[0]
    assert_allclose(same_kind(out, move), expected, atol=1e-13)
    # tokens as above, one sequence behind the other
    cache = move(before.copy())
    ascend.npu_nsa_compress_infer(
        move(np.concatenate(tokens(x))), move(w), slots, BLOCK, STRIDE, 0, actual_seq_len=LENGTHS,
        cache=cache,
    )  # fmt: skip
    assert_array_equal(cache, out)


# ---- attention to compressed tokens ----


def scores_of(p, n_blocks):
    """Sums over i < m and j < n of the weight of token m (b + 1) - i - j."""
    m, n = SELECTED // STRIDE, BLOCK // STRIDE
    scores = np.zeros((*p.shape[:-1], n_blocks))
    for b in range(n_blocks):
        for i in range(m):
            for j in range(n):
                token = m * (b + 1) - i - j
                if 0 <= token < p.shape[-1]:
                    scores[..., b] += p[..., token]
    return scores


def attention(q, k, v, n_blocks, hidden=None, forced=None):
    """Output, blocks, maximum and sum of one sequence."""
    group = q.shape[1] // k.shape[1]
    x = 0.3 * np.einsum("thd,shd->ths", q, np.repeat(k, group, 1))
    if hidden is not None:
        x = x - 40000.0 * hidden[:, None]
    largest = x.max(-1)
    p = np.exp(x - largest[..., None])
    total = p.sum(-1)
    p /= total[..., None]
    out = np.einsum("ths,shd->thd", p, np.repeat(v, group, 1))
    scores = scores_of(p.reshape(len(q), k.shape[1], group, len(k)).sum(2), n_blocks)
    if forced is not None:
        scores = np.where(forced[:, None], 23333, scores)
    return out, np.argsort(-scores, axis=-1, kind="stable")[..., :COUNT], largest, total


def compressed_arrays(rng, n_q=(5, 0, 12), n_k=(14, 9, 30)):
    """Queries and compressed tokens of three sequences, and their cumulative lengths."""
    q = rng.normal(size=(sum(n_q), 4, 3))
    k, v = rng.normal(size=(sum(n_k), 2, 3)), rng.normal(size=(sum(n_k), 2, 2))
    n_s = [-(-n // (SELECTED // STRIDE)) for n in n_k]
    return q, k, v, [np.cumsum(n) for n in (n_q, n_k, n_s)]


def masks(kind, ends):
    n_q, n_k, n_s = (np.diff([0, *e]).max() for e in ends)
    hidden = np.triu(np.ones((n_q, n_k), bool), 1)
    if kind == "blind":
        hidden[2] = True
    forced = np.eye(n_q, n_s, dtype=bool)
    forced[:, 0] = True
    return {"atten_mask": hidden.astype(np.uint8), "topk_mask": forced}


@pytest.mark.parametrize("kind", ["plain", "masks", "blind"])
@in_both
def test_compress_attention(move, kind, rng):
    q, k, v, ends = compressed_arrays(rng)
    given = {} if kind == "plain" else masks(kind, ends)
    found = ascend.npu_nsa_compress_attention(
        move(q), move(k), move(v), 0.3, 4, BLOCK, STRIDE, SELECTED, COUNT,
        **{name: move(mask) for name, mask in given.items()},
        **dict(zip(("actual_seq_qlen", "actual_cmp_seq_kvlen", "actual_sel_seq_kvlen"), ends,
                   strict=True)),
    )  # fmt: skip
    out, topk, largest, total = (same_kind(x, move) for x in found)
    assert topk.dtype == np.int32
    assert topk.shape == (17, 2, COUNT)
    assert largest.shape == total.shape == (17, 4, 8)
    borders = [np.concatenate([[0], e]) for e in ends]
    for s in range(3):
        of_q, of_k = (slice(b[s], b[s + 1]) for b in borders[:2])
        n_q, n_k, n_s = (b[s + 1] - b[s] for b in borders)
        cut = [given[name][:n_q, :n] if given else None
               for name, n in (("atten_mask", n_k), ("topk_mask", n_s))]  # fmt: skip
        expected = attention(q[of_q], k[of_k], v[of_k], n_s, *cut)
        assert_allclose(out[of_q], expected[0], atol=1e-9)  # 40000 takes digits from the formula
        assert_array_equal(topk[of_q], expected[1])
        assert_allclose(largest[of_q, :, 0], expected[2], rtol=1e-12)
        assert_allclose(total[of_q, :, 7], expected[3], rtol=1e-9)


@pytest.mark.parametrize("kind", ["plain", "masks", "blind"])
def test_compress_attention_has_gradients(kind, rng):
    q, k, v, ends = compressed_arrays(rng, (3, 2, 0), (9, 10, 8))
    given = {} if kind == "plain" else masks(kind, ends)
    inputs = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]

    def out(q, k, v):
        return ascend.npu_nsa_compress_attention(
            q, k, v, 0.3, 4, BLOCK, STRIDE, SELECTED, 2, actual_seq_qlen=ends[0],
            actual_cmp_seq_kvlen=ends[1], actual_sel_seq_kvlen=ends[2],
            **{name: torch.from_numpy(mask) for name, mask in given.items()},
        )[0]  # fmt: skip

    assert torch.autograd.gradcheck(out, inputs)


def test_sequences_without_a_full_block(rng):
    """Sequences with blocks of tokens but nothing compressed have equal scores."""
    q, k = rng.normal(size=(2, 4, 3)), np.ones((0, 2, 3))
    out, topk, largest, total = ascend.npu_nsa_compress_attention(
        q, k, k, 0.3, 4, BLOCK, STRIDE, SELECTED, 1,
        actual_seq_qlen=[2], actual_cmp_seq_kvlen=[0], actual_sel_seq_kvlen=[1],
    )  # fmt: skip
    assert not out.any()
    assert not topk.any()
    assert np.isneginf(largest).all()
    assert not total.any()


@pytest.mark.parametrize("layout", ["TND", "BSND"])
@in_both
def test_compress_attention_infer(move, layout, rng):
    q = rng.normal(size=(4, 4, 3))
    k, v = rng.normal(size=(7, PAGE, 2, 3)), rng.normal(size=(7, PAGE, 2, 2))
    lengths = [112, 32, 81, 17]
    out, topk = ascend.npu_nsa_compress_attention_infer(
        move(q if layout == "TND" else q[:, None]), move(k.reshape(7, PAGE, 6)), move(v), 0.3, 4, 2,
        SELECTED, COUNT + 1, PAGE, BLOCK, STRIDE, layout=layout, block_table=move(PAGES),
        actual_cmp_seq_kvlen=lengths,
    )  # fmt: skip
    out, topk = same_kind(out, move), same_kind(topk, move)
    if layout == "BSND":
        assert out.shape[1] == topk.shape[1] == 1
        out, topk = out[:, 0], topk[:, 0]
    sequences = zip(tokens(k, lengths), tokens(v, lengths), strict=True)
    for s, (keys, values) in enumerate(sequences):
        n = -(-((lengths[s] - 1) * STRIDE + BLOCK) // SELECTED)
        plain, _, _, _ = attention(q[s : s + 1], keys, values, n)
        assert_allclose(out[s], plain[0], atol=1e-12)
        # the first block and the last two, and then the best of the others
        assert_array_equal(topk[s, :, :3], np.broadcast_to([0, n - 2, n - 1], (2, 3)))
        x = 0.3 * np.einsum("hd,shd->hs", q[s], np.repeat(keys, 2, 1))
        p = np.exp(x - x.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        scores = scores_of(p.reshape(2, 2, -1).sum(1), n)[:, 1 : n - 2]
        assert_array_equal(topk[s, :, 3], 1 + scores.argmax(-1))


# ---- attention to selected blocks ----


@in_both
def test_select_attention(move, rng):
    q, (k, v) = rng.normal(size=(20, 4, 5)), rng.normal(size=(2, 160, 2, 5))
    topk = np.concatenate([rng.integers(0, 4, (9, 2, 2)), rng.integers(0, 6, (11, 2, 2))])
    topk = topk.astype(np.int32)
    ends = {"actual_seq_qlen": [9, 20], "actual_seq_kvlen": [64, 160]}
    arrays = [move(x) for x in (q, k, v, topk)]
    found = ascend.npu_nsa_select_attention(*arrays, 0.7, 4, 16, 2, atten_mask=None, **ends)
    expected = ascend.nsa_selected_attention(q, k, v, topk, 0.7, 4, 16, 2, sparse_mode=2, **ends)
    for a, b in zip(found, expected, strict=True):
        assert_array_equal(same_kind(a, move), b)
    c = rng.normal(size=q.shape)
    gradients = ascend.npu_nsa_select_attention_grad(
        move(c), *arrays[:3], *found, arrays[3], 0.7, 4, 16, 2, **ends
    )
    expected_gradients = ascend.nsa_selected_attention_grad(
        q, k, v, expected[0], c, *expected[1:], topk, 0.7, 4, 16, 2, sparse_mode=2, **ends
    )
    for a, b in zip(gradients, expected_gradients, strict=True):
        assert_array_equal(same_kind(a, move), b)


@pytest.mark.parametrize("layout", ["BSND", "BSH", "TND"])
@in_both
def test_select_attention_infer(move, layout, rng):
    q = rng.normal(size=(4, 4, 3))
    k, v = rng.normal(size=(7, PAGE, 2, 3)), rng.normal(size=(7, PAGE, 2, 2))
    topk = np.array([[[6, 0, 2], [1, 3, -1]], [[1, -1, -1], [0, 1, -1]], [[5, 1, 0], [2, 4, 5]],
                     [[1, 0, -1], [0, -1, -1]]], np.int32)  # fmt: skip
    given = {"BSND": q[:, None], "BSH": q.reshape(4, 1, 12), "TND": q}[layout]
    cache = [x.reshape(7, PAGE, -1) if layout == "BSH" else x for x in (k, v)]
    out = ascend.npu_nsa_select_attention_infer(
        move(given), *map(move, cache), move(topk), 0.3, 4, 2, 16, 3, PAGE, layout=layout,
        block_table=move(PAGES), actual_seq_kvlen=LENGTHS,
    )  # fmt: skip
    out = same_kind(out, move)
    assert out.shape == {"BSND": (4, 1, 4, 2), "BSH": (4, 1, 8), "TND": (4, 4, 2)}[layout]
    for s, (keys, values) in enumerate(zip(tokens(k), tokens(v), strict=True)):
        for head in range(4):
            blocks = [b for b in topk[s, head // 2] if b >= 0]
            seen = np.concatenate([np.arange(16 * b, min(16 * b + 16, len(keys))) for b in blocks])
            x = 0.3 * keys[seen, head // 2] @ q[s, head]
            p = np.exp(x - x.max())
            expected = p @ values[seen, head // 2] / p.sum()
            assert_allclose(out.reshape(4, 4, 2)[s, head], expected, atol=1e-13)


# ---- errors ----


def wrong_calls(rng):
    x, w = rng.normal(size=(64, 2, 3)), rng.normal(size=(BLOCK, 2))
    q, k, v, ends = compressed_arrays(rng)
    lengths = dict(
        zip(("actual_seq_qlen", "actual_cmp_seq_kvlen", "actual_sel_seq_kvlen"), ends, strict=True)
    )
    sizes = (0.3, 4, BLOCK, STRIDE, SELECTED)
    pages = rng.normal(size=(7, PAGE, 2, 3))
    infer = (pages, pages, np.zeros((4, 2, 1), np.int32), 0.3, 4, 2, 16, 1, PAGE)
    return [
        (ascend.npu_nsa_compress, (x, w, BLOCK, 24), {"actual_seq_len": [64]},
         "compress_stride is 24, needs a multiple of 16"),
        (ascend.npu_nsa_compress, (x, w, BLOCK, 48), {"actual_seq_len": [64]},
         "compress_block_size is 32, needs compress_stride or more"),
        (ascend.npu_nsa_compress, (x, w[1:], BLOCK, 16), {"actual_seq_len": [64]}, "weight has"),
        (ascend.npu_nsa_compress, (x, w, BLOCK, 16), {"actual_seq_len": [63]},
         "actual_seq_len must rise to 64"),
        (ascend.npu_nsa_compress, (x, w.astype(np.float32), BLOCK, 16), {"actual_seq_len": [64]},
         "weight is float32, needs float64"),
        (ascend.npu_nsa_compress_attention, (q, k, v, *sizes, 4), lengths,
         "select_block_count is more than the blocks"),
        (ascend.npu_nsa_compress_attention, (q, k, v, 0.3, 3, *sizes[2:], 2), lengths, "query has"),
        (ascend.npu_nsa_compress_attention, (q, k, v, *sizes, 2),
         {**lengths, "atten_mask": np.zeros((5, 5))},
         r"atten_mask has shape \(5, 5\), needs \(12, 30\)"),
        (ascend.npu_nsa_select_attention_infer, (q[:4], *infer),
         {"layout": "NTD", "block_table": PAGES, "actual_seq_kvlen": LENGTHS},
         "layout is 'NTD'"),
        (ascend.npu_nsa_select_attention_infer, (q[:4], *infer),
         {"layout": "TND", "block_table": PAGES, "actual_seq_kvlen": [112, 49, 81, 20]},
         "block_table names a page that is not one of 7"),
        (ascend.npu_nsa_select_attention_infer, (q[:4], *infer),
         {"layout": "TND", "block_table": PAGES[:, :2], "actual_seq_kvlen": LENGTHS},
         "block_table has 2 pages, too few for 112 tokens"),
    ]  # fmt: skip


@pytest.mark.parametrize("k", range(11))
def test_errors(k, rng):
    function, arrays, named, message = wrong_calls(rng)[k]
    with pytest.raises(ascend.InvalidParameterError, match=message) as caught:
        function(*arrays, **named)
    assert str(caught.value).startswith(f"{function.__name__}: ")
    assert caught.value.code == 161002


def test_nothing_may_be_null(rng):
    x, w = rng.normal(size=(64, 2, 3)), rng.normal(size=(BLOCK, 2))
    with pytest.raises(ascend.NullPointerError, match="npu_nsa_compress: weight is None"):
        ascend.npu_nsa_compress(x, None, BLOCK, STRIDE, actual_seq_len=[64])
    with pytest.raises(ascend.NullPointerError, match="npu_nsa_compress: actual_seq_len is None"):
        ascend.npu_nsa_compress(x, w, BLOCK, STRIDE, actual_seq_len=None)
    with pytest.raises(TypeError, match="npu_nsa_compress: weight is of type list, needs"):
        ascend.npu_nsa_compress(x, w.tolist(), BLOCK, STRIDE, actual_seq_len=[64])
