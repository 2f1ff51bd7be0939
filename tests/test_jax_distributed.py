# SPDX-License-Identifier: MIT
"""Graphs over several devices of JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import gnograd as gg

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
gj = pytest.importorskip("gnograd.jax")

PROGRAMS = Path(__file__).parent / "distributed"


def on_devices(n, program):
    environment = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={n}",
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, PROGRAMS / program], env=environment, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"on {n} devices" in done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [1, 3])
def test_operators(n):
    on_devices(n, "check_jax.py")


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [2, 4])
def test_exchange_and_training(n):
    on_devices(n, "train_jax.py")


# ---- rounds ----


@pytest.mark.parametrize("seed", range(20))
def test_a_round_is_part_of_a_permutation(seed):
    from gnograd.jax.distributed import _rounds

    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 10))
    there = rng.random((size, size)) < rng.random()
    np.fill_diagonal(there, False)
    lengths = {(int(a), int(b)): int(rng.integers(1, 9)) for a, b in np.argwhere(there)}
    rounds = _rounds(lengths)
    assert Counter(pair for pairs in rounds for pair in pairs) == Counter(lengths.keys())
    for pairs in rounds:
        for ends in zip(*pairs, strict=True):
            assert len(set(ends)) == len(ends)
    most = max(there.sum(0).max(), there.sum(1).max())
    assert most <= len(rounds) <= max(2 * most - 1, 0)
    assert _rounds(lengths) == rounds


# ---- what one device shows ----


def made(owner=(0, 0, 0), owner_src=None, **more):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("parts",))
    graph = gg.Graph.from_edges([0, 1, 2, 0], [1, 2, 0, 0], 3, 3)
    return gj.DistributedGraph.from_global(graph, owner, mesh, owner_src, **more)


def test_what_it_tells():
    dg = made()
    assert (dg.n_parts, dg.n_rounds, dg.n_own, dg.n_halo) == (1, 0, 3, 0)
    assert (dg.n_src, dg.n_dst, dg.n_edges) == (3, 3, 4)
    text = "DistributedGraph(1 parts in 0 rounds: n_own=3, n_halo=0, n_dst=3, n_edges=4)"
    assert repr(dg) == text
    assert dg.mask("edges").tolist() == [True] * 4
    leaves, structure = jax.tree.flatten(dg)
    again = jax.tree.unflatten(structure, leaves)
    assert repr(again) == text
    hash(structure)


@pytest.mark.parametrize("rows", ["src", "dst", "edges"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, bool])
def test_scatter_and_back(rows, dtype):
    dg = made()
    array = np.arange(4 if rows == "edges" else 3)[:, None].astype(dtype)
    back = dg.gather(dg.scatter(array, rows), rows)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, array)


def test_errors():
    dg = made()
    with pytest.raises(ValueError, match=r"owner\[1\] is 1, but there are 1 processes"):
        made([0, 1, 0])
    with pytest.raises(ValueError, match="owner has 2 entries, needs 3"):
        made([0, 0])
    with pytest.raises(ValueError, match="axis is 'other', needs one of parts"):
        made(axis="other")
    with pytest.raises(ValueError, match=r"scatter: array has shape \(4, 1\), needs 3 rows"):
        dg.scatter(np.zeros((4, 1)))
    with pytest.raises(ValueError, match=r"gather: array has shape \(\), needs 3 rows"):
        dg.gather(jnp.zeros(()))
    with pytest.raises(ValueError, match="mask: rows is 'nodes', needs one of src, dst, edges"):
        dg.mask("nodes")
    with pytest.raises(TypeError, match=r"halo: graph is of type Graph, needs a gnograd\.jax\.D"):
        gj.halo(jnp.zeros((3, 1)), graph=gg.Graph([0, 1], [0]))
    with pytest.raises(ValueError, match=r"halo: h_own has shape \(2, 1\), needs 3 rows"):
        gj.halo(jnp.zeros((2, 1)), graph=dg)
    vector, rbf, embedding, weights = (jnp.zeros(s) for s in ((4, 3), (4, 6), (4, 4), (10, 2)))
    with pytest.raises(NotImplementedError, match=r"agg_edge_to_edge: .* no halo of edges"):
        gj.agg_edge_to_edge(vector, rbf, embedding, weights, graph=dg, n_spherical=3, n_radial=2)
    with pytest.raises(ValueError, match=r"agg_simple: x has shape \(5, 2\)"):
        gj.agg_simple(jnp.zeros((5, 2)), graph=dg)


# ---- threads that stand for processes ----


def test_an_error_in_one_thread_is_that_of_all():
    from gnograd.distributed.threads import in_threads

    def work(comm):
        if comm.rank == 1:
            raise ZeroDivisionError("of one")
        comm.maximum([1])  # the others wait in it

    with pytest.raises(ZeroDivisionError, match="of one"):
        in_threads(3, work)

    def wait_for_rows(comm):
        if comm.rank == 1:
            raise ZeroDivisionError("of one")
        data = np.empty(8, np.uint8)
        comm.start([], [(1, data)]).wait()

    with pytest.raises(ZeroDivisionError, match="of one"):
        in_threads(3, wait_for_rows)


def test_operators_in_threads():
    """Operators over threads of one process equal those on the whole graph."""
    from gnograd.distributed.threads import in_threads

    rng = np.random.default_rng(0)
    graph = gg.Graph.radius(rng.random((60, 2)), 0.3)
    owner = rng.integers(0, 5, 60)
    h, c = rng.normal(size=(2, 60, 3))

    def work(comm):
        dg = gg.DistributedGraph.from_global(graph, owner, comm)
        gradient, _ = gg.agg_simple.vjp(c[dg.owned], (h[dg.owned],), graph=dg)
        return dg.owned, gg.agg_simple(h[dg.owned], graph=dg), gradient

    expected, _ = gg.agg_simple.vjp(c, (h,), graph=graph)
    for owned, value, gradient in in_threads(5, work):
        np.testing.assert_allclose(value, gg.agg_simple(h, graph=graph)[owned], atol=1e-13)
        np.testing.assert_allclose(gradient, expected[owned], atol=1e-13)
