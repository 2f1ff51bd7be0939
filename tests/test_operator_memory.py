# SPDX-License-Identifier: MIT
"""Memory of operators: results that the caller places, arrays that overlap or are lent."""

from __future__ import annotations

import math

import numpy as np
import pytest

import calls
import gnograd as gg
import gnograd.autodiff as ad
from gnograd.backends.memory import check_results


def test_out_is_an_array_where_there_is_one_output():
    """`out` may be an array if there is one output, as in NumPy's functions."""
    rng, graph = np.random.default_rng(0), gg.Graph([0, 2, 3], [0, 1, 0])
    s, c, t = (rng.normal(size=(3, 2)) for _ in range(3))
    mine = np.empty_like(s)
    for saved in (False, True):
        mine[:] = 0
        found = gg.edge_softmax.forward(s, out=mine, return_saved=saved, graph=graph)
        assert (found[0] if saved else found) is mine
        np.testing.assert_array_equal(mine, gg.edge_softmax(s, graph=graph))
    faces = {
        gg.edge_softmax.jvp: ((s,), (t,)),
        gg.edge_softmax.vjp: (c, (s,)),
        gg.edge_softmax.hvp: (c, (s,), (t,)),
    }
    for face, arguments in faces.items():
        expected = face(*arguments, graph=graph)
        found = face(*arguments, out=mine, graph=graph)
        assert (found[0] if isinstance(found, tuple) else found) is mine
        np.testing.assert_array_equal(mine, np.squeeze(np.array(expected)))
    # one saved array more, and one of two outputs that is not there
    x, w = rng.normal(size=(2, 2)), np.ones(3)
    mine = np.empty((2, 2))
    out, saved = gg.agg_weighted.forward(
        x, w, return_saved=True, out=mine, graph=graph, aggregation="max"
    )
    assert out is mine
    assert saved[0] is mine
    inputs, static = calls.call_of("edge_mlp", calls.graph())
    whole = gg.edge_mlp(*inputs, **static)
    for k, outputs in enumerate(("edges", "nodes")):
        mine = np.empty_like(whole[k])
        assert gg.edge_mlp.forward(*inputs, out=mine, **static | {"outputs": outputs}) is mine
        np.testing.assert_array_equal(mine, whole[k])


def overlapping(x, shape):
    """A copy of x, and an array of this shape that begins with its last item."""
    memory = np.zeros(x.size + math.prod(shape) - 1)
    copy, other = memory[: x.size].reshape(x.shape), memory[x.size - 1 :].reshape(shape)
    copy[...] = x
    return copy, other


def faces_of(operator, inputs, **static):
    """Arguments of each face before `out`, and the shapes of its results."""
    out, saved = operator.forward(*inputs, return_saved=True, **static)
    cotangents = [x.copy() for x in out] if isinstance(out, tuple) else [out.copy()]
    tangents = [np.ones_like(x) for x in inputs]
    likes = [x.shape for x in cotangents], [x.shape for x in inputs]
    return {
        "forward": ({"inputs": inputs}, likes[0]),
        "vjp": ({"cotangent": cotangents, "inputs": inputs, "saved": saved}, likes[1]),
        "jvp": ({"inputs": inputs, "tangents": tangents}, likes[0]),
        "hvp": ({"cotangent": cotangents, "inputs": inputs, "tangents": tangents}, likes[1]),
    }


@pytest.mark.parametrize("name", sorted(calls.calls()))
@pytest.mark.parametrize("face", ["forward", "vjp", "jvp", "hvp"])
def test_results_are_not_written_where_others_are(name, face):
    operator, (inputs, static) = getattr(gg, name), calls.call_of(name, calls.graph())
    groups, results = faces_of(operator, tuple(inputs), **static)[face]

    def run(groups, out):
        if face == "forward":
            return operator.forward(*groups["inputs"], out=out, **static)
        return getattr(operator, face)(**groups, out=out, **static)

    free = [np.empty(shape) for shape in results]
    run(groups, tuple(free))
    for n in range(len(results)):
        for group, arrays in groups.items():
            for k, x in enumerate(arrays):
                if x is None or x.dtype != float:
                    continue
                mine, out = overlapping(x, results[n])
                changed = {**groups, group: (*arrays[:k], mine, *arrays[k + 1 :])}
                with pytest.raises(ValueError, match=f"{name}: out for .* shares memory with"):
                    run(changed, (*free[:n], out, *free[n + 1 :]))
        frozen = free[n].copy()
        frozen.setflags(write=False)
        with pytest.raises(ValueError, match=f"{name}: out for .* is read-only"):
            run(groups, (*free[:n], frozen, *free[n + 1 :]))
        for k in range(n):
            if results[k] == results[n]:
                one, other = overlapping(free[n], results[k])
                with pytest.raises(ValueError, match=r"out for .* shares memory with out for"):
                    run(groups, tuple(one if m == n else other if m == k else free[m]
                                      for m in range(len(free))))  # fmt: skip


def test_memory_that_is_not_writable():
    """Bytes and mapped files, and static arrays."""
    x = np.ones((2, 1))
    graph = gg.Graph([0, 1, 2], [0, 1])
    data = bytes(16)
    with pytest.raises(ValueError, match="agg_simple: out for out is read-only"):
        gg.agg_simple.forward(x, graph=graph, out=(np.frombuffer(data).reshape(2, 1),))
    assert data == bytes(16)
    q = np.ones((2, 1, 1))
    memory = np.zeros(4, np.int64)
    cu, out = memory[:2], memory[1:3].view(float).reshape(2, 1, 1)
    cu[:] = 0, 2
    with pytest.raises(ValueError, match="out for out shares memory with cu_q"):
        gg.window_attention.forward(q, q, q, cu_q=cu, cu_k=cu.copy(), out=(out,))


def test_one_array_for_gradients_that_add_up(rng):
    x = rng.normal(size=(3, 2))
    graph = gg.Graph([0, 1, 3, 3], [1, 0, 2])
    cotangent, out = rng.normal(size=(3, 4)), np.empty((3, 2))
    to_x, _, _, to_own = gg.agg_concat.vjp(cotangent, (x, None, None, x), graph=graph)
    gg.agg_concat.vjp(cotangent, (x, None, None, x), out=(out, None, None, out), graph=graph)
    np.testing.assert_array_equal(out, to_x + to_own)
    with pytest.raises(ValueError, match="out for x_dst shares memory with out for x_src"):
        gg.mha_gat.vjp(x, (x, x, np.ones(4)), out=(out, out), graph=graph)


class Lent:
    """Stand-in for an array on a GPU: its description of its memory."""

    def __init__(self, address, n, read_only=False, strides=None):
        self.__cuda_array_interface__ = {
            "data": (address, read_only), "shape": (n,), "typestr": "<f4", "strides": strides
        }  # fmt: skip


@pytest.mark.parametrize(
    ("result", "other", "message"),
    [
        (Lent(1000, 5), Lent(1016, 1), "f: out shares memory with x"),
        (Lent(1000, 5), Lent(1024, 3, strides=(-4,)), "f: out shares memory with x"),
        (Lent(1000, 5, True), Lent(0, 0), "f: out is read-only"),
        (Lent(1000, 5), Lent(1020, 1), None),
        (Lent(1000, 5), Lent(1000, 0), None),
        (Lent(0, 0), Lent(0, 0), None),
    ],
)
def test_memory_on_a_gpu(result, other, message):
    if message is None:
        check_results("f", [("out", result)], [("x", other)])
        return
    with pytest.raises(ValueError, match=message):
        check_results("f", [("out", result)], [("x", other)])


def test_numbers_in_the_other_order_of_bytes():
    """Swapped bytes, as in NetCDF-3, FITS and VTK, give equal results, call after call."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 6, (2, 20))
    x, w, cotangent = rng.normal(size=(6, 3)), rng.normal(size=20), rng.normal(size=(6, 3))
    kinds = {"edge_type": rng.integers(0, 3, 20, np.int32), "n_relations": 3}
    graph = gg.Graph.from_edges(src, dst, 6, 6)
    swapped = gg.Graph.from_edges(src.astype(">i8"), dst.astype(">i4"), 6, 6)
    np.testing.assert_array_equal(swapped.indices, graph.indices)
    for _ in range(2):
        for given in (x.astype(">f8"), x):
            np.testing.assert_array_equal(
                gg.agg_weighted(given, w.astype(">f8"), graph=swapped),
                gg.agg_weighted(x, w, graph=graph),
            )
        found = gg.agg_weighted.vjp(cotangent.astype(">f8"), (x.astype(">f8"), w), graph=graph)
        for a, b in zip(found, gg.agg_weighted.vjp(cotangent, (x, w), graph=graph), strict=True):
            np.testing.assert_array_equal(a, b)
    big = {**kinds, "edge_type": kinds["edge_type"].astype(">i4")}
    np.testing.assert_array_equal(
        gg.agg_relational(x, graph=graph, **big), gg.agg_relational(x, graph=graph, **kinds)
    )
    tape = ad.Tape()
    np.testing.assert_array_equal((tape.constant(x.astype(">f8")) * 2).value, 2 * x)
    with pytest.raises(TypeError, match="out for"):
        gg.agg_weighted.forward(x, w, graph=graph, out=(np.empty((6, 3), ">f8"),))
