# SPDX-License-Identifier: MIT
"""Half precision in PyTorch: operators and layers, under autocast and by their types."""

from __future__ import annotations

import pytest

import calls
from faces import tuple_of

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")
from calls_of_torch import NAMES, bind, leaves  # noqa: E402
from layers_of_torch import LAYERS, inputs_of, made  # noqa: E402

bfloat16 = torch.bfloat16


def half_inputs(name, graph):
    """Leaves in bfloat16, their float32 copies as leaves, and the operator."""
    inputs, function, _ = bind(name, graph)
    half = [x.detach().to(bfloat16).requires_grad_() for x in inputs]
    return half, [x.detach().float().requires_grad_() for x in half], function


def weighted_sum(outputs, weights):
    return sum((w * y).sum() for w, y in zip(weights, tuple_of(outputs), strict=True))


def like_outputs(outputs):
    return [torch.randn(y.shape).to(bfloat16).to(y.dtype) for y in tuple_of(outputs)]


def assert_rounded(got, want):
    """Check that numbers are equal but for the last bit of bfloat16."""
    for a, b in zip(got, want, strict=True):
        scale = float(b.detach().abs().max()) if b.numel() else 0.0
        torch.testing.assert_close(a.float(), b.float(), rtol=2**-7, atol=2**-12 * scale)


@pytest.mark.parametrize("name", NAMES)
def test_training_under_autocast(name, graph):
    half, single, function = half_inputs(name, graph)
    with torch.autocast("cpu", dtype=bfloat16):
        outputs = function(*half)
    assert all(y.dtype == torch.float32 for y in tuple_of(outputs))
    expected = function(*single)
    weights = like_outputs(expected)
    gradients = torch.autograd.grad(weighted_sum(outputs, weights), half)
    wanted = torch.autograd.grad(weighted_sum(expected, weights), single)
    for got, want in zip(tuple_of(outputs), tuple_of(expected), strict=True):
        assert torch.equal(got, want)
    for got, want in zip(gradients, wanted, strict=True):
        assert torch.equal(got, want.to(bfloat16))


def test_autocast_makes_types_equal(graph):
    """A linear layer gives bfloat16, parameters are float32; float64 is nobody's to change."""
    h, *rest = (x.detach().float() for x in leaves(calls.gno_inputs()))
    with torch.autocast("cpu", dtype=bfloat16):
        out = gt.gno(h.to(bfloat16), *rest, graph=graph)
        assert torch.equal(out, gt.gno(h.to(bfloat16).float(), *rest, graph=graph))
        doubles = [x.double() for x in (h, *rest)]
        assert gt.gno(*doubles, graph=graph).dtype == torch.float64
        with pytest.raises(TypeError, match="gno: h is float32 but coords is float64"):
            gt.gno(h, *doubles[1:], graph=graph)


@pytest.mark.parametrize("kernels", [True, False])
def test_autocast_keeps_half_precision_where_there_are_kernels(kernels, monkeypatch):
    """Types of the results of attention and selection on a GPU, without one."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from gnograd.torch import half_precision

    monkeypatch.setattr(half_precision, "has_kernel", lambda *_: kernels)
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)
    try:
        with FakeTensorMode():
            q, k, v = (torch.empty(6, 2, 3, device="cuda", dtype=torch.float16) for _ in range(3))
            out, lse = gt.compressed_attention(q, k.float(), v, block=2, stride=1)
            static = dict(block=2, stride=1, block_size=2, n_blocks=2)
            blocks = gt.select_blocks(q, k, lse, **static)
            full = gt.window_attention(q.float(), k.float(), v.float(), window=2)
            sizes = (9, 2), (2, 4), (4,), (4, 3, 2), (3, 2)
            coords, U, *rest = (torch.empty(size, device="cuda") for size in sizes)
            kappa = gt.gno_kernel(coords, U.half(), *rest)
    finally:
        torch.set_autocast_enabled("cuda", before)
    assert out.dtype == (torch.get_autocast_dtype("cuda") if kernels else torch.float32)
    assert (lse.dtype, blocks.dtype, full.dtype) == (torch.float32, torch.int32, torch.float32)
    assert kappa.dtype == out.dtype


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_on_the_cpu(name, graph):
    """All faces compute in float32 copies, and return the type of what was given."""
    half, single, function = half_inputs(name, graph)
    results = []
    torch.manual_seed(0)
    weights = None
    for inputs in (half, single):
        outputs = function(*inputs)
        weights = like_outputs(outputs) if weights is None else weights
        # no product in the loss that would be rounded
        cotangents = [w.to(y.dtype) for w, y in zip(weights, tuple_of(outputs), strict=True)]
        first = torch.autograd.grad(outputs, inputs, cotangents, create_graph=True)
        directions = [torch.ones_like(x) for x in inputs]
        second = torch.autograd.grad(first, inputs, directions, allow_unused=True)
        pushed = torch.func.jvp(function, tuple(x.detach() for x in inputs), tuple(directions))[1]
        results.append([*tuple_of(outputs), *first, *second, *tuple_of(pushed)])
    there = [y is not None for y in results[1]]
    assert there == [y is not None for y in results[0]]
    got, want = ([y for y in r if y is not None] for r in results)
    assert_rounded(got, want)
    n = len(tuple_of(function(*half)))
    lse = {"compressed_attention": [bfloat16, torch.float32]}.get(name, [bfloat16] * n)
    assert [y.dtype for y in got[:n]] == lse
    assert all(y.dtype == bfloat16 for y in got[n : len(got) - n])


def test_types_of_half_precision_are_checked(graph):
    h, coords, *rest = (x.detach().to(bfloat16) for x in leaves(calls.gno_inputs()))
    with pytest.raises(TypeError, match="gno: h is bfloat16 but U is float32"):
        gt.gno(h, coords, rest[0].float(), *rest[1:], graph=graph)
    with pytest.raises(TypeError, match="gno: h is float32 but coords is bfloat16"):
        gt.gno(h.float(), coords, *rest, graph=graph)
    with pytest.raises(TypeError, match="gno: coords is float16, needs float32"):
        gt.gno(h, coords.half(), *rest, graph=graph)


def test_geometry_is_float32_beside_half_precision(graph):
    """Coordinates and quadrature weights are not rounded; gradients have the types of inputs."""
    h, coords, *rest, weight = (x.detach().float() for x in leaves(calls.gno_inputs()))
    half = [x.to(bfloat16).requires_grad_() for x in (h, *rest)]
    geometry = [x.clone().requires_grad_() for x in (coords, weight)]
    inputs = half[0], geometry[0], *half[1:], geometry[1]
    out = gt.gno(*inputs, graph=graph)
    assert out.dtype == bfloat16
    expected = gt.gno(*(x.float() for x in inputs), graph=graph)
    assert torch.equal(out, expected.to(bfloat16))
    gradients = torch.autograd.grad(out.float().sum(), inputs)
    assert [g.dtype for g in gradients] == [x.dtype for x in inputs]
    kappa = gt.gno_kernel(*inputs[1:6])
    assert kappa.dtype == bfloat16
    with pytest.raises(TypeError, match="gno_kernel: coords is float32 but U is float64"):
        gt.gno_kernel(inputs[1], *(x.double() for x in inputs[2:6]))


def test_half_precision_in_batches_and_compiled(graph):
    inputs, _, function = half_inputs("mha_gat", graph)

    def loss(*x):
        return torch.tanh(function(*x)).sum()

    def under_autocast(*x):
        with torch.autocast("cpu", dtype=bfloat16):
            return loss(*x)

    for f in (loss, under_autocast):
        compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
        expected = torch.autograd.grad(f(*inputs), inputs)
        for a, b in zip(torch.autograd.grad(compiled(*inputs), inputs), expected, strict=True):
            assert a.dtype == bfloat16
            torch.testing.assert_close(a, b, rtol=2**-6, atol=2**-8)
    x, *rest = (t.detach() for t in inputs)
    batch = torch.stack([x, 2 * x, -x])
    gradient = torch.func.grad(lambda x: loss(x, *rest))
    mapped = torch.vmap(gradient)(batch)
    assert mapped.dtype == bfloat16
    for row, x in zip(mapped, batch, strict=True):
        assert torch.equal(row, gradient(x))


def half(values, dtype=bfloat16):
    """Floating-point tensors in another type."""
    return [
        v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in values
    ]


def of_layer(name):
    """A layer and its inputs in float32."""
    return made(name).float(), half(inputs_of(name), torch.float32)


def gradients_of(module, loss):
    """Gradients to the parameters, by a backward pass."""
    module.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in module.parameters() if p.grad is not None]


WITH_PARAMETERS = [name for name in LAYERS if name != "RotaryPoints"]


# the largest of rounded numbers is another one
@pytest.mark.parametrize("name", [name for name in WITH_PARAMETERS if name != "SAGEConv, max"])
def test_layers_train_under_autocast(name):
    layer, inputs = of_layer(name)
    expected = gradients_of(layer, layer(*inputs).square().sum())
    with torch.autocast("cpu", dtype=bfloat16):
        loss = layer(*inputs).square().sum()
    got = gradients_of(layer, loss)  # outside, as everyone does
    largest = max(float(g.norm()) for g in expected)
    for a, b in zip(got, expected, strict=True):
        assert float((a - b).norm()) <= 0.1 * float(b.norm()) + 0.02 * largest


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_layers_in_bfloat16(name):
    layer, inputs = of_layer(name)
    layer.to(bfloat16)
    out = layer(*half(inputs))
    assert out.dtype == bfloat16
    gradients = gradients_of(layer, out.square().sum())
    assert all(g.dtype == bfloat16 and torch.isfinite(g).all() for g in gradients)
    with torch.no_grad():
        expected = layer.float()(*half(half(inputs), torch.float32))
        assert float((out - expected).norm()) <= 0.1 * float(expected.norm())
