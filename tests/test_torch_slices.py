# SPDX-License-Identifier: MIT
"""Attention of points through slices and latent queries: SliceAttention, FLARE, GALE."""

import numpy as np
import pytest

from reference import dense as reference

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from calls_of_torch import randn  # noqa: E402
from gnograd.torch.dropout import gumbel_noise, split_mix  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


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


@pytest.mark.parametrize("size", ["dim", "heads", "dim_head", "slice_num", "n_global_queries"])
def test_sizes_of_nothing_are_refused(size):
    for kind, own in (gt.SliceAttention, "slice_num"), (gt.FLARE, "n_global_queries"):
        if size in ("dim", "heads", "dim_head", own):
            for number in (0, -1):
                with pytest.raises(
                    ValueError, match=f"^{kind.__name__}: {size} is {number}, needs at least 1"
                ):
                    kind(**{"dim": 8, size: number})
