# SPDX-License-Identifier: MIT
"""PyTorch's transforms on operators, each on a graph that nothing else has used before."""

from __future__ import annotations

import pytest

import calls
import gnograd as gg
from faces import tuple_of

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from torch.func import grad, jvp, vmap  # noqa: E402

from calls_of_torch import NAMES, in_torch  # noqa: E402
from layers_of_torch import close  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")


def bind(name):
    """Inputs of an operator, and the operator on a graph that nobody has used."""
    arrays, static = calls.calls()[name]
    static = in_torch(static)
    if "graph" in getattr(gg, name).static:
        pairs = torch.tensor([calls.SRC[::-1], calls.DST[::-1]])
        static["graph"] = gt.Graph.from_edge_index(pairs, 5)
    inputs = tuple(torch.from_numpy(a) for a in arrays)

    def total(*inputs):
        results = tuple_of(getattr(gt, name)(*inputs, **static))
        return sum((k + 1) * y.sin().sum() for k, y in enumerate(results))

    return inputs, total


def cosines(inputs):
    return tuple(x.cos() for x in inputs)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_operators(name):
    inputs, total = bind(name)
    everything = tuple(range(len(inputs)))
    first = grad(total, everything)(*inputs)
    inputs, total = bind(name)
    value, along = jvp(total, inputs, cosines(inputs))
    inputs, total = bind(name)
    forward = jvp(grad(total, everything), inputs, cosines(inputs))[1]
    inputs, total = bind(name)
    reverse = grad(
        lambda *inputs: jvp(total, inputs, tuple(map(torch.cos, bind(name)[0])))[1], everything
    )(*inputs)
    inputs, total = bind(name)
    batch = tuple(torch.stack([x, x.cos()]) for x in inputs)
    rows = vmap(grad(total, everything))(*batch)

    inputs, total = bind(name)
    leaves = [x.requires_grad_() for x in inputs]
    plain = torch.autograd.grad(total(*leaves), leaves, create_graph=True)
    product = sum((g * x.detach().cos()).sum() for g, x in zip(plain, leaves, strict=True))
    close(value, total(*leaves).detach())
    close(along, product.detach())
    second = torch.autograd.grad(product, leaves, allow_unused=True)
    for k, (a, b) in enumerate(zip(plain, second, strict=True)):
        close(first[k], a.detach())
        close(rows[k][0], a.detach())
        close(forward[k], torch.zeros_like(a) if b is None else b)
        close(reverse[k], torch.zeros_like(a) if b is None else b)


@pytest.mark.parametrize("name", NAMES)
def test_batches_of_derivatives_of_operators(name):
    """Batched derivatives equal single ones, to second order, in reverse and in forward mode."""
    inputs, total = bind(name)
    leaves = [x.requires_grad_() for x in inputs]
    first = torch.autograd.grad(total(*leaves), leaves, create_graph=True)
    cotangents = [torch.stack([x.cos(), x.sin(), x]) for x in map(torch.Tensor.detach, leaves)]
    options = dict(retain_graph=True, allow_unused=True)
    got = torch.autograd.grad(first, leaves, cotangents, is_grads_batched=True, **options)
    for k in range(3):
        each = torch.autograd.grad(first, leaves, [c[k] for c in cotangents], **options)
        for a, b in zip(got, each, strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                close(a[k], b)
    inputs, total = bind(name)
    assert torch.autograd.gradcheck(
        lambda *x: total(*x)[None], [x.requires_grad_() for x in inputs], check_forward_ad=True,
        check_batched_grad=True, check_batched_forward_grad=True,
        fast_mode=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_batches_of_nothing(name):
    """Results of no items have the shapes and types of those of an item."""
    given, static = calls.call_of(name, calls.graph())
    static = in_torch(static)
    inputs = [torch.as_tensor(x) for x in given]
    operator = getattr(gt.functional, name)

    def function(*inputs):
        return tuple_of(operator(*inputs, **static))

    none = [x.new_empty((0, *x.shape)) for x in inputs]
    for got, item in zip(vmap(function)(*none), function(*inputs), strict=True):
        assert got.shape == (0, *item.shape)
        assert (got.dtype, got.device) == (item.dtype, item.device)
    gradients = vmap(grad(lambda *x: function(*x)[0].sum()))(*none)
    assert gradients.shape == none[0].shape
