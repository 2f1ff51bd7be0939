# SPDX-License-Identifier: MIT
"""Every law of `faces.py` on every case of every operator, exempted by name or not at all."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import faces
import table
from conftest import GRAPHS, power_law
from table import CASES, EVERY_SIZE, HEAVY

NO_NODES = "its results have no rows of destinations"
ROUNDING = "a kind has one rounding, which its cases that are not many show"
KINKS = "steps of differences cross the kinks"
TOO_LARGE = "too large for derivatives entry by entry; differences have it"
NO_GRAPH = "it has no graph"
TRIPLETS = "a hundred million triplets"
LENGTHS = "its derivatives are in 80 digits, which the complex step is not: test_radial_basis.py"
EXEMPT = {
    "vjp": {"radial_basis": LENGTHS, "large": TOO_LARGE},
    "jvp": {"radial_basis": LENGTHS, "large": TOO_LARGE},
    "hvp": {"radial_basis": LENGTHS, "large": TOO_LARGE},
    "float32": {
        "radial_basis": LENGTHS,
        "large": TOO_LARGE,
        **dict.fromkeys(
            ("nsa", "dense"), "on large cases, by formulas: test_nsa.py, test_dense.py"
        ),
        "many": ROUNDING,
    },
    "differences": dict.fromkeys(("relu", "ReLU", "LeakyReLU", "ELU"), KINKS),
    "isolated_nodes": {
        "no graph": NO_GRAPH,
        **dict.fromkeys(("edge_softmax", "update_edges", "agg_edge_to_edge", "large"), NO_NODES),
    },
    "float32_sums": {
        "no graph": NO_GRAPH,
        "agg_edge_to_edge": TRIPLETS,
        "gno_deep": "its bound is in test_gno_deep.py",
        "many": ROUNDING,
    },
    "rows_of_no_edge": {"no graph": NO_GRAPH},
    "heavy_rows": {"no graph": NO_GRAPH, "agg_edge_to_edge": TRIPLETS},
}
"""Reasons by law, and by operator or by an argument or a property of the case."""


@functools.cache
def traits(case):
    """Words by which a case may be exempt."""
    static = case.operator.complete(case.arguments(GRAPHS["no edges"]))
    words = {case.name, case.family, *(v for v in static.values() if isinstance(v, str))}
    words |= {word for word in ("large", "many") if getattr(case, word)}
    return words if case.on_graph else words | {"no graph"}


def exempt(law, case):
    return traits(case) & EXEMPT.get(law, {}).keys()


def every(law):
    """Cases that are not exempt."""
    return [case for case in CASES if not exempt(law, case)]


def each_case(law):
    """Every case, of which one of many of a kind is exhaustive."""
    mark = pytest.mark.exhaustive
    slow = law in ("absent_tangents", "float32_sums", "left_alone")
    params = [
        pytest.param(c, marks=mark if c.many or (c.large and slow) else (), id=str(c))
        for c in every(law)
    ]
    return pytest.mark.parametrize("case", params)


def on_graphs(law):
    """Every case on some graphs, and, exhaustive, on all others; once if it has no graph."""
    return table.on_graphs(every(law), few=law in ("adjoint", "symmetric"))


# ---- on every graph ----


@on_graphs("forward")
def test_forward(case, graphs):
    table.on_each(faces.check_forward, case, graphs)


@on_graphs("vjp")
def test_vjp(case, graphs):
    table.on_each(faces.check_vjp, case, graphs)


@on_graphs("jvp")
def test_jvp(case, graphs):
    table.on_each(faces.check_jvp, case, graphs)


@on_graphs("hvp")
def test_hvp(case, graphs):
    table.on_each(faces.check_hvp, case, graphs)


@on_graphs("adjoint")
def test_vjp_and_jvp_are_adjoint(case, graphs):
    table.on_each(faces.check_adjoint, case, graphs)


@on_graphs("symmetric")
def test_hvp_is_symmetric(case, graphs):
    table.on_each(faces.check_symmetric, case, graphs)


# ---- on one graph ----


@each_case("wrt")
def test_gradients_do_not_depend_on_which_are_wanted(case, rng):
    faces.check_wrt(case, power_law(10, 50), rng)


@each_case("absent_tangents")
def test_absent_tangent_is_zero(case, rng):
    faces.check_absent_tangents(case, power_law(10, 50), rng)


@each_case("absent_cotangents")
def test_absent_cotangent_is_zero(case, rng):
    faces.check_absent_cotangents(case, power_law(10, 50), rng)


@each_case("float32")
def test_float32_is_as_good_as_the_plain_formula(case, rng):
    faces.check_float32(case, power_law(10, 50), rng)


@each_case("float32_sums")
def test_float32_sums_over_many_edges(case, rng):
    for n_edges in (2000, 100_000):
        faces.check_float32_sums(case, power_law(100, n_edges), rng)


@each_case("isolated_nodes")
def test_nodes_without_edges(case, rng):
    faces.check_isolated_nodes(case, GRAPHS["isolated nodes"], rng)


@each_case("rows_of_no_edge")
def test_rows_of_no_edge(case, rng):
    faces.check_rows_of_no_edge(case, power_law(10, 50), rng)


@each_case("refused")
def test_what_does_not_fit_is_refused(case, rng):
    faces.check_refused(case, power_law(10, 50), rng)


@each_case("left_alone")
def test_arguments_are_left_alone(case, rng):
    faces.check_left_alone(case, power_law(10, 50), rng)


@pytest.mark.parametrize("case", [case for case in CASES if case.is_bilinear], ids=str)
def test_no_input_is_read_for_its_own_gradient(case, rng):
    """The tape has none to give where an operator is bilinear."""
    call = faces.Call(case, power_law(10, 50), rng)
    for k, name in enumerate(case.operator.inputs):
        inputs = [*call.inputs]
        inputs[k] = np.full_like(inputs[k], np.nan)
        expected = call.vjp(wrt=[name])[k]
        assert_array_equal(call.vjp(inputs, wrt=[name])[k], expected)


@each_case("sizes")
def test_sizes_of_every_kind(case, rng):
    kinds = (case.name, case.name[:3], case.family)
    for given in next((EVERY_SIZE[k] for k in kinds if k in EVERY_SIZE), []):
        changed = case.change(**given)
        faces.check_forward(changed, power_law(30, 300), rng)
        faces.check_adjoint(changed, power_law(30, 300), rng)


# ---- heavy rows: pieces of work that are joined ----


def heavy(case):
    """A graph of heavy rows; fewer edges where triplets or networks take their time."""
    if case.operator.hops == 2:
        return power_law(60, 500)
    return power_law(300, 4000) if case.large else HEAVY


@each_case("heavy_rows")
def test_heavy_rows_are_shared(case, rng):
    faces.check_forward(case, heavy(case), rng)
    faces.check_adjoint(case, heavy(case), rng)


@each_case("heavy_rows")
def test_gradients_of_heavy_rows_do_not_depend_on_which_are_wanted(case, rng):
    faces.check_wrt(case, heavy(case), rng)


@each_case("differences")
def test_derivatives_by_differences(case, rng):
    faces.check_differences(case, heavy(case), rng)


@pytest.mark.parametrize(
    "dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.exhaustive)]
)
@each_case("threads")
def test_same_bits_for_any_number_of_threads(case, dtype, threads, rng):
    faces.check_threads(case, heavy(case), rng, dtype, threads)


def test_exemptions_are_of_something():
    for law, reasons in EXEMPT.items():
        for trait, reason in reasons.items():
            assert reason and any(trait in exempt(law, case) for case in CASES), (law, trait)
