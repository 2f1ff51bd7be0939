# SPDX-License-Identifier: MIT
"""The CUDA library under the package: on a GPU, or on the host's SIMT build of the same kernels.

What the kernels compute is compared with the CPU in float64, whose own tests hold it to the
formulas. ``make test-all`` names the SIMT build in GNOGRAD_CUDA_LIBRARY.
"""

import contextlib
import ctypes
import gc
import itertools
import os
import pickle
import re
import subprocess
import sys
import weakref
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
import table
import test_neighbor_list
import test_neighbors
from conftest import GRAPHS, Edges, pairs, power_law
from faces import Call, like
from gnograd.backends import cuda_arrays, cuda_library, has_cuda
from gnograd.notation import shapes
from gpus import GPUS, needs_gpu, on_host
from processes import mpiexec
from reference import gno, nsa

pytestmark = needs_gpu
if GPUS:
    from gnograd.backends import cuda

CASES = table.of("aggregation", "attention", "relational", "edge_updates", "moments")
FEW = [case for case in CASES if not case.many and case.family != "moments"]
NETWORKS = table.of("gno", "gno_deep", "gno_jets", "edge_mlp", large=False)
SPARSE = [case for case in table.of("nsa", large=False) if case.name != "compress"]
PLAIN = [case for case in FEW if case.name.startswith("mha") and "dropout" not in case.static]
FEW_GAT = table.the("mha_gat", num_heads=2)
few_cases = pytest.mark.parametrize("case", FEW, ids=str)
EPS = {"float64": 1e-13, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def numbers(name):
    return pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.dtype(name)


def to_device(arrays):
    """Copies of arrays on the device; tuples and None stay."""
    if arrays is None or isinstance(arrays, tuple):
        return arrays and tuple(map(to_device, arrays))
    return cuda.to_device(arrays)


def to_host(arrays):
    if arrays is None or isinstance(arrays, tuple):
        return arrays and tuple(map(to_host, arrays))
    return arrays.get()


def static_on_device(static):
    """Static arguments with their arrays on the device."""
    return {k: to_device(v) if isinstance(v, np.ndarray) else v for k, v in static.items()}


def wide(arrays):
    """Copies of arrays in float64."""
    if arrays is None or isinstance(arrays, tuple):
        return arrays and tuple(map(wide, arrays))
    return arrays.astype(float)


class Lender:
    """An array of a library that has no more than the interface."""

    def __init__(self, array, **changes):
        self.lent = array
        interface = dict(array.__cuda_array_interface__, **changes)
        self.__cuda_array_interface__ = {k: v for k, v in interface.items() if v is not ...}


def columns(array, begin):
    """The columns of a matrix from this one on, without a copy."""
    (rows, width), item = array.shape, array.dtype.itemsize
    first = array.__cuda_array_interface__["data"][0] + begin * item
    return Lender(
        array, shape=(rows, width - begin), strides=(width * item, item), data=(first, False)
    )


# ---- the four faces ----


def draw(case, edges, rng, dtype):
    """Inputs, tangents and cotangents in this dtype."""
    call = Call(case, edges, rng).convert(dtype)
    return call.inputs, call.tangents, call.cotangents


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def faces_of(operator, inputs, tangents, cotangent, static):
    """All results by name."""
    out, saved = operator.forward(*inputs, return_saved=True, **static)
    return {
        "forward": (*as_tuple(operator(*inputs, **static)), *as_tuple(out)),
        "vjp": operator.vjp(cotangent, inputs, **static),
        "vjp with saved": operator.vjp(cotangent, inputs, saved=saved, **static),
        "jvp": as_tuple(operator.jvp(inputs, tangents, **static)),
        "hvp": operator.hvp(cotangent, inputs, tangents, **static),
        "saved": tuple(saved),
    }


def terms_of_gat(inputs, tangents, cotangent, edges, num_heads):
    """Sizes of what mha_gat adds up, for its results by face, without edge features.

    Rounding errors are in proportion to the terms of a sum, not to the sum: those of
    ``gs = alpha (ga - delta)`` cancel over a row, and so do those of the tangent of a softmax. A
    weight ``exp(score - top)`` is known to as many roundings as the score is large.
    """
    x_src, x_dst, a = inputs[:3]
    dx_src, dx_dst, da = tangents[:3]
    heads = (num_heads, x_src.shape[1] // num_heads)
    (a_src, a_dst), (da_src, da_dst) = (w.reshape(2, *heads) for w in (a, da))
    src, dst = edges.src, edges.dst
    g = cotangent.reshape(-1, *heads)[dst]
    x_j, dx_j = (x[src].reshape(-1, *heads) for x in (x_src, dx_src))
    x_i, dx_i = (x[dst].reshape(-1, *heads) for x in (x_dst, dx_dst))

    def per_head(*products):
        return sum(np.sum(x * y, axis=2, keepdims=True) for x, y in products)

    def over(nodes, n, x):
        total = np.zeros((n, *x.shape[1:]))
        np.add.at(total, nodes, x)
        return total

    def mean(x):  # over the edges of the destination, for each of them
        return over(dst, edges.n_dst, alpha * x)[dst]

    z = per_head((a_src, x_j), (a_dst, x_i))
    slope = np.where(z > 0, 1, 0.2)
    dz = np.abs(slope * per_head((a_src, dx_j), (da_src, x_j), (a_dst, dx_i), (da_dst, x_i)))
    alpha = np.exp(slope * z)
    alpha = alpha / over(dst, edges.n_dst, alpha)[dst]
    ga, dga = np.abs(per_head((g, x_j))), np.abs(per_head((g, dx_j)))
    turn = dz + mean(dz)  # of log alpha
    gs = ga + mean(ga)
    dgs = turn * gs + dga + mean(turn * ga + dga)
    weight = alpha * (1 + np.abs(z) + mean(np.abs(z)))

    def largest(nodes, n, *products):
        return np.max(over(nodes, n, sum(weight * np.abs(x * y) for x, y in products)))

    from_src, to_dst = partial(largest, src, edges.n_src), partial(largest, dst, edges.n_dst)
    to_all = partial(largest, np.zeros_like(src), 1)
    return {
        "forward": (to_dst((1, x_j)),) * 2,
        "jvp": (to_dst((turn, x_j), (1, dx_j)),),
        "vjp": (
            from_src((1, g), (gs, a_src)),
            to_dst((gs, a_dst)),
            max(to_all((gs, x_j)), to_all((gs, x_i))),
            None,
        ),
        "hvp": (
            from_src((turn, g), (dgs, a_src), (gs, da_src)),
            to_dst((dgs, a_dst), (gs, da_dst)),
            max(to_all((dgs, x_j), (gs, dx_j)), to_all((dgs, x_i), (gs, dx_i))),
            None,
        ),
    }


def check_faces(operator, inputs, tangents, cotangent, static, dtype, slack=1, terms=None):
    """The device's results in this dtype are those of the CPU in float64, rounded.

    `terms` has the sizes of what is summed, by face and result, where they exceed the results'.
    Then each of them may be rounded twice besides.
    """
    exact = faces_of(operator, wide(inputs), wide(tangents), wide(cotangent), static)
    static = static_on_device(static)
    given = map(to_device, (inputs, tangents, cotangent))
    for face, arrays in faces_of(operator, *given, static).items():
        sizes = (terms or {}).get(face.removesuffix(" with saved"), [0] * len(arrays))
        for actual, expected, size in zip(to_host(arrays), exact[face], sizes, strict=False):
            assert (actual is None) == (expected is None), face
            if expected is not None:
                assert actual.shape == expected.shape
                assert_close(actual.astype(float), expected, dtype, slack, size)
        if face in ("vjp", "hvp"):
            kinds = [None if x is None else str(x.dtype) for x in inputs]
            assert kinds == [None if a is None else str(a.dtype) for a in arrays]


def assert_close(actual, exact, dtype, slack, terms=0):
    finite = np.isfinite(exact)
    assert_array_equal(np.isfinite(actual), finite)
    scale = np.max(np.abs(exact), initial=1, where=finite)
    sums = (32 * scale + 2 * terms) * EPS["float32"] * (dtype != "float64")
    assert_allclose(actual[finite], exact[finite], rtol=0, atol=slack * (EPS[dtype] * scale + sums))


def check(case, edges, rng, dtype="float64", slack=1):
    inputs, tangents, cotangents = draw(case, edges, rng, numbers(dtype))
    check_faces(case.operator, inputs, tangents, cotangents, case.arguments(edges), dtype, slack)


@table.on_graphs(CASES + table.of("agg_edge_to_edge"))
def test_faces(case, graphs):
    table.on_each(check, case, graphs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["power law", "no edges"])
@pytest.mark.parametrize("case", NETWORKS + table.of("offset_moments"), ids=str)
def test_networks(case, name, dtype, rng):
    check(case, GRAPHS[name], rng, dtype, slack=4)


@pairs(
    case=FEW,
    name=["power law", "bipartite", "no edges"],
    dtype=["float32", "float16", "bfloat16"],
)
def test_types(case, name, dtype, rng):
    edges, terms = GRAPHS[name], None
    inputs, tangents, (cotangent,) = draw(case, edges, rng, numbers(dtype))
    if case is FEW_GAT and edges.n_edges:
        terms = terms_of_gat(wide(inputs), wide(tangents), wide(cotangent), edges, 2)
    check_faces(
        case.operator, inputs, tangents, cotangent, case.arguments(edges), dtype, terms=terms
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_far_below_zero(dtype, rng):
    edges = power_law(20, 120)
    s = (rng.normal(size=(120, 3)) - 1e4).astype(dtype)
    alpha = to_host(gg.edge_softmax(to_device(s), graph=edges.graph))
    assert_allclose(alpha, gg.edge_softmax(s, graph=edges.graph), rtol=1e-5)


def test_error_of_gno_in_bfloat16(rng):
    """Errors are within the bound of every entry, and on the whole below rounding."""
    bfloat16 = numbers("bfloat16")
    x = rng.random((120, 2))
    graph = gg.Graph.radius(x, 0.15)
    shapes_ = (120, 12), (2, 24), (24,), (24, 12, 10), (12, 10)
    h, U, b_u, V, b_v = (rng.normal(size=s).astype(bfloat16) for s in shapes_)
    coords = (x[graph.dst] - x[graph.src]).astype(np.float32)
    weight = rng.random(graph.n_edges, np.float32)
    cotangent = rng.normal(size=(120, 10)).astype(bfloat16)
    inputs = h, coords, U, b_u, V, b_v, weight
    static = {"graph": graph, "activation": "gelu", "reduction": "mean"}
    out = gg.gno(*to_device(inputs), **static)
    gradients = gg.gno.vjp(to_device(cotangent), to_device(inputs), **static)
    assert [str(g.dtype) for g in gradients] == [str(a.dtype) for a in inputs]
    found = to_host((out, *gradients))
    exact = gg.gno(*wide(inputs), **static), *gg.gno.vjp(wide(cotangent), wide(inputs), **static)

    hidden = gno.ACTIVATIONS["gelu"](wide(coords) @ wide(U) + wide(b_u))
    sizes = tuple(map(np.abs, (wide(h), hidden, wide(V), wide(b_v), weight.astype(float))))
    static = {"graph": graph, "reduction": "mean"}
    of_h, _, of_v, of_b, of_weight = gg.gno_contract.vjp(abs(wide(cotangent)), sizes, **static)
    bounds = gg.gno_contract(*sizes, **static), of_h, None, None, None, of_v, of_b, of_weight
    for a, b, bound in zip(found, exact, bounds, strict=True):
        error = np.abs(a.astype(float) - b)
        assert 0.25 * 2**-8 < np.sqrt(np.mean(error**2) / np.mean(b**2)) < 2**-8
        if bound is not None:
            assert np.all(error <= 2 * 2**-8 * bound + 1e-5)


def test_geometry_of_gno_is_not_rounded():
    """Coordinates that bfloat16 does not tell apart, whose differences it has."""
    coords = 1024 + np.arange(8, dtype=np.float32)[:, None] / 64
    ones = (np.ones(s, numbers("bfloat16")) for s in ((1, 1), (1, 1, 1)))
    U, V = to_device(tuple(ones))
    b_u, b_v = to_device((np.full(1, -1024, numbers("bfloat16")), np.zeros((1, 1), U.dtype)))
    kappa = gg.gno_kernel(cuda.to_device(coords), U, b_u, V, b_v, activation="identity").get()
    assert_array_equal(kappa.ravel().astype(float), np.arange(8) / 64)
    with pytest.raises(TypeError, match="gno_kernel: coords is bfloat16, needs float32"):
        gg.gno_kernel(cuda.to_device(coords.astype(U.dtype)), U, b_u, V, b_v)


def as_taken(case, arrays, dtype):
    """Arrays in the precisions that the operator takes with a first input of this dtype."""
    specs = case.operator.declaration.inputs.values()
    return tuple(
        None if a is None else a.astype(numbers(shapes.dtype_of(spec, dtype)))
        for a, spec in zip(arrays, specs, strict=False)
    )


@pytest.mark.parametrize("case", FEW + table.of("offset_moments")[1:2], ids=str)
def test_padded_graphs(case, rng):
    """Room for edges is never read, and gradients to it are 0."""
    edges = power_law(20, 100)
    padded = SimpleNamespace(n_src=20, n_dst=20, n_edges=160, graph=edges.graph.pad(160))
    inputs, tangents, (cotangent,) = draw(case, padded, rng, "float64")
    check_faces(case.operator, inputs, tangents, cotangent, case.arguments(padded), "float64")
    with_edges = [k for k, x in enumerate(inputs) if x is not None and len(x) == 160]
    static = static_on_device(case.arguments(padded))
    gradients = case.operator.vjp(to_device(cotangent), to_device(inputs), **static)
    assert all(not np.any(gradients[k].get()[100:]) for k in with_edges)


@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_edges_of_no_relation_are_left_out(aggregation, rng):
    edges = power_law(20, 100)
    relational = table.FRONT["agg_relational"]
    x, w, coeff, _ = relational.inputs(edges, rng)
    types = table.edge_types(relational, edges)
    types[::7], types[3::7] = -1, 4
    there = (types >= 0) & (types < 4)
    some = Edges(edges.src[there], edges.dst[there], 20, 20)
    static = {"n_relations": 4, "aggregation": aggregation}
    for basis in (None, coeff):
        given = {"graph": some.graph, "edge_type": types[there], **static}
        expected = gg.agg_relational(x, w[there], basis, **given)
        gradients = gg.agg_relational.vjp(expected, (x, w[there], basis), **given)
        given = {"graph": edges.graph, "edge_type": to_device(types), **static}
        inputs = to_device((x, w, basis))
        out = gg.agg_relational(*inputs, **given)
        assert_allclose(out.get(), expected, rtol=1e-13, atol=1e-13)
        found = to_host(gg.agg_relational.vjp(out, inputs, **given))
        assert_array_equal(found[1][~there], np.zeros(np.sum(~there)))
        found = (found[0], found[1][there], *found[2:])
        for a, b in zip(found, gradients, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("case", SPARSE, ids=str)
def test_sparse_attention(case, dtype, rng):
    check_sparse(case, dtype, rng)


def check_sparse(case, dtype, rng, slack=4):
    call = Call(case, None, rng)
    inputs, tangents = (as_taken(case, group, dtype) for group in (call.inputs, call.tangents))
    cotangents = call.convert(numbers(dtype)).cotangents
    if len(cotangents) > 1:  # lse
        cotangents = (
            cotangents[0],
            call.cotangents[1].astype("float64" if dtype == "float64" else "float32"),
        )
    # a query that sees one key has as gradient a difference of two products with the saved output
    check_faces(case.operator, inputs, tangents, cotangents, call.static, dtype, slack)


def test_absent_cotangent_of_compressed_attention(rng):
    q, k, v = (rng.normal(size=(9, h, d)) for h, d in ((2, 4), (1, 4), (1, 3)))
    of_lse, static = rng.normal(size=(9, 2)), {"block": 2, "stride": 1}
    expected = gg.compressed_attention.vjp((None, of_lse), (q, k, v), **static)
    cotangent = None, cuda.to_device(of_lse)
    actual = gg.compressed_attention.vjp(cotangent, to_device((q, k, v)), **static)
    for x, y in zip(expected, to_host(actual), strict=True):
        np.testing.assert_allclose(y, x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", table.of("dense", large=False), ids=str)
def test_dense_attention(case, dtype, rng):
    check(case, None, rng, dtype, slack=4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["attention", "attention_pool"])
def test_hidden_keys_need_not_be_finite(name, dtype, rng):
    """The CPU's results are those without the keys (test_dense.py), and so are these."""
    case, hidden = table.case(name), [2, 9]
    drawn = draw(case, None, rng, dtype)
    for x in itertools.chain(*drawn):
        if len(x) == table.SIZES["Tk"]:
            x[hidden] = np.nan
    inputs, tangents, cotangents = drawn
    inputs[3][hidden] = -np.inf
    check_faces(case.operator, inputs, tangents, cotangents, {}, dtype, slack=4)


def test_selections_are_checked_where_duplicates_are_errors(rng):
    q, k, v = rng.normal(size=(3, 20, 2, 3))
    inputs, tangents, cotangent = (q, k, v), (q, None, None), q
    static = {"block_size": 4, "duplicates": "error"}
    good = np.tile(np.arange(3, dtype=np.int32), (20, 2, 1))
    twice, absent = good.copy(), good.copy()
    twice[[7, 9], 1, 2] = 0
    absent[13, 0, 1], absent[12, 0, 0] = 5, -2

    def calls(selection, move=lambda x: x):
        operator = gg.selected_attention
        x, t, c, given = move(inputs), move(tangents), move(cotangent), {**static}
        given["block_index"] = move(selection)
        yield lambda: operator(*x, **given)
        yield lambda: operator.vjp(c, x, **given)
        yield lambda: operator.jvp(x, t, **given)
        yield lambda: operator.hvp(c, x, t, **given)

    for expected, actual in zip(calls(good), calls(good, to_device), strict=True):
        for a, b in zip(as_tuple(expected()), as_tuple(to_host(actual())), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert_allclose(b, a, rtol=1e-12, atol=1e-12)
    for selection, kind in ((twice, ValueError), (absent, IndexError)):
        for expect, found in zip(calls(selection), calls(selection, to_device), strict=True):
            with pytest.raises(kind) as expected:
                expect()
            with pytest.raises(kind, match=f"^{re.escape(str(expected.value))}$"):
                found()


@pytest.mark.parametrize("kernel", [0, 1])
def test_memory_of_derivatives_by_positions(kernel):
    """Memory that grows with the edges is the gradient of their coordinates, and their segment.

    That takes 20 bytes an edge, whatever the features are, and a little a slice.
    """
    face, widths = cuda_library.library().faces["gno_with_laplacian_vjp_f64"], np.array([9, 5])

    def workspace(n):
        graph = cuda._pass(gg.Graph([0, n], np.zeros(n, int), n_src=1), 0)
        return face.workspace_bytes(graph, 1, 2, 3, 3, 2, widths.ctypes.data, 0, 1, 0, kernel)

    of_edge = (workspace(200_000) - workspace(100_000)) / 100_000
    assert 2 * 8 + 20 <= of_edge < 2 * 8 + 20.5


def test_memory_of_networks_on_edges():
    """Memory grows with the edges only by a mean's weights: a number in vjp, two in hvp."""
    widths = np.array([9, 5, 4])
    common = (len(widths), widths.ctypes.data)

    def grows(face, *static):
        face = cuda_library.library().faces[face]
        sizes = []
        for n in (100_000, 200_000):
            graph = cuda._pass(gg.Graph([0, n], np.zeros(n, int), n_src=1), 0)
            sizes.append(face.workspace_bytes(graph, *static))
        return (sizes[1] - sizes[0]) / 100_000

    for face, numbers in {"forward": 0, "vjp": 1, "jvp": 0, "hvp": 2}.items():
        assert grows(f"gno_deep_{face}_f64", 3, 2, 2, 1, 5, *common, 1, 0) == 0
        for results, reduction in ((0, 0), (0, 1), (1, 1), (2, 1)):
            expected = 8 * numbers * (reduction == 1 and results != 1)
            static = (4, 2, 1, 7, *common, 2, True, True, reduction, results)
            assert grows(f"edge_mlp_{face}_f64", *static) == expected


def test_matmul_precision(rng):
    """Products are in TF32 if asked for, and as before afterwards."""
    arrays = (rng.normal(size=shape).astype("float32") for shape in ((50, 2), (2, 64), 64))
    inputs = (*arrays, rng.normal(size=(64, 3, 4)).astype("float32"), np.zeros((3, 4), "float32"))
    exact, given = gg.gno_kernel(*wide(inputs), activation="tanh"), to_device(inputs)

    def error():
        kappa = gg.gno_kernel(*given, activation="tanh").get()
        return np.max(np.abs(kappa - exact)) / np.max(np.abs(exact))

    before = error()
    gg.set_matmul_precision("tf32")
    try:
        assert 1e-5 < error() < 2e-3
    finally:
        gg.set_matmul_precision("float32")
    assert error() == before < 1e-6


@pytest.mark.parametrize("case", table.of("compress", large=False), ids=str)
@pytest.mark.parametrize("dtype", EPS)
def test_compress(case, dtype, rng):
    check(case, None, rng, dtype, slack=2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_select_blocks(dtype, rng):
    q, k = (rng.normal(size=shape).astype(dtype) for shape in ((20, 4, 3), (9, 2, 3)))
    static = {"block": 4, "stride": 2, "causal": True}
    _, lse = gg.compressed_attention(q, k, k, **static)
    static |= {"block_size": 4, "n_blocks": 3}
    expected = gg.select_blocks(q, k, lse, **static)
    actual = gg.select_blocks(*to_device((q, k, lse)), **static)
    assert_array_equal(actual.get(), expected)
    with pytest.raises(NotImplementedError, match="select_blocks: this is computed on the CPU"):
        gg.select_blocks(*to_device((q, k, lse)), **{**static, "causal": False}, keep=2)


@pairs(case=test_neighbors.CASES, d=[1, 2, 3], dtype=["float32", "float64"])
def test_neighbor_search(case, d, dtype, rng):
    """Neighbours equal those on the CPU."""
    sources, destinations, options = test_neighbors.draw(case, d, rng, dtype)
    expected = gg.neighbors(sources, destinations=destinations, **options)
    sources, destinations = map(cuda.to_device, (sources, destinations))
    found = gg.neighbors(sources, destinations=destinations, **options)
    for actual, e in zip(found, expected, strict=True):
        assert_array_equal(actual.get(), e)
        assert actual.dtype == e.dtype


@pairs(case=test_neighbors.NEAREST, k=[0, 1, 40, 100], d=[1, 2, 3], dtype=["float32", "float64"])
def test_nearest_neighbors(case, k, d, dtype, rng):
    sources, destinations, options = test_neighbors.draw_nearest(case, d, rng, dtype)
    expected = gg.knn(sources, k, destinations, **options)
    found = gg.knn(cuda.to_device(sources), k, cuda.to_device(destinations), **options)
    for actual, e in zip(found, expected, strict=True):
        assert_array_equal(actual.get(), e)
        assert actual.dtype == e.dtype


@pytest.mark.parametrize("choose", ["nearest", "random", None])
@test_neighbors.every_case
def test_chosen_neighbors(case, choose, rng):
    """Neighbours within several radii, at most so many, equal those on the CPU."""
    sources, destinations, options = test_neighbors.draw(case, 2, rng)
    radius = options.pop("radius")
    if choose is not None:
        options |= {"max_neighbors": 3, "choose": choose, "seed": 2**63 - 1}
    radii = [0.5 * radius, radius]
    expected = gg.neighbors(sources, radii, destinations, **options)
    sources, destinations = map(cuda.to_device, (sources, destinations))
    found = gg.neighbors(sources, radii, destinations, **options)
    for actual, e in zip(found, expected, strict=True):
        assert_array_equal(actual.offsets.get(), e.offsets)
        assert_array_equal(actual.indices.get(), e.indices)


@pytest.mark.parametrize("most", [None, 64, 100])
def test_rows_longer_than_a_search_keeps(most, rng):
    sources, destinations = rng.random((300, 2)), rng.random((40, 2))
    limits = {} if most is None else {"max_neighbors": most, "choose": "random", "seed": 5}
    expected = gg.neighbors(sources, 0.5, destinations, period=1.0, **limits)
    degrees = np.diff(expected.offsets)
    assert degrees.max() == most if most else degrees.min() > 64
    points = cuda.to_device(sources), 0.5, cuda.to_device(destinations)
    found = gg.neighbors(*points, period=1.0, **limits)
    assert_array_equal(found.offsets.get(), expected.offsets)
    assert_array_equal(found.indices.get(), expected.indices)


@pairs(
    case=test_neighbor_list.CASES,
    d=[1, 2, 3],
    full=[True, False],
    dtype=["float32", "float64"],
)
def test_neighbor_list_on_device(case, d, full, dtype, rng):
    points, arguments = test_neighbor_list.draw(case, d, rng, dtype)
    expected = gg.neighbor_list(points, **arguments, full=full)
    found = gg.neighbor_list(cuda.to_device(points), **arguments, full=full)
    for actual, e in zip(found, expected, strict=True):
        assert_array_equal(actual.get(), e)
        assert actual.dtype == e.dtype


@pytest.mark.parametrize(
    ("points", "radius", "message"),
    [
        (np.full((2, 2), np.nan), 1.0, "points has entries that are not finite"),
        (np.full((2, 2), 1e12), 1.0, r"more than 2\*\*30 cells away"),
        (np.zeros((2, 2)), 1e9, "images are within the radius of the cell: too many"),
    ],
)
def test_refused_neighbor_list(points, radius, message):
    with pytest.raises(ValueError, match=f"neighbor_list: .*{message}"):
        gg.neighbor_list(cuda.to_device(points), radius, np.eye(2))


def test_nearest_graph_of_a_batch(rng):
    points, batch = rng.random((60, 2)), np.repeat([2, 5, 9], 20)
    expected = gg.Graph.knn(points, 4, batch=batch, include_self=False)
    on_device = cuda.to_device(points), 4
    graph = gg.Graph.knn(*on_device, batch=cuda.to_device(batch), include_self=False)
    assert_array_equal(graph.offsets, expected.offsets)
    assert_array_equal(graph.indices, expected.indices)
    with pytest.raises(ValueError, match="knn: sources has entries that are not finite"):
        gg.knn(cuda.to_device(np.full((3, 2), np.nan)), 2)


def test_neighbors_without_self(rng):
    points = rng.random((60, 2))
    expected = gg.Graph.radius(points, 0.2, include_self=False)
    graph = gg.Graph.radius(cuda.to_device(points), 0.2, include_self=False)
    assert_array_equal(graph.offsets, expected.offsets)
    assert_array_equal(graph.indices, expected.indices)


def test_refused_points(rng):
    points = rng.random((9, 2))
    x, bad = cuda.to_device(points), cuda.to_device(np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match="sources has entries that are not finite"):
        gg.neighbors(bad, 0.1, x)
    with pytest.raises(ValueError, match="destinations has entries that are not finite"):
        gg.neighbors(x, 0.1, bad)
    with pytest.raises(TypeError, match="sources is float64 but destinations is float32"):
        gg.neighbors(x, 0.1, cuda.to_device(points.astype("float32")))
    with pytest.raises(TypeError, match="one is on a GPU"):
        gg.neighbors(x, 0.1, points)
    with pytest.raises(TypeError, match="sources is int64, needs float32 or float64"):
        gg.neighbors(cuda.to_device(np.zeros((2, 2), np.int64)), 0.1)
    with pytest.raises(NotImplementedError, match="no CUDA kernel for float16"):
        gg.neighbors(cuda.to_device(np.zeros((2, 2), np.float16)), 0.1)
    with pytest.raises(NotImplementedError, match="1 to 3 coordinates, not 4"):
        gg.neighbors(cuda.to_device(np.zeros((2, 4))), 0.1)


@few_cases
def test_wrt(case, rng):
    edges = GRAPHS["power law"]
    inputs, tangents, (cotangent,) = map(to_device, draw(case, edges, rng, "float32"))
    static = static_on_device(case.arguments(edges))
    everything = case.operator.vjp(cotangent, inputs, **static)
    for k, name in enumerate(case.operator.inputs):
        alone = case.operator.vjp(cotangent, inputs, wrt=[name], **static)
        assert [g is None for g in alone[:k] + alone[k + 1 :]] == [True] * (len(inputs) - 1)
        if inputs[k] is not None:
            assert_array_equal(alone[k].get(), everything[k].get())
        some = tuple(t if j == k else None for j, t in enumerate(tangents))
        zeros = tuple(
            t if j == k or t is None else cuda.to_device(0 * t.get())
            for j, t in enumerate(tangents)
        )
        jvp = [case.operator.jvp(inputs, t, **static).get() for t in (some, zeros)]
        assert_allclose(*jvp, rtol=1e-5, atol=1e-5)


TRIPLETS = table.of("agg_edge_to_edge")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_agg_edge_to_edge_types(dtype, rng):
    check(TRIPLETS[0], GRAPHS["power law"], rng, dtype)


def test_agg_edge_to_edge_wrt(rng):
    edges, names = GRAPHS["power law"], gg.agg_edge_to_edge.inputs
    inputs, _, (cotangent,) = map(to_device, draw(TRIPLETS[0], edges, rng, "float32"))
    static = TRIPLETS[0].arguments(edges)
    everything = gg.agg_edge_to_edge.vjp(cotangent, inputs, **static)
    for k, name in enumerate(names):
        alone = gg.agg_edge_to_edge.vjp(cotangent, inputs, wrt=[name], **static)
        assert [g is None for g in alone] == [j != k for j in range(len(names))]
        assert_array_equal(alone[k].get(), everything[k].get())


def test_agg_edge_to_edge_in_the_shared_memory_of_any_device(rng):
    """Results are right with 99 KiB, the least of any device: these sizes would take more."""
    case = table.case("agg_edge_to_edge", n_spherical=7, n_radial=1, n_mid=8, n_emb=3)
    check(case, GRAPHS["bipartite"], rng)


@pytest.mark.parametrize("dtype", EPS)
def test_radial_basis(dtype, rng):
    """Faces agree with the oracle from distances whose second derivatives fit in 16 bits."""
    x = np.concatenate([[-0.5, 0], rng.uniform(0.3, 0.99, 90), [1, 1.25]])[:, None]
    inputs = tuple(a.astype(numbers(dtype)) for a in (x, np.pi * np.arange(1.0, 4.0)))
    outputs = gg.radial_basis(*wide(inputs), n_spherical=3)
    cotangents = tuple(c.astype(numbers(dtype)) for c in like(outputs, rng))
    static = {"n_spherical": 3}
    check_faces(gg.radial_basis, inputs, like(inputs, rng), cotangents, static, dtype)


def test_saved_statistics_have_the_precision_of_the_arithmetic(rng):
    edges = GRAPHS["power law"]
    x, w = to_device(table.FRONT["agg_weighted"].inputs(edges, rng, "float16"))
    _, (out, location, degree) = gg.agg_weighted.forward(
        x, w, graph=edges.graph, aggregation="mean", return_saved=True
    )
    assert (out.dtype, degree.dtype, location) == ("float16", "float32", None)


# ---- what is not a number ----


def assert_same_where_finite(actual, expected, dtype):
    """Check that numbers agree, and that NaN is where it is expected."""
    nan, size = (
        np.isnan(expected),
        np.nanmax(np.abs(expected), initial=1, where=expected != -np.inf),
    )
    assert_array_equal(np.isnan(actual), nan)
    tolerance = 4 * (EPS[dtype] + 32 * EPS["float32"] * (dtype != "float64")) * size
    assert_allclose(actual[~nan], expected[~nan], rtol=0, atol=tolerance)


@pairs(
    case=SPARSE + table.of("selected_attention", large=True)[:2],
    of=["q", "k", "v"],
    dtype=["float64", "bfloat16"],
)
def test_nan_in_sparse_attention(case, of, dtype, rng):
    """A NaN reaches the rows that see it and what these reach, no others of their tiles."""
    static, operator = case.arguments(), case.operator
    if dtype != "float64" and case.large:
        pytest.skip("the oracle takes long")
    clean = as_taken(case, case.inputs(None, rng), dtype)
    tangents = like(clean, rng)
    x = clean["qkv".index(of)]
    for at in np.roll(np.arange(len(x)), len(x) // 2):  # the first that is seen
        number, x[at, -1, 0] = x[at, -1, 0], np.nan
        out, lse = case.oracle(static)(*wide(clean))
        if np.isnan(out).any():
            break
        x[at, -1, 0] = number
    assert 0 < np.isnan(out).sum() < out.size
    c = rng.normal(size=(*clean[0].shape[:2], clean[2].shape[2])).astype(numbers(dtype))
    evaluate = partial(nsa.faces, cotangent=wide(c), tangents=wide(tangents))
    out, out_tangent, *rest = case.oracle(static)(*wide(clean), evaluate=evaluate)
    gradients, seconds = rest[: len(rest) // 2], rest[len(rest) // 2 :]

    inputs, c, tangents = map(to_device, (clean, c, tangents))
    static = {k: to_device(v) if isinstance(v, np.ndarray) else v for k, v in static.items()}
    found, saved = operator.forward(*inputs, return_saved=True, **static)
    cotangent = (c, None) if operator.n_outputs > 1 else c
    results = [
        ((as_tuple(found)[0], saved[1]), (out, lse)),
        (operator.vjp(cotangent, inputs, **static), gradients),
        (operator.vjp(cotangent, inputs, saved=saved, **static), gradients),
        (as_tuple(operator.jvp(inputs, tangents, **static))[:1], (out_tangent,)),
        (operator.hvp(cotangent, inputs, tangents, **static), seconds),
    ]
    for actual, expected in results:
        for a, e in zip(actual, expected, strict=False):
            if e is not None:
                assert_same_where_finite(a.get().astype(float), e, dtype)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("which", [3, 4])
def test_nan_in_positions(which, dtype, rng):
    """A NaN reaches the rows that see the point; a coinciding point has no gradient."""
    case = table.case("window_attention", window=5, Tq=20, Tk=20)
    inputs = as_taken(case, case.inputs(None, rng), dtype)
    inputs[3][7] = inputs[4][8] = 0.5
    tangents = as_taken(case, like(inputs, rng), dtype)
    cotangent = rng.normal(size=(20, 4, 2)).astype(inputs[0].dtype)
    check_faces(case.operator, inputs, tangents, cotangent, {"window": 5}, dtype, slack=4)
    inputs[which][12] = np.nan
    on_device = to_device(inputs)
    out = case.operator(*on_device, window=5).get().astype(float)
    rows = np.isnan(out).any(axis=(1, 2))
    seen = range(12, 13) if which == 3 else range(10, 15)
    assert_array_equal(np.flatnonzero(rows), seen)
    gradients = case.operator.vjp(to_device(cotangent), on_device, window=5)
    for gradient in gradients[3:5]:
        spoilt = np.isnan(gradient.get().astype(float)).any(axis=1)
        assert set(np.flatnonzero(spoilt)) <= set(range(10, 15)) and spoilt.any()


@pytest.mark.parametrize("input", range(4))
@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_nan_in_graph_attention(case, input, rng):
    """A NaN makes the softmax of its row NaN, and everything that the row reaches."""
    edges = GRAPHS["power law"]
    static, inputs = case.arguments(edges), case.inputs(edges, rng)
    x = inputs[input]
    if x is None or (input == 2 and case.operator is not gg.mha_simple):
        pytest.skip("no rows")
    x[len(x) // 3, -1] = np.nan
    expected = case.reference(edges)(*inputs)
    ill = np.isnan(expected).any(axis=1)
    assert 0 < ill.sum() < edges.n_dst / 2
    given = to_device(inputs)
    assert_same_where_finite(case.operator(*given, **static).get(), expected, "float64")
    if input == 2:  # values: the scores are as before
        return
    tangents, c = to_device(like(inputs, rng)), to_device(rng.normal(size=expected.shape))
    touched = np.zeros(edges.n_src, bool)
    touched[edges.src[ill[edges.dst]]] = True
    kinds = {edges.n_edges: ill[edges.dst]}
    names = case.operator.inputs
    for gradients in (
        case.operator.vjp(c, given, **static),
        case.operator.hvp(c, given, tangents, **static),
    ):
        for name, gradient in zip(names, gradients, strict=True):
            if gradient is None:
                continue
            rows = gradient.get()
            if rows.ndim == 1:  # weights
                assert np.isnan(rows).any()
                continue
            at_destination = name in ("x_dst", "q")
            expect = kinds.get(len(rows), ill if at_destination else touched)
            assert_array_equal(np.isnan(rows).any(axis=1), expect, err_msg=name)
    tangent = case.operator.jvp(given, tangents, **static).get()
    assert_array_equal(np.isnan(tangent).any(axis=1), ill)


@pytest.mark.parametrize("x", [None, np.ones((3, 0))], ids=["absent", "no features"])
def test_weights_of_no_features(x):
    """Sums of weights are saved; gradients of weights are 0, even where the sums are."""
    static = {"graph": Edges([0, 1, 1], [0, 0, 1], 3, 3).graph, "aggregation": "mean"}
    w, own = np.array([1.0, -1.0, 2.0]), np.ones((3, 2))
    inputs, g, memory = to_device((x, w, None, own)), to_device(own), to_device(np.full(3, np.nan))
    out, saved = gg.agg_concat.forward(*inputs, return_saved=True, out=(None, memory), **static)
    assert_array_equal(out.get(), own)
    assert_array_equal(saved[2].get(), [0, 2, 0])
    for kept in None, saved:
        gradients = gg.agg_concat.vjp(g, inputs, saved=kept, **static)
        assert_array_equal(gradients[1].get(), np.zeros(3))
    tangents = gg.agg_concat.hvp(g, inputs, (None, inputs[1], None, None), **static)
    assert_array_equal(tangents[1].get(), np.zeros(3))


@pytest.mark.parametrize("case", table.of("aggregation", many=False), ids=str)
def test_nan_in_aggregation(case, rng):
    """A NaN wins over numbers, and the first over those that come later."""
    edges = GRAPHS["power law"]
    inputs, static = case.inputs(edges, rng), case.arguments(edges)
    inputs[0][rng.random(inputs[0].shape) < 0.1] = np.nan
    expected = case.reference(edges)(*inputs)
    assert 0 < np.isnan(expected).sum() < expected.size / 2
    given = to_device(inputs)
    out, saved = case.operator.forward(*given, return_saved=True, **static)
    assert_same_where_finite(out.get(), expected, "float64")
    if static["aggregation"] in ("sum", "mean"):
        return
    graph = static["graph"]
    location = next(a.get() for a in saved if a is not None and a.dtype == np.int64)
    values = inputs[0][graph.indices]
    if case.operator is not gg.agg_simple:
        values = values * inputs[1][graph.edge_ids][:, None]
    for i, column in zip(*np.nonzero(np.isnan(expected[:, : values.shape[1]])), strict=True):
        first, end = graph.offsets[i : i + 2]
        where = first + np.flatnonzero(np.isnan(values[first:end, column]))[0]
        assert location[i, column] == where


@pytest.mark.parametrize("case", TRIPLETS, ids=str)
def test_nan_in_triplets(case, rng):
    edges = power_law(12, 40)  # no triplet with the NaN is excluded and alone
    inputs = case.inputs(edges, rng)
    inputs[2][len(inputs[2]) // 3, 1] = np.nan
    expected = case.reference(edges)(*inputs)
    assert 0 < np.isnan(expected).sum() < expected.size / 2
    out = gg.agg_edge_to_edge(*to_device(inputs), **case.arguments(edges))
    assert_same_where_finite(out.get(), expected, "float64")


def test_every_kernel_is_tested():
    kernels = {name.rsplit("_", 2)[0] for name in cuda_library.library().faces}
    assert kernels == table.FRONT.keys() | {
        "graph_from_csc", "graph_from_edges", "graph_rows", "graph_union", "nearer_neighbors",
        "nearest_neighbors", "neighbor_list", "neighbors", "nsa_selected_attention",
        "select_blocks",
    }  # fmt: skip


# ---- graphs of arrays on the device ----


def assert_same_graph(actual, expected):
    """Check that all arrays of two graphs are equal, with equal dtypes."""
    assert actual.sizes == expected.sizes
    for name, array in expected.arrays._asdict().items():
        other = getattr(actual.arrays, name)
        assert (other is None) == (array is None), name
        if array is not None:
            assert other.dtype == array.dtype, name
            assert_array_equal(other, array, name)


@pytest.mark.parametrize("self_loops", [None, False, True])
@pytest.mark.parametrize("dtypes", [("int32", "int32"), ("int64", "int64"), ("int32", "int64")])
@pytest.mark.parametrize("n", [0, 1, 40, 3000])
def test_graph_from_edges(n, dtypes, self_loops, rng):
    ends = [rng.integers(0, k, n).astype(dtype) for k, dtype in zip((60, 45), dtypes, strict=True)]
    for pair in (ends, [ends[0], np.sort(ends[1])]):
        for nodes in ((60, 45), (70, None), (None, None)):
            expected = gg.Graph.from_edges(*pair, *nodes, self_loops=self_loops)
            actual = gg.Graph.from_edges(*map(cuda.to_device, pair), *nodes, self_loops=self_loops)
            assert actual._made_there
            assert_same_graph(actual, expected)
    if len(set(dtypes)) == 1:
        edges = np.stack(ends)
        made = gg.Graph.from_edge_index(cuda.to_device(edges), 60, 45, self_loops=self_loops)
        assert_same_graph(made, gg.Graph.from_edge_index(edges, 60, 45, self_loops=self_loops))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", GRAPHS)
def test_graph_of_rows(name, dtype, rng):
    graph = GRAPHS[name].graph
    offsets, indices, ids = (
        None if x is None else cuda.to_device(x.astype(dtype))
        for x in (graph.offsets, graph.indices, rng.permutation(graph.n_edges))
    )
    actual = gg.Graph(offsets, indices, graph.n_src)
    assert actual._made_there
    assert_same_graph(actual, gg.Graph(graph.offsets, graph.indices, graph.n_src))
    expected = gg.Graph(graph.offsets, graph.indices, graph.n_src, ids.get())
    assert_same_graph(gg.Graph(offsets, indices, graph.n_src, ids), expected)
    if graph.n_src == graph.n_dst:
        assert_same_graph(gg.Graph(offsets, indices), gg.Graph(graph.offsets, graph.indices))


def test_kernels_read_a_graph_where_it_was_made(weighted):
    graph = gg.Graph.from_edges(*map(cuda.to_device, (weighted.graph.src, weighted.graph.dst)))
    x, w = to_device((weighted.x, weighted.w))
    expected = gg.Graph.from_edges(weighted.graph.src, weighted.graph.dst)
    out = gg.agg_weighted(weighted.x, weighted.w, graph=expected)
    assert_allclose(gg.agg_weighted(x, w, graph=graph).get(), out, rtol=1e-12)
    assert graph._made_there  # nothing has been copied to the host
    assert not graph.is_remote
    assert_allclose(gg.agg_weighted(weighted.x, weighted.w, graph=graph), out, rtol=1e-12)
    assert not graph._made_there
    assert_allclose(gg.agg_weighted(x, w, graph=graph).get(), out, rtol=1e-12)


def test_what_a_graph_made_there_tells():
    ends = np.array([[0, 2, 1, 2, 0], [1, 1, 0, 2, 0]])
    expected = gg.Graph.from_edge_index(ends)

    def graph():
        return gg.Graph.from_edge_index(cuda.to_device(ends))

    for name in ("src", "dst", "offsets", "indices", "edge_ids", "in_degree"):
        assert_array_equal(getattr(graph(), name), getattr(expected, name), name)
    assert repr(graph()) == repr(expected)
    assert_array_equal(graph().transpose.position, expected.transpose.position)
    assert_same_graph(pickle.loads(pickle.dumps(graph())), expected)
    assert_same_graph(graph().pad(9), expected.pad(9))
    assert_same_graph(graph().reverse(), expected.reverse())
    both = gg.Graph.batch([graph(), expected])
    assert_same_graph(both, gg.Graph.batch([expected, expected]))
    assert_same_graph(both.unbatch()[0], gg.Graph(expected.offsets, expected.indices, 3,
                                                  expected.edge_ids))  # fmt: skip


@pytest.mark.parametrize("self_loops", [None, False, True])
@pytest.mark.parametrize(
    ("n", "n_src", "n_dst"), [(0, 3, 0), (0, 2, 3), (1, 1, 1), (40, 9, 12), (3000, 60, 45)]
)
def test_graphs_of_graphs_on_the_device(n, n_src, n_dst, self_loops, rng):
    for sort in (np.array, np.sort):
        graphs, there = [], []
        for length in (n, n // 2, n // 3):
            ends = [rng.integers(0, max(k, 1), length) for k in (n_src, n_dst)]
            ends[1] = sort(ends[1])
            sizes = n_src, n_dst
            graphs.append(gg.Graph.from_edges(*ends, *sizes, self_loops=self_loops))
            on_device = map(cuda.to_device, ends)
            there.append(gg.Graph.from_edges(*on_device, *sizes, self_loops=self_loops))
        made = {
            "reverse": lambda one, *_: one.reverse(),
            "reverse twice": lambda one, *_: one.reverse().reverse(),
            "loops": lambda one, *_: one.with_self_loops(),
            "loops of loops": lambda one, *_: one.with_self_loops().reverse().with_self_loops(),
            "union": lambda *all_: gg.Graph.union(*all_),
            "union of one": lambda one, *_: gg.Graph.union(one),
            "both ways": lambda one, *_: gg.Graph.union(one, one.reverse().reverse(), one),
        }
        for name, make in made.items():
            result = make(*there)
            assert result._made_there, name
            assert_same_graph(result, make(*graphs))
        mixed = gg.Graph.union(there[0], graphs[1])
        assert_same_graph(mixed, gg.Graph.union(*graphs[:2]))


def test_graph_of_arrays_with_gaps(rng):
    src, dst = rng.integers(0, 9, (2, 30))
    table = cuda.to_device(np.stack([src, dst], axis=1))
    first = table.__cuda_array_interface__["data"][0]
    ends = [Lender(table, shape=(30,), strides=(16,), data=(first + k * 8, False)) for k in (0, 1)]
    assert_same_graph(gg.Graph.from_edges(*ends), gg.Graph.from_edges(src, dst))
    transposed = Lender(table, shape=(2, 30), strides=(8, 16))
    assert_same_graph(gg.Graph.from_edge_index(transposed), gg.Graph.from_edges(src, dst))


def test_graph_of_points_on_the_device(rng):
    points = rng.random((200, 3))
    for make in (partial(gg.Graph.radius, radius=0.2), partial(gg.Graph.knn, k=5)):
        graph = make(cuda.to_device(points))
        assert graph._made_there
        assert_same_graph(graph, make(points))


@pytest.mark.parametrize(
    "arrays",
    [
        ([1, 2], [0, 0]),
        ([0, 1], [0, 0]),
        ([0, 2, 1, 2], [0, 0]),
        ([0, 2], [0, 3]),
        ([0, 2], [0, -1]),
        ([0, 2], [0, 1], [0, 0]),
        ([0, 2], [0, 1], [0, 2]),
        ([0, 2], [0, 1], [0]),
        ([0, 2], [0.0, 1.0]),
        ([[0, 2]], [0, 1]),
        (np.zeros(0, int), [0]),
    ],
    ids=str,
)
def test_arrays_that_are_no_graph(arrays):
    """Errors equal those on the CPU."""
    offsets, indices, *ids = map(np.array, arrays)
    with pytest.raises((TypeError, ValueError, IndexError)) as expected:
        gg.Graph(offsets, indices, 3, *ids)
    offsets, indices, *ids = map(cuda.to_device, (offsets, indices, *ids))
    with pytest.raises(expected.type, match=f"^{re.escape(str(expected.value))}$"):
        gg.Graph(offsets, indices, 3, *ids)


@pytest.mark.parametrize(
    ("src", "dst", "nodes"),
    [
        ([0, 3], [0, 1], (3, 2)),
        ([0, 2], [0, 2], (3, 2)),
        ([0, -1], [0, 1], (None, None)),
        ([0, 2**31], [0, 1], (None, None)),
        ([0], [0, 1], (3, 3)),
        ([0.5], [0.5], (3, 3)),
        ([0], [0], (-1, 3)),
    ],
)
def test_edges_that_are_none(src, dst, nodes):
    """Errors equal those on the CPU."""
    ends = np.array(src), np.array(dst)
    with pytest.raises((TypeError, ValueError, IndexError)) as expected:
        gg.Graph.from_edges(*ends, *nodes)
    with pytest.raises(expected.type, match=f"^{re.escape(str(expected.value))}$"):
        gg.Graph.from_edges(*map(cuda.to_device, ends), *nodes)


def test_graph_of_arrays_on_both_sides():
    ends = np.array([0, 1])
    with pytest.raises(TypeError, match="graph: src is on a GPU but dst is on the CPU"):
        gg.Graph.from_edges(cuda.to_device(ends), ends)
    with pytest.raises(TypeError, match="graph: indices is on a GPU but offsets is on the CPU"):
        gg.Graph(ends, cuda.to_device(ends[:1]))
    with pytest.raises(ValueError, match=r"graph: edge_index has shape \(3, 2\)"):
        gg.Graph.from_edge_index(cuda.to_device(np.zeros((3, 2), int)))


# ---- arrays ----


@pytest.fixture
def weighted(rng):
    """An operator's inputs, on the host."""
    edges = GRAPHS["power law"]
    x, w = table.FRONT["agg_weighted"].change(D=4).inputs(edges, rng)
    return SimpleNamespace(
        graph=edges.graph, x=x, w=w, out=gg.agg_weighted(x, w, graph=edges.graph)
    )


def test_arrays_that_have_but_the_interface(weighted):
    x, w = Lender(cuda.to_device(weighted.x)), Lender(cuda.to_device(weighted.w), stream=...)
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


def test_bfloat16_without_a_dtype(weighted):
    pytest.importorskip("ml_dtypes")
    x, w = (Lender(cuda.to_device(a.astype("bfloat16"))) for a in (weighted.x, weighted.w))
    assert x.__cuda_array_interface__["typestr"] == "<V2"
    assert gg.agg_weighted(x, w, graph=weighted.graph).dtype == "bfloat16"


@on_host
def test_numpy_memory(weighted):
    """Memory of NumPy is device memory in the build for the host."""

    class Wrapped:
        def __init__(self, array):
            self.__cuda_array_interface__ = array.__array_interface__

    out = gg.agg_weighted(Wrapped(weighted.x), Wrapped(weighted.w), graph=weighted.graph)
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


def test_strides(weighted):
    """Arrays may be transposed, have gaps or run backwards."""
    transposed = cuda.to_device(weighted.x.T)
    rows, width = transposed.shape
    x = Lender(transposed, shape=(width, rows), strides=(8, 8 * width))
    gaps = cuda.to_device(np.repeat(weighted.w[::-1], 2))
    last = gaps.__cuda_array_interface__["data"][0] + 8 * (gaps.shape[0] - 1)
    w = Lender(gaps, shape=weighted.w.shape, strides=(-16,), data=(last, False))
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


def test_strides_that_are_none(weighted):
    """Strides of a contiguous array cause no copy; the step of a single item means nothing."""
    x = Lender(cuda.to_device(weighted.x), strides=(32, 8))
    assert cuda.contiguous(x) is x
    one = Lender(cuda.to_device(np.ones((1, 4))), strides=(999, 8))
    assert cuda.contiguous(one) is one


def test_results():
    array = cuda.to_device(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert repr(array) == "DeviceArray(shape=(2, 3), dtype=float32)"
    assert array.dtype == np.float32
    assert_array_equal(cuda.contiguous(columns(array, 1)).get(), [[1, 2], [4, 5]])
    assert cuda.to_device(np.ones((0, 3))).get().shape == (0, 3)
    assert cuda.to_device(np.array(2.5)).get() == 2.5


@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("target", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("add", [False, True])
def test_assign(target, source, add):
    values = np.linspace(-2, 2, 6).reshape(2, 3)
    host, given = np.ones((2, 3)).astype(numbers(target)), values.astype(numbers(source))
    array = cuda.to_device(host)
    cuda.assign(array, cuda.to_device(given), add=add)
    between = np.float64 if "float64" in (target, source) else np.float32
    expected = given.astype(between) + (host.astype(between) if add else 0)
    assert_array_equal(array.get(), expected.astype(host.dtype))


def test_assign_integers():
    array = cuda.to_device(np.zeros(3, np.int32))
    cuda.assign(array, cuda.to_device(np.array([1, -2, 2**31 - 1])))
    assert array.get().tolist() == [1, -2, 2**31 - 1]
    with pytest.raises(ValueError, match="means nothing"):
        cuda.assign(array, cuda.to_device(np.ones(3)))


# ---- memory ----


@pytest.fixture
def calls(monkeypatch):
    """Log of calls of the library, by function."""
    gc.collect()  # arrays that other tests have left
    monkeypatch.setattr(cuda, "_cupy", lambda: None)  # its pool would be asked, where it is there
    library, log = cuda_library.library(), {}

    def noted(name, function):
        def call(*arguments):
            log.setdefault(name, []).append(arguments)
            return function(*arguments)

        return call

    for name in ("allocate", "free", "hold", "release", "wait", "assign", "use_device"):
        monkeypatch.setitem(library.__dict__, name, noted(name, getattr(library, name)))
    faces = {
        name: face._replace(launch=noted("launch", face.launch))
        for name, face in library.faces.items()
    }
    monkeypatch.setattr(library, "faces", faces)
    return log


def test_memory_is_given_back(weighted, calls):
    graph = pickle.loads(pickle.dumps(weighted.graph))
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    out = gg.agg_weighted(x, w, graph=graph)
    view = columns(x, 2)
    assert len(calls["free"]) == 1  # the workspace
    del x, w, out
    assert len(calls["free"]) == 3
    assert_array_equal(cuda.contiguous(view).get(), weighted.x[:, 2:])
    del view
    assert "release" not in calls
    del graph
    assert len(calls["hold"]) == len(calls["release"]) == 7  # a graph with edge_ids, both ways
    assert len(calls["allocate"]) == len(calls["free"])


def test_graph_is_copied_once(weighted, calls):
    graph = pickle.loads(pickle.dumps(weighted.graph))
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    counts = []
    for _ in range(3):
        gg.agg_weighted.vjp(x, (x, w), graph=graph)
        counts.append(len(calls["allocate"]))
    assert counts[2] - counts[1] == 3  # two gradients, workspace
    assert len(graph.mirrors) == 1
    assert not pickle.loads(pickle.dumps(graph)).mirrors


@pytest.mark.parametrize("integer", ["int32", "int64"])
@pytest.mark.parametrize("with_ids", [False, True])
def test_integers_of_graphs(integer, with_ids, rng):
    offsets, indices = np.array([0, 2, 2, 5], integer), np.array([3, 0, 1, 1, 2], integer)
    ids = np.array([4, 2, 0, 1, 3], integer) if with_ids else None
    graph = gg.Graph(offsets, indices, n_src=4, edge_ids=ids)
    x, w = rng.normal(size=(4, 3)), rng.normal(size=5)
    c = rng.normal(size=(3, 3))
    expected = gg.agg_weighted.vjp(c, (x, w), graph=graph)
    actual = gg.agg_weighted.vjp(to_device(c), to_device((x, w)), graph=graph)
    for a, e in zip(actual, expected, strict=True):
        assert_allclose(a.get(), e, rtol=1e-12)


# sizes of selected attention: tokens, query heads, key/value heads, features, query_block
SELECTED = [
    (65_536, 16, 16, 64, 1), (65_536, 16, 16, 128, 1), (262_144, 16, 16, 64, 1),
    (1_048_576, 8, 8, 32, 1), (65_536, 64, 16, 128, 1), (65_536, 64, 4, 128, 1),
    (65_536, 16, 16, 64, 16), (4_096, 4, 2, 192, 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("face", ["forward", "vjp", "jvp", "hvp"])
@pytest.mark.parametrize("size", SELECTED, ids=str)
def test_workspace_of_selected_attention(size, face, dtype):
    """What docs/howto/sparse_attention.md says, and no more than a tenth above it."""
    tokens, query_heads, heads, d, query_block = size
    n_slots, block = 16, 64
    real = 8 if dtype == "f64" else 4
    number = 2 * real if face in ("jvp", "hvp") else real  # a value with its tangent
    units = -(-tokens // query_block)
    documented = 2 * 8 * units * heads * n_slots  # the lists twice
    if face in ("vjp", "hvp"):
        documented += 2 * number * tokens * query_heads
        documented += 3 * number * 2 * d * tokens * heads
    if face in ("jvp", "hvp"):
        documented += number * tokens * query_heads  # lse
    few_rows = query_block * query_heads // heads < 16
    if few_rows:
        records = number * (d + 3) * tokens * query_heads * n_slots
        widest = {"f32": 64, "f16": 128, "bf16": 128}.get(dtype, 0)
        if face != "forward" or d > widest:
            records *= 8 if face == "hvp" else 4  # a record for so many fewer keys
        documented += min(records, 2 << 30)
    elif face == "vjp":
        documented += min((real if dtype in ("f32", "f64") else 2) * d * tokens * query_heads
                          * n_slots, 2 << 30)  # fmt: skip
    asked = cuda_library.library().faces[f"selected_attention_{face}_{dtype}"].workspace_bytes(
        tokens, tokens, query_heads, heads, d, d, n_slots, 0, None, None, None, block, d**-0.5,
        1, 0, query_block, 0,
    )  # fmt: skip
    assert asked <= 1.1 * documented + 4096


class Nowhere(cuda_arrays.DeviceArray):
    """An array that takes no memory; no kernel reads it."""

    def __init__(self, shape, dtype):
        memory = cuda_arrays.Memory(0, 0, 0)
        super().__init__(tuple(shape), dtype, memory, 256 if np.prod(shape) else 0)


@pytest.fixture
def counted(monkeypatch):
    """Bytes of results, and of the largest workspace, of calls that launch nothing."""
    log = SimpleNamespace(results=0, workspace=0)
    library = cuda_library.library()
    faces = {name: f._replace(launch=lambda *_: 0) for name, f in library.faces.items()}
    monkeypatch.setattr(library, "faces", faces)

    def empty(shape, dtype, like=None, stream=None):
        bytes_ = int(np.prod(shape)) * cuda_arrays.item_size(dtype)
        if dtype == "uint8":
            log.workspace = max(log.workspace, bytes_)
        else:
            log.results += bytes_
        return Nowhere(shape, dtype)

    monkeypatch.setattr(cuda, "empty", empty)
    monkeypatch.setattr(cuda, "device_of", lambda array: 0)
    return log


def memory_of(case, size, counted):
    """Bytes of arrays and of the workspace, by face of a case of the benchmarks."""
    operator, inputs, static = case.make(size, np.random.default_rng(0))

    def there(x):
        if isinstance(x, tuple):
            return tuple(map(there, x))
        return Nowhere(x.shape, str(x.dtype)) if isinstance(x, np.ndarray) else x

    arrays = [*inputs, *static.values()]
    given = sum(x.nbytes for x in arrays if isinstance(x, np.ndarray))
    inputs, static = there(tuple(inputs)), {k: there(v) for k, v in static.items()}
    if "graph" in static:
        given += sum(x.nbytes for x in static["graph"].arrays if x is not None)
    found = {}
    for face in ("forward", "vjp", "jvp", "hvp"):
        counted.results = counted.workspace = 0
        if face == "forward":
            out, saved = operator.forward(*inputs, return_saved=True, **static)
        elif not hasattr(operator, face):
            continue
        elif face == "vjp":
            operator.vjp(out, inputs, saved=saved, **static)
        elif face == "jvp":
            operator.jvp(inputs, inputs, **static)
        else:
            operator.hvp(out, inputs, inputs, **static)
        found[face] = given + counted.results, counted.workspace
    return found


@pytest.fixture
def benchmarks(monkeypatch):
    """The cases of the benchmarks."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import cases

    return cases.CASES


@on_host
@pytest.mark.parametrize("name", [
    "agg_sum_32", "agg_max_128", "relational", "edge_updates", "moments", "gat", "gat_v2",
    "mha_simple", "edge_softmax", "gno_64", "gno_diagonal", "gno_kernel", "laplacian", "edge_mlp",
    "radial", "nsa", "nsa_mha", "window", "compress",
])  # fmt: skip
def test_workspaces_are_linear(name, benchmarks, counted):
    """Four times the size takes four times the workspace at most, a few times the arrays."""
    case = benchmarks[name]
    small, large = (memory_of(case, size, counted) for size in (case.small // 4, case.small))
    for face, (arrays, workspace) in large.items():
        assert workspace <= 4.4 * small[face][1] + (1 << 20), face
        assert workspace <= 8 * arrays + (16 << 20), face  # panels have a size of their own


# ---- calls like an earlier one ----


def results_of(case, edges, rng, dtype="float32"):
    """All faces on the device, and again with other arrays of the same kind."""
    inputs, tangents, (cotangent,) = draw(case, edges, rng, numbers(dtype))
    static = static_on_device(case.arguments(edges))
    for _ in range(2):  # addresses differ
        given = map(to_device, (inputs, tangents, cotangent))
        yield faces_of(case.operator, *given, static)


@pytest.mark.parametrize("case", FEW + table.of("offset_moments")[1:2], ids=str)
def test_later_calls_give_the_same_bits(case, rng, monkeypatch):
    first, second = results_of(case, GRAPHS["power law"], rng)
    for face, arrays in first.items():
        for a, b in zip(arrays, second[face], strict=True):
            assert (a is None) == (b is None), face
            if a is not None:
                assert a.get().tobytes() == b.get().tobytes(), face


def test_later_calls_are_not_checked_again(weighted, monkeypatch):
    """One look at the arrays, one workspace, one launch."""
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    gg.agg_weighted(x, w, graph=weighted.graph)
    monkeypatch.setattr(cuda, "run", None)
    out = gg.agg_weighted(cuda.to_device(weighted.x), w, graph=weighted.graph)
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


def test_later_calls_on_another_graph_of_the_same_size(rng):
    n, degree = 12, 3
    x, w = rng.normal(size=(n, 4)), rng.normal(size=degree * n)
    there = to_device((x, w))
    for seed in range(3):
        src = np.random.default_rng(seed).integers(0, n, degree * n)
        graph = gg.Graph(degree * np.arange(n + 1), src, n_src=n)
        out = gg.agg_weighted(*there, graph=graph).get()
        assert_allclose(out, gg.agg_weighted(x, w, graph=graph), rtol=1e-12)


def test_later_calls_of_another_kind(weighted):
    """Arrays that kernels cannot take as they are, of other types and shapes, or absent."""
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    graph = weighted.graph
    for _ in range(2):
        assert_allclose(gg.agg_weighted(x, w, graph=graph).get(), weighted.out, rtol=1e-12)
    narrow = gg.agg_weighted(columns(x, 2), w, graph=graph).get()
    assert_allclose(narrow, weighted.out[:, 2:], rtol=1e-12)
    single = to_device((weighted.x.astype("f4"), weighted.w.astype("f4")))
    assert gg.agg_weighted(*single, graph=graph).dtype == np.float32
    expected = gg.agg_simple(weighted.x, graph=graph)
    for _ in range(2):
        assert_allclose(gg.agg_simple(x, graph=graph).get(), expected, rtol=1e-12)
    for _ in range(2):
        with pytest.raises(TypeError, match="agg_weighted: x is float64 but w is float32"):
            gg.agg_weighted(x, single[1], graph=graph)
        with pytest.raises(ValueError, match="agg_weighted: w has shape"):
            gg.agg_weighted(x, cuda.to_device(weighted.w[1:]), graph=graph)
        with pytest.raises(TypeError, match="x is on the GPU but w is on the CPU"):
            gg.agg_weighted(x, weighted.w, graph=graph)


class Pooled:
    """An array like CuPy's: its type has the interface, and it names its stream."""

    def __init__(self, array, stream=1):
        self.array, self.stream = array, stream
        self.shape, self.dtype = array.shape, array.dtype

    @property
    def __cuda_array_interface__(self):
        return dict(self.array.__cuda_array_interface__, stream=self.stream)


@on_host
def test_streams_of_later_calls(weighted, calls):
    """Kernels wait for what arrays name, and results name the stream, in every call."""
    for stream, other in ((40, 50), (60, 70), (60, 60)):
        calls.clear()
        x = Pooled(cuda.to_device(weighted.x), stream)
        w = Pooled(cuda.to_device(weighted.w), other)
        out = gg.agg_weighted(x, w, graph=weighted.graph)
        assert calls["launch"][-1][-1] == stream
        assert calls.get("wait", []) == ([] if stream == other else [(stream, other, 0)])
        assert out.__cuda_array_interface__["stream"] == stream
        assert_allclose(out.get(), weighted.out, rtol=1e-12)


def test_errors_of_later_calls(weighted, monkeypatch):
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    gg.agg_weighted(x, w, graph=weighted.graph)
    name, library = "agg_weighted_forward_f64", cuda_library.library()
    face = library.faces[name]._replace(launch=lambda *_: 2)
    monkeypatch.setitem(library.faces, name, face)
    with pytest.raises(MemoryError, match="agg_weighted"):
        gg.agg_weighted(x, w, graph=weighted.graph)


# ---- PyTorch, past its dispatcher ----


@pytest.fixture
def tensors():
    """PyTorch, whose tensors say that they are on a GPU; the number of its stream can be set."""
    torch = pytest.importorskip("torch")
    import gnograd.torch  # before its tensors change
    from host_tensors import tensors_on_gpu

    with tensors_on_gpu(stream=75) as current:
        yield SimpleNamespace(torch=torch, current=current, gt=gnograd.torch)


@pytest.fixture
def eager_only(monkeypatch):
    """Custom operators must not be called."""
    from gnograd.torch import adapter

    def refuse(*_, **__):
        raise AssertionError("through the dispatcher")

    monkeypatch.setattr(adapter, "check_tensors", refuse)


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("of_tensors", [True, False])
def test_eager_tensors(dtype, of_tensors, weighted, tensors, eager_only, calls):
    """Values and gradients, twice, also of views that begin anywhere."""
    torch, kind = tensors.torch, getattr(tensors.torch, dtype)
    graph = tensors.gt.Graph.of(weighted.graph) if of_tensors else weighted.graph
    rows = torch.tensor(weighted.x).to(kind)
    for x in (rows, torch.cat([rows[:1], rows])[1:], rows.t().contiguous().t()):
        leaves = x.clone().detach().requires_grad_(), torch.tensor(weighted.w).to(kind)
        leaves[1].requires_grad_()
        exact = [leaf.detach().double().numpy() for leaf in leaves]
        c = torch.ones(weighted.out.shape, dtype=kind)
        calls.clear()
        out = tensors.gt.agg_weighted(*leaves, graph=graph)
        gradients = torch.autograd.grad(out, leaves, c)
        assert {call[-1] for call in calls["launch"]} == {75}
        expected = gg.agg_weighted(*exact, graph=weighted.graph)
        found = gg.agg_weighted.vjp(c.double().numpy(), exact, graph=weighted.graph)
        for a, b in zip((out, *gradients), (expected, *found), strict=True):
            assert a.dtype is kind
            assert_close(a.detach().double().numpy(), b, dtype, 4)
    sums = tensors.gt.agg_weighted(
        *leaves, graph=graph
    ).sum()  # a cotangent without memory of its own
    assert torch.equal(torch.autograd.grad(sums, leaves)[0], gradients[0])


@on_host
@pytest.mark.parametrize("custom", [False, True])
def test_tensors_that_the_vjp_does_not_read_are_not_kept(custom, weighted, tensors):
    torch = tensors.torch
    x, w = (torch.tensor(a, requires_grad=True) for a in (weighted.x, weighted.w))
    with torch.autocast("cpu", enabled=custom):
        out = tensors.gt.agg_weighted(x, w, graph=weighted.graph, aggregation="mean")
    assert sum(x is not None for x in out.grad_fn.saved_tensors) == 2


@on_host
def test_eager_tensors_use_the_current_stream(weighted, tensors, eager_only, calls):
    x, w = (tensors.torch.tensor(a) for a in (weighted.x, weighted.w))
    for stream in (75, 0, 90):
        tensors.current.cuda_stream = stream
        tensors.gt.agg_weighted(x, w, graph=weighted.graph)
        assert calls["launch"][-1][-1] == stream
    assert "wait" not in calls


@on_host
def test_eager_tensors_on_another_graph(rng, tensors, eager_only):
    """A backward pass has the graph of its forward pass, though sizes are those of others."""
    torch, n, degree = tensors.torch, 12, 3
    x = torch.tensor(rng.normal(size=(n, 4)), requires_grad=True)
    w = torch.tensor(rng.normal(size=degree * n))
    graphs = [
        gg.Graph(degree * np.arange(n + 1), rng.integers(0, n, degree * n), n_src=n)
        for _ in range(2)
    ]
    outs = [tensors.gt.agg_weighted(x, w, graph=tensors.gt.Graph.of(g)) for g in graphs]
    for graph, out in zip(graphs, outs, strict=True):
        (found,) = torch.autograd.grad(out, x, torch.ones_like(out))
        host = x.detach().numpy(), w.numpy()
        assert_allclose(out.detach().numpy(), gg.agg_weighted(*host, graph=graph), rtol=1e-12)
        expected = gg.agg_weighted.vjp(np.ones((n, 4)), host, graph=graph)[0]
        assert_allclose(found.numpy(), expected, rtol=1e-12)


@on_host
@pytest.mark.parametrize("of_tensors", [True, False])
def test_second_derivatives_of_tensors(of_tensors, rng, tensors):
    torch, graph = tensors.torch, GRAPHS["power law"].graph
    given = tensors.gt.Graph.of(graph) if of_tensors else graph
    s = torch.tensor(rng.normal(size=(graph.n_edges, 2)), requires_grad=True)
    t = torch.tensor(rng.normal(size=s.shape))
    c = torch.tensor(rng.normal(size=s.shape))
    alpha = tensors.gt.edge_softmax(s, graph=given)
    (first,) = torch.autograd.grad(alpha, s, c, create_graph=True)
    (second,) = torch.autograd.grad(first, s, t)
    host = c.numpy(), (s.detach().numpy(),)
    (expected,) = gg.edge_softmax.hvp(*host, (t.numpy(),), graph=graph)
    assert_allclose(second.numpy(), expected, rtol=1e-10, atol=1e-12)


@on_host
def test_tensors_without_a_kernel_of_their_type(rng, tensors):
    """float16 positions have no kernel: copies in float32, as through the dispatcher."""
    torch = tensors.torch
    x = torch.tensor(rng.normal(size=(5, 3))).half()
    graph = gg.Graph(np.arange(6), np.arange(5))
    assert tensors.gt.offset_moments(x, x, graph=graph)[0].dtype is torch.float16


@on_host
def test_graph_of_tensors_in_other_memory(weighted, tensors, monkeypatch):
    """Tensors on a GPU, and a graph whose tensors are not, though a lent one looks alike."""
    torch, gt = tensors.torch, tensors.gt
    x, w = torch.tensor(weighted.x), torch.tensor(weighted.w)
    gt.agg_weighted(x, w, graph=gt.Graph.of(weighted.graph))
    on_cpu = property(lambda self: torch.device("cpu"))
    graph = gt.Graph.of(weighted.graph)
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "is_cuda", False)
        patch.setattr(torch.Tensor, "device", on_cpu)
        assert not graph.lent.is_remote
    with monkeypatch.context() as patch:
        patch.setattr(gt.Graph, "device", property(lambda self: torch.device("cpu")))
        with pytest.raises(TypeError, match="graph is on cpu, but the arrays are on cuda:0"):
            gt.agg_weighted(x, w, graph=graph)


# ---- streams and devices ----


@on_host
def test_current_stream(weighted, calls):
    """Kernels run on the first array's stream by default, and wait for the others."""
    x = Lender(cuda.to_device(weighted.x), stream=40)
    w = Lender(cuda.to_device(weighted.w), stream=50)
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert calls["launch"][-1][-1] == 40
    assert calls["wait"] == [(40, 50, 0)]
    assert out.__cuda_array_interface__["stream"] == 40
    del out
    assert calls["free"][-1][1] == 40


@on_host
def test_default_stream(weighted, calls):
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    assert x.__cuda_array_interface__["stream"] == 1
    gg.agg_weighted(x, w, graph=weighted.graph)
    assert calls["launch"][-1][-1] == 0
    assert "wait" not in calls


@on_host
def test_chosen_stream(weighted, calls):
    """Kernels take a chosen stream and memory, as the adapter for PyTorch gives them."""
    given = []

    def empty(shape, dtype):
        given.append(cuda.to_device(np.empty(shape, dtype)))
        return given[-1]

    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    with cuda.using(60, empty):
        out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert out is given[0]
    assert calls["launch"][-1][-1] == 60
    del x
    assert calls["free"][-1][1] == 60  # behind the kernel that read it
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


class Xla:
    """Stand-in for XLA, which hands buffers, a stream, memory and an error's place to a target."""

    CODES = {"int32": 4, "int64": 5, "float16": 10, "float32": 11, "float64": 12, "bfloat16": 16}  # noqa: RUF012

    def __init__(self, stream):
        self.stream, self.blocks, self.taken, self.errors = stream, {}, [], []

    def call(self, task, operands, results):
        xla = pytest.importorskip("gnograd.jax.xla")
        from gnograd.jax.task import TARGET

        text = ctypes.create_string_buffer(task.text.encode())
        string = xla._Bytes(ctypes.addressof(text), len(text) - 1)
        attributes = xla._Attributes(
            n=1, types=(ctypes.c_int * 1)(xla._STRING),
            strings=ctypes.pointer(ctypes.pointer(string)),
        )  # fmt: skip
        api = xla._Api(
            error_create=self.function(xla._ErrorCreate, self.create_error),
            stream_get=self.function(xla._StreamGet, self.give_stream),
            allocate=self.function(xla._Allocate, self.allocate),
            free=self.function(xla._Free, self.free),
        )
        frame = xla._CallFrame(
            api=ctypes.pointer(api), stage=xla._EXECUTE, attributes=attributes,
            operands=self.buffers(xla, operands), results=self.buffers(xla, results),
        )  # fmt: skip
        return xla._targets[TARGET, "CUDA"](ctypes.addressof(frame))

    def buffers(self, xla, arrays):
        found = []
        for array in arrays:
            shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
            buffer = xla._Buffer(
                dtype=self.CODES[str(array.dtype)],
                data=array.ctypes.data,
                rank=array.ndim,
                dims=shape,
            )
            found.append(ctypes.pointer(buffer))
        pointers = (ctypes.POINTER(xla._Buffer) * len(found))(*found)
        return xla._Buffers(n=len(found), buffers=pointers)

    def function(self, arguments, do):
        xla = pytest.importorskip("gnograd.jax.xla")
        return xla._Function(
            lambda address: do(ctypes.cast(address, ctypes.POINTER(arguments)).contents)
        )

    def create_error(self, arguments):
        self.errors.append(arguments.message.decode())
        return len(self.errors)

    def give_stream(self, arguments):
        arguments.stream = self.stream

    def allocate(self, arguments):
        block = np.full(arguments.bytes + 256, 0xFF, np.uint8)
        arguments.data = -(-block.ctypes.data // 256) * 256
        self.blocks[arguments.data] = arguments.bytes, block
        self.taken.append(arguments.bytes)

    def free(self, arguments):
        assert self.blocks.pop(arguments.data)[0] == arguments.bytes


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_jax_buffers(dtype, weighted, monkeypatch):
    """XLA's buffers are read and written where they are, on its stream, in its memory."""
    pytest.importorskip("jax")
    jax_task = pytest.importorskip("gnograd.jax.task")
    x, w = weighted.x.astype(numbers(dtype)), weighted.w.astype(numbers(dtype))
    launched = []
    run = cuda.run
    monkeypatch.setattr(cuda, "run", lambda *a: (launched.append(cuda._current([], None)), run(*a)))
    xla = Xla(stream=75)
    static = (("aggregation", "sum"),)
    found = pytest.importorskip("gnograd.jax").Graph.of(weighted.graph).arrays
    csc = [np.asarray(array) for array in found if array is not None]
    yes = True, True, *(array is not None for array in found)
    forward = jax_task.Task(gg.agg_weighted, static, "forward", jax_task.Parts(yes))
    out = np.zeros(weighted.out.shape, x.dtype)
    assert xla.call(forward, [x, w, *csc], [out]) is None
    tolerance = 8 * max(EPS[dtype], 1e-13)
    assert_allclose(out.astype(float), weighted.out, rtol=tolerance, atol=tolerance)
    there = jax_task.Parts(yes, cotangents=(True,))
    vjp = jax_task.Task(gg.agg_weighted, static, "vjp", there, wrt=(False, True))
    d_w = np.zeros_like(w)
    assert xla.call(vjp, [x, w, *csc, out], [d_w]) is None
    expected = gg.agg_weighted.vjp(
        out.astype(float), (x.astype(float), w.astype(float)), graph=weighted.graph
    )[1]
    scale = np.abs(expected).max()
    assert_allclose(d_w.astype(float), expected, rtol=tolerance, atol=tolerance * scale)
    assert launched == [75, 75]
    assert not xla.blocks  # all that was taken has been given back
    with monkeypatch.context() as patch:
        patch.setattr(cuda, "run", None)  # a later call of the kind is only launched
        again = np.zeros_like(out)
        assert xla.call(forward, [x.copy(), w, *csc], [again]) is None
    assert again.tobytes() == out.tobytes()
    assert not xla.blocks
    wrong = np.zeros((1, 1, 1), x.dtype)
    assert xla.call(forward, [wrong, w, *csc], [out]) == 1
    assert xla.errors[0].startswith("agg_weighted: x has shape (1, 1, 1), needs")


@on_host
def test_jax_integers_on_device():
    """Integers of 32 bits become those that the kernel needs, in XLA's memory."""
    pytest.importorskip("jax")
    jax_task = pytest.importorskip("gnograd.jax.task")
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(6, 2, 16)).astype(np.float32) for _ in range(3))
    ends = np.array([0, 2, 6])
    out = np.zeros_like(v)
    declared = gg.window_attention.static.items()
    static = tuple((k, v) for k, v in declared if k not in ("cu_q", "cu_k"))
    there = *(True,) * 3, *(False,) * 3, *(True,) * 2  # q, k, v; no bias; cu_q, cu_k
    task = jax_task.Task(gg.window_attention, static, "forward", jax_task.Parts(there))
    xla = Xla(stream=0)
    assert xla.call(task, [q, k, v, ends.astype(np.int32), ends.astype(np.int32)], [out]) is None
    assert xla.taken[:2] == [24, 24]
    assert not xla.blocks
    expected = gg.window_attention(*(x.astype(float) for x in (q, k, v)), cu_q=ends, cu_k=ends)
    assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@pytest.fixture
def on_gpu(monkeypatch):
    """Makes tensors say that they are on a GPU; PyTorch's stream is number 75."""
    torch = pytest.importorskip("torch")

    class OnGpu(torch.Tensor):
        device = torch.device("cuda", 0)
        is_cuda = True

        @property
        def __cuda_array_interface__(self):
            contiguous = self.is_contiguous()
            steps = None if contiguous else tuple(s * self.element_size() for s in self.stride())
            return {
                "shape": tuple(self.shape), "strides": steps, "data": (self.data_ptr(), False),
                "typestr": torch._tensor._dtype_to_typestr(self.dtype), "version": 2,
            }  # fmt: skip

        def to(self, device, dtype):
            return self.as_subclass(torch.Tensor).to(dtype).as_subclass(OnGpu)

    streams = SimpleNamespace(cuda_stream=75)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: streams)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    empty = torch.empty
    monkeypatch.setattr(
        torch, "empty", lambda shape, dtype, device: empty(shape, dtype=dtype).as_subclass(OnGpu)
    )
    return OnGpu


@pytest.fixture
def launched(monkeypatch):
    """Streams that kernels were put on."""
    streams, run = [], cuda.run
    monkeypatch.setattr(cuda, "run", lambda *a: (streams.append(cuda._current([], None)), run(*a)))
    return streams


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_torch_tensors(dtype, weighted, on_gpu, launched):
    """Tensors go in and come out, on PyTorch's stream."""
    import torch

    from gnograd.torch import adapter

    host = torch.tensor(weighted.x).to(getattr(torch, dtype))
    x = host.t().contiguous().t().as_subclass(on_gpu).requires_grad_()
    w = torch.tensor(weighted.w).to(host.dtype).as_subclass(on_gpu)
    with adapter.as_arrays([x, w]) as (array, tensor):
        out = tensor(gg.agg_weighted(array(x), array(w), graph=weighted.graph))
    assert type(out) is on_gpu
    assert out.dtype == host.dtype
    assert launched == [75]
    tolerance = 8 * max(EPS[dtype], 1e-13)
    assert_allclose(out.as_subclass(torch.Tensor).double(), weighted.out, tolerance, tolerance)


@on_host
def test_tensors_of_plain_functions(weighted, on_gpu, calls):
    """Kernels on tensors, which name no stream, run on PyTorch's current one."""
    import torch

    x, w = (torch.tensor(a).as_subclass(on_gpu) for a in (weighted.x, weighted.w))
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert_allclose(out.get(), weighted.out, rtol=1e-12)
    assert calls["launch"][-1][-1] == 75
    assert out.__cuda_array_interface__["stream"] == 75
    # one tensor suffices; what others name is waited for
    given = Lender(cuda.to_device(weighted.x), stream=40)
    gg.agg_weighted(given, w, graph=weighted.graph)
    assert calls["launch"][-1][-1] == 75
    assert set(calls["wait"]) == {(75, 40, 0)}


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_torch_neighbor_search(dtype, rng, on_gpu, launched, monkeypatch):
    import torch

    import gnograd.torch as gt

    # these tensors are no CUDA tensors to PyTorch's dispatcher
    monkeypatch.setattr(gt.searches, "is_eager", lambda *_: True)

    data, queries = (torch.tensor(rng.random((n, 2))).to(getattr(torch, dtype)) for n in (50, 30))
    options = {"data_ptr": [0, 20, 50], "queries_ptr": [0, 30, 30]}
    expected = gt.neighbor_search(data, queries, 0.2, True, **options)
    data, queries = (x.as_subclass(on_gpu) for x in (data, queries))
    found = gt.neighbor_search(data, queries, 0.2, True, **options)
    for name in expected:
        assert type(found[name]) is on_gpu
        assert torch.equal(found[name].as_subclass(torch.Tensor), expected[name])
    assert launched == [75, 75]


@on_host
def test_cupy_stream(weighted, calls, monkeypatch):
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: True, get_current_stream=lambda: SimpleNamespace(ptr=70)
        )
    )
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    monkeypatch.setattr(cuda, "_cupy", lambda: cupy)
    assert cuda._current([cuda.to_device(weighted.x)], None) == 70
    assert cuda._current([], 80) == 80


@on_host
def test_stream_of_cupy_lives_as_long_as_results(weighted, monkeypatch):
    """CuPy destroys a stream with its object; bfloat16 results are given back on it later."""

    class Stream:
        ptr = 70

    stream = Stream()
    cupy = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda, "_cupy", lambda: cupy)
    new = cuda_arrays.empty

    def empty(shape, dtype, like, stream=None):
        return new(shape, dtype, 0, cuda._current([], stream))

    monkeypatch.setattr(cuda, "empty", empty)
    x, w = to_device((weighted.x, weighted.w))
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    alive = weakref.ref(stream)
    cupy.cuda.get_current_stream = stream = None
    del x, w
    gc.collect()
    assert alive() is not None
    assert_allclose(out.get(), weighted.out, rtol=1e-12)
    del out
    gc.collect()
    assert alive() is None


@on_host
def test_stream_of_an_array_lives_as_long_as_results(weighted):
    """An array is kept as long as results on its stream, which may end with the array."""
    lender = Lender(cuda.to_device(weighted.x), stream=70)
    alive, w = weakref.ref(lender), cuda.to_device(weighted.w)
    out = gg.agg_weighted(lender, w, graph=weighted.graph)
    del lender, w
    more = gg.agg_simple(out, graph=gg.Graph([0, 1], [0], len(weighted.out)))
    assert_allclose(out.get(), weighted.out, rtol=1e-12)
    del out
    assert alive() is not None
    del more
    assert alive() is None


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("operator", ["selected", "window", "compressed"])
def test_copies_arrive_before_a_block_ends(operator, dtype, rng):
    """Copies arrive also for queries that see no key: otherwise the stand-in ends the process."""
    sizes = (40, 16, 128), (64, 1, 128), (64, 1, 128)
    q, k, v = to_device(tuple(rng.normal(size=size).astype(dtype) for size in sizes))
    slots = np.full((40, 1, 2), -1, np.int32)
    slots[20:, 0, 0] = 1
    attention, static = {
        "selected": (gg.selected_attention, dict(block_index=to_device(slots), block_size=32)),
        "window": (gg.window_attention, dict(window=8, causal=True, q_offset=-30)),
        "compressed": (
            gg.compressed_attention, dict(block=4, stride=2, causal=True, q_offset=-30),
        ),
    }[operator]  # fmt: skip
    out = attention(q, k, v, **static)
    out = out[0] if isinstance(out, tuple) else out
    assert not out.get()[:20].any()
    cotangent = (out, None) if operator == "compressed" else out
    grad_q = attention.vjp(cotangent, (q, k, v), **static)[0]
    assert not grad_q.get()[:20].any()


@on_host
def test_two_devices(weighted, calls):
    x, w = (cuda.to_device(a, device=1) for a in (weighted.x, weighted.w))
    assert cuda.device_of(x) == 1
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert cuda.device_of(out) == 1
    assert 1 in weighted.graph.mirrors
    assert_allclose(out.get(), weighted.out, rtol=1e-12)
    assert cuda_library.library().integer("current_device") == 0
    with pytest.raises(TypeError, match="agg_weighted: arrays are on GPU 0 and GPU 1"):
        gg.agg_weighted(cuda.to_device(weighted.x), w, graph=weighted.graph)


@on_host
def test_first_use_of_a_graph_while_a_stream_is_captured(weighted):
    """A capture that a new graph, or the end of one, would break could not be replayed."""
    runtime = ctypes.CDLL(str(cuda_library.find()))
    stream, graph = ctypes.c_void_p(), pickle.loads(pickle.dumps(weighted.graph))
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
    x, w = (Lender(a, stream=stream.value) for a in (x, w))
    gc.collect()  # arrays that other tests have left
    assert runtime.cudaStreamBeginCapture(stream, 0) == 0
    try:
        out = gg.agg_weighted(x, w, graph=graph)
        del graph
    finally:
        status = runtime.cudaStreamEndCapture(stream, None)
        runtime.cudaGetLastError()
    assert status == 0
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


# ---- errors ----


@on_host
def test_what_fails_fails_once(weighted):
    """A call after one that had no memory works."""
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    for _ in range(2):
        with pytest.raises(MemoryError, match="out of memory"):
            cuda.empty((2**50,), "uint8", like=x)
        out = gg.agg_weighted(x, w, graph=weighted.graph)
        assert_allclose(out.get(), weighted.out, rtol=1e-12)
    with pytest.raises(RuntimeError, match="CUDA"):
        cuda_library.library().use_device(9)
    gg.agg_weighted(x, w, graph=weighted.graph)


@on_host
@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("SIMT_DRIVER", "12020", r"driver is too old: it is for CUDA 12\.2, the kernels need CUDA"),
        ("SIMT_DRIVER", "0", "there is no NVIDIA driver"),
        ("SIMT_CAPABILITY", "75", r"GPU is too old: .* for compute capability 8\.0 and later"),
    ],
)
def test_why_there_is_no_gpu(variable, value, reason):
    """The reason is shown with the configuration, and by the first call."""
    program = """
import numpy as np, gnograd as gg
from gnograd.backends import cuda
gg.show_config()
try:
    x, w = (cuda.to_device(np.ones(shape)) for shape in ((1, 1), 1))
    gg.agg_weighted(x, w, graph=gg.Graph([0, 1], [0], n_src=1))
except RuntimeError as error:
    print(error)
"""
    environment = {**os.environ, variable: value}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    shown, said = (line for line in run.stdout.splitlines() if re.search(reason, line))
    assert shown.startswith("gpus      none (")
    assert re.match("CUDA: |agg_weighted: ", said)


def test_no_gpu_without_kernels(monkeypatch):
    monkeypatch.setenv("GNOGRAD_CUDA_LIBRARY", "")
    assert gg.get_config()["gpus"] == "none (built without CUDA kernels)"


def test_host_and_device_do_not_mix(weighted):
    with pytest.raises(TypeError, match="agg_weighted: x is on the GPU but w is on the CPU"):
        gg.agg_weighted(cuda.to_device(weighted.x), weighted.w, graph=weighted.graph)


def test_checks_are_those_of_the_cpu(weighted):
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    with pytest.raises(ValueError, match=r"agg_weighted: w has shape \(10, 4\), needs \(n_edges"):
        gg.agg_weighted(x, x, graph=weighted.graph)
    with pytest.raises(TypeError, match="x is float64 but w is float32"):
        gg.agg_weighted(x, cuda.to_device(weighted.w.astype("f4")), graph=weighted.graph)
    with pytest.raises(TypeError, match="x is int64, needs float32 or float64 or float16 or bfl"):
        gg.agg_weighted(cuda.to_device(weighted.x.astype(int)), w, graph=weighted.graph)
    with pytest.raises(TypeError, match="x is >f8, needs"):
        gg.agg_weighted(Lender(x, typestr=">f8"), w, graph=weighted.graph)


def test_no_kernel():
    arrays = [np.ones(shape, np.float16) for shape in [(2, 1), (1, 1), (2,), (1, 1), (1,)]]
    static = {"graph": gg.Graph([0, 1, 1], [0], n_src=1), "widths": [1], "kernel": "diagonal"}
    message = "gno_with_gradient: there is no CUDA kernel for float16"
    with pytest.raises(NotImplementedError, match=message):
        gg.gno_with_gradient(None, *map(cuda.to_device, arrays), **static)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (-2, ValueError, "a size or code that means nothing"),
        (-1, RuntimeError, "workspace"),
        (2, MemoryError, "."),
        (700, RuntimeError, "."),
    ],
)
def test_status(status, error, message, weighted, monkeypatch):
    library = cuda_library.library()
    name = "agg_weighted_forward_f64"
    face = library.faces[name]._replace(launch=lambda *_: status)
    monkeypatch.setitem(library.faces, name, face)
    with pytest.raises(error, match=f"^agg_weighted: .*{message}"):
        gg.agg_weighted(*to_device((weighted.x, weighted.w)), graph=weighted.graph)


def test_library_that_does_not_load(tmp_path, monkeypatch):
    (tmp_path / "broken.so").write_text("no library")
    with pytest.raises(RuntimeError, match="cannot be loaded"):
        cuda_library.Library(tmp_path / "broken.so")
    monkeypatch.setenv("GNOGRAD_CUDA_LIBRARY", "")
    assert not has_cuda()


@on_host
def test_another_runtime_in_the_process(tmp_path):
    """PyTorch's build for GPUs loads a CUDA runtime; its names are not taken for the stand-in's."""
    source = tmp_path / "runtime.c"
    source.write_text("int cudaGetDeviceCount(int *n) { *n = 0; return 35; }")
    other = tmp_path / "libcudart.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", other, source], check=True)
    call = "from gnograd.backends import cuda_library; print(cuda_library.devices())"
    found = subprocess.run(
        [sys.executable, "-c", call], env=os.environ | {"LD_PRELOAD": str(other)},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "host (SIMT)" in found.stdout


def test_a_named_library_without_a_device_is_no_reason_to_skip(tmp_path):
    environment = os.environ | {"GNOGRAD_CUDA_LIBRARY": str(tmp_path / "none.so")}
    ran = subprocess.run(
        [sys.executable, "-c", "import gpus"], cwd=Path(__file__).parent, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode
    assert "none.so, which has no device" in ran.stderr


def test_header(tmp_path):
    """Functions that are bound by hand, and faces of the library, are those of the header."""
    file = tmp_path / "gnograd_cuda.h"
    writer = Path(__file__).parents[1] / "tools" / "interface" / "cuda.py"
    subprocess.run([sys.executable, writer, "header", file], check=True)
    header = file.read_text()
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    declared = re.findall(r"^GNOGRAD_CUDA_API (.*?gnograd_cuda_\w+\(.*?\));", header, re.M | re.S)
    declared = {re.sub(r"\s+", " ", d).replace(" )", ")") for d in declared}
    faces = {f"gnograd_cuda_{name}" for name in cuda_library.library().faces}
    pairs = faces | {re.sub(r"_(\w?f\d+|i32|i64)$", r"_workspace_bytes_\1", face) for face in faces}
    names = {re.search(r"gnograd_cuda_\w+(?=\()", d)[0]: d for d in declared}
    assert pairs <= set(names)
    bound = {
        re.sub(r"(\w+\()", r"gnograd_cuda_\1", line, count=1)
        for line in cuda_library.RUNTIME.strip().splitlines()
    }
    # functions of the tape are bound by Fortran
    names = {n: d for n, d in names.items() if not n.startswith("gnograd_cuda_tape_")}
    assert bound == {d for name, d in names.items() if name not in pairs}


def test_config(capsys):
    assert gg.get_config()["cuda"] is True
    assert gg.get_config()["gpus"] == ", ".join(GPUS)
    gg.show_config()
    assert f"gpus      {GPUS[0]}" in capsys.readouterr().out


# ---- over several processes ----


@on_host
def test_operators_over_processes():
    assert "on 2 processes" in mpiexec(2, "check_gpu.py")


def test_arrays_of_which_rows_cannot_be_had():
    dg = gg.DistributedGraph.from_local([0, 1, 2], [1, 0], owned=[0, 1])
    message = "arrays on a GPU are those of CuPy or tensors, not DeviceArray"
    for call in (gg.agg_simple, gg.halo):
        with pytest.raises(TypeError, match=message):
            call(to_device(np.ones((2, 3))), graph=dg)
