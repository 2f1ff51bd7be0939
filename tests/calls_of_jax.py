# SPDX-License-Identifier: MIT
"""Calls of operators on graphs in JAX, with the graph as an argument."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import calls
import gnograd as gg
from conftest import few
from faces import tuple_of

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
gj = pytest.importorskip("gnograd.jax")

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)

NAMES = [name for name in calls.calls() if "graph" in getattr(gg, name).static]
FORMS = [name for name in calls.FORMS if name in NAMES]
every_operator = pytest.mark.parametrize("name", few(NAMES, *FORMS))
"""The rest of the operators is exhaustive: `gnograd.jax` treats all in one way."""
N, ROOM = 8, 11
"""Edges of the graph that all tests use, and rows of edge arrays where there is room for more."""


def random_graph(seed, n_edges=N, n_src=5, n_dst=5):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n_src, n_edges), rng.integers(0, n_dst, n_edges)
    return gg.Graph.from_edges(*ends, n_src, n_dst)


def bind(name, n_edges=N):
    """Inputs, and the operator on JAX arrays with the graph as its first argument.

    Static arrays with a number an edge have `n_edges` of them.
    """
    inputs, static = calls.calls()[name]
    static = static | of_edges(name, n_edges)

    def function(graph, *inputs, **arrays):
        return getattr(gj, name)(*inputs, graph=graph, **(static | arrays))

    return tuple(inputs), function, static


def of_edges(name, n_edges):
    """Static arrays with a number an edge."""
    arrays, static = getattr(gg, name).declaration.arrays, calls.calls()[name][1]
    return {key: np.resize(static[key], n_edges) for key in arrays if "n_edges" in arrays[key]}


def is_on_edges(spec):
    """True if an array has a row for every edge."""
    return spec.removeprefix("real ").startswith("n_edges")


def assert_same(actual, expected):
    for a, e in zip(tuple_of(actual), tuple_of(expected), strict=True):
        assert_array_equal(np.asarray(a), e)


def faces(function):
    """Value, vjp, jvp and hvp in one program: of a graph, inputs, cotangent and tangents."""

    def everything(graph, inputs, cotangent, tangents):
        def pulled(*x):
            return jax.vjp(lambda *x: function(graph, *x), *x)[1](cotangent)

        value, changed = jax.jvp(lambda *x: function(graph, *x), inputs, tangents)
        vjp, hvp = jax.jvp(pulled, inputs, tangents)
        return value, changed, vjp, hvp

    return everything


def like(arrays, seed):
    return jax.tree.map(lambda a: np.random.default_rng(seed).normal(size=np.shape(a)), arrays)


def energy(x, graph, layers):
    h, *layers = layers
    coords = x[graph.dst] - x[graph.src]
    return jnp.sin(gj.gno(h, coords, *layers, graph=graph, activation="tanh")).sum()


def energy_arguments():
    h, _, *layers = map(jnp.asarray, calls.gno_inputs(weighted=False))
    return jnp.asarray(*calls.normal((5, 2), seed=1)), [h, *layers]
