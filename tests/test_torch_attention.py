# SPDX-License-Identifier: MIT
"""Sparse attention layers in PyTorch, against their branches by formula."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from reference import nsa as reference

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from layers_of_torch import randomized  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def projected(layer, x):
    """Queries, keys and values of the branches, gates, in NumPy."""
    q, keys, values = layer.project(x)
    gates = torch.sigmoid(layer.to_gate(x)).view(len(x), 3, layer.num_heads, 1)
    return [[t.detach().numpy() for t in part] for part in ([q], keys, values, gates.unbind(dim=1))]


def combined(layer, gates, branches):
    total = sum(g * out for g, out in zip(gates, branches, strict=True))
    return layer.to_out(torch.from_numpy(total.reshape(len(total), -1))).detach().numpy()


# ---- NativeSparseAttention ----

STEP = {"block": 6, "stride": 3}
NATIVE = dict(
    compress_block_size=6, compress_stride=3, selection_block_size=5, num_selected_blocks=3,
    window_size=7,
)  # fmt: skip


def native_by_formula(layer, x, cu=None):
    (q,), (k_c, k_s, k_w), (v_c, v_s, v_w), gates = projected(layer, x)
    cu_k = None
    if cu is not None:
        counts = [len(reference.compressed_tokens(n, **STEP)) for n in np.diff(cu)]
        cu_k = np.concatenate([[0], np.cumsum(counts)])
    causal = layer.causal
    k_c, v_c = (
        reference.compress(t, w.detach().numpy(), cu=cu, **STEP)
        for t, w in ((k_c, layer.compress_k), (v_c, layer.compress_v))
    )
    coarse, _ = reference.compressed_attention(
        q, k_c, v_c, causal=causal, cu_q=cu, cu_k=cu_k, **STEP
    )
    blocks = reference.select_blocks(
        q, k_c, block_size=5, n_blocks=3, causal=causal, cu_q=cu, cu_k=cu, first_blocks=1,
        local_blocks=2, query_block=layer.query_block_size, **STEP,
    )  # fmt: skip
    fine, _ = reference.selected_attention(
        q, k_s, v_s, block_index=blocks, block_size=5, causal=causal, cu_q=cu, cu_k=cu,
        query_block=layer.query_block_size,
    )  # fmt: skip
    near, _ = reference.window_attention(q, k_w, v_w, window=7, causal=causal, cu_q=cu, cu_k=cu)
    return combined(layer, gates, [coarse, fine, near])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("query_block_size", [1, 4])
def test_native_is_the_sum_of_its_branches(causal, query_block_size):
    layer = randomized(
        gt.NativeSparseAttention(
            12, 4, 2, 5, causal=causal, query_block_size=query_block_size, **NATIVE
        )
    )
    x = torch.randn(43, 12, dtype=torch.float64)
    got = layer(x).detach().numpy()
    np.testing.assert_allclose(got, native_by_formula(layer, x), rtol=1e-10, atol=1e-12)


def test_native_on_packed_sequences_and_batches():
    layer = randomized(gt.NativeSparseAttention(8, 2, **NATIVE))
    x = torch.randn(40, 8, dtype=torch.float64)
    cu = np.array([0, 17, 20, 40])  # the second is too short to be compressed
    packed = layer(x, torch.from_numpy(cu))
    np.testing.assert_allclose(
        packed.detach().numpy(), native_by_formula(layer, x, cu), rtol=1e-10, atol=1e-12
    )
    for first, end in pairwise(cu):
        torch.testing.assert_close(packed[first:end], layer(x[first:end]), rtol=1e-10, atol=1e-12)
    batch = layer(x.view(2, 20, 8))
    torch.testing.assert_close(batch[1], layer(x[20:]), rtol=1e-10, atol=1e-12)


def test_native_sees_nothing_later():
    layer = randomized(gt.NativeSparseAttention(8, 2, **NATIVE))
    x = torch.randn(40, 8, dtype=torch.float64)
    other = x.clone()
    other[25:] = torch.randn(15, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x)[:25], layer(other)[:25], rtol=0, atol=0)


def test_native_gradients():
    layer = randomized(gt.NativeSparseAttention(4, 2, 1, 2, **NATIVE))
    x = torch.randn(20, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *p: layer(x), (x, *layer.parameters()))
    assert torch.autograd.gradgradcheck(lambda x: layer(x)[::5, 0], (x,))


def test_native_compiles():
    layer = gt.NativeSparseAttention(8, 2, **NATIVE)
    x = torch.randn(40, 8)
    torch.testing.assert_close(torch.compile(layer, fullgraph=True)(x), layer(x))


@pytest.mark.exhaustive
def test_native_compiles_for_batches():
    """Borders of items of one length are known without a look at tensors."""
    layer = gt.NativeSparseAttention(8, 2, **NATIVE)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for x in (torch.randn(2, 20, 8), torch.randn(3, 4, 8)):  # 4 tokens are too few to be compressed
        torch.testing.assert_close(compiled(x), layer(x))


def test_native_errors():
    with pytest.raises(ValueError, match="num_heads a multiple of num_kv_heads"):
        gt.NativeSparseAttention(12, 4, 3)
    with pytest.raises(ValueError, match="does not divide dim"):
        gt.NativeSparseAttention(13, 4)
    layer = gt.NativeSparseAttention(8, 2, query_block_size=4, **NATIVE)
    with pytest.raises(ValueError, match="cu_seqlens: sequences must begin at multiples of 4"):
        layer(torch.randn(20, 8), torch.tensor([0, 6, 20]))
    with pytest.raises(ValueError, match="cu_seqlens: a batch"):
        layer(torch.randn(2, 20, 8), torch.tensor([0, 20, 40]))
    with pytest.raises(ValueError, match="x has items of 10 tokens, needs multiples of 4"):
        layer(torch.randn(2, 10, 8))


@pytest.mark.parametrize("kind", ["native", "balls"])
def test_borders_are_checked(kind):
    if kind == "native":
        attend = gt.NativeSparseAttention(8, 2, **NATIVE)
    else:
        layer = gt.BallSparseAttention(8, 2, **BALLS)
        positions = torch.rand(20, 2)

        def attend(x, cu_seqlens):
            return layer(x, positions, cu_seqlens)

    x = torch.randn(20, 8)
    torch.testing.assert_close(attend(x, [0, 8, 20]), attend(x, torch.tensor([0, 8, 20])))
    for wrong in ([0, 8], [2, 20], [0, 12, 8, 20], torch.tensor([0, 8, 50])):
        with pytest.raises(ValueError, match=r"cu_seqlens is \[.*\], needs to ascend from 0 to 20"):
            attend(x, wrong)
    with pytest.raises(ValueError, match=r"cu_seqlens is of torch.float32 and shape \(2,\)"):
        attend(x, torch.tensor([0.0, 20.0]))


# ---- BallSparseAttention ----

BALLS = dict(ball_size=8, compress_size=4, num_selected_balls=2)


def balls_by_formula(layer, x, positions):
    """`x` in the order of the tree."""
    points, size = positions.numpy(), layer.ball_size
    starts = range(0, len(points), size)
    if layer.position is not None:
        inside = [points[s : s + size] - points[s : s + size].mean(axis=0) for s in starts]
        x = x + layer.position(torch.from_numpy(np.concatenate(inside)))
    (q,), (k_c, k_s, k_b), (v_c, v_s, v_b), gates = projected(layer, x)
    step = {"block": 4, "stride": 4}
    k_c, v_c = (
        reference.compress(t, w.detach().numpy(), **step)
        for t, w in ((k_c, layer.compress_k), (v_c, layer.compress_v))
    )
    coarse, _ = reference.compressed_attention(q, k_c, v_c, **step)
    balls = reference.select_blocks(
        q, k_c, block_size=size, n_blocks=2, query_block=layer.query_group, exclude_own=True, **step
    )
    for row, chosen in enumerate(balls):
        assert row * layer.query_group // size not in chosen
    fine, _ = reference.selected_attention(
        q, k_s, v_s, block_index=balls, block_size=size, query_block=layer.query_group
    )
    near, _ = reference.window_attention(q, k_b, v_b, window=size)
    return combined(layer, gates, [coarse, fine, near])


@pytest.mark.parametrize("query_group", [8, 2])
@pytest.mark.parametrize("n_points", [45, 5, 64])
def test_balls_are_the_sum_of_their_branches(query_group, n_points):
    layer = randomized(
        gt.BallSparseAttention(12, 4, 2, query_group=query_group, position_dim=3, **BALLS)
    )
    x = torch.randn(n_points, 12, dtype=torch.float64)
    positions = torch.rand(n_points, 3, dtype=torch.float64)
    order = gt.ball_tree_order(positions)
    want = balls_by_formula(layer, x[order], positions[order])
    got = layer(x, positions)
    np.testing.assert_allclose(got[order].detach().numpy(), want, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        layer(x[order], positions[order], ordered=True).detach().numpy(), want, rtol=1e-10,
        atol=1e-12,
    )  # fmt: skip


def test_order_of_the_points_does_not_matter():
    layer = randomized(gt.BallSparseAttention(8, 2, position_dim=2, **BALLS))
    x, positions = torch.randn(45, 8, dtype=torch.float64), torch.rand(45, 2, dtype=torch.float64)
    shuffle = torch.randperm(45)
    torch.testing.assert_close(
        layer(x[shuffle], positions[shuffle]), layer(x, positions)[shuffle], rtol=1e-12, atol=1e-12
    )


def test_clouds_do_not_see_each_other():
    layer = randomized(gt.BallSparseAttention(8, 2, **BALLS))
    x, positions = torch.randn(60, 8, dtype=torch.float64), torch.rand(60, 2, dtype=torch.float64)
    packed = layer(x, positions, torch.tensor([0, 21, 60]))
    torch.testing.assert_close(packed[:21], layer(x[:21], positions[:21]))
    torch.testing.assert_close(packed[21:], layer(x[21:], positions[21:]))


def test_balls_are_compact():
    """A ball of a tree of 2^12 points fits its share of the square, nearly."""
    positions = torch.rand(4096, 2, dtype=torch.float64)
    balls = positions[gt.ball_tree_order(positions)].view(-1, 64, 2)
    extent = (balls.amax(dim=1) - balls.amin(dim=1)).prod(dim=1)
    assert extent.sum() < 1.0


def test_ball_gradients():
    layer = randomized(gt.BallSparseAttention(4, 2, position_dim=2, **BALLS))
    x = torch.randn(21, 4, dtype=torch.float64, requires_grad=True)
    positions = torch.rand(21, 2, dtype=torch.float64)
    positions = positions[gt.ball_tree_order(positions)].requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, y, *p: layer(x, y, ordered=True), (x, positions, *layer.parameters())
    )
    assert torch.autograd.gradgradcheck(lambda x: layer(x, positions, ordered=True)[::5, 0], (x,))


def test_ball_errors():
    with pytest.raises(ValueError, match="ball_size is 300"):
        gt.BallSparseAttention(8, 2, ball_size=300)
    with pytest.raises(ValueError, match="query_group 3 does not divide ball_size 8"):
        gt.BallSparseAttention(8, 2, ball_size=8, query_group=3)
    layer = gt.BallSparseAttention(8, 2, **BALLS)
    with pytest.raises(ValueError, match="positions"):
        layer(torch.randn(20, 8), torch.rand(19, 2))
    positions = torch.rand(20, 2)
    positions[3, 1] = torch.nan
    with pytest.raises(ValueError, match="positions has values that are not finite"):
        layer(torch.randn(20, 8), positions)
