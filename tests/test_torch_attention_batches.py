# SPDX-License-Identifier: MIT
"""Sparse attention layers on what models train on: masks, caches, batches of clouds."""

from __future__ import annotations

from itertools import pairwise

import pytest

from conftest import few

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from layers_of_torch import randomized  # noqa: E402

SIZES = dict(
    compress_block_size=6, compress_stride=3, selection_block_size=5, num_selected_blocks=3,
    window_size=7,
)  # fmt: skip
CLOSE = dict(rtol=1e-10, atol=1e-12)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def tokens(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def rotary(x, positions):
    """Pairs of features turned by angles that grow with the position."""
    half = x.shape[-1] // 2
    angle = positions[:, None, None] * 10.0 ** -torch.arange(half, dtype=x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def native(**options):
    return randomized(gt.NativeSparseAttention(8, 4, 2, **SIZES | {"rotary": rotary} | options))


# ---- masks ----

LENGTHS = [24, 17, 4, 0]


def right_padded(n):
    return torch.arange(n) >= torch.tensor(LENGTHS)[:, None]


def anywhere(n):
    return torch.stack([row[torch.randperm(n)] for row in right_padded(n)])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shared", [1, 4])
@pytest.mark.parametrize("padding", [right_padded, anywhere])
def test_masked_items_are_single_sequences(causal, shared, padding):
    layer = native(causal=causal, query_block_size=shared)
    x, mask = tokens(4, 24, 8).requires_grad_(), padding(24)
    out = layer(x, key_padding_mask=mask)
    assert (out[mask] == 0).all()
    for item, row, ignored in zip(out, x, mask, strict=True):
        if not ignored.all():
            torch.testing.assert_close(item[~ignored], layer(row[~ignored]), **CLOSE)
    (gradient,) = torch.autograd.grad(out.square().sum(), x)
    assert (gradient[mask] == 0).all() and (gradient[~mask] != 0).any()


def test_what_is_masked_does_not_matter():
    layer, mask = native(), anywhere(24)
    x = tokens(4, 24, 8)
    spoilt = x.masked_fill(mask[..., None], torch.nan)
    torch.testing.assert_close(
        layer(spoilt, key_padding_mask=mask), layer(x, key_padding_mask=mask), rtol=0, atol=0
    )


@pytest.mark.parametrize("causal", few([True, False], "True"))
def test_masks_compile(causal):
    layer = gt.NativeSparseAttention(8, 4, 2, causal=causal, rotary=rotary, **SIZES)
    x, mask = torch.randn(4, 24, 8), anywhere(24)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, key_padding_mask=mask), layer(x, key_padding_mask=mask))


def test_items_too_short_to_be_compressed():
    layer = native(causal=False)
    x = tokens(2, 5, 8)
    mask = torch.arange(5) >= torch.tensor([[3], [5]])
    out = layer(x, key_padding_mask=mask)
    torch.testing.assert_close(out[0, :3], layer(x[0, :3]), **CLOSE)
    torch.testing.assert_close(out[1], layer(x[1]), **CLOSE)


# ---- another context ----


@pytest.mark.parametrize("causal", [True, False])
def test_contexts(causal):
    layer = native(causal=causal, query_block_size=2)
    x, context = tokens(3, 10, 8), tokens(3, 23, 8)
    mask = torch.rand(3, 23) < 0.4
    offset = 13 if causal else 0
    plain = layer(x, context=context, q_offset=offset)
    masked = layer(x, context=context, key_padding_mask=mask, q_offset=offset)
    for k in range(3):
        alone = layer(x[k], context=context[k], q_offset=offset)
        torch.testing.assert_close(plain[k], alone, **CLOSE)
        alone = layer(x[k], context=context[k][~mask[k]], q_offset=offset)
        torch.testing.assert_close(masked[k], alone, **CLOSE)


def test_own_tokens_as_context():
    layer, x = native(), tokens(30, 8)
    torch.testing.assert_close(layer(x, context=x), layer(x), rtol=0, atol=0)
    torch.testing.assert_close(layer(x[20:], context=x, q_offset=20), layer(x)[20:], **CLOSE)


# ---- caches ----


@pytest.mark.parametrize("rotated", [True, False])
@pytest.mark.parametrize("stride", [3, 8])
def test_steps_are_the_whole(rotated, stride):
    layer = native(rotary=rotary if rotated else None, compress_stride=stride)
    x = tokens(2, 40, 8)
    expected = layer(x)
    for lengths in ([25] + [1] * 15, [1] * 12 + [28], [3, 4, 33]):
        cache, found = None, []
        for part in x.split(lengths, dim=1):
            out, cache = layer.step(part, cache)
            found.append(out)
        torch.testing.assert_close(torch.cat(found, dim=1), expected, **CLOSE)
        assert cache.length == 40 and cache.window[0].shape[1] == 6


def test_steps_need_causality():
    for wrong in ({"causal": False}, {"query_block_size": 4}):
        with pytest.raises(ValueError, match="step needs causal=True and query_block_size=1"):
            native(**wrong).step(tokens(1, 4, 8))
    with pytest.raises(ValueError, match=r"step: x has shape \(4, 8\)"):
        native().step(tokens(4, 8))


# ---- nested tensors ----


def test_nested_is_a_list():
    layer = native()
    rows = [tokens(n, 8).requires_grad_() for n in (24, 5, 13)]
    nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    out = layer(nested)
    assert out.is_nested
    for item, row in zip(out.unbind(), rows, strict=True):
        torch.testing.assert_close(item, layer(row), **CLOSE)
    contexts = [tokens(n, 8) for n in (3, 20, 9)]
    context = torch.nested.as_nested_tensor(contexts, layout=torch.jagged)
    for item, row, other in zip(
        layer(nested, context=context).unbind(), rows, contexts, strict=True
    ):
        torch.testing.assert_close(item, layer(row, context=other), **CLOSE)
    gradients = torch.autograd.grad(out.values().square().sum(), rows)
    expected = torch.autograd.grad(sum(layer(row).square().sum() for row in rows), rows)
    torch.testing.assert_close(gradients, expected, **CLOSE)


def test_native_errors():
    layer, x = native(), tokens(2, 12, 8)
    mask = torch.zeros(2, 12, dtype=torch.bool)
    for error, arguments in (
        (r"key_padding_mask is of torch.int64 and shape", dict(key_padding_mask=mask.long())),
        (r"needs torch.bool and \(2, 12\)", dict(key_padding_mask=mask[:, 1:])),
        ("context has a batch of 3, x one of 2", dict(context=tokens(3, 12, 8))),
        ("needs 3 axes as x", dict(context=tokens(12, 8))),
    ):
        with pytest.raises(ValueError, match=error):
            layer(x, **arguments)
    with pytest.raises(ValueError, match="key_padding_mask is for a batch"):
        layer(x[0], key_padding_mask=mask[0])
    with pytest.raises(ValueError, match="x and context are both packed"):
        layer(x[0], [0, 12], context=x[1])
    with pytest.raises(ValueError, match="context_cu_seqlens has 2 sequences, needs 1"):
        layer(x[0], [0, 12], context=x[1], context_cu_seqlens=[0, 3, 12])
    with pytest.raises(ValueError, match="no nested tensor"):
        nested = torch.nested.as_nested_tensor([x[0], x[1, :4]], layout=torch.jagged)
        layer(nested, context=x)


def test_native_under_autocast():
    layer = gt.NativeSparseAttention(8, 4, 2, **SIZES)
    x, mask = torch.randn(4, 24, 8), right_padded(24)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x, key_padding_mask=mask)
        step, _ = layer.step(x)
    assert out.dtype == step.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), layer(x, key_padding_mask=mask), rtol=0.1, atol=0.1)


# ---- clouds of points ----

BALLS = dict(ball_size=8, compress_size=4, num_selected_balls=2, position_dim=3)


def balls(**options):
    return randomized(gt.BallSparseAttention(8, 2, **BALLS | options))


def clouds(*sizes):
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return tokens(len(batch), 8), torch.rand(len(batch), 3, dtype=torch.float64), batch


@pytest.mark.parametrize("group", [8, 2, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_batches_are_single_clouds(group, bias):
    layer = balls(query_group=group, distance_bias=bias)
    x, positions, batch = clouds(21, 3, 40, 1)
    expected = torch.cat([layer(x[batch == k], positions[batch == k]) for k in range(4)])
    torch.testing.assert_close(layer(x, positions, batch=batch), expected, **CLOSE)
    mixed = torch.randperm(len(x))
    found = layer(x[mixed], positions[mixed], batch=batch[mixed])
    torch.testing.assert_close(found, expected[mixed], **CLOSE)
    cu = [0, 21, 24, 64, 65]
    torch.testing.assert_close(layer(x, positions, cu), expected, **CLOSE)
    order = gt.ball_tree_order(positions, batch)
    for first, end in pairwise(cu):
        assert sorted(order[first:end].tolist()) == list(range(first, end))
    found = layer(x[order], positions[order], batch=batch[order], ordered=True)
    torch.testing.assert_close(found, expected[order], **CLOSE)


def test_empty_clouds():
    layer = balls()
    x, positions, batch = clouds(21, 0, 9)
    expected = layer(x, positions, batch=batch)
    torch.testing.assert_close(layer(x, positions, batch=batch, batch_size=5), expected, **CLOSE)
    for batch_size in (None, 2):
        empty = layer(x[:0], positions[:0], batch=batch[:0], batch_size=batch_size)
        assert empty.shape == (0, 8)


@pytest.mark.parametrize("bias", few([True, False], "True"))
def test_clouds_compile(bias):
    layer = gt.BallSparseAttention(8, 2, distance_bias=bias, **BALLS)
    x, positions, batch = clouds(21, 3, 40)
    x, positions = x.float(), positions.float()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, positions), layer(x, positions))
    torch.testing.assert_close(
        compiled(x, positions, batch=batch, batch_size=3), layer(x, positions, batch=batch)
    )


def test_ball_tree_order_is_an_operator():
    points = torch.rand(9, 2)
    torch.library.opcheck(torch.ops.gnograd.ball_tree_order.default, (points, None))
    batch = torch.tensor([0, 1, 0, 1, 0, 1, 2, 2, 0])
    torch.library.opcheck(torch.ops.gnograd.ball_tree_order.default, (points, batch))


def test_ball_errors():
    layer = balls()
    x, positions, batch = clouds(20, 5)
    for error, arguments in (
        (r"batch is of torch.int64 and shape \(24,\), needs integers and \(25,\)",
         dict(batch=batch[1:])),
        ("batch is of torch.float32", dict(batch=batch.float())),
        ("batch needs integers that are not negative", dict(batch=batch - 1, batch_size=2)),
        ("are both given", dict(batch=batch, cu_seqlens=[0, 20, 25])),
        (r"cu_seqlens is \[20, 70\], needs to ascend from 0 to 25", dict(cu_seqlens=[20, 70])),
    ):  # fmt: skip
        with pytest.raises((ValueError, RuntimeError), match=error):
            layer(x, positions, **arguments)
    with pytest.raises(ValueError, match="batch descends, but ordered=True"):
        layer(x, positions, batch=batch.flip(0), ordered=True)


# ---- Erwin's distance bias ----


def test_distance_bias_is_erwins():
    """The bias is that of Erwin's balls: softmax of q . k / sqrt(d) + sigma_att * cdist."""
    n, heads, d, ball = 64, 4, 6, 16
    q, k, v = (tokens(n, heads, d).requires_grad_() for _ in range(3))
    positions = torch.rand(n, 3, dtype=torch.float64, requires_grad=True)
    sigma_att = (-1 + 0.01 * tokens(1, heads, 1, 1)).requires_grad_()

    def by_erwin(q, k, v, positions, sigma_att):
        q, k, v = (t.view(n // ball, ball, heads, d).transpose(1, 2) for t in (q, k, v))
        points = positions.view(n // ball, ball, 3)
        mask = sigma_att * torch.cdist(points, points, p=2).unsqueeze(1)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return out.transpose(1, 2).reshape(n, heads, d)

    def ours(q, k, v, positions, sigma_att):
        return gt.window_attention(q, k, v, positions, positions, sigma_att.flatten(), window=ball)

    inputs = q, k, v, positions, sigma_att
    found, expected = ours(*inputs), by_erwin(*inputs)
    torch.testing.assert_close(found, expected, **CLOSE)
    weights = tokens(n, heads, d)
    torch.testing.assert_close(
        torch.autograd.grad((found * weights).sum(), inputs),
        torch.autograd.grad((expected * weights).sum(), inputs),
        **CLOSE,
    )


def test_distance_bias_has_derivatives():
    """The bias has derivatives, also where points coincide, as every point with itself."""
    q, k, v = (tokens(6, 2, 2).requires_grad_() for _ in range(3))
    points = tokens(6, 2).requires_grad_()
    slope = tokens(2).requires_grad_()

    def attend(q, k, v, points, slope):
        return gt.window_attention(q, k, v, points, points, slope, window=4)

    assert torch.autograd.gradcheck(attend, (q, k, v, points, slope))
    assert torch.autograd.gradgradcheck(attend, (q, k, v, points, slope))
    together = torch.zeros(6, 3, dtype=torch.float64, requires_grad=True)
    out = attend(q, k, v, together, slope)
    torch.testing.assert_close(out, gt.window_attention(q, k, v, window=4), rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(out.square().sum(), together, create_graph=True)
    assert (gradient == 0).all()


def test_distance_bias_is_a_parameter():
    layer = gt.BallSparseAttention(8, 2, distance_bias=True, **BALLS)
    sigma_att = layer.state_dict()["sigma_att"]
    assert sigma_att.shape == (1, 2, 1, 1) and (sigma_att + 1).abs().max() < 0.1
    assert "sigma_att" not in gt.BallSparseAttention(8, 2, **BALLS).state_dict()
    x, positions, batch = clouds(21, 30)
    layer(x.float(), positions.float(), batch=batch).square().sum().backward()
    assert (layer.sigma_att.grad != 0).all()
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x.float(), positions.float(), batch=batch)
    assert out.dtype == torch.bfloat16


def test_distance_bias_is_whole():
    q = tokens(6, 2, 2)
    with pytest.raises(ValueError, match="slope is missing: positions_q, positions_k, slope go"):
        gt.window_attention(q, q, q, q[:, 0], q[:, 0], window=3)
    with pytest.raises(ValueError, match="1 to 8 coordinates"):
        points = tokens(6, 9)
        gt.window_attention(q, q, q, points, points, tokens(2), window=3)
