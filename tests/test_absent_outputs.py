# SPDX-License-Identifier: MIT
"""Outputs that are not there under some static arguments, in every front."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import calls
import gnograd as gg
import gnograd.autodiff as ad

OUTPUTS = pytest.mark.parametrize("outputs", ["edges", "nodes"])
PLACE = {"edges": 0, "nodes": 1}


def call(outputs, graph=None):
    inputs, static = calls.call_of("edge_mlp", calls.graph() if graph is None else graph)
    return inputs, static | {"outputs": outputs}


def expected(outputs, seed=1):
    """Value, cotangent and gradients, from the operator with both."""
    inputs, static = call("both")
    both = gg.edge_mlp(*inputs, **static)
    value = both[PLACE[outputs]]
    (cotangent,) = calls.normal(value.shape, seed=seed)
    cotangents = [None, None]
    cotangents[PLACE[outputs]] = cotangent
    return value, cotangent, gg.edge_mlp.vjp(cotangents, inputs, **static)


def assert_all_close(actual, wanted):
    for a, w in zip(actual, wanted, strict=True):
        assert_allclose(np.asarray(a), w, rtol=1e-12, atol=1e-13)


@OUTPUTS
def test_signature(outputs):
    _, static = call(outputs)
    there = gg.edge_mlp.signature(**static).there
    assert there == [name == outputs for name in ("edges", "nodes")]


@OUTPUTS
def test_tape(outputs):
    value, cotangent, gradients = expected(outputs)
    inputs, static = call(outputs)
    tape = ad.Tape("float64")
    parameters = [tape.parameter(x) for x in inputs]
    y = ad.edge_mlp(*parameters, **static)
    assert_all_close([y.value], [value])
    for create_graph in (False, True):
        found = ad.grad(ad.sum(y * cotangent), parameters, create_graph=create_graph)
        assert_all_close([g.value for g in found], gradients)


@OUTPUTS
def test_torch(outputs):
    torch = pytest.importorskip("torch")
    import gnograd.torch as gt

    value, cotangent, gradients = expected(outputs)
    inputs, static = call(outputs)
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]

    def apply(*tensors):
        return gt.edge_mlp(*tensors, **static)

    y = apply(*tensors)
    assert_all_close([y.detach()], [value])
    assert_all_close(torch.autograd.grad(y, tensors, torch.tensor(cotangent)), gradients)
    assert torch.autograd.gradcheck(apply, tensors)
    assert torch.autograd.gradgradcheck(apply, tensors)
    with torch.no_grad():
        assert_all_close([apply(*tensors)], [value])


@OUTPUTS
def test_torch_dispatcher(outputs):
    """Custom operators are called when compiled, under torch.func and in half precision."""
    torch = pytest.importorskip("torch")
    import gnograd.torch as gt

    value, cotangent, gradients = expected(outputs)
    inputs, static = call(outputs)
    tensors = [torch.tensor(x) for x in inputs]

    def loss(*tensors):
        return (gt.edge_mlp(*tensors, **static) * torch.tensor(cotangent)).sum()

    assert_all_close(torch.func.grad(loss, argnums=tuple(range(5)))(*tensors), gradients)
    value_of_jvp, tangent = torch.func.jvp(
        lambda *x: gt.edge_mlp(*x, **static), tuple(tensors), tuple(tensors)
    )
    assert_all_close([value_of_jvp, tangent], [value, gg.edge_mlp.jvp(inputs, inputs, **static)])

    leaves = [x.clone().requires_grad_() for x in tensors]
    compiled = torch.compile(
        lambda *x: gt.edge_mlp(*x, **static), fullgraph=True, backend="aot_eager"
    )
    y = compiled(*leaves)
    assert_all_close([y.detach()], [value])
    assert_all_close(torch.autograd.grad(y, leaves, torch.tensor(cotangent)), gradients)

    half = gt.edge_mlp(*(x.to(torch.bfloat16) for x in tensors), **static)
    assert half.dtype == torch.bfloat16 and half.shape == value.shape


@OUTPUTS
def test_jax(outputs):
    jax = pytest.importorskip("jax")
    import gnograd.jax as gj

    jax.config.update("jax_enable_x64", True)
    value, cotangent, gradients = expected(outputs)
    inputs, static = call(outputs)

    def apply(*inputs):
        return gj.edge_mlp(*inputs, **static)

    assert_all_close([jax.jit(apply)(*inputs)], [value])
    y, back = jax.vjp(apply, *map(jax.numpy.asarray, inputs))
    assert_all_close([y], [value])
    assert_all_close(back(jax.numpy.asarray(cotangent)), gradients)
    _, tangent = jax.jvp(apply, tuple(inputs), tuple(inputs))
    assert_all_close([tangent], [gg.edge_mlp.jvp(inputs, inputs, **static)])
