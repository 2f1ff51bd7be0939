# SPDX-License-Identifier: MIT
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import faces
import gnograd as gg
from conftest import GRAPHS, Edges, power_law
from faces import Case
from gnograd import _core
from gnograd.backends.cpu import address
from memory import needs_linux, temporary_bytes
from reference import relational as reference

N_RELATIONS = 4


def types_of(edges, n_relations):
    """Relations in no order, the last of which no edge has."""
    rng = np.random.default_rng(edges.n_edges)
    return rng.integers(0, max(n_relations - 1, 1), edges.n_edges, np.int32)


@dataclass(frozen=True)
class Relational(Case):
    """A case whose edges have types."""

    def arguments(self, edges):
        types = types_of(edges, self.static["n_relations"])
        return super().arguments(edges) | {"edge_type": types}

    def reference(self, edges):
        arguments = {k: v for k, v in self.arguments(edges).items() if k != "graph"}
        return lambda *x: self.formula(*x, edges.src, edges.dst, edges.n_dst, **arguments)


def features(edges, rng, width=2):
    return rng.normal(size=(edges.n_src, width)), None, None, None


def weighted(edges, rng, width=2):
    return rng.normal(size=(edges.n_src, width)), 0.5 + rng.random(edges.n_edges), None, None


def in_basis(edges, rng, width=2):
    return rng.normal(size=(edges.n_src, width)), None, rng.normal(size=(N_RELATIONS, 3)), None


def everything(edges, rng, width=2):
    x, w = weighted(edges, rng, width)[:2]
    return x, w, rng.normal(size=(N_RELATIONS, 3)), rng.normal(size=(edges.n_dst, 2))


def with_own(edges, rng, width=2):
    return *weighted(edges, rng, width)[:3], rng.normal(size=(edges.n_dst, 2))


def case(make, aggregation, n_relations=N_RELATIONS):
    static = {"n_relations": n_relations, "aggregation": aggregation}
    label = make.__name__
    return Relational(gg.agg_relational, reference.agg_relational, make, static, label)


MAKERS = [features, weighted, in_basis, with_own, everything]
MANY = [case(make, aggregation) for make in MAKERS for aggregation in ("sum", "mean")]
FEW = [case(with_own, "mean"), case(everything, "sum"), case(everything, "mean")]
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
@every_case
def test_any_width(case, width, rng):
    edges = power_law(30, 300)
    inputs = case.inputs(edges, rng, width=width)
    actual = case.operator(*inputs, **case.arguments(edges))
    assert_allclose(actual, case.reference(edges)(*inputs), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n_relations", [1, 2, 70])
@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_any_number_of_relations(n_relations, aggregation, rng):
    edges = power_law(30, 300)
    inputs = (*weighted(edges, rng)[:2], rng.normal(size=(n_relations, 40)), None)
    for given in (inputs, (*inputs[:2], None, None)):
        many = case(lambda *_, given=given: given, aggregation, n_relations)
        faces.check_forward(many, edges, rng)
        faces.check_adjoint(many, edges, rng)


@few_cases
def test_heavy_rows_are_shared(case, rng):
    faces.check_forward(case, HEAVY, rng)


def test_one_relation_is_plain_aggregation(rng):
    edges = power_law(20, 100)
    x, w = weighted(edges, rng)[:2]
    static = {"graph": edges.graph, "aggregation": "mean"}
    same = gg.agg_relational(x, w, edge_type=np.zeros(100, np.int32), n_relations=1, **static)
    assert_allclose(same, gg.agg_weighted(x, w, **static), rtol=1e-13, atol=1e-13)


def test_a_basis_for_every_relation_is_none(rng):
    """A basis for every relation with coefficients 0 and 1 gives the blocks of the relations."""
    edges = power_law(20, 100)
    x, w = weighted(edges, rng)[:2]
    static = {"graph": edges.graph, "edge_type": types_of(edges, 4), "n_relations": 4}
    plain = gg.agg_relational(x, w, **static)
    assert_array_equal(gg.agg_relational(x, w, np.eye(4), **static), plain)


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


@every_case
def test_vjp_and_jvp_are_adjoint(case, any_graph, rng):
    faces.check_adjoint(case, any_graph, rng)


@few_cases
def test_vjp_and_jvp_are_adjoint_on_heavy_rows(case, rng):
    faces.check_adjoint(case, HEAVY, rng)


# ---- hvp ----


@every_case
def test_hvp(case, any_graph, rng):
    faces.check_hvp(case, any_graph, rng)


@few_cases
def test_hvp_on_heavy_rows(case, rng):
    faces.check_hvp_differences(case, HEAVY, rng)


@few_cases
def test_hvp_is_symmetric(case, any_graph, rng):
    faces.check_symmetric(case, any_graph, rng)


# ---- float32 ----


@few_cases
def test_float32_is_as_good_as_the_plain_formula(case, rng):
    faces.check_float32(case, power_law(10, 50), rng)


# ---- degenerate graphs (all faces run on every graph above) ----


@every_case
def test_nodes_without_edges(case, rng):
    own = 2 if case.label in ("with_own", "everything") else 0
    faces.check_isolated_nodes(case, GRAPHS["isolated nodes"], rng, own)


def test_nan_stays_in_its_relation():
    edges = power_law(20, 200)
    types = types_of(edges, 4)
    x = np.ones((20, 3))
    x[7] = np.nan
    static = {"graph": edges.graph, "edge_type": types, "n_relations": 4}
    for aggregation in ("sum", "mean"):
        out = gg.agg_relational(x, aggregation=aggregation, **static).reshape(20, 4, 3)
        seen = np.zeros((20, 4), bool)
        seen[edges.dst[edges.src == 7], types[edges.src == 7]] = True
        assert_array_equal(np.isnan(out).all(axis=2), seen)
        assert_array_equal(np.isnan(out).any(axis=2), seen)


def test_rows_that_belong_to_no_edge(rng):
    """Types of rows without an edge are not read, and their gradients are 0."""
    edges = power_law(10, 50)
    x, w, coeff, own = everything(edges, rng)
    types = types_of(edges, N_RELATIONS)
    static = {"n_relations": N_RELATIONS, "aggregation": "mean"}
    plain = gg.agg_relational(x, w, coeff, own, graph=edges.graph, edge_type=types, **static)
    graph = edges.graph.pad(n_edges=60)
    w, types = np.append(w, np.full(10, np.nan)), np.append(types, np.full(10, 99, np.int32))
    static |= {"graph": graph, "edge_type": types}
    assert_array_equal(gg.agg_relational(x, w, coeff, own, **static), plain)
    for gradients in (
        gg.agg_relational.vjp(plain, (x, w, coeff, own), **static),
        gg.agg_relational.hvp(plain, (x, w, coeff, own), (x, w, coeff, own), **static),
    ):
        assert_array_equal(gradients[1][50:], np.zeros(10))
        assert all(np.isfinite(g).all() for g in gradients)


# ---- errors ----


def test_refused(rng):
    edges = power_law(6, 20)
    x, w, coeff, own = everything(edges, rng)
    types = types_of(edges, N_RELATIONS)
    static = {"graph": edges.graph, "edge_type": types, "n_relations": N_RELATIONS}
    wrong = types.copy()
    wrong[[5, 9]] = 4, -1
    for arguments, changes, kind, message in (
        ((x[1:],), {}, ValueError, r"x has shape \(5, 2\), needs \(n_src=6, D\)"),
        ((x, w[1:]), {}, ValueError, r"w has shape \(19,\), needs \(n_edges=20,\)"),
        ((x, w, coeff[1:]), {}, ValueError, r"coeff has shape \(3, 3\), needs \(n_relations=4, "),
        ((x, w, coeff[:, :0]), {}, ValueError, "coeff has no bases"),
        ((x, w, coeff, own[1:]), {}, ValueError, r"own has shape \(5, 2\), needs \(n_dst=6, Do\)"),
        ((x,), {"n_relations": 0}, ValueError, "n_relations is 0, needs at least 1"),
        ((x,), {"edge_type": wrong}, IndexError, r"edge_type\[5\] is 4, not one of 4 relations"),
        ((x,), {"edge_type": -types}, IndexError, r"edge_type\[\d+\] is -\d, not one of 4"),
        ((x,), {"edge_type": types[1:]}, ValueError, r"edge_type has shape \(19,\)"),
        ((x,), {"edge_type": types.astype(int)}, TypeError, "edge_type is int64, needs int32"),
        ((x,), {"edge_type": None}, TypeError, "edge_type is missing"),
        ((x,), {"aggregation": "max"}, ValueError, "aggregation is 'max'"),
    ):
        with pytest.raises(kind, match="agg_relational: " + message):
            gg.agg_relational(*arguments, **static | changes)
    with pytest.raises(IndexError, match="agg_relational: edge_type"):
        gg.agg_relational.vjp(x[:, :0], (x[:, :0],), **static | {"edge_type": wrong})


def test_error_of_the_library_leaves_the_output(rng):
    edges = power_law(6, 20)
    x, graph, out = features(edges, rng)[0], edges.graph, np.full((6, 8), 7.0)
    types = types_of(edges, 4)
    for n_relations, code in ((4, 2), (4, -1), (0, 0), (2, 0)):
        status = _core.gnograd_agg_relational_forward_r64(
            graph.handle, 2, 0, n_relations, 0, address(types), code, address(x), 0, 0, 0,
            address(out),
        )  # fmt: skip
        assert status == (2 if n_relations == 2 else 1)
        assert np.all(out == 7)


# ---- memory ----


def prepare(case, face, threads):
    """A large call, after a small one that starts the threads."""
    gg.set_num_threads(threads)
    rng = np.random.default_rng(0)

    def call(n, n_edges):
        edges = power_law(n, n_edges)
        inputs, static = case.inputs(edges, rng, width=64), case.arguments(edges)
        out = case.operator(*inputs, **static)
        return {
            "forward": lambda: case.operator(*inputs, **static),
            "vjp": lambda: case.operator.vjp(out, inputs, **static),
            "hvp": lambda: case.operator.hvp(out, inputs, inputs, **static),
        }[face]

    call(50, 200)()
    return call(20_000, 200_000)


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize("face", ["forward", "vjp", "hvp"])
@few_cases
def test_peak_memory_is_as_documented(case, face):
    pieces = 200_000 // 4096 + 2
    results = {"forward": 20_000 * 6 * 64, "vjp": 20_000 * 66, "hvp": 20_000 * 66}[face]
    bound = results + pieces * 4 * 64 + 200_000 * (2 + 3) + 64 * 12
    slack = 4 * 2**20  # stacks of threads, rounding to pages
    assert temporary_bytes(prepare, case, face, 2) <= 8 * bound + slack


# ---- determinism ----


@few_cases
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bits_for_any_number_of_threads(case, dtype, threads, rng):
    faces.check_threads(case, HEAVY, rng, dtype, threads)
