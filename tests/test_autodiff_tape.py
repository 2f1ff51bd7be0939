# SPDX-License-Identifier: MIT
"""The tape itself: the reverse sweep, memory, arrays and handles, errors."""

import array
import copy
import gc
import os
import pickle
import resource

import numpy as np
import pytest

import gnograd as gg
import gnograd.autodiff as ad

# ---- the sweep ----


def test_shared_nodes_cost_once():
    tape = ad.Tape("float64")
    x = tape.parameter([1.5])
    y = x
    for _ in range(26):
        y = y + y
    length = len(tape)
    y.backward()
    assert x.grad[0] == 2.0**26
    assert len(tape) == length == 27


def test_without_create_graph_only_the_gradients_stay():
    tape = ad.Tape("float64")
    x, y = tape.parameter([-0.5, 0.2, 1.0]), tape.parameter([0.3, -1.0, 2.0])
    loss = ad.sum(ad.exp(x * y) / (1 + x * x))
    length = len(tape)
    gradients = ad.grad(loss, [x, y])
    assert len(tape) == length + 2
    assert not gradients[0].requires_grad


def test_gradient_of_computed_arrays_and_repeated_ones():
    tape = ad.Tape("float64")
    x = tape.parameter([2.0, 3.0])
    y = x * x
    loss = ad.sum(y * y)
    for create_graph in (False, True):
        a, b, c, d = ad.grad(loss, [y, x, y, loss], create_graph=create_graph)
        np.testing.assert_array_equal(a.value, [8, 18])
        np.testing.assert_array_equal(b.value, [32, 108])
        np.testing.assert_array_equal(c.value, [8, 18])
        assert d.item() == 1


def test_what_the_loss_does_not_depend_on_has_zero_gradient():
    tape = ad.Tape()
    x, y = tape.parameter([1.0]), tape.parameter([[1.0, 2.0]])
    loss = ad.sum(x * 2)
    for create_graph in (False, True):
        _, gradient = ad.grad(loss, [x, y], create_graph=create_graph)
        np.testing.assert_array_equal(gradient.value, [[0, 0]])
    loss.backward()
    np.testing.assert_array_equal(y.grad, [[0, 0]])


def test_constants_cost_nothing():
    tape = ad.Tape()
    a, b = tape.constant([1.0]), tape.constant([2.0])
    assert not (a * b).requires_grad
    x = tape.parameter([3.0])
    (gradient,) = ad.grad(ad.sum(x * a), [x])
    assert gradient.value == 1
    with pytest.raises(ValueError, match="does not depend on any parameter"):
        ad.grad(ad.sum(x * a), [a])


def test_backward_replaces_or_adds():
    tape = ad.Tape("float64")
    x = tape.parameter([1.0, 2.0])
    ad.sum(x * x).backward()
    ad.sum(x * x).backward()
    np.testing.assert_array_equal(x.grad, [2, 4])
    ad.sum(3 * x).backward(add=True)
    np.testing.assert_array_equal(x.grad, [5, 7])
    ad.grad(ad.sum(x), [x])
    np.testing.assert_array_equal(x.grad, [5, 7])


# ---- memory ----


def rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_ten_thousand_steps_leak_nothing():
    tape = ad.Tape()
    w, b = tape.parameter(np.ones((8, 8), np.float32)), tape.parameter(np.zeros(8, np.float32))
    x = tape.constant(np.ones((50, 8), np.float32))
    adam = ad.Adam([w, b], lr=1e-4)
    length = len(tape)
    for k in range(10_000):
        with tape.step():
            loss = ad.norm(ad.gelu(x @ w + b) - 1)
            loss.backward()
            if k % 10 == 0:
                (g,) = ad.grad(loss, [w], create_graph=True)
                ad.grad(ad.sum(g * g), [w])
        adam.step()
        assert len(tape) == length
        if k == 1000:
            gc.collect()
            before = rss()
    gc.collect()
    assert rss() - before < 2**20


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_tapes_are_freed():
    def use():
        tape = ad.Tape("float64")
        x = tape.parameter(np.ones(100_000))
        adam = ad.Adam([x])
        ad.sum(x * x).backward()
        adam.step()

    for k in range(60):
        use()
        if k == 10:
            gc.collect()
            before = rss()
    gc.collect()
    assert rss() - before < 2**22


def test_rewind_ends_arrays():
    tape = ad.Tape()
    x = tape.parameter([1.0])
    mark = tape.mark()
    y = x * 2
    tape.rewind(mark)
    z = x * 3
    with pytest.raises(IndexError, match="no longer on the tape"):
        _ = y.value
    with pytest.raises(IndexError, match="add: an operand is no longer on the tape"):
        _ = x + y
    assert z.value == 3


@pytest.mark.parametrize("mark", [2, 2**31, 2**32, 2**32 + 1, 2**70])
def test_rewind_to_a_mark_beyond_the_end_frees_nothing(mark):
    tape = ad.Tape()
    x = tape.parameter([1.0])
    tape.rewind(mark)
    assert x.value == 1
    with pytest.raises(ValueError, match="the mark is -1"):
        tape.rewind(-1)


def test_what_was_computed_before_a_change_has_no_gradient():
    tape = ad.Tape()
    x = tape.parameter([3.0])
    y = ad.sum(x * x)
    x.value = [1.0]
    with pytest.raises(ValueError, match="changed after it had been used"):
        (y + ad.sum(x)).backward()
    with pytest.raises(ValueError, match="changed after it had been used"):
        ad.grad(y, [x])
    ad.sum(x * x).backward()
    np.testing.assert_array_equal(x.grad, [2])
    y = ad.sum(x * x)
    ad.SGD([x], lr=0.5).step()
    with pytest.raises(ValueError, match="changed after it had been used"):
        y.backward()


# ---- handles ----


@pytest.mark.parametrize("function", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda x: x.tape, "Tape: .* make another Tape"),
        (lambda x: x, r"Array: .*array\.value"),
        (lambda x: ad.Adam([x]), "Adam: .* state_dict"),
        (lambda x: ad.SGD([x], lr=0.1), "SGD: .* state_dict"),
    ],
)
def test_handles_have_no_copies(function, make, advice):
    x = ad.Tape().parameter([1.0])
    with pytest.raises(TypeError, match=advice):
        function(make(x))
    with pytest.raises(TypeError, match=advice):
        function({"in a container": make(x)}) if function is not copy.copy else function(make(x))


def test_graphs_may_go_before_the_gradient(rng):
    def total(x, offsets, indices):
        return ad.sum(ad.agg_simple(x, graph=gg.Graph(offsets, indices, 3)))

    tape = ad.Tape("float64")
    x = tape.parameter(rng.normal(size=(3, 1)))
    for _ in range(3):
        with tape.step():
            loss = total(x, [0, 3], [0, 1, 2])
            gc.collect()
            for _ in range(10):
                loss = loss + total(x, [0, 2, 4, 5], [0, 1, 0, 1, 0])
            loss.backward()
        np.testing.assert_array_equal(x.grad.ravel(), [31, 21, 1])


# ---- errors ----

MASKED = np.ma.array(np.ones((2, 3), np.float32), mask=True)


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (lambda x, y: x + y, ValueError, r"add: shapes \(2, 3\) \+ \(4, 3\) cannot be broadcast"),
        (lambda x, y: x @ y, ValueError, r"matmul: \(2, 3\) @ \(4, 3\): the inner extents differ"),
        (lambda x, y: ad.sum(x) @ y, ValueError, "matmul: .* needs two matrices"),
        (lambda x, y: x + np.ones(3), TypeError, "add: operands of different kinds"),
        (lambda x, y: x.reshape(4, 2), ValueError, r"reshape: \(2, 3\) does not fit into \(4, 2\)"),
        (lambda x, y: ad.sum(x, 2), ValueError, r"sum: \(2, 3\) has no such axis"),
        (lambda x, y: ad.softmax(x, -3), ValueError, r"softmax: \(2, 3\) has no such axis"),
        (lambda x, y: ad.concatenate([x, y], 1), ValueError, r"\(4, 3\) does not fit to \(2, 3\)"),
        (lambda x, y: ad.transpose(x, (0, 0)), ValueError, "transpose: the order of axes"),
        (lambda x, y: x[2], IndexError, "slice: index 2"),
        (lambda x, y: x[0, 0, 0], IndexError, "slice: 3 indices"),
        (lambda x, y: x[[2]], IndexError, "gather: a number outside"),
        (lambda x, y: x[[0.5]], TypeError, "rows are a vector of integers"),
        (lambda x, y: x["a"], TypeError, "an array is indexed by"),
        (lambda x, y: x.backward(), ValueError, r"must be one number, it is \(2, 3\)"),
        (lambda x, y: x.tape.constant(1.0).backward(), ValueError, "does not depend on any"),
        (lambda x, y: x.tape.constant(np.ones((1,) * 5)), ValueError, "more than 4 axes"),
        (lambda x, y: x.tape.constant("a"), TypeError, "needs float32 or float64 numbers"),
        (lambda x, y: x * np.ones(3, np.float16), TypeError, "numbers, got float16"),
        (lambda x, y: x + ad.Tape().constant(1.0), ValueError, "different tapes"),
        (lambda x, y: ad.Tape("int32"), TypeError, "needs float32 or float64"),
        (lambda x, y: ad.softmax(x, (0,)), TypeError, r"softmax: axis is \(0,\), needs an integer"),
        (lambda x, y: ad.softmax(x, 2**31), ValueError, "softmax: axis is 2147483648, needs at mo"),
        (lambda x, y: ad.concatenate([x], (0,)), TypeError, "concatenate: axis is .* an integer"),
        (lambda x, y: ad.concatenate([x], -(2**63)), ValueError, "concatenate: axis is .* at leas"),
        (lambda x, y: ad.norm(x, "0"), TypeError, "norm: axis is '0', needs an integer"),
        (lambda x, y: ad.mean(x, 2**63), ValueError, "mean: axis is .*, needs at most"),
        (lambda x, y: ad.sum(x, (0, 1.0)), TypeError, "sum: axis is 1.0, needs an integer"),
        (lambda x, y: x.reshape(2, 2.7), TypeError, "reshape: shape is 2.7, needs an integer"),
        (lambda x, y: ad.reshape(x, "text"), TypeError, "reshape: shape is 'text', needs an int"),
        (lambda x, y: ad.transpose(x, (0, 3)), ValueError, "transpose: the order of axes"),
        (lambda x, y: ad.transpose(ad.sum(x), (0,)), ValueError, "1 axes for an array with 0"),
        (lambda x, y: x.tape.constant(MASKED), TypeError, "tape: the array is a masked array"),
        (lambda x, y: x + MASKED, TypeError, "tape: the array is a masked array"),
        (lambda x, y: setattr(x, "value", MASKED), TypeError, "value: the array is a masked array"),
        (lambda x, y: x[np.ma.array([0], mask=True)], TypeError, "gather: .* is a masked array"),
        (lambda x, y: x[True], TypeError, "not by bool"),
        (lambda x, y: x[..., ...], IndexError, "slice: an index has one ... at most"),
        (lambda x, y: ad.grad(ad.sum(x), x), TypeError, "grad: arrays is an Array, needs a list"),
        (lambda x, y: ad.grad(ad.sum(x), [np.ones(3)]), TypeError, "grad: .* got ndarray"),
        (lambda x, y: ad.exp(np.ones(3)), TypeError, "needs an Array of a tape, got ndarray"),
        (lambda x, y: ad.sum(np.ones(3)), TypeError, "sum: needs an Array of a tape"),
        (lambda x, y: ad.reshape(np.ones(4), (2, 2)), TypeError, "reshape: needs an Array of a"),
        (lambda x, y: x * [ad.sum(x), 1.0, 1.0], TypeError, "an operand is a list of Arrays"),
        (lambda x, y: setattr(x, "value", x.value + 1j), TypeError, "needs real numbers, got comp"),
        (lambda x, y: setattr(x, "value", x.value.astype(str)), TypeError, "value: needs real num"),
        (lambda x, y: ad.SGD([y], x), TypeError, "optimizer: lr is .* needs a number"),
        (lambda x, y: ad.Adam([x, y, x]), ValueError, "optimizer: a parameter is given twice"),
        (lambda x, y: ad.Adam(x), TypeError, "optimizer: params is an Array, needs a list"),
        (lambda x, y: ad.Adam([x], betas=(0.9,)), ValueError, "betas has 1 numbers, needs 2"),
        (lambda x, y: ad.Adam([x], betas=(1, 0.9)), ValueError, "beta1 must not be negative, and"),
        (lambda x, y: ad.AdamW([x], eps="0"), TypeError, "optimizer: eps is '0', needs a number"),
        (lambda x, y: ad.SGD([x], 0.1).load_state_dict({}), ValueError, "the state has no 'lr'"),
    ],
)
def test_errors(attempt, error, message):
    tape = ad.Tape()
    x, y = tape.parameter(np.ones((2, 3), np.float32)), tape.parameter(np.ones((4, 3), np.float32))
    with pytest.raises(error, match=message):
        attempt(x, y)
    # the tape goes on
    ad.sum(x * x).backward()
    np.testing.assert_array_equal(x.grad, 2 * np.ones((2, 3)))


def test_gradients_can_be_set_on_parameters_only():
    tape = ad.Tape("float64")
    x, c = tape.parameter([1.0, 2.0]), tape.constant([1.0])
    for other in (c, x * x):
        with pytest.raises(ValueError, match="set_grad: only parameters"):
            other.grad = other.value
    with pytest.raises(ValueError, match=r"grad: the array has shape \(2,\), the values \(1,\)"):
        x.grad = [1.0]


def test_values_can_be_set_on_leaves_only():
    tape = ad.Tape()
    x = tape.parameter([1.0, 2.0])
    x.value = [3, 4]
    np.testing.assert_array_equal(x.value, [3, 4])
    with pytest.raises(ValueError, match="shape"):
        x.value = [1.0]
    with pytest.raises(ValueError, match="only parameters and constants"):
        (x + 1).value = [1.0, 2.0]


def test_numpy_takes_arrays():
    tape = ad.Tape("float64")
    x = tape.parameter([1.0, 4.0])
    np.testing.assert_array_equal(np.asarray(x), [1, 4])
    np.testing.assert_array_equal(np.asarray(x, np.float32), np.array([1, 4], np.float32))
    assert isinstance(np.ones(2) + x, ad.Array)
    assert isinstance(np.float64(2) * x, ad.Array)
    assert len(x) == 2
    assert [float(y) for y in x] == [1, 4]
    assert float(ad.sum(x)) == 5
    assert repr(x) == "Array(array([1., 4.]))"


@pytest.mark.parametrize("order", ["=", ">", "<"])
def test_integers_have_any_order_of_bytes(order):
    """Other sizes are refused here and in NumPy's front by the same name."""
    rng = np.random.default_rng(0)
    h, w = rng.random((3, 4)), rng.random(4)
    ends, sources = np.array([0, 1, 2, 4]), np.array([0, 1, 0, 2], np.int32)
    graph = gg.Graph(ends, sources)
    kinds = np.array([0, 1, 0, 1], np.int32).astype(np.dtype("i4").newbyteorder(order))
    cuts = np.array([0, 2, 3]).astype(np.dtype("i8").newbyteorder(order))
    tape, q = ad.Tape("float64"), h[:, None]
    relational = {"graph": graph, "edge_type": kinds, "n_relations": 2}
    one = ad.agg_relational(tape.constant(h), w, **relational).value
    assert np.array_equal(one, gg.agg_relational(h, w, **relational))
    one = ad.attention(tape.constant(q), q, q, cu_q=cuts, cu_k=cuts).value
    assert np.array_equal(one, gg.attention(q, q, q, cu_q=cuts, cu_k=cuts))
    for front in (gg, ad):
        with pytest.raises(TypeError, match="cu_q is int32, needs int64"):
            front.attention(tape.constant(q) if front is ad else q, q, q, cu_q=kinds, cu_k=cuts)


class Brings:
    """Numbers of a library that NumPy can read, as a column of pandas."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.numbers, dtype)


@pytest.mark.parametrize("bring", [Brings, memoryview, lambda a: array.array("d", a)])
def test_numbers_of_other_libraries_keep_their_type(bring):
    """A float64 array was rounded to the type of the tape."""
    third = np.array([1 / 3, 2 / 3])
    tape = ad.Tape("float32")
    x = tape.parameter(bring(third))
    assert x.dtype == np.float64 and np.array_equal(x.value, third)
    assert np.array_equal((x + bring(third)).value, 2 * third)
    assert tape.parameter(third.tolist()).dtype == np.float32
    with pytest.raises(TypeError, match="needs float32 or float64 numbers, got float16"):
        tape.constant(Brings(third.astype(np.float16)))


def test_an_axis_is_named_once():
    x = ad.Tape().parameter(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"sum: axis is \(0, -2\), which names one twice"):
        ad.sum(x, (0, -2))


def test_truth_of_arrays():
    tape = ad.Tape()
    assert tape.constant(2.0) and not tape.constant([0.0])
    with pytest.raises(ValueError, match=r"array: shape \(2,\) is neither true nor false"):
        bool(tape.constant([1.0, 2.0]))
