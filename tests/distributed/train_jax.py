# SPDX-License-Identifier: MIT
"""Training on all devices of this program, against training on one; and the exchange itself."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import gnograd as gg
import gnograd.jax as gj

jax.config.update("jax_enable_x64", True)
SIZE, STEPS, N = len(jax.devices()), 25, 300
MESH = jax.make_mesh((SIZE,), ("parts",))
rng = np.random.default_rng(0)
x = rng.random((N, 2))
h, target = rng.normal(size=(N, 3)), rng.normal(size=(N, 2))
start = (
    rng.normal(size=(2, 8)), np.zeros(8), rng.normal(size=(8, 3, 2)) / 8, np.zeros((3, 2)),
    rng.normal(size=(2, 8)), np.zeros(8), rng.normal(size=(8, 2, 2)) / 8, np.zeros((2, 2)),
)  # fmt: skip


def errors(parameters, arrays, graph):
    """Squared error of every row, of two layers."""
    h, coords, target = arrays
    for layer in (parameters[:4], parameters[4:]):
        h = gj.gno(h, coords, *layer, graph=graph, activation="gelu", reduction="mean")
    return ((h - target) ** 2).sum(1)


def train(loss, *data):
    @jax.jit
    def step(parameters, velocity, *data):
        value, gradient = jax.value_and_grad(loss)(parameters, *data)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, gradient)
        return jax.tree.map(lambda p, v: p - 0.02 * v, parameters, velocity), velocity, value

    parameters, velocity, curve = start, jax.tree.map(np.zeros_like, start), []
    for _ in range(STEPS):
        parameters, velocity, value = step(parameters, velocity, *data)
        curve.append(float(value))
    assert step._cache_size() <= 2  # numpy's arrays at first, then those of the devices
    return parameters, curve


def part_of_loss(parameters, arrays, dg):
    mine = jnp.where(dg.mask("dst"), errors(parameters, arrays, dg), 0.0)
    return jax.lax.psum(mine.sum(), "parts") / N


def check_training(dg, graph):
    coords = x[graph.dst] - x[graph.src]
    specs = PartitionSpec(), dg.spec, dg.spec
    loss = jax.shard_map(part_of_loss, mesh=MESH, in_specs=specs, out_specs=PartitionSpec())
    divided = dg.scatter(h), dg.scatter(coords, "edges"), dg.scatter(target, "dst")
    parameters, curve = train(loss, divided, dg)
    expected, one = train(
        lambda p, arrays, graph: errors(p, arrays, graph).mean(), (h, coords, target), graph
    )
    assert curve[-1] < curve[0]
    np.testing.assert_allclose(curve, one, rtol=1e-12)
    for got, other in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-12, atol=1e-12)
    again, same = train(loss, divided, dg)
    assert same == curve
    assert all(map(np.array_equal, again, parameters))


def check_exchange(dg, graph):
    """<H x, y> = <x, H' y>, twice over; and no padding in it."""
    exchange = jax.shard_map(
        lambda h, dg: gj.halo(h, graph=dg), mesh=MESH, in_specs=(dg.spec, dg.spec),
        out_specs=dg.spec,
    )  # fmt: skip
    rows = dg.scatter(h)
    rows = jnp.where(dg.mask()[:, None], rows, jnp.nan)
    extended = jax.jit(exchange)(rows, dg)
    assert extended.shape == (SIZE * (dg.n_own + dg.n_halo), 3)
    there = ~np.isnan(np.asarray(extended))
    halo = there.reshape(SIZE, -1, 3)[:, dg.n_own :].all(2)
    needed = {
        (int(o), int(s)) for o, s in zip(owner[graph.dst], graph.src, strict=True) if o != owner[s]
    }
    zeros = np.asarray(extended).reshape(SIZE, -1, 3)[:, dg.n_own :].any(2)
    assert (halo & zeros).sum() == len(needed)
    y = np.where(there, rng.normal(size=extended.shape), 0.0)
    y = jax.device_put(y, NamedSharding(MESH, dg.spec))
    hx = np.where(there, extended, 0.0)
    back = jax.jit(lambda y: jax.vjp(lambda r: exchange(r, dg), rows)[1](y)[0])(y)
    left, right = (hx * y).sum(), (np.nan_to_num(rows) * np.asarray(back)).sum()
    assert abs(left - right) <= 1e-14 * (np.abs(hx * y)).sum()
    (twice,) = jax.jit(jax.vjp(lambda c: jax.vjp(lambda r: exchange(r, dg), rows)[1](c)[0], y)[1])(
        rows
    )
    np.testing.assert_array_equal(np.where(there, twice, 0.0), hx)


graph = gg.Graph.radius(x, 0.12)
owner = (x[:, 0] * SIZE).astype(int)
with jax.set_mesh(MESH):
    dg = gj.DistributedGraph.from_global(graph, owner, MESH)
    check_exchange(dg, graph)
    check_training(dg, graph)
print(f"{STEPS} steps on {SIZE} devices, {dg}")
