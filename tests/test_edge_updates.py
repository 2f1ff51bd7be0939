# SPDX-License-Identifier: MIT
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import faces
import gnograd as gg
from conftest import Edges, power_law
from faces import Case
from gnograd import _core
from gnograd.backends.cpu import address
from reference import edge_updates as reference


def parts(edges, rng, width, wanted):
    nodes = edges.n_edges, edges.n_src, edges.n_dst
    widths = (width, width + 1, 2) if isinstance(wanted, list) else (width,) * 3
    return tuple(
        rng.normal(size=(n, d)) if k in wanted else None
        for k, (n, d) in enumerate(zip(nodes, widths, strict=True))
    )


def case(mode, *wanted):
    chosen = [*wanted] if mode == "concat" else wanted
    label = "".join("esd"[k] for k in wanted)
    return Case(
        gg.update_edges,
        reference.update_edges,
        lambda edges, rng, width=2: parts(edges, rng, width, chosen),
        {"mode": mode},
        label,
    )


WANTED = [(0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,)]
MANY = [case(mode, *wanted) for mode in ("concat", "sum") for wanted in WANTED]
FEW = [case("concat", 0, 1, 2), case("sum", 0, 1, 2)]
every_case = pytest.mark.parametrize("case", MANY, ids=str)
few_cases = pytest.mark.parametrize("case", FEW, ids=str)

# one destination and one source with more edges than a piece of work takes
HEAVY = Edges(
    src=np.concatenate([np.arange(12_000) % 40, np.full(9000, 7)]),
    dst=np.concatenate([np.full(12_000, 3), np.arange(9000) % 50]),
    n_src=40,
    n_dst=50,
)


# ---- forward ----


@every_case
def test_forward(case, any_graph, rng):
    faces.check_forward(case, any_graph, rng)


@pytest.mark.parametrize("width", [0, 1, 16, 33, 128])
@few_cases
def test_any_width(case, width, rng):
    edges = power_law(30, 300)
    inputs = case.inputs(edges, rng, width=width)
    actual = case.operator(*inputs, **case.arguments(edges))
    assert_array_equal(actual, case.reference(edges)(*inputs))


@few_cases
def test_heavy_rows_are_shared(case, rng):
    faces.check_forward(case, HEAVY, rng)


# ---- vjp ----


@every_case
def test_vjp(case, any_graph, rng):
    faces.check_vjp(case, any_graph, rng)


@every_case
def test_gradients_do_not_depend_on_which_are_wanted(case, rng):
    faces.check_wrt(case, power_law(10, 50), rng)


# ---- jvp ----


@every_case
def test_jvp(case, any_graph, rng):
    faces.check_jvp(case, any_graph, rng)


@every_case
def test_absent_tangent_is_zero(case, rng):
    faces.check_absent_tangents(case, power_law(10, 50), rng)


@few_cases
def test_vjp_and_jvp_are_adjoint_on_heavy_rows(case, rng):
    faces.check_adjoint(case, HEAVY, rng)


# ---- hvp ----


@every_case
def test_hvp(case, any_graph, rng):
    faces.check_hvp(case, any_graph, rng)


# ---- float32 ----


@few_cases
def test_float32_is_as_good_as_the_plain_formula(case, rng):
    faces.check_float32(case, power_law(10, 50), rng)


# ---- degenerate graphs (all faces run on every graph above) ----


@few_cases
def test_rows_that_belong_to_no_edge(case, rng):
    edges = power_law(10, 50)
    inputs = case.inputs(edges, rng)
    plain = case.operator(*inputs, **case.arguments(edges))
    static = case.arguments(edges) | {"graph": edges.graph.pad(n_edges=60)}
    room = np.full((10, inputs[0].shape[1]), np.nan)
    inputs = (np.concatenate([inputs[0], room]), *inputs[1:])
    out = case.operator(*inputs, **static)
    assert_array_equal(out, np.concatenate([plain, np.zeros((10, plain.shape[1]))]))
    cotangent = np.concatenate([plain, np.full((10, plain.shape[1]), np.nan)])
    gradients = case.operator.vjp(cotangent, inputs, **static)
    assert_array_equal(gradients[0][50:], np.zeros_like(room))
    assert all(np.isfinite(g).all() for g in gradients)


# ---- errors ----


def test_refused(rng):
    edges = power_law(6, 20)
    e, x = rng.normal(size=(20, 3)), rng.normal(size=(6, 2))
    for arguments, mode, kind, message in (
        ((e[1:], x), "concat", ValueError, r"e has shape \(19, 3\), needs \(n_edges=20, De\)"),
        ((e, x), "sum", ValueError, r"x_src has shape \(6, 2\), needs \(n_src=6, De=3\)"),
        ((None, x, x[:, 1:]), "sum", ValueError, r"x_dst has shape \(6, 1\), needs "),
        ((None,), "sum", TypeError, "needs one of e, x_src, x_dst, got none of them"),
        ((e, x.astype(np.float32)), "concat", TypeError, "e is float64 but x_src is float32"),
        ((e, x), "mean", ValueError, "mode is 'mean'"),
    ):
        with pytest.raises(kind, match="update_edges: " + message):
            gg.update_edges(*arguments, graph=edges.graph, mode=mode)


def test_error_of_the_library_leaves_the_output(rng):
    edges = power_law(6, 20)
    e, out = rng.normal(size=(20, 2)), np.full((20, 2), 7.0)
    graph = edges.graph
    for code, given in ((2, address(e)), (-1, address(e)), (0, 0)):
        status = _core.gnograd_update_edges_forward_r64(
            graph.handle, 2, 0, 0, code, given, 0, 0, address(out)
        )
        assert status == 1
        assert np.all(out == 7)


# ---- determinism ----


@few_cases
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bits_for_any_number_of_threads(case, dtype, threads, rng):
    faces.check_threads(case, HEAVY, rng, dtype, threads)
