# SPDX-License-Identifier: MIT
"""Calls like earlier ones, which are not checked again: they must be as good as the first."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import calls
import gnograd as gg
from gnograd.faces import operator
from gnograd.faces.recent import Recent, key_of


@pytest.fixture
def checked(monkeypatch):
    """Names of the operators whose calls were checked argument by argument."""
    names = []

    class Call(operator.Call):
        def __init__(self, name, *rest):
            names.append(name)
            super().__init__(name, *rest)

    monkeypatch.setattr(operator, "Call", Call)
    return names


def flat(results):
    """All arrays of nested tuples."""
    if isinstance(results, tuple):
        return [array for result in results for array in flat(result)]
    return [results]


def assert_same(results, others):
    for a, b in zip(flat(results), flat(others), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            assert_array_equal(a, b)


def faces(op, inputs, static):
    """Every face of an operator, as calls without arguments."""

    def ones(y):
        return tuple(map(np.ones_like, y)) if isinstance(y, tuple) else np.ones_like(y)

    y, saved = op.forward(*inputs, **static, return_saved=True)
    c = ones(y)
    one = min(1, len(inputs) - 1)
    return {
        "forward": lambda: op(*inputs, **static),
        "forward with saved": lambda: op.forward(*inputs, **static, return_saved=True),
        "vjp": lambda: op.vjp(c, inputs, **static),
        "vjp with saved": lambda: op.vjp(c, inputs, saved=saved, **static),
        "vjp of one": lambda: op.vjp(c, inputs, wrt=op.inputs[one], **static),
        "jvp": lambda: op.jvp(inputs, inputs, **static),
        "jvp along one": lambda: op.jvp(inputs, (None,) * one + (inputs[one],), **static),
        "hvp": lambda: op.hvp(c, inputs, inputs, wrt=list(op.inputs[:1]), **static),
    }


@pytest.mark.parametrize("name", calls.calls())
def test_every_face_again(name, checked):
    op = getattr(gg, name)
    inputs, static = calls.call_of(name, calls.graph())
    inputs = tuple(inputs)
    arrays = any(isinstance(value, np.ndarray) for value in static.values())
    for face, call in faces(op, inputs, static).items():
        first = call()
        before = len(checked)
        assert_same(first, call())
        # arrays among the static arguments are looked at each time
        assert len(checked) == before + arrays, face


def test_results_are_new_memory():
    x, g = np.ones((5, 3)), calls.graph()
    first = gg.agg_simple(x, graph=g)
    kept = first.copy()
    assert not np.shares_memory(first, gg.agg_simple(2 * x, graph=g))
    assert_array_equal(first, kept)


def test_graphs_of_the_same_sizes(checked):
    x = np.random.default_rng(0).normal(size=(4, 2))
    ends = np.array([[0, 1, 2], [1, 2, 3]]), np.array([[3, 3, 0], [0, 1, 2]])
    for src, dst in ends:
        expected = np.zeros_like(x)
        np.add.at(expected, dst, x[src])
        assert_array_equal(gg.agg_simple(x, graph=gg.Graph.from_edges(src, dst, 4)), expected)
    assert len(checked) <= 1


def test_other_static_arguments():
    rng = np.random.default_rng(0)
    x, a, g = rng.normal(size=(5, 4)), rng.normal(size=8), calls.graph()
    ways = [
        {},
        dict(num_heads=2),
        dict(num_heads=4),
        dict(concat_heads=False, num_heads=2),
        dict(activation="Tanh"),
        dict(negative_slope=0.5),
        dict(negative_slope=0.0),
        dict(negative_slope=-0.0),
        dict(negative_slope=1),
        dict(negative_slope=np.float64(0.5)),
    ]
    fresh = []
    for way in ways:
        gg.mha_gat.known = Recent(8)
        fresh.append(gg.mha_gat(x, x, a, graph=g, **way))
    for _ in range(2):
        for way, expected in zip(ways, fresh, strict=True):
            assert_array_equal(gg.mha_gat(x, x, a, graph=g, **way), expected)


def test_sign_of_zero():
    assert key_of({"n": 0.0}) not in (None, key_of({"n": -0.0}), key_of({"n": 0}))
    x, g = -np.ones((1, 1)), gg.Graph([0, 1], [0])
    a = np.ones(2)
    found = [
        gg.mha_gat.vjp(x, (x, x, a), graph=g, negative_slope=slope)[2].tobytes()
        for slope in (0.0, -0.0, 0.0, -0.0)
    ]
    assert found[:2] == found[2:]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [(1, 1.0), (1, True), (True, 1), (0, False), ("1", 1), ([1, 2], [1.0, 2]), ([1], [True])],
)
def test_equal_is_not_the_same(right, wrong):
    assert key_of({"n": right}) is not None
    assert key_of({"n": right}) != key_of({"n": wrong})


def test_keys():
    g = calls.graph()
    assert key_of({"graph": g, "n": 1}) != key_of({"graph": gg.Graph([0, 1], [0]), "n": 1})
    assert key_of({"n": 1, "m": 2}) != key_of({"n": 2, "m": 1})
    assert key_of({"n": [1, 2]}) != key_of({"n": (1, 2)})
    for strange in (np.int64(1), np.ones(1), {1}, object(), [1, 2.0]):
        assert key_of({"n": strange}) is None
    assert key_of({"x": math.nan}) != key_of({"x": float("nan")})


def test_other_types_and_shapes():
    x, g = np.random.default_rng(0).normal(size=(5, 6)), calls.graph()
    whole = gg.agg_simple(x, graph=g)
    for _ in range(2):
        for columns in (1, 2, 6):
            part = np.ascontiguousarray(x[:, :columns])
            assert_array_equal(gg.agg_simple(part, graph=g), whole[:, :columns])
        single = gg.agg_simple(x.astype(np.float32), graph=g)
        assert single.dtype == np.float32
        assert_array_equal(gg.agg_simple(None, np.ones((8, 1)), graph=g)[:, 0], g.in_degree)
        assert gg.agg_simple(x, np.ones((8, 1)), graph=g).shape == (5, 7)
        assert gg.agg_simple(np.ones((5, 0)), graph=g).shape == (5, 0)


def test_memory_in_another_form(checked):
    x, g = np.random.default_rng(0).normal(size=(5, 6)), calls.graph()
    expected = gg.agg_simple(x, graph=g)
    read_only = x.copy()
    read_only.setflags(write=False)
    assert_array_equal(gg.agg_simple(read_only, graph=g), expected)
    before = len(checked)
    strided = np.empty((5, 12))[:, ::2]
    strided[:] = x
    unaligned = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    unaligned[:] = x

    class Mine(np.ndarray):
        pass

    for other in (np.asfortranarray(x), strided, unaligned, x.view(Mine)):
        assert_array_equal(gg.agg_simple(other, graph=g), expected)
    assert len(checked) == before + 4


def test_wrong_after_right():
    """Errors are those of a first call."""
    rng = np.random.default_rng(0)
    x, w, g = rng.normal(size=(5, 3)), rng.normal(size=8), calls.graph()
    op = gg.agg_weighted
    y, saved = op.forward(x, w, graph=g, aggregation="mean", return_saved=True)
    options = dict(graph=g, aggregation="mean")

    def right():
        op(x, w, **options)
        op.vjp(y, (x, w), saved=saved, wrt=["x"], **options)
        op.vjp(y, (x, w), **options)
        op.jvp((x, w), (x,), **options)

    wrong = [
        (TypeError, lambda: op(x.astype(">f4"), w, **options)),
        (TypeError, lambda: op(np.ma.masked_array(x), w, **options)),
        (TypeError, lambda: op(x.astype(np.float32), w, **options)),
        (TypeError, lambda: op(x.astype(np.int64), w, **options)),
        (TypeError, lambda: op(x.tolist(), w, **options)),
        (TypeError, lambda: op(x, None, **options)),
        (TypeError, lambda: op(x, **options)),
        (TypeError, lambda: op(x, w, w, **options)),
        (TypeError, lambda: op(x, w, x=x, **options)),
        (TypeError, lambda: op(x, w, graph=g, aggregation="mean", more=1)),
        (TypeError, lambda: op(x, w, aggregation="mean")),
        (ValueError, lambda: op(x, w, graph=g, aggregation="median")),
        (TypeError, lambda: op(x, w, graph=None, aggregation="mean")),
        (ValueError, lambda: op(x[:4], w, **options)),
        (ValueError, lambda: op(x, w[:7], **options)),
        (ValueError, lambda: op(x[None], w, **options)),
        (ValueError, lambda: op(x, w, graph=gg.Graph([0, 1], [0]), aggregation="mean")),
        (ValueError, lambda: op.vjp(y, (x, w), wrt=["y"], **options)),
        (ValueError, lambda: op.vjp(y, (x, w), wrt=[["x"]], **options)),
        (TypeError, lambda: op.vjp(y, (x, w), wrt=1, **options)),
        (TypeError, lambda: op.vjp(None, (x, w), **options)),
        (TypeError, lambda: op.vjp((y, y), (x, w), **options)),
        (ValueError, lambda: op.vjp(y[:3], (x, w), **options)),
        (TypeError, lambda: op.vjp(y, (x, w), saved=(), **options)),
        (TypeError, lambda: op.vjp(y, x, **options)),
        (TypeError, lambda: op.vjp(y, {"x": x}, **options)),
        (TypeError, lambda: op.jvp((x, w), (x, w, w), **options)),
        (TypeError, lambda: op.jvp((x, w), None, **options)),
        (ValueError, lambda: op(x, w, out=(x,), **options)),
    ]
    messages = []
    for again in (False, True):
        for k, (error, call) in enumerate(wrong):
            op.known = Recent(8)
            if again:
                right()
            with pytest.raises(error, match="agg_weighted") as caught:
                call()
            if again:
                assert str(caught.value) == messages[k]
            else:
                messages.append(str(caught.value))


def test_kernels_still_refuse():
    """Kernels check numbers in every call, also in repeated ones."""
    q = np.ones((2, 2, 3))
    for _ in range(2):
        assert gg.window_attention(q, q, q, window=1).shape == (2, 2, 3)
        with pytest.raises(ValueError, match="window_attention"):
            gg.window_attention(q, q[:, :1].repeat(3, axis=1), q[:, :1].repeat(3, axis=1))
    gate, index = np.ones((2, 2, 1)), np.zeros((2, 2, 1), np.int32)
    for _ in range(2):
        gg.selected_attention(q, q, q, gate, block_index=index, block_size=2)
        with pytest.raises(ValueError, match="not negative"):
            gg.selected_attention(q, q, q, -gate, block_index=index, block_size=2)


def test_values_of_static_arrays_count():
    x, w = np.ones((8, 1, 1)), np.ones((2, 1))
    for _ in range(2):
        for border, n in ((4, 6), (1, 6), (8, 7)):
            cu = np.array([0, border, 8])
            assert len(gg.compress(x, w, block=2, stride=1, cu=cu)) == n


def test_lengths_that_come_by_are_forgotten():
    for n in range(1, 500):
        gg.agg_simple(np.ones((1, n)), graph=gg.Graph([0, 1], [0]))
    assert len(gg.agg_simple.known) <= 2 * operator._KINDS_OF_CALLS


def test_recent_keeps_what_is_used():
    recent = Recent(4)
    recent.put("used", 1)
    for k in range(40):
        recent.put(k, k)
        assert recent.get("used") == 1
    assert len(recent) <= 8
    assert recent.get(0) is None
    assert recent.get(39) == 39


def test_threads():
    """Many kinds of calls at the same time, more than are kept."""
    failures = []
    graphs = [gg.Graph.from_edges(range(n), range(n)[::-1], n) for n in range(1, 100)]

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            for _ in range(400):
                n = int(rng.integers(1, 100))
                x = rng.normal(size=(n, int(rng.integers(1, 4))))
                assert_array_equal(gg.agg_simple(x, graph=graphs[n - 1]), x[::-1])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
