# SPDX-License-Identifier: MIT
"""The CUDA library under the package: on a GPU, or on the host's SIMT build of the same kernels.

What the kernels compute is compared with the CPU in float64, whose own tests hold it to the
formulas. ``make test-all`` names the SIMT build in GNOGRAD_CUDA_LIBRARY.
"""

import itertools
import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
import table
import table_case
import test_neighbors
from conftest import GRAPHS, Edges, pairs, power_law
from faces import Call, like
from gnograd.backends import cuda_library
from gpus import GPUS, needs_gpu
from on_device import (
    CASES,
    EPS,
    FEW,
    SPARSE,
    TRIPLETS,
    as_taken,
    as_tuple,
    check_faces,
    draw,
    numbers,
    static_on_device,
    to_device,
    to_host,
    wide,
)
from reference import gno

pytestmark = needs_gpu
if GPUS:
    from gnograd.backends import cuda

NETWORKS = table.of("gno", "gno_deep", "gno_jets", "edge_mlp", large=False)
FEW_GAT = table.the("mha_gat", num_heads=2)
few_cases = pytest.mark.parametrize("case", FEW, ids=str)


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
        if len(x) == table_case.SIZES["Tk"]:
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

    for face, n_arrays in {"forward": 0, "vjp": 1, "jvp": 0, "hvp": 2}.items():
        assert grows(f"gno_deep_{face}_f64", 3, 2, 2, 1, 5, *common, 1, 0) == 0
        for results, reduction in ((0, 0), (0, 1), (1, 1), (2, 1)):
            expected = 8 * n_arrays * (reduction == 1 and results != 1)
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


def test_every_kernel_is_tested():
    kernels = {name.rsplit("_", 2)[0] for name in cuda_library.library().faces}
    assert kernels == table.FRONT.keys() | {
        "graph_from_csc", "graph_from_edges", "graph_rows", "graph_union", "nearer_neighbors",
        "nearest_neighbors", "neighbor_list", "neighbors", "nsa_selected_attention",
        "select_blocks",
    }  # fmt: skip
