# SPDX-License-Identifier: MIT
"""`scaled_dot_product_attention` with PyTorch's arguments, and `RotaryPoints`."""

import pytest

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from calls_of_torch import randn  # noqa: E402

plain = torch.nn.functional.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


# ---- scaled_dot_product_attention ----


@pytest.mark.parametrize(
    ("q", "k", "v", "grouped"),
    [
        ((2, 4, 7, 3), (2, 4, 9, 3), (2, 4, 9, 5), False),
        ((2, 4, 7, 3), (2, 2, 9, 3), (2, 2, 9, 5), True),
        ((1, 1, 1, 2), (1, 1, 1, 2), (1, 1, 1, 2), False),
        ((4, 7, 3), (4, 9, 3), (4, 9, 3), False),
        ((2, 3, 2, 7, 3), (2, 3, 2, 9, 3), (2, 3, 2, 9, 3), False),
        ((7, 3), (9, 3), (9, 5), False),
        ((7, 3), (2, 4, 9, 3), (4, 9, 5), False),
        ((4, 7, 3), (9, 3), (1, 9, 5), False),
        ((2, 4, 7, 3), (2, 1, 9, 3), (1, 1, 9, 5), False),
        ((2, 4, 7, 3), (2, 1, 9, 3), (2, 4, 9, 5), False),
        ((2, 1, 7, 3), (2, 4, 9, 3), (2, 4, 9, 5), False),
        ((2, 6, 7, 3), (2, 2, 9, 3), (2, 3, 9, 5), True),
        ((2, 4, 0, 3), (2, 4, 9, 3), (2, 4, 9, 5), False),
        ((2, 4, 7, 3), (2, 4, 0, 3), (2, 4, 0, 5), False),
        ((0, 4, 7, 3), (0, 4, 9, 3), (0, 4, 9, 5), False),
    ],
)
@pytest.mark.parametrize("layout", ["heads", "tokens"])
def test_is_pytorchs(q, k, v, grouped, layout):
    arrays = [randn(*shape) for shape in (q, k, v)]
    if layout == "tokens":  # as modules have them: views of (..., T, H, D)
        turned = [x.transpose(-3, -2).contiguous() if x.ndim > 2 else x for x in arrays]
        arrays = [x.transpose(-3, -2) if x.ndim > 2 else x for x in turned]
    out = gt.scaled_dot_product_attention(*arrays, enable_gqa=grouped)
    expected = plain(*arrays, enable_gqa=grouped)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    options = {"scale": 0.3, "enable_gqa": grouped}
    scaled = gt.scaled_dot_product_attention(*arrays, **options)
    torch.testing.assert_close(scaled, plain(*arrays, **options))
    causal = gt.scaled_dot_product_attention(*arrays, is_causal=True, **options)
    torch.testing.assert_close(causal, plain(*arrays, is_causal=True, **options))


@pytest.mark.parametrize("layout", ["heads", "tokens"])
def test_views_are_not_copied(layout, monkeypatch):
    arrays = [torch.randn(2, 4, 50, 8) for _ in range(3)]
    if layout == "tokens":
        arrays = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in arrays]
    seen = []
    attention = gt.functional.attention

    def spy(*tensors, **static):
        seen.extend(x.data_ptr() for x in tensors if x is not None)
        assert all(x.is_contiguous() for x in tensors if x is not None)
        return attention(*tensors, **static)

    monkeypatch.setattr(gt.functional, "attention", spy)
    gt.scaled_dot_product_attention(*arrays)
    assert seen == [x.data_ptr() for x in arrays]


def test_leading_axes_are_broadcast():
    latents, k, v = randn(1, 2, 3, 4), randn(5, 2, 9, 4), randn(5, 2, 9, 4)
    out = gt.scaled_dot_product_attention(latents, k, v)
    torch.testing.assert_close(out, plain(latents.expand(5, -1, -1, -1), k, v))


@pytest.mark.parametrize("shape", [(1, 9), (2, 1, 1, 9), (2, 4, 1, 9), (1, 1, 1, 9)])
@pytest.mark.parametrize("kind", [torch.bool, torch.float64])
@pytest.mark.parametrize("layout", ["heads", "tokens"])
def test_key_padding_masks(shape, kind, layout):
    arrays = [randn(2, 4, n, 3) for n in (7, 9, 9)]
    if layout == "tokens":
        arrays = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in arrays]
    mask = torch.rand(shape) < 0.7 if kind == torch.bool else randn(*shape)
    mask.view(-1)[0] = True
    expected = plain(*arrays, attn_mask=mask)
    torch.testing.assert_close(gt.scaled_dot_product_attention(*arrays, attn_mask=mask), expected)
    wide = mask.expand(2, 4, 7, 9)
    torch.testing.assert_close(gt.scaled_dot_product_attention(*arrays, attn_mask=wide), expected)


@pytest.mark.parametrize("shape", [(0, 9), (4, 0, 9), (2, 1, 0, 9), (2, 1, 1, 9)])
def test_masks_without_queries(shape):
    q, k, v = randn(2, 4, 0, 3), randn(2, 4, 9, 3), randn(2, 4, 9, 5)
    mask = torch.ones(shape, dtype=torch.bool)
    assert gt.scaled_dot_product_attention(q, k, v, mask).shape == (2, 4, 0, 5)


def test_padding_need_not_be_finite():
    q, k, v = randn(2, 4, 7, 3), randn(2, 4, 9, 3), randn(2, 4, 9, 5)
    seen = torch.arange(9) < torch.tensor([6, 9])[:, None, None, None]
    expected = plain(q, k, v, attn_mask=seen)
    k[0, :, 6:] = v[0, :, 6:] = torch.nan
    torch.testing.assert_close(gt.scaled_dot_product_attention(q, k, v, seen), expected)


def test_gradients_to_second_order():
    q, k, v = randn(2, 2, 3, 2), randn(2, 2, 4, 2), randn(2, 2, 4, 2)
    mask = randn(2, 1, 1, 4)
    arrays = [x.requires_grad_() for x in (q, k, v, mask)]
    assert torch.autograd.gradcheck(gt.scaled_dot_product_attention, arrays)
    assert torch.autograd.gradgradcheck(gt.scaled_dot_product_attention, arrays)


def test_transforms():
    q, k, v, t = randn(2, 2, 5, 3), randn(2, 2, 6, 3), randn(2, 2, 6, 3), randn(2, 2, 5, 3)
    attend = gt.scaled_dot_product_attention
    _, tangent = torch.func.jvp(lambda q: attend(q, k, v), (q,), (t,))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        _, expected = torch.func.jvp(lambda q: plain(q, k, v), (q,), (t,))
    torch.testing.assert_close(tangent, expected)
    each = torch.func.vmap(attend)(q, k, v)
    torch.testing.assert_close(each, plain(q, k, v))


def test_a_physics_loss_through_attention():
    """The Laplacian of a network with attention equals that of differences."""
    x = randn(1, 1, 6, 2)

    def field(x):
        return gt.scaled_dot_product_attention(x, x.sin(), x.cos())[0, 0, :, 0].sum()

    hessian = torch.autograd.functional.hessian(field, x).reshape(12, 12)
    step, laplacian = 1e-4, 0.0
    for i in range(12):
        e = torch.zeros(12, dtype=torch.float64)
        e[i] = step
        ahead, behind = (field(x + side * e.view_as(x)) for side in (1, -1))
        laplacian += (ahead - 2 * field(x) + behind) / step**2
    torch.testing.assert_close(hessian.trace(), laplacian, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dropout_p": 0.1}, NotImplementedError, "dropout_p is 0.1, needs 0"),
        (
            {"is_causal": True, "attn_mask": torch.ones(1, 9) > 0},
            ValueError,
            "is_causal is True and attn_mask given",
        ),
        ({"attn_mask": torch.ones(7, 9) > 0}, NotImplementedError, r"attn_mask has shape \(7, 9\)"),
        ({"attn_mask": torch.ones(9) > 0}, ValueError, r"attn_mask has shape \(9,\)"),
        ({"attn_mask": torch.ones(1, 8) > 0}, ValueError, r"attn_mask has shape \(1, 8\)"),
        ({"attn_mask": torch.ones(1, 9, dtype=torch.int64)}, TypeError, "attn_mask is torch.int64"),
        ({"key": torch.ones(2, 4, 8, 3)}, ValueError, r"shapes \(2, 4, 7, 3\), \(2, 4, 8, 3\)"),
        ({"key": torch.ones(2, 2, 9, 3)}, ValueError, "have 4, 2 and 4 heads, needs as many"),
        ({"query": torch.ones(2, 8, 7, 3)}, ValueError, "or enable_gqa=True"),
        ({"key": torch.ones(2, 3, 9, 3), "enable_gqa": True}, ValueError, "have 4, 3 and 4 heads"),
        ({"query": torch.ones(3)}, ValueError, r"query has shape \(3,\)"),
    ],
)
def test_refused(change, error, message):
    shapes = {"query": (2, 4, 7, 3), "key": (2, 4, 9, 3), "value": (2, 4, 9, 3)}
    arguments = {name: torch.ones(shape) for name, shape in shapes.items()} | change
    with pytest.raises(error, match=f"^scaled_dot_product_attention: .*{message}"):
        gt.scaled_dot_product_attention(**arguments)


def test_a_mask_that_differs_by_heads_that_share_a_key():
    q, k, v = randn(2, 4, 7, 3), randn(2, 2, 9, 3), randn(2, 2, 9, 5)
    mask = randn(2, 4, 1, 9)
    out = gt.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    torch.testing.assert_close(out, plain(q, k, v, mask, enable_gqa=True))


def test_causal_attention_to_second_order():
    arrays = [randn(1, heads, 4, 2).requires_grad_() for heads in (2, 1, 1)]

    def attend(*arrays):
        return gt.scaled_dot_product_attention(*arrays, is_causal=True, enable_gqa=True)

    assert torch.autograd.gradcheck(attend, arrays)
    assert torch.autograd.gradgradcheck(attend, arrays)


def test_exported_for_any_batch_and_number_of_keys():
    class Attention(torch.nn.Module):
        def forward(self, q, k, v, mask):
            return gt.scaled_dot_product_attention(q, k, v, mask)

    def arrays(batch, n):
        keys = randn(batch, 2, n, 3), randn(batch, 2, n, 3), torch.rand(batch, 1, 1, n) < 0.7
        return randn(batch, 2, 5, 3), *keys

    any_of = {name: torch.export.Dim(name) for name in ("batch", "n")}
    keys = {0: any_of["batch"], 2: any_of["n"]}
    sizes = {"q": {0: any_of["batch"]}, "k": keys, "v": keys}
    sizes["mask"] = {0: any_of["batch"], 3: any_of["n"]}
    exported = torch.export.export(Attention(), arrays(2, 7), dynamic_shapes=sizes).module()
    for given in (arrays(3, 9), arrays(4, 6)):
        torch.testing.assert_close(exported(*given), Attention()(*given))


# ---- RotaryPoints ----


def test_rotary_is_a_complex_factor():
    """AB-UPT's: pairs of neighbours are complex numbers, and the rest has the angle 0."""
    x, positions = randn(5, 7, 3, 16), 1000 * torch.rand(5, 7, 3, dtype=torch.float64)
    omega = 10000.0 ** (-torch.arange(0, 4, 2, dtype=torch.float64) / 4)
    angles = (positions[..., None] * omega).flatten(-2)
    angles = torch.nn.functional.pad(angles, (0, 2))[..., None, :]
    numbers = torch.view_as_complex(x.unflatten(-1, (8, 2)))
    expected = torch.view_as_real(numbers * torch.polar(torch.ones_like(angles), angles))
    rotary = gt.RotaryPoints(16, 3)
    torch.testing.assert_close(rotary(x, positions), expected.flatten(-2), rtol=1e-12, atol=1e-12)
    heads_first = rotary(x.transpose(1, 2), positions[:, None])
    torch.testing.assert_close(heads_first.transpose(1, 2), expected.flatten(-2))
    torch.testing.assert_close(rotary(x, positions[0])[0], rotary(x[0], positions[0]))


def test_attention_with_rotary_knows_differences_only():
    rotary, q, k = gt.RotaryPoints(8, 2), randn(6, 2, 8), randn(9, 2, 8)
    x, y, shift = randn(6, 2), randn(9, 2), randn(2)
    out = gt.attention(rotary(q, x), rotary(k, y), k)
    moved = gt.attention(rotary(q, x + shift), rotary(k, y + shift), k)
    torch.testing.assert_close(moved, out)
    assert not torch.allclose(gt.attention(rotary(q, x + shift), rotary(k, y), k), out)


def test_rotary_differentiates_by_coordinates():
    rotary, q = gt.RotaryPoints(5, 2), randn(3, 1, 5).requires_grad_()
    x = randn(3, 2).requires_grad_()

    def field(q, x):
        return gt.attention(rotary(q, x), rotary(q, x), q)

    assert torch.autograd.gradcheck(field, (q, x))
    assert torch.autograd.gradgradcheck(field, (q, x))


def test_rotary_keeps_angles_of_half_precision():
    rotary, q = gt.RotaryPoints(6, 3), torch.randn(4, 2, 6)
    x = 1000 * torch.rand(4, 3)
    torch.testing.assert_close(rotary(q.bfloat16(), x), rotary(q.bfloat16().float(), x).bfloat16())
    expected = rotary(q, x)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(rotary(q, x), expected, rtol=0, atol=0)
    with pytest.raises(ValueError, match="dim_head is 4 and coord_dim 3, needs"):
        gt.RotaryPoints(4, 3)
    with pytest.raises(ValueError, match=r"x has shape \(4, 2, 6\) and positions \(3, 3\), need"):
        rotary(q, x[:3])
    with pytest.raises(ValueError, match=r"positions \(4, 2\), need"):
        rotary(q, x[:, :2])
