# SPDX-License-Identifier: MIT
"""Training on graphs with the optimizers and modules that people use with JAX."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
gj = pytest.importorskip("gnograd.jax")

from calls_of_jax import energy, energy_arguments, random_graph  # noqa: E402


def test_optax():
    optax = pytest.importorskip("optax")
    layers = energy_arguments()[1]
    rng = np.random.default_rng(0)
    optimizer = optax.adam(1e-2)

    def loss(layers, x, graph, target):
        h, *network = layers
        coords = x[graph.dst] - x[graph.src]
        out = gj.gno(h, coords, *network, graph=graph, activation="tanh", reduction="mean")
        return jnp.mean((out - target) ** 2)

    @jax.jit
    def step(layers, state, x, graph, target):
        value, gradient = jax.value_and_grad(loss)(layers, x, graph, target)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(layers, updates), state, value

    state, losses = optimizer.init(layers), []
    data = [(rng.random((5, 2)), random_graph(n, n).pad(12)) for n in range(6, 12)]
    for _ in range(30):
        total = 0.0
        for x, graph in data:
            layers, state, value = step(layers, state, x, graph, np.sin(x))
            total += float(value)
        losses.append(total)
    assert losses[-1] < 0.1 * losses[0]
    assert step._cache_size() == 1


def test_equinox():
    eqx = pytest.importorskip("equinox")

    class Layer(eqx.Module):
        h: jax.Array
        layers: list[jax.Array]
        graph: gj.Graph

        def __call__(self, x):
            return energy(x, self.graph, [self.h, *self.layers])

    x, (h, *layers) = energy_arguments()
    model = Layer(h, layers, gj.Graph.of(random_graph(0)))
    value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(lambda model: model(x)))(model)
    assert_allclose(value, energy(x, random_graph(0), [h, *layers]), rtol=1e-13)
    expected = jax.grad(energy, argnums=2)(x, random_graph(0), [h, *layers])
    for a, e in zip([gradient.h, *gradient.layers], expected, strict=True):
        assert_allclose(a, e, rtol=1e-12, atol=1e-14)
    assert not jax.tree.leaves(gradient.graph)
