# SPDX-License-Identifier: MIT
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import faces
import gnograd as gg
import table
from conftest import power_law
from gnograd import _core
from gnograd.backends.cpu import address
from memory import needs_linux, temporary_bytes
from table import N_RELATIONS

EVERYTHING = table.FRONT["agg_relational"]


def weighted(edges, rng):
    return table.the("agg_weighted", aggregation="mean").inputs(edges, rng)


def types_of(edges):
    return table.edge_types(EVERYTHING, edges)


# ---- forward ----


def test_one_relation_is_plain_aggregation(rng):
    edges = power_law(20, 100)
    x, w = weighted(edges, rng)
    static = {"graph": edges.graph, "aggregation": "mean"}
    same = gg.agg_relational(x, w, edge_type=np.zeros(100, np.int32), n_relations=1, **static)
    assert_allclose(same, gg.agg_weighted(x, w, **static), rtol=1e-13, atol=1e-13)


def test_a_basis_for_every_relation_is_none(rng):
    """A basis for every relation with coefficients 0 and 1 gives the blocks of the relations."""
    edges = power_law(20, 100)
    x, w = weighted(edges, rng)
    static = {"graph": edges.graph, "edge_type": types_of(edges), "n_relations": 4}
    plain = gg.agg_relational(x, w, **static)
    assert_array_equal(gg.agg_relational(x, w, np.eye(4), **static), plain)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_features(rng, dtype):
    # parts of 64, 32, ..., 1, rows that are short and one that is cut
    n, width = 40, 103
    dst = np.concatenate([np.zeros(9_000, np.int64), rng.integers(1, n, 200)])
    src, types = rng.integers(0, n, len(dst)), rng.integers(0, 3, len(dst)).astype(np.int32)
    graph = gg.Graph.from_edges(src, dst, n, n)
    x, w, own = rng.normal(size=(n, width)), rng.random(len(dst)), rng.normal(size=(n, 2))
    x, w, own = x.astype(dtype), w.astype(dtype), own.astype(dtype)
    sums = np.zeros((n, 3, width))
    np.add.at(sums, (dst, types), w[:, None].astype(float) * x[src])
    out = gg.agg_relational(x, w, own=own, graph=graph, edge_type=types, n_relations=3)
    near = {"rtol": 1e-3, "atol": 2e-2} if dtype == np.float32 else {"rtol": 1e-10, "atol": 1e-10}
    assert_allclose(out[:, :-2], sums.reshape(n, -1), **near)
    assert_array_equal(out[:, -2:], own)


def test_types_of_rows_without_an_edge_do_not_count():
    graph = gg.Graph(np.array([0, 1, 2]), np.array([1, 0], np.int32)).pad(4)
    types = np.array([0, 1, -7, 9], np.int32)
    out = gg.agg_relational(np.ones((2, 1)), graph=graph, edge_type=types, n_relations=2)
    assert_array_equal(out, [[1, 0], [0, 1]])


# ---- degenerate graphs (all faces run on every graph above) ----


def test_nan_stays_in_its_relation():
    edges = power_law(20, 200)
    types = types_of(edges)
    x = np.ones((20, 3))
    x[7] = np.nan
    static = {"graph": edges.graph, "edge_type": types, "n_relations": 4}
    for aggregation in ("sum", "mean"):
        out = gg.agg_relational(x, aggregation=aggregation, **static).reshape(20, 4, 3)
        seen = np.zeros((20, 4), bool)
        seen[edges.dst[edges.src == 7], types[edges.src == 7]] = True
        assert_array_equal(np.isnan(out).all(axis=2), seen)
        assert_array_equal(np.isnan(out).any(axis=2), seen)


# ---- errors ----


def test_refused(rng):
    edges = power_law(6, 20)
    x, w, coeff, _ = EVERYTHING.inputs(edges, rng)
    types = types_of(edges)
    static = {"graph": edges.graph, "edge_type": types, "n_relations": N_RELATIONS}
    wrong = types.copy()
    wrong[[5, 9]] = 4, -1
    for arguments, changes, kind, message in (
        ((x, w, coeff[:, :0]), {}, ValueError, "coeff has no bases"),
        ((x,), {"n_relations": 0}, ValueError, "n_relations is 0, needs at least 1"),
        ((x,), {"edge_type": wrong}, IndexError, r"edge_type\[5\] is 4, not one of 4 relations"),
        ((x,), {"edge_type": -types}, IndexError, r"edge_type\[\d+\] is -\d, not one of 4"),
        ((x,), {"edge_type": types[1:]}, ValueError, r"edge_type has shape \(19,\)"),
        ((x,), {"edge_type": types.astype(int)}, TypeError, "edge_type is int64, needs int32"),
        ((x,), {"edge_type": None}, TypeError, "edge_type is missing"),
    ):
        with pytest.raises(kind, match="agg_relational: " + message):
            gg.agg_relational(*arguments, **static | changes)
    with pytest.raises(IndexError, match="agg_relational: edge_type"):
        gg.agg_relational.vjp(x[:, :0], (x[:, :0],), **static | {"edge_type": wrong})


def test_error_of_the_library_leaves_the_output(rng):
    edges = power_law(6, 20)
    x, graph, out = EVERYTHING.inputs(edges, rng)[0], edges.graph, np.full((6, 8), 7.0)
    types = types_of(edges)
    for n_relations, code in ((4, 2), (4, -1), (0, 0), (2, 0)):
        status = _core.gnograd_agg_relational_forward_r64(
            graph.handle, 2, 0, n_relations, 0, address(types), code, address(x), 0, 0, 0,
            address(out),
        )  # fmt: skip
        assert status == (2 if n_relations == 2 else 1)
        assert np.all(out == 7)


# ---- memory ----


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize("face", ["forward", "vjp", "hvp"])
@pytest.mark.parametrize("case", table.of("relational", many=False), ids=str)
def test_peak_memory_is_as_documented(case, face):
    pieces = 200_000 // 4096 + 2
    results = {"forward": 20_000 * 6 * 64, "vjp": 20_000 * 66, "hvp": 20_000 * 66}[face]
    bound = results + pieces * 4 * 64 + 200_000 * (2 + 3) + 64 * 12
    slack = 4 * 2**20  # stacks of threads, rounding to pages
    measured = temporary_bytes(faces.large_call, case.change(D=64), face, 20_000, 200_000)
    assert measured <= 8 * bound + slack
