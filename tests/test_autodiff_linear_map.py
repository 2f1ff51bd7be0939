# SPDX-License-Identifier: MIT
"""Linear maps of a program on the tape: values, derivatives, errors, how long they live."""

import ctypes
import gc
import weakref

import numpy as np
import pytest

import gnograd.autodiff as ad
from gnograd import _core
from gnograd.autodiff.callbacks import CALLBACK
from gnograd.backends.cpu import address

A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def by(matrix):
    """The map of a matrix."""
    return lambda rows, transpose: (matrix.T if transpose else matrix) @ rows


def loss_of(x):
    return ad.sum(ad.linear_map(x, 3, by(A)) ** 3)


# ---- values and derivatives ----


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("features", [(), (4,), (2, 3), (1, 2, 3)])
def test_value_and_gradient(rng, dtype, features):
    tape = ad.Tape(dtype)
    values = rng.integers(-9, 9, (2, *features)).astype(dtype)
    seen = []

    def apply(rows, transpose):
        seen.append((rows.shape, rows.dtype, transpose))
        return by(A)(rows, transpose)

    x = tape.parameter(values)
    y = ad.linear_map(x, 3, apply)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.value, np.einsum("ij,j...->i...", A, values))
    ad.sum(y * y).backward()
    expected = np.einsum("ji,j...->i...", A, 2 * y.value.astype(float))
    np.testing.assert_array_equal(x.grad, expected)
    width = int(np.prod(features, dtype=int))
    assert seen == [((2, width), np.dtype(dtype), False), ((3, width), np.dtype(dtype), True)]


def test_derivatives_of_any_order(rng):
    """Three derivatives of ``sum((A x)**3)`` along a direction equal their formulas."""
    point, along = rng.normal(size=(2, 2, 3))
    tape = ad.Tape("float64")
    x = tape.parameter(point)
    hidden, moved = A @ point, A @ along
    value = loss_of(x)
    for formula in (3 * hidden**2, 6 * hidden * moved, 6 * moved**2):
        (slope,) = ad.grad(value, [x], create_graph=True)
        np.testing.assert_allclose(slope.value, A.T @ formula, rtol=1e-12)
        value = ad.sum(slope * along)


def test_adjoint(rng):
    """<A x, y> = <x, A' y>, by central differences too."""
    tape = ad.Tape("float64")
    point, along = rng.normal(size=(2, 2, 5))
    x = tape.parameter(point)
    (slope,) = ad.grad(loss_of(x), [x])
    step = 1e-6
    difference = [loss_of(tape.constant(point + side * step * along)).item() for side in (1, -1)]
    np.testing.assert_allclose(
        np.vdot(slope.value, along), (difference[0] - difference[1]) / (2 * step), rtol=1e-8
    )


@pytest.mark.parametrize(("n_in", "n_out", "width"), [(0, 3, 2), (2, 0, 2), (0, 0, 1), (2, 3, 0)])
def test_nothing(n_in, n_out, width):
    tape = ad.Tape("float64")
    x = tape.parameter(np.ones((n_in, width)))
    y = ad.linear_map(x, n_out, by(np.ones((n_out, n_in))))
    np.testing.assert_array_equal(y.value, np.full((n_out, width), n_in))
    (ad.sum(y) + ad.sum(x)).backward()
    np.testing.assert_array_equal(x.grad, np.full((n_in, width), 1 + n_out))


def test_constants_are_mapped_once():
    calls = []

    def apply(rows, transpose):
        calls.append(transpose)
        return 2 * rows

    tape = ad.Tape()
    w, x = tape.parameter([1.0]), tape.constant([[1.0], [2.0]])
    ad.sum(ad.linear_map(x, 2, apply) * w).backward()
    assert calls == [False]
    assert w.grad == 6


# ---- what goes wrong ----


def raising(error, on_the_way_back=False):
    def apply(rows, transpose):
        if transpose == on_the_way_back:
            raise error
        return rows

    return apply


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("divided"), KeyboardInterrupt(), MemoryError()]
)
def test_what_apply_raises_comes_through(error):
    tape = ad.Tape()
    x = tape.parameter([[1.0], [2.0]])
    with pytest.raises(type(error)) as raised:
        ad.linear_map(x, 2, raising(error))
    assert raised.value is error
    loss = ad.sum(ad.linear_map(x, 2, raising(error, on_the_way_back=True)))
    for back in (loss.backward, lambda: ad.grad(loss, [x])):
        with pytest.raises(type(error)) as raised:
            back()
        assert raised.value is error
    # the tape goes on
    ad.sum(x * x).backward()
    np.testing.assert_array_equal(x.grad, [[2], [4]])


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (lambda x: ad.linear_map(x, 3, lambda r, t: r), ValueError, r"\(2, 1\), needs \(3, 1\)"),
        (lambda x: ad.linear_map(x, 2, lambda r, t: None), ValueError, r"shape \(\), needs"),
        (lambda x: ad.linear_map(x, 2, lambda r, t: r * 1j), TypeError, "returned complex"),
        (
            lambda x: ad.linear_map(x, 2, lambda r, t: np.ma.array(r, mask=True)),
            TypeError,
            "what apply returned is a masked array",
        ),
        (lambda x: ad.linear_map(ad.sum(x), 2, by(A)), ValueError, "needs an array with an axis"),
        (lambda x: ad.linear_map(x, -1, by(A)), ValueError, "a negative number of rows"),
        (lambda x: ad.linear_map(x, 2.5, by(A)), TypeError, "n_rows is 2.5, needs an integer"),
        (lambda x: ad.linear_map(x, 2**31, by(A)), ValueError, "n_rows is .*, needs at most"),
        (lambda x: ad.linear_map(x, 2, None), TypeError, "apply is NoneType, needs a function"),
        (lambda x: ad.linear_map(x, 2, lambda r, t: x.tape.rewind(0)), RuntimeError, "not use the"),
        (lambda x: ad.linear_map(x, 2, lambda r, t: x.backward()), RuntimeError, "not use the"),
        (lambda x: ad.linear_map(x, 2, lambda r, t: loss_of(x)), RuntimeError, "not use the tape"),
    ],
)
def test_errors(attempt, error, message):
    tape = ad.Tape()
    x = tape.parameter([[1.0], [2.0]])
    with pytest.raises(error, match=message):
        attempt(x)
    loss_of(x).backward()
    assert tape._maps._calls.raised is None


def test_c_callbacks_choose_the_status():
    tape = ad.Tape()
    x = tape.parameter([[1.0], [2.0]])
    for status, error in [(2, IndexError), (4, NotImplementedError), (77, ValueError)]:
        function = CALLBACK(lambda *_, status=status: status)
        where = ctypes.cast(function, ctypes.c_void_p).value
        assert _core.gnograd_array_linear_map(tape._handle, x._handle, 2, where, 0) == 0
        with pytest.raises(error, match="linear_map: the map has failed"):
            tape._wrap(0)


def test_stale_handles_are_refused():
    tape = ad.Tape()
    mark = tape.mark()
    x = tape.parameter([[1.0], [2.0]])
    tape.rewind(mark)
    with pytest.raises(IndexError):
        ad.linear_map(x, 3, by(A))
    assert not tape._maps._calls.maps


# ---- how long maps live ----


def test_maps_go_with_their_arrays():
    class Map:
        def __call__(self, rows, transpose):
            return rows

    tape = ad.Tape()
    x = tape.parameter([[1.0]])
    outer, kept = Map(), []
    y = ad.linear_map(x, 1, outer)
    with tape.step():
        for _ in range(3):
            inner = Map()
            kept.append(weakref.ref(inner))
            y = ad.linear_map(y * y, 1, inner)
        del inner
        assert all(k() is not None for k in kept)
        (slope,) = ad.grad(ad.sum(y), [x], create_graph=True)
        ad.sum(slope * slope).backward()
    assert all(k() is None for k in kept)
    last = weakref.ref(outer)
    del outer
    assert last() is not None
    gc.disable()
    try:
        del y, slope, x, tape
        assert last() is None
    finally:
        gc.enable()


def test_apply_may_keep_its_rows():
    kept = []

    def apply(rows, transpose):
        kept.append(rows)
        return rows

    tape = ad.Tape("float64")
    ad.linear_map(tape.constant([[1.0], [2.0]]), 2, apply)
    del tape
    np.testing.assert_array_equal(kept[0], [[1], [2]])
    kept[0][:] = 0


def test_ten_thousand_steps_keep_nothing():
    tape = ad.Tape()
    x = tape.parameter([[1.0], [2.0]])
    for _ in range(10_000):
        with tape.step():
            ad.sum(ad.linear_map(x, 2, lambda rows, transpose: rows)).backward()
    assert not tape._maps._calls.maps
    assert len(tape) == 1


def test_c_calls_take_addresses():
    """The map of a C program gets null where there are no numbers."""
    seen = []
    function = CALLBACK(lambda *arguments: seen.append(arguments) or 0)
    tape = ad.Tape()
    x = tape.parameter(np.ones((0, 3), np.float32))
    where = ctypes.cast(function, ctypes.c_void_p).value
    data = np.zeros(1)
    y = _core.gnograd_array_linear_map(tape._handle, x._handle, 0, where, address(data))
    assert tape._wrap(y).shape == (0, 3)
    assert seen == [(address(data), 0, 32, 3, 0, None, 0, None)]
