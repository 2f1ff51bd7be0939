# SPDX-License-Identifier: MIT
"""JAX's programs in other processes and on several devices: exported, kept, sharded."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import gnograd as gg
from faces import tuple_of
from gnograd.notation import shapes

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
gj = pytest.importorskip("gnograd.jax")

from calls_of_jax import N, assert_same, bind, every_operator, is_on_edges, of_edges, random_graph  # noqa: E402


def run_in_new_process(code, *arguments, **environment):
    found = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=300,
        env=dict(os.environ, JAX_PLATFORMS="cpu", **environment),
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout


PRELUDE = """
import sys
import numpy as np, jax, jax.numpy as jnp
from jax import export
jax.config.update("jax_enable_x64", True)
import gnograd as gg, gnograd.jax as gj

def random_graph(seed, n_edges=8, n=5):
    rng = np.random.default_rng(seed)
    return gg.Graph.from_edges(rng.integers(0, n, n_edges), rng.integers(0, n, n_edges), n, n)

rng = np.random.default_rng(0)
h, kappa = rng.normal(size=(5, 3)), rng.normal(size=(8, 3, 2))
"""


def exported(function, *arguments, **more):
    export = pytest.importorskip("jax.export")
    known = [export.DisabledSafetyCheck.custom_call("gnograd")]
    program = export.export(jax.jit(function), disabled_checks=known)(*arguments)
    pytest.importorskip("flatbuffers")
    return program.serialize(**more)


@pytest.mark.exhaustive
def test_export(tmp_path):
    h, kappa = np.random.default_rng(0).normal(size=(5, 3)), np.zeros((8, 3, 2))

    def apply(h, kappa, graph):
        return gj.gno_aggregate(h, kappa, graph=graph)

    (tmp_path / "program").write_bytes(
        exported(apply, h, kappa, gj.Graph.of(random_graph(0)), vjp_order=1)
    )
    run_in_new_process(
        PRELUDE + """
program = export.deserialize(open(sys.argv[1], "rb").read())
for seed in (1, 2):
    graph = random_graph(seed)
    out = gg.gno_aggregate(h, kappa, graph=graph)
    np.testing.assert_array_equal(program.call(h, kappa, gj.Graph.of(graph)), out)
    to_h, to_kappa = jax.grad(
        lambda h, k: jnp.vdot(out, program.call(h, k, gj.Graph.of(graph))), argnums=(0, 1)
    )(jnp.asarray(h), jnp.asarray(kappa))
    expected = gg.gno_aggregate.vjp(out, (h, kappa), graph=graph)
    np.testing.assert_array_equal(to_h, expected[0])
    np.testing.assert_array_equal(to_kappa, expected[1])
""", tmp_path / "program",
    )  # fmt: skip


@every_operator
def test_export_for_any_sizes(name):
    export = pytest.importorskip("jax.export")
    inputs, function, _ = bind(name)
    sizes = dict(zip(("n_src", "n_dst", "n_edges"), export.symbolic_shape("s, d, e"), strict=True))
    specs = getattr(gg, name).declaration.inputs.values()

    def shaped(array, spec):
        dims = shapes.parse(spec).dims
        shape = (sizes.get(dim, n) for dim, n in zip(dims, array.shape, strict=True))
        return jax.ShapeDtypeStruct(tuple(shape), array.dtype)

    def gradients(graph, inputs, arrays):
        def loss(inputs):
            outputs = function(graph, *inputs, **arrays)
            return sum(jnp.sin(out).sum() for out in tuple_of(outputs))

        return jax.grad(loss)(inputs)

    every = tuple(shaped(*pair) for pair in zip(inputs, specs, strict=False))
    arrays = {key: shaped(array, "n_edges") for key, array in of_edges(name, N).items()}
    graph = gj.Graph.shaped(*sizes.values())
    program = export.deserialize(exported(gradients, graph, every, arrays))
    graph = gj.Graph.of(random_graph(3, 9))
    inputs = tuple(
        np.concatenate([x, x[:1]]) if is_on_edges(spec) else x
        for x, spec in zip(inputs, specs, strict=False)
    )
    arguments = graph, inputs, of_edges(name, 9)
    assert_same(program.call(*arguments), jax.jit(gradients)(*arguments))


@pytest.mark.parametrize("wide", [True, False])
def test_what_a_graph_tells_for_any_sizes(wide):
    export = pytest.importorskip("jax.export")
    sizes = export.symbolic_shape("s, d, e")

    def told(graph):
        return graph.offsets, graph.edge_ids, graph.in_degree, graph.is_edge, graph.src, graph.dst

    graph = gj.Graph.of(random_graph(3, 9).pad(12))
    try:
        jax.config.update("jax_enable_x64", wide)
        program = export.export(jax.jit(told))(gj.Graph.shaped(*sizes))
        assert_same(program.call(graph), told(graph))
    finally:
        jax.config.update("jax_enable_x64", True)


@pytest.mark.exhaustive
def test_kept_compilations(tmp_path):
    code = """
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.split("/")[-1]))
graph = random_graph(int(sys.argv[2]))
out = jax.jit(gj.gno_aggregate)(h, kappa, graph=graph)
np.testing.assert_array_equal(out, gg.gno_aggregate(h, kappa, graph=graph))
print(events.count("cache_hits"), events.count("cache_misses"))
"""
    assert run_in_new_process(PRELUDE + code, tmp_path, 1).split() == ["0", "1"]
    assert run_in_new_process(PRELUDE + code, tmp_path, 2).split() == ["1", "0"]


@pytest.mark.exhaustive
def test_many_devices():
    """Data-parallel training: a graph a device, parameters on all, gradients summed."""
    run_in_new_process(
        PRELUDE + """
from jax.sharding import PartitionSpec as P
graphs = [random_graph(seed, n_edges).pad(10) for seed, n_edges in ((0, 8), (1, 5))]
kappa = rng.normal(size=(10, 3, 2))
stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(gj.Graph.of, graphs))

def loss(h, kappa, graph):
    return jnp.sin(gj.gno_aggregate(h, kappa, graph=graph)).sum()

def local(h, kappa, graph):
    mine = jax.tree.map(lambda leaf: leaf[0], graph)
    return jax.lax.psum(loss(h, kappa, mine), "devices")

mesh = jax.make_mesh((2,), ("devices",))
specs = dict(mesh=mesh, in_specs=(P(), P(), P("devices")), out_specs=P())
total = jax.shard_map(local, **specs)
stacked = jax.device_put(stacked, jax.sharding.NamedSharding(mesh, P("devices")))
value, gradient = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))(h, kappa, stacked)
expected = [jax.value_and_grad(loss, argnums=(0, 1))(h, kappa, graph) for graph in graphs]
np.testing.assert_allclose(value, expected[0][0] + expected[1][0], rtol=1e-13)
for got, *each in zip(gradient, expected[0][1], expected[1][1]):
    np.testing.assert_allclose(got, sum(each), rtol=1e-12, atol=1e-14)
inside = jax.jit(jax.shard_map(jax.grad(local), **specs))(h, kappa, stacked)
np.testing.assert_allclose(inside, gradient[0], rtol=1e-12, atol=1e-14)
hessian = jax.jit(jax.hessian(total))(h, kappa, stacked)
each = [jax.hessian(loss)(h, kappa, graph) for graph in graphs]
np.testing.assert_allclose(hessian, sum(each), rtol=1e-12, atol=1e-13)
""", XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(jax, "set_mesh"), reason="needs a JAX that has jax.set_mesh")
def test_meshes_with_explicit_axes():
    """Types name the parts of arrays there, of which an operator takes the whole."""
    run_in_new_process(
        """
import jax
import jax.numpy as jnp
import numpy as np
import gnograd as gg
import gnograd.jax as gj
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

jax.config.update("jax_enable_x64", True)
graph = gg.Graph.from_edges([0, 1, 2, 3, 0], [1, 0, 3, 2, 2])
rng = np.random.default_rng(0)
x, w = rng.normal(size=(4, 6)), rng.normal(size=5)
batch = rng.normal(size=(4, 4, 6))

def loss(x, w):
    return jnp.sin(gj.agg_weighted(x, w, graph=graph)).sum()

functions = [
    (jax.value_and_grad(loss, (0, 1)), (x, w), (P(None, "d"), P())),
    (jax.hessian(loss), (x, w), (P("d"), P())),
    (jax.vmap(jax.grad(loss), (0, None)), (batch, w), (P("d"), P())),
]
mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Explicit,))
for function, arrays, specs in functions:
    expected = function(*arrays)
    with jax.set_mesh(mesh):
        parts = [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(arrays, specs)]
        got = jax.jit(function)(*parts)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected)):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
""", XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )  # fmt: skip
