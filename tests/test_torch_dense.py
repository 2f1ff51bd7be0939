# SPDX-License-Identifier: MIT
"""Dense attention in PyTorch: with PyTorch's arguments, and the layers for points made of it."""

import numpy as np
import pytest

from reference import dense as reference

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from gnograd.torch.dropout import gumbel_noise, split_mix  # noqa: E402

plain = torch.nn.functional.scaled_dot_product_attention


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


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


# ---- SliceAttention ----


def physics_attention(layer, x, eps=1e-2, noise=None):
    """The layer by its formulas, with an array of points times slices."""
    b, n, _ = x.shape
    split = (b, n, layer.heads, layer.dim_head)
    mid = layer.in_project_x(x).view(split)
    content = mid if layer.plus else layer.in_project_fx(x).view(split)
    logits = layer.in_project_slice(mid) + (0 if noise is None else noise)
    if layer.plus:
        temperature = (layer.temperature + layer.proj_temperature(mid)).clamp(min=0.01)
    else:
        low, high = layer.temperature_range or (None, None)
        temperature = layer.temperature if low is None else layer.temperature.clamp(low, high)
    w = torch.softmax(logits / temperature, dim=-1)
    token = torch.einsum("bnhs,bnhd->bhsd", w, content) / (w.sum(1)[..., None] + eps)
    q, k, v = layer.qkv_project(token).chunk(3, dim=-1)
    p = torch.softmax(q @ k.transpose(-2, -1) / layer.dim_head**0.5, dim=-1)
    out = torch.einsum("bnhs,bhsd->bnhd", w, p @ v)
    return layer.out_linear(out.flatten(2))


def slices(plus=False, **options):
    layer = gt.SliceAttention(6, 3, 4, 5, plus, **options).double().eval()
    with torch.no_grad():
        layer.temperature.uniform_(0.3, 2)
    return layer


@pytest.mark.parametrize("plus", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_slices_are_their_formula(plus, batch):
    layer, x = slices(plus), randn(batch, 40, 6).requires_grad_()
    out, expected = layer(x), physics_attention(layer, x)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    c = randn(*out.shape)
    wanted = [x, *layer.parameters()]
    found = torch.autograd.grad(out, wanted, c)
    for a, b in zip(found, torch.autograd.grad(expected, wanted, c), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(layer(x[0]), out[0], rtol=1e-10, atol=1e-12)


def test_slices_of_the_widest_heads():
    layer, x = gt.SliceAttention(6, 1, 256, 5).double(), randn(2, 7, 6)
    torch.testing.assert_close(layer(x), physics_attention(layer, x), rtol=1e-10, atol=1e-12)


def test_slices_differentiate_twice():
    layer, x = slices(), randn(1, 7, 6).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x,))
    assert torch.autograd.gradgradcheck(layer, (x,))
    weight = layer.in_project_slice.weight.detach().requires_grad_()

    def of_weight(weight):
        return torch.func.functional_call(layer, {"in_project_slice.weight": weight}, (x,))

    assert torch.autograd.gradgradcheck(of_weight, (weight,))


def test_slices_load_a_state_dict_of_transolver():
    ours = slices(eps=1e-5, temperature_range=None)
    state = ours.state_dict()
    theirs = {name: x for name, x in state.items() if name.startswith("in_project")}
    parts = state["qkv_project.weight"].chunk(3)
    theirs |= {f"to_{name}.weight": x for name, x in zip("qkv", parts, strict=True)}
    theirs |= {f"to_out.0.{name}": state[f"out_linear.{name}"] for name in ("weight", "bias")}
    theirs["temperature"] = state["temperature"].reshape(1, 3, 1, 1)
    other = slices(eps=1e-5, temperature_range=None)
    network = torch.nn.Sequential(other)
    network.load_state_dict({f"0.{name}": x for name, x in theirs.items()})
    x = randn(2, 9, 6)
    torch.testing.assert_close(other(x), ours(x), rtol=0, atol=0)
    torch.testing.assert_close(other(x), physics_attention(ours, x, eps=1e-5))


def test_gumbel_noise_is_that_of_the_generator():
    layer = slices(plus=True).train()
    x = randn(1, 30, 6)
    torch.manual_seed(3)
    noisy = layer(x)
    torch.manual_seed(3)
    torch.testing.assert_close(layer(x), noisy, rtol=0, atol=0)
    assert not torch.allclose(layer(x), noisy)
    torch.testing.assert_close(layer.eval()(x), physics_attention(layer, x))
    assert not torch.allclose(slices(plus=True, gumbel=True)(x), slices(plus=True)(x))


def test_gumbel_noise_by_its_bits():
    """Noise of a point, head and slice is a number of the seed's sequence."""
    layer = slices(plus=True).train()
    x = randn(1, 30, 6)
    torch.manual_seed(3)
    noisy = layer(x)
    torch.manual_seed(3)
    state = int(torch.randint(2**63 - 1, (1,)))
    heads, n = layer.heads, layer.slice_num
    draws = []
    for _ in range(30 * heads * n):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        draws.append(((z ^ z >> 31) >> 11) * 2.0**-53)
    u = torch.tensor(draws).reshape(1, 30, heads, n)
    noise = -torch.log(-torch.log(u + 1e-8) + 1e-8)
    torch.testing.assert_close(noisy, physics_attention(layer, x, noise=noise))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gumbel_noise_in_parts(dtype, threads):
    """A number's noise depends on the seed and its place alone."""
    seed, n = torch.tensor([2**62 + 3]), 5000
    threads(1)
    noise = gumbel_noise(seed, 2**40, n, dtype)
    u = split_mix(seed, 2**40, n).to(dtype) * 2.0**-53
    exact = -torch.log(-torch.log((u + 1e-8).double()) + 1e-8)
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(noise.double(), exact, rtol=8 * eps, atol=8 * eps)
    threads(3)
    assert torch.equal(gumbel_noise(seed, 2**40, n, dtype), noise)
    parts = [gumbel_noise(seed, 2**40 + a, m, dtype) for a, m in ((0, 7), (7, 0), (7, n - 7))]
    assert torch.equal(torch.cat(parts), noise)


def test_gumbel_noise_compiled_and_in_batches():
    layer, x = gt.SliceAttention(8, 2, 4, 6, plus=True), torch.randn(2, 20, 8)
    torch.manual_seed(3)
    expected = layer(x)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(x), expected)
    same = torch.vmap(layer, randomness="same")(x[:1].expand(2, -1, -1))
    torch.testing.assert_close(same[0], same[1])
    assert layer.bfloat16()(x.bfloat16()).isfinite().all()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (gt.SliceAttention, {}),
        (gt.SliceAttention, {"plus": True}),
        (gt.SliceAttention, {"plus": True, "gumbel": False}),
        (gt.FLARE, {}),
    ],
)
@pytest.mark.parametrize("shape", [(0, 5, 6), (2, 0, 6), (0, 0, 6), (0, 6), (1, 1, 6)])
def test_nothing_there(kind, options, shape):
    layer = kind(6, heads=2, dim_head=3, **options).double()
    x = randn(*shape).requires_grad_()
    out = layer(x)
    assert out.shape == x.shape
    (slope,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    slope.square().sum().backward()
    assert x.grad.shape == x.shape
    assert torch.isfinite(x.grad).all()


def test_gumbel_noise_in_tiles(monkeypatch):
    """Tiles of points change nothing but rounding, up to second derivatives, in packed clouds."""
    layer, x = slices(plus=True).train(), randn(31, 6).requires_grad_()

    def derivatives():
        torch.manual_seed(3)
        out = layer(x, cu_seqlens=[0, 20, 20, 31])
        parameters = [x, *(p for p in layer.parameters() if p.requires_grad)]
        first = torch.autograd.grad(
            out.square().sum(), parameters, create_graph=True, allow_unused=True
        )
        there = [g for g in first if g is not None]
        second = torch.autograd.grad(
            sum(g.square().sum() for g in there), parameters, allow_unused=True
        )
        return [out, *there, *(g for g in second if g is not None)]

    whole = derivatives()
    monkeypatch.setattr("gnograd.torch.slice_attention._TILE", 7 * layer.heads * layer.slice_num)
    for a, b in zip(derivatives(), whole, strict=True):
        torch.testing.assert_close(a, b)
    torch.manual_seed(3)
    gradient = torch.func.grad(lambda x: layer(x, cu_seqlens=[0, 20, 20, 31]).square().sum())
    torch.testing.assert_close(gradient(x.detach()), whole[1])


def test_slices_compile_and_refuse():
    layer = gt.SliceAttention(8, 2, 4, 6)
    x = torch.randn(2, 20, 8)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), layer(x))
    with pytest.raises(
        ValueError, match=r"^SliceAttention: x has shape \(2, 7\), needs \(B, N, 8\) or \(N, 8\)"
    ):
        layer(torch.randn(2, 7))


def test_slices_keep_no_array_of_points_times_slices():
    """Kept for backward: the layer's input, its two projections, what the slices give back."""
    layer = gt.SliceAttention(32, 4, 8, 64)
    x, kept = torch.randn(1, 2000, 32), []

    def keep(t):
        kept.append((t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()))
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        layer(x)
    one = 4 * x.numel()  # weights would be eight times that
    assert sum(dict(kept).values()) < 4.7 * one


def test_operators_of_functional():
    q, k, v = randn(7, 2, 3), randn(4, 2, 3), randn(4, 2, 2)
    out = gt.attention(q, k, v)
    expected = reference.attention(*(x.numpy() for x in (q, k, v)))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)


def test_a_program_takes_any_number_of_packed_clouds():
    """Compiled and exported, it leaves the check of the borders to the operators."""
    layer = gt.SliceAttention(16, heads=2, dim_head=8, slice_num=5)
    x, cu = torch.randn(30, 16), torch.tensor([0, 7, 7, 30])
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    sizes = ({0: torch.export.Dim("n", min=4)}, {0: torch.export.Dim("clouds", min=3)})
    exported = torch.export.export(layer, (x, cu), dynamic_shapes=sizes).module()
    for borders in [0, 7, 7, 30], [0, 9, 20, 25, 30], [0, 4, 30]:
        cu = torch.tensor(borders)
        expected = layer(x, cu)
        assert torch.equal(compiled(x, cu), expected)
        assert torch.equal(exported(x, cu), expected)
    one = torch.tensor([0, 30])
    assert torch.equal(compiled(x, one), layer(x, one))
    for wrong in [0, 5], [0, 20, 10, 30]:
        with pytest.raises(ValueError, match="cu_q must rise from 0 to the number of tokens"):
            compiled(x, torch.tensor(wrong))
    for wrong in "float32", "bool":
        with pytest.raises(TypeError, match=f"cu_q is {wrong}, needs int64"):
            compiled(x, torch.tensor([0, 30], dtype=getattr(torch, wrong)))


@pytest.mark.parametrize("gumbel", [False, True])
def test_packed_clouds_do_not_see_each_other(gumbel):
    layer, x = slices(plus=gumbel, gumbel=gumbel), randn(12, 6)
    torch.manual_seed(3)
    packed = layer(x, cu_seqlens=[0, 7, 7, 12])
    torch.manual_seed(3)
    torch.testing.assert_close(packed[:7], layer(x[:7]))
    others = torch.cat([randn(7, 6), x[7:]])
    torch.manual_seed(3)
    torch.testing.assert_close(packed[7:], layer(others, cu_seqlens=[0, 7, 7, 12])[7:])
    if not gumbel:  # noise goes by rows
        torch.testing.assert_close(packed[7:], layer(x[7:]))
    with pytest.raises(
        ValueError, match=r"^SliceAttention: cu_seqlens is .* needs to ascend from 0 to 12"
    ):
        layer(x, cu_seqlens=torch.tensor([0, 5]))
    with pytest.raises(ValueError, match=r"^SliceAttention: x has .* cu_seqlens needs"):
        layer(x[None], cu_seqlens=[0, 12])


# ---- FLARE and GALE ----


def by_heads(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def softmax_attention(q, k, v, scale):
    return torch.softmax(scale * q @ k.transpose(-2, -1), dim=-1) @ v


@pytest.mark.parametrize("shape", [(1, 20, 6), (3, 20, 6), (20, 6)])
def test_flare_is_its_formula(shape):
    layer = gt.FLARE(6, heads=2, dim_head=4, n_global_queries=5, scale=0.7).double()
    x = randn(*shape).requires_grad_()
    points = by_heads(layer.in_project_x(x), 2)
    keys, latents = layer.self_k(points), layer.q_global[0]
    encoded = softmax_attention(latents, keys, layer.self_v(points), 0.7)
    decoded = softmax_attention(keys, latents, encoded, 0.7)
    expected = layer.out_linear(decoded.transpose(-3, -2).flatten(-2))
    out = layer(x)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    c, wanted = randn(*out.shape), [x, *layer.parameters()]
    found = torch.autograd.grad(out, wanted, c)
    for a, b in zip(found, torch.autograd.grad(expected, wanted, c), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def gale(**options):
    layer = gt.GALE(6, heads=3, dim_head=4, slice_num=5, context_dim=2, **options).double()
    if layer.state_mixing_mode == "weighted":
        torch.nn.init.constant_(layer.state_mixing, 0.4)
    return layer.eval()


@pytest.mark.parametrize("mode", ["weighted", "concat_project"])
@pytest.mark.parametrize("plus", [False, True])
def test_gale_is_its_formula(mode, plus):
    layer = gale(state_mixing_mode=mode, plus=plus)
    x, context = randn(2, 20, 6), randn(2, 3, 7, 2)
    among = layer._among_slices

    def mixed(tokens, cu):  # (B S, H, D)
        tokens_of_head = tokens.unflatten(0, (2, 5)).transpose(1, 2)
        q, k, v = layer.cross_q(tokens_of_head), layer.cross_k(context), layer.cross_v(context)
        across = softmax_attention(q, k, v, 0.5).transpose(1, 2).flatten(0, 1)
        if mode == "concat_project":
            return layer.concat_project(torch.cat([among(tokens, cu), across], dim=-1))
        w = torch.sigmoid(layer.state_mixing)
        return w * among(tokens, cu) + (1 - w) * across

    torch.testing.assert_close(layer(x, context), layer._through_slices(x, None, mixed))
    torch.testing.assert_close(layer(x), physics_attention(layer, x))
    several = layer((x, x[:, :4]), context)
    torch.testing.assert_close(several[1], layer(x[:, :4], context))
    torch.testing.assert_close(layer(x[1], context[1:]), several[0][1])


def gale_of_latents(**options):
    sizes = {"heads": 3, "dim_head": 4, "n_global_queries": 5, "context_dim": 2}
    layer = gt.GALE_FA(6, **(sizes | options)).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


@pytest.mark.parametrize("mode", ["weighted", "concat_project"])
def test_gale_through_latent_tokens_is_its_formula(mode):
    layer = gale_of_latents(state_mixing_mode=mode)
    x, context = randn(2, 20, 6), randn(2, 3, 7, 2)
    points = by_heads(layer.in_project_x(x), 3)
    keys, latents = layer.self_k(points), layer.q_global[0]
    encoded = softmax_attention(latents, keys, layer.self_v(points), 1.0)
    among = softmax_attention(keys, latents, encoded, 1.0)
    k, v = layer.cross_k(context), layer.cross_v(context)
    across = softmax_attention(layer.cross_q(points), k, v, 1.0)
    if mode == "weighted":
        w = torch.sigmoid(layer.state_mixing)
        mixed = w * among + (1 - w) * across
    else:
        mixed = layer.concat_project(torch.cat([among, across], dim=-1))
    expected, alone = (layer.out_linear(y.transpose(1, 2).flatten(-2)) for y in (mixed, among))
    torch.testing.assert_close(layer(x, context), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(layer(x), alone, rtol=1e-10, atol=1e-12)
    several = layer((x, x[:, :4]), context)
    torch.testing.assert_close(several[0], expected)
    torch.testing.assert_close(several[1], layer(x[:, :4], context))


def test_flare_and_gale_differentiate_twice():
    flare = gt.FLARE(6, heads=2, dim_head=2, n_global_queries=3).double()
    latents = gale_of_latents(dim_head=2, n_global_queries=3)
    x, context = randn(5, 6).requires_grad_(), randn(1, 3, 2, 2).requires_grad_()
    for layer, inputs in ((flare, (x,)), (gale(), (x, context)), (latents, (x, context))):
        assert torch.autograd.gradcheck(layer, inputs)
        assert torch.autograd.gradgradcheck(layer, inputs)


def test_flare_and_gale_refuse():
    with pytest.raises(ValueError, match=r"x has shape \(2, 7\), needs \(B, N, 6\) or \(N, 6\)"):
        gt.FLARE(6, 2, 4)(torch.ones(2, 7))
    with pytest.raises(ValueError, match=r"^GALE: state_mixing_mode is 'sum', needs 'weighted' or"):
        gale(state_mixing_mode="sum")
    with pytest.raises(
        ValueError, match=r"^GALE: context has shape \(2, 4, 7, 2\), needs \(2, 3, C, 2\)"
    ):
        gale()(randn(2, 20, 6), randn(2, 4, 7, 2))
    with pytest.raises(ValueError, match=r"^GALE_FA: state_mixing_mode is 'sum'"):
        gale_of_latents(state_mixing_mode="sum")
    with pytest.raises(ValueError, match=r"^GALE_FA: context has shape \(2, 4, 7, 2\)"):
        gale_of_latents()(randn(2, 20, 6), randn(2, 4, 7, 2))
    with pytest.raises(ValueError, match=r"^GALE_FA: context is given, needs a layer with"):
        gale_of_latents(context_dim=0)(randn(2, 20, 6), randn(2, 3, 7, 2))


# ---- Transolver ----


def test_block_is_its_formula():
    block = gt.TransolverBlock(3, 6, act="silu", last_layer=True, out_dim=2, slice_num=5).double()
    x = randn(2, 9, 6)
    h = x + physics_attention(block.Attn, block.ln_1(x))
    norm, mlp = block.ln_mlp1
    first, _, second = mlp.layers
    h = h + second(torch.nn.functional.silu(first(norm(h))))
    expected = block.ln_mlp2(h)
    torch.testing.assert_close(block(x), expected)
    packed = block(x.flatten(0, 1), cu_seqlens=[0, 9, 18])
    torch.testing.assert_close(packed, expected.flatten(0, 1))


def test_block_loads_a_state_dict_of_transolver():
    options = {"last_layer": True, "slice_num": 5, "eps": 1e-5, "temperature_range": None}
    ours, other = (gt.TransolverBlock(3, 6, **options) for _ in range(2))
    names = {
        "ln_mlp1.0.": "ln_2.", "ln_mlp1.1.layers.0.": "mlp.linear_pre.0.",
        "ln_mlp1.1.layers.2.": "mlp.linear_post.", "ln_mlp2.0.": "ln_3.", "ln_mlp2.1.": "mlp2.",
        "Attn.out_linear.": "Attn.to_out.0.",
    }  # fmt: skip
    theirs = {}
    for name, value in ours.state_dict().items():
        stem = next((old for old in names if name.startswith(old)), "")
        theirs["0." + names.get(stem, "") + name.removeprefix(stem)] = value
    parts = theirs.pop("0.Attn.qkv_project.weight").chunk(3)
    theirs |= {f"0.Attn.to_{name}.weight": x for name, x in zip("qkv", parts, strict=True)}
    torch.nn.Sequential(other).load_state_dict(theirs)
    x = torch.randn(2, 9, 6)
    torch.testing.assert_close(other(x), ours(x), rtol=0, atol=0)


def test_block_refuses():
    with pytest.raises(
        ValueError, match=r"^TransolverBlock: hidden_dim is 10, needs a multiple of 4 heads"
    ):
        gt.TransolverBlock(4, 10)
    with pytest.raises(ValueError, match="act is 'swish', needs one of 'elu', 'gelu'"):
        gt.TransolverBlock(2, 10, act="swish")


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


@pytest.mark.parametrize("size", ["dim", "heads", "dim_head", "slice_num", "n_global_queries"])
def test_sizes_of_nothing_are_refused(size):
    for kind, own in (gt.SliceAttention, "slice_num"), (gt.FLARE, "n_global_queries"):
        if size in ("dim", "heads", "dim_head", own):
            for number in (0, -1):
                with pytest.raises(
                    ValueError, match=f"^{kind.__name__}: {size} is {number}, needs at least 1"
                ):
                    kind(**{"dim": 8, size: number})
