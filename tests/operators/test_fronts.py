# SPDX-License-Identifier: MIT
"""Tape, PyTorch and JAX compute what the faces do, to the last bit, on every case.

A front is a vjp that can be differentiated: the derivative of ``<vjp(c), t>`` by the cotangents c
is the jvp, and by the inputs the hvp.
"""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd.autodiff as ad
import table
from calls import EDGES
from faces import Call, there, tuple_of
from table import CASES, FRONT


def on_tape(call):
    """Values, gradients (recorded or not), and the derivative of these."""
    tape = ad.Tape(str(call.cotangents[0].dtype))
    x = [None if value is None else tape.parameter(value) for value in call.inputs]
    outputs = tuple_of(getattr(ad, call.case.name)(*x, **call.static))
    c = [tape.parameter(value) for value in call.cotangents]
    loss = sum_of(tape, outputs, c, call.finite)
    plain = ad.grad(loss, there(x), create_graph=False)
    gradients = ad.grad(loss, there(x), create_graph=True)
    for a, b in zip(plain, gradients, strict=True):
        assert_array_equal(a.value, b.value)
    second = ad.grad(sum_of(tape, gradients, there(call.tangents)), [*c, *there(x)])
    return [[array.value for array in group] for group in (outputs, gradients, second)]


def sum_of(tape, arrays, others, finite=None):
    total = tape.constant(0.0)
    for k, (a, b) in enumerate(zip(arrays, others, strict=True)):
        if finite is None or finite[k].all():
            total = total + ad.sum(a * b)
    return total


def in_torch(call):
    torch = pytest.importorskip("torch")
    gt = pytest.importorskip("gnograd.torch")
    x = [
        None if value is None else torch.tensor(value, requires_grad=True) for value in call.inputs
    ]
    static = {
        k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in call.static.items()
    }
    outputs = tuple_of(getattr(gt, call.case.name)(*x, **static))
    c = [torch.tensor(value, requires_grad=True) for value in call.cotangents]
    gradients = torch.autograd.grad(outputs, there(x), c, create_graph=True)
    t = [torch.tensor(value) for value in there(call.tangents)]
    second = torch.autograd.grad(gradients, [*c, *there(x)], t, materialize_grads=True)
    return [[array.detach().numpy() for array in group] for group in (outputs, gradients, second)]


def in_jax(call):
    jax = pytest.importorskip("jax")
    gj = pytest.importorskip("gnograd.jax")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    present = [k for k, value in enumerate(call.inputs) if value is not None]

    def apply(*x):
        given = [None] * len(call.inputs)
        for k, value in zip(present, x, strict=True):
            given[k] = value
        return tuple_of(getattr(gj, call.case.name)(*given, **call.static))

    def pull(c, x):
        return jax.vjp(apply, *x)[1](c)

    def everything(c, x, t):
        gradients, back = jax.vjp(pull, c, x)
        to_c, to_x = back(t)
        return apply(*x), gradients, [*to_c, *to_x]

    given = call.cotangents, tuple(there(call.inputs)), tuple(there(call.tangents))
    given = jax.tree.map(jax.numpy.asarray, given)
    return [[np.asarray(array) for array in group] for group in jax.jit(everything)(*given)]


def prepare(case, edges, rng, dtype="float64"):
    """A call; an output that is not finite has no part in a loss."""
    call = Call(case, edges, rng, np.dtype(dtype))
    call.cotangents = tuple(
        c if finite.all() else 0 * c for c, finite in zip(call.cotangents, call.finite, strict=True)
    )
    return call


def check(front, case, edges, rng, dtype="float64"):
    """The front's values and derivatives have the bits of the faces."""
    call = prepare(case, edges, rng, dtype)
    values, gradients, second = front(call)
    results, saved = call.operator.forward(*call.inputs, return_saved=True, **call.static)
    expected = [
        tuple_of(results),
        there(call.vjp(saved=saved)),
        [*call.jvp(), *there(call.hvp())],
    ]
    for group, wanted in zip((values, gradients, second), expected, strict=True):
        for k, (a, b) in enumerate(zip(group, wanted, strict=True)):
            if wanted is expected[2] and k < len(values) and not call.finite[k].all():
                continue
            if case.is_bilinear:  # derivatives are operations of the fronts
                assert_allclose(a, b, rtol=8 * np.finfo(dtype).eps, atol=8 * np.finfo(dtype).eps)
            else:
                assert_array_equal(a, b)


def some(cases):
    """The cases, of which only those for all fronts are not exhaustive."""
    rest = pytest.mark.exhaustive
    return [pytest.param(c, marks=() if c.front else rest, id=str(c)) for c in cases]


SMALL = [case for case in CASES if not case.large]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@table.on_graphs(SMALL)
def test_tape(case, graphs, dtype):
    table.on_each(partial(check, on_tape, dtype=dtype), case, graphs)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_torch(case, rng):
    check(in_torch, case, EDGES, rng)


@pytest.mark.parametrize("case", some(SMALL))
def test_jax(case, rng):
    check(in_jax, case, EDGES, rng)


def test_every_operator_has_a_case():
    assert {case.name for case in SMALL} == set(FRONT)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_tape_with_one_parameter(case, rng):
    """Whatever is a constant, the gradients to all else are the same."""
    call = prepare(case, EDGES, rng)
    _, saved = call.operator.forward(*call.inputs, return_saved=True, **call.static)
    expected = call.vjp(saved=saved)
    for k, value in enumerate(call.inputs):
        if value is None:
            continue
        tape = ad.Tape("float64")
        x = [*call.inputs]
        x[k] = tape.parameter(value)
        outputs = tuple_of(getattr(ad, case.name)(*x, **call.static))
        loss = sum_of(tape, outputs, call.cotangents, call.finite)
        (gradient,) = ad.grad(loss, [x[k]], create_graph=True)
        assert_array_equal(gradient.value, expected[k])


@pytest.mark.parametrize("name", FRONT)
def test_third_derivatives_on_the_tape_are_refused(name, rng):
    call, tape = prepare(FRONT[name], EDGES, rng), ad.Tape("float64")
    x = [tape.parameter(value) for value in there(call.inputs)]

    def number(arrays):
        return sum_of(tape, map(ad.sin, arrays), [rng.normal(size=a.shape) for a in arrays])

    total = number(tuple_of(getattr(ad, name)(*x, **call.static)))
    for _ in range(2):
        total = number(ad.grad(total, x, create_graph=True))
    if call.case.is_bilinear:
        assert all(np.isfinite(g.value).all() for g in ad.grad(total, x))
        return
    with pytest.raises(NotImplementedError, match=f"{name}: third derivatives"):
        ad.grad(total, x)
