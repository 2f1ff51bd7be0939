# SPDX-License-Identifier: MIT
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import faces
import gnograd as gg
from conftest import Edges, power_law
from memory import needs_linux, temporary_bytes
from table import FRONT, deep

EVERYTHING = FRONT["gno_deep"]


# ---- forward ----


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_one_hidden_layer_is_gno(reduction, rng):
    edges = power_law(10, 50)
    case = deep([6, 3], d=(2, 2, 0), weight=True)
    h, y, x, _, layers, weight = case.inputs(edges, rng)
    (U, b_u), (V, b_v) = gg.gno_unpack_layers(layers, 4, [6, 3])
    coords = np.concatenate([y[edges.src], x[edges.dst]], axis=1)
    static = {"graph": edges.graph, "reduction": reduction, "activation": "gelu"}
    value = gg.gno(h, coords, U, b_u, V, b_v, weight, kernel="diagonal", **static)
    deep_value = gg.gno_deep(h, y, x, None, layers, weight, widths=[6, 3], **static)
    assert_allclose(deep_value, value, atol=1e-13)


def test_functions_side_by_side(rng):
    edges = power_law(10, 50)
    case = deep([6, 4], h=3)
    h, *rest = case.inputs(edges, rng)
    static = case.arguments(edges)
    alone = [gg.gno_deep(part.copy(), *rest, **static) for part in np.split(h, 3, axis=1)]
    assert_array_equal(gg.gno_deep(h, *rest, **static), np.concatenate(alone, axis=1))


# ---- vjp ----


def test_several_slabs(rng):
    """Sums over many slabs and pieces, against the same edges in graphs of their own."""
    edges = power_law(2000, 70_000)
    case = deep([8, 16, 3], d=(2, 2, 1), weight=True, h=2)
    h, y, x, c, layers, weight = case.inputs(edges, rng)
    static = {"widths": [8, 16, 3]}
    cotangent = rng.normal(size=(edges.n_dst, 6))
    tangents = faces.like((h, y, x, c, layers, weight), rng)
    totals = None
    for part in np.array_split(np.arange(edges.n_edges), 7):
        graph = Edges(edges.src[part], edges.dst[part], edges.n_src, edges.n_dst).graph
        inputs = (h, y, x, c[part], layers, weight[part])
        moved = (*tangents[:3], tangents[3][part], tangents[4], tangents[5][part])
        found = [
            gg.gno_deep(*inputs, graph=graph, **static),
            gg.gno_deep.jvp(inputs, moved, graph=graph, **static),
            *gg.gno_deep.vjp(cotangent, inputs, graph=graph, **static),
            *gg.gno_deep.hvp(cotangent, inputs, moved, graph=graph, **static),
        ]
        join = [np.add] * 2 + [np.add, np.add, np.add, append, np.add, append] * 2
        pairs = zip(join, totals or found, found, strict=True)
        totals = [f(a, b) for f, a, b in pairs] if totals else found
    inputs, static = (h, y, x, c, layers, weight), {"graph": edges.graph, **static}
    actual = [
        gg.gno_deep(*inputs, **static),
        gg.gno_deep.jvp(inputs, tangents, **static),
        *gg.gno_deep.vjp(cotangent, inputs, **static),
        *gg.gno_deep.hvp(cotangent, inputs, tangents, **static),
    ]
    assert np.all(faces.error(actual, totals) < 1e-13)


def append(a, b):
    return np.concatenate([a, b])


# ---- float32 ----


def test_float32_sums_over_many_edges(rng):
    """The error of gradients to the layers does not grow with the number of edges."""
    case = deep([8, 8, 3], (2, 2, 1))
    for n_edges in (2000, 100_000):
        single = faces.Call(case, power_law(100, n_edges), rng, np.float32)
        single.cotangents = tuple(1 + c for c in single.cotangents)
        assert faces.error(single.vjp(), single.convert(float).vjp())[4] < 3e-6


# ---- errors ----


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"widths": []}, ValueError, "gno_deep: widths is empty"),
        ({"widths": [5, 0]}, ValueError, r"gno_deep: widths\[1\] is 0, needs at least 1"),
        ({"widths": [5, 4, 2]}, ValueError, "gno_deep: layers has 69 entries"),
        (
            {"y": np.ones((10, 3))},
            ValueError,
            "gno_deep: layers has 69 entries, but with the 6 columns of y, x and c it needs 74",
        ),
        ({"c": None}, ValueError, "with the 4 columns of y, x and c it needs 64"),
        ({"y": None, "x": None, "c": None}, ValueError, "needs a column of y, x or c"),
        ({"h": np.ones((10, 0))}, ValueError, "gno_deep: h has no features, needs those of one"),
    ],
)
def test_errors(changes, error, message, rng):
    edges = power_law(10, 50)
    names = gg.gno_deep.inputs
    given = dict(zip(names, EVERYTHING.inputs(edges, rng), strict=True))
    given |= EVERYTHING.arguments(edges) | changes
    with pytest.raises(error, match=message):
        gg.gno_deep(*[given.pop(name) for name in names], **given)


# ---- determinism, memory ----


def _training_step(n_edges):
    gg.set_num_threads(1)
    rng = np.random.default_rng(0)
    widths = [64, 128, 64, 8]
    case = deep(widths, d=(16, 16, 0))
    src, dst = rng.integers(0, 1000, (2, n_edges))
    edges = Edges(src, dst, 1000, 1000)
    inputs = faces.convert(case.inputs(edges, rng), np.float32)
    static = case.arguments(edges)
    _ = static["graph"]

    def work():
        out = gg.gno_deep(*inputs, **static)
        return [out, *(g for g in gg.gno_deep.vjp(out, inputs, **static) if g is not None)]

    work()
    return work


@pytest.mark.exhaustive
@needs_linux
def test_memory_does_not_grow_with_the_edges():
    """Memory is a slab, sums for layers, panels; the hidden layers of all edges are 256 MiB."""
    slab = 4 * 256 * 256 * (64 + 8) + 16 * 256 * 256
    sums = 64 * 8 * (64 * 128 + 128 * 64 + 64 * 8 + 500)
    assert temporary_bytes(_training_step, 262_144) < slab + sums + 2**23
