# SPDX-License-Identifier: MIT
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import calls
import faces
import gnograd as gg
import gnograd.autodiff as ad
import table
from conftest import power_law
from gnograd import _core
from gnograd.backends.cpu import address
from memory import needs_linux, temporary_bytes

KERNEL, AGGREGATE, WEIGHTED = (table.FRONT[n] for n in ("gno_kernel", "gno_aggregate", "gno"))


# ---- forward ----


def test_order_of_the_edge_arrays_is_the_callers(rng):
    edges = power_law(10, 50)
    inputs = WEIGHTED.inputs(edges, rng)
    order = np.argsort(edges.dst, kind="stable")
    by_dst = gg.Graph.from_edges(edges.src[order], edges.dst[order], edges.n_src, edges.n_dst)
    assert by_dst.edge_ids is None
    h, coords, U, b_u, V, b_v, weight = inputs
    expected = gg.gno(h, coords[order], U, b_u, V, b_v, weight[order], graph=by_dst)
    assert_array_equal(gg.gno(*inputs, graph=edges.graph), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("widths", [(3, 31), (1, 1), (5, 40)])
def test_any_number_of_features(rng, widths, dtype):
    edges = power_law(10, 200)
    h = rng.normal(size=(10, widths[0])).astype(dtype)
    kappa = rng.normal(size=(200, *widths)).astype(dtype)
    expected = np.zeros((10, widths[1]))
    np.add.at(expected, edges.dst, np.einsum("ei,eio->eo", h[edges.src].astype(float), kappa))
    near = 1e-4 if dtype == np.float32 else 1e-11
    out = gg.gno_aggregate(h, kappa, graph=edges.graph)
    assert_allclose(out, expected, rtol=near, atol=near)


def test_two_steps_are_one(rng):
    edges = power_law(10, 50)
    h, *mlp = WEIGHTED.inputs(edges, rng)[:6]
    kappa = gg.gno_kernel(*mlp, activation="gelu")
    out = gg.gno_aggregate(h, kappa, graph=edges.graph, reduction="mean")
    one = gg.gno(h, *mlp, graph=edges.graph, activation="gelu", reduction="mean")
    assert_allclose(out, one, rtol=1e-12, atol=1e-12)


# ---- vjp ----


def test_coordinate_gradient_of_the_relu_kernel(rng):
    """U diag(U^T c + b_u > 0) (V . g) at every edge."""
    coords, U, b_u, V, b_v = inputs = KERNEL.inputs(power_law(10, 50), rng)
    g = rng.normal(size=(len(coords), *b_v.shape))
    actual = gg.gno_kernel.vjp(g, inputs, wrt=["coords"])[0]
    for e, c in enumerate(coords):
        expected = U @ np.diag(U.T @ c + b_u > 0) @ np.einsum("hio,io->h", V, g[e])
        assert_allclose(actual[e], expected, rtol=1e-12, atol=1e-12)


# ---- float32 ----


def test_float32_sums_over_many_edges(rng):
    """The error of gradients to the parameters does not grow with the number of edges."""
    for n_edges in (2000, 200_000):
        edges = power_law(100, n_edges)
        single = WEIGHTED.inputs(edges, rng, np.float32)
        cotangent = 1 + rng.normal(size=(100, 4)).astype(np.float32)
        static = {"graph": edges.graph, "activation": "gelu", "reduction": "sum"}
        exact = gg.gno.vjp(
            cotangent.astype(np.float64),
            faces.convert(single, np.float64),
            **static,
        )
        assert np.all(faces.error(gg.gno.vjp(cotangent, single, **static), exact) < 1e-6)


# ---- degenerate graphs (all faces run on every graph above) ----


def test_sizes_of_zero_are_refused(rng):
    edges = power_law(5, 9)
    inputs = WEIGHTED.change(H=0).inputs(edges, rng)
    with pytest.raises(ValueError, match="gno: sizes"):
        gg.gno(*inputs, graph=edges.graph)


# ---- errors ----


def test_error_of_the_library_leaves_the_output(rng):
    edges = power_law(5, 9)
    h, coords, U, b_u, V, b_v, _ = WEIGHTED.inputs(edges, rng)
    graph, out = edges.graph, np.full((5, 4), 7.0)
    arrays = [address(x) for x in (h, coords, U, b_u, V, b_v, None, out)]
    for codes in ((9, 0, 0), (-1, 0, 0), (0, 2, 0), (0, 0, 2)):
        assert _core.gnograd_gno_forward_r64(graph.handle, 1, 2, 5, 3, 4, *codes, *arrays) == 1
        assert np.all(out == 7)


# ---- packed parameters ----


@pytest.mark.parametrize("kernel", [(3, 4), (3,)])
def test_pack_and_unpack(kernel, rng):
    params = rng.normal(size=2 * 5 + 5 + 6 * int(np.prod(kernel)))
    parts = gg.gno_unpack(params, d=2, n_hidden=5, kernel_shape=kernel)
    assert [p.shape for p in parts] == [(2, 5), (5,), (5, *kernel), kernel]
    assert_array_equal(gg.gno_pack(*parts), params)
    parts[2][:] = 0  # views
    assert np.all(params[15 : -int(np.prod(kernel))] == 0)
    for wrong in (params[1:], np.repeat(params, 2)[::2]):
        with pytest.raises(ValueError, match="gno_unpack: params"):
            gg.gno_unpack(wrong, d=2, n_hidden=5, kernel_shape=kernel)
    with pytest.raises(TypeError, match="gno_unpack: params is of type NoneType, needs a NumPy"):
        gg.gno_unpack(None, d=2, n_hidden=5, kernel_shape=kernel)
    sizes = {"d": 2, "n_hidden": 5, "kernel_shape": kernel}
    for name, wrong in [("d", -1), ("n_hidden", 2**64), ("n_hidden", 2.5), ("kernel_shape", 4)]:
        with pytest.raises((TypeError, ValueError), match=f"^gno_unpack: {name} is"):
            gg.gno_unpack(params, **{**sizes, name: wrong})
    tape = ad.Tape("float64")
    with pytest.raises(
        TypeError, match="gno_pack: b_v is of type Array, needs a NumPy array; torch"
    ):
        gg.gno_pack(*parts[:3], tape.parameter(parts[3]))


# ---- memory ----

LARGE = dict(d=2, H=64, F_in=32, F_out=32)


def documented_bytes(operator: gg.Operator, threads: int) -> int:
    """Peak temporary memory by the docstrings, for the hungriest of the four faces."""
    if operator is gg.gno_aggregate:
        return 0
    H, F = LARGE["H"], LARGE["F_in"]
    W = 8 * F * F * (H + 1)
    sums = min(64 * W, max(2**26, 8 * W))
    blocks = 8 * threads * 480 * H
    if operator is gg.gno_kernel:
        return sums + blocks
    return sums + 4 * W + threads * (W + 8 * 4 * max(2**16, 8 * F * H)) + blocks


@needs_linux
@pytest.mark.parametrize(
    ("case", "face"),
    [
        (WEIGHTED, "hvp"),
        *(
            pytest.param(*rest, marks=pytest.mark.exhaustive)
            for rest in (
                (WEIGHTED, "forward"),
                (WEIGHTED, "vjp"),
                (WEIGHTED, "jvp"),
                (KERNEL, "hvp"),
                (AGGREGATE, "hvp"),
            )
        ),
    ],
    ids=str,
)
def test_peak_memory_is_as_documented(case, face):
    slack = 4 * 2**20  # stacks of threads, rounding to pages
    measured = temporary_bytes(faces.large_call, case.change(**LARGE), face, 2000, 20_000)
    assert measured <= documented_bytes(case.operator, 2) + slack


# ---- determinism ----


@pytest.mark.parametrize("label", ["U", "b_u", "V", "b_v"])
def test_weights_that_are_not_finite(label):
    """The last layer multiplies the zeros of destinations without edges."""
    inputs, static = calls.call_of("gno", calls.graph())
    isolated = static["graph"].in_degree == 0
    spoiled = [
        np.full_like(x, np.nan) if name == label else x
        for name, x in zip(gg.gno.inputs, inputs, strict=True)
    ]
    out = gg.gno(*spoiled, **static)
    assert np.isnan(out[~isolated]).all()
    assert np.isnan(out[isolated]).all() == (label in ("V", "b_v"))
