# SPDX-License-Identifier: MIT
"""Operators on graphs over all devices of this program, against the whole graph on one."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from setting import FRONT, call_on, everything, situations

import gnograd as gg
import gnograd.jax as gj
from gnograd.distributed.roles import role_of

jax.config.update("jax_enable_x64", True)
SIZE = len(jax.devices())
MESH = Mesh(np.array(jax.devices()), ("parts",))
ROWS = {"n_src": "src", "n_dst": "dst", "n_edges": "edges", "": None}
EVERYWHERE = "agg_concat", "edge_softmax", "gno"
"""Operators that share all situations, one each.

The others are tried on three devices where sources and destinations have different owners.
"""


def close(got, expected, of):
    for a, b in zip(everything(got), everything(expected), strict=True):
        scale = max(np.abs(b).max(initial=0), 1)
        worst = np.abs(np.asarray(a) - b).max(initial=0)
        assert a.shape == b.shape and worst <= 1e-13 * scale, f"{of}: {worst} of {scale}"


def over_devices(operator, dg, static, arrays, kinds):
    """The operator as a function of arrays of the whole graph."""
    specs = [PartitionSpec() if kind is None else dg.spec for kind in kinds["inputs"]]
    specs_of_arrays = {k: dg.spec if kinds["arrays"][k] else PartitionSpec() for k in arrays}

    @jax.shard_map(mesh=MESH, in_specs=(dg.spec, specs, specs_of_arrays), out_specs=dg.spec)
    def on_device(dg, inputs, arrays):
        return everything(getattr(gj, operator.name)(*inputs, graph=dg, **static, **arrays))

    def divided(array, kind):
        return array if array is None or kind is None else dg.scatter(array, kind)

    def function(*inputs):
        theirs = {k: divided(arrays[k], kinds["arrays"][k]) for k in arrays}
        mine = [divided(x, kind) for x, kind in zip(inputs, kinds["inputs"], strict=True)]
        results = on_device(dg, mine, theirs)
        return tuple(map(dg.gather, results, kinds["outputs"]))

    return function


def faces(function, inputs, cotangents, tangents):
    """Value, vjp, jvp and hvp by transforms of JAX."""

    def pulled(*x):
        return jax.vjp(function, *x)[1](cotangents)

    value, along = jax.jvp(function, inputs, tangents)
    vjp, hvp = jax.jvp(pulled, inputs, tangents)
    return value, along, vjp, hvp


def check(operator, graph, owners):
    inputs, static = call_on(operator.name, graph)
    signature = operator.signature(**static, graph=graph.graph)
    dg = gj.DistributedGraph.from_global(graph.graph, owners[0], MESH, owners[1])
    arrays = {k: static.pop(k) for k in signature.arrays if static.get(k) is not None}
    kinds = {
        "inputs": [ROWS[role_of(spec).of] for spec in signature.inputs.values()][: len(inputs)],
        "arrays": {k: ROWS[role_of(spec).of] for k, spec in signature.arrays.items()},
        "outputs": [ROWS[role_of(s).of] for s in signature.outputs.values() if s != "0"],
    }
    distributed = over_devices(operator, dg, static, arrays, kinds)
    rng = np.random.default_rng(7)

    def like(values):
        return tuple(None if x is None else rng.normal(size=x.shape) for x in values)

    whole = dict(**static, **arrays, graph=graph.graph)
    value = everything(operator(*inputs, **whole))
    cotangents, tangents = like(value), like(inputs)
    expected = (
        value,
        everything(operator.jvp(inputs, tangents, **whole)),
        operator.vjp(cotangents, inputs, **whole),
        operator.hvp(cotangents, inputs, tangents, **whole),
    )
    got = jax.jit(lambda *given: faces(distributed, *given))(tuple(inputs), cotangents, tangents)
    for name, mine, theirs in zip(("value", "jvp", "vjp", "hvp"), got, expected, strict=True):
        theirs = [x for x in theirs[: len(mine)] if x is not None]
        close(tuple(x for x in mine if x is not None), tuple(theirs), name)


def check_batch_on_part_of_a_mesh():
    """A batch of features, whose rows are the second axis, on each row of a mesh of devices."""
    mesh = Mesh(np.array(jax.devices()).reshape(2, -1), ("batch", "parts"))
    rng = np.random.default_rng(0)
    graph = gg.Graph.from_edges(*rng.integers(0, 30, (2, 90)), 30, 30)
    owner = rng.integers(0, SIZE // 2, 30)
    dg = gj.DistributedGraph.from_global(graph, owner, mesh, axis="parts")
    h, kernel = rng.normal(size=(4, 30, 3)), (rng.normal(size=(2, 5)), np.zeros(5))
    kernel += (rng.normal(size=(5, 3, 2)), np.zeros((3, 2)))
    coords = rng.normal(size=(90, 2))
    divided = PartitionSpec("batch", "parts")
    layer = jax.shard_map(
        lambda h, coords, kernel, dg: gj.gno(h, coords, *kernel, graph=dg),
        mesh=mesh,
        in_specs=(divided, dg.spec, PartitionSpec(), dg.spec),
        out_specs=divided,
    )

    def loss(h, kernel):
        rows = jnp.stack([dg.scatter(x) for x in h])
        out = layer(rows, dg.scatter(coords, "edges"), kernel, dg)
        return sum(jnp.sin(dg.gather(y, "dst")).sum() for y in out)

    def expected(h, kernel):
        return sum(jnp.sin(gj.gno(x, coords, *kernel, graph=graph)).sum() for x in h)

    got = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(h, kernel)
    one = jax.jit(jax.value_and_grad(expected, argnums=(0, 1)))(h, kernel)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(one), strict=True):
        scale = max(np.abs(b).max(), 1)
        assert np.abs(np.asarray(a) - np.asarray(b)).max() <= 1e-13 * scale


def main():
    done = 0
    if SIZE % 2 == 0:
        check_batch_on_part_of_a_mesh()
    for turn, (label, (graph, owner, owner_src)) in enumerate(situations(SIZE).items()):
        own = EVERYWHERE[(turn + SIZE) % len(EVERYWHERE)]
        for name in FRONT:
            operator = getattr(gg, name)
            if "graph" not in operator.static or operator.hops > 1:
                continue
            if name != own and not (SIZE == 3 and label == "bipartite"):
                continue
            try:
                check(operator, graph, (owner, owner_src))
            except Exception as error:
                raise AssertionError(f"{label}, {name}") from error
            done += 1
    print(f"{done} calls on {SIZE} devices")


main()
