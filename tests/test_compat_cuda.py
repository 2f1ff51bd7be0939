# SPDX-License-Identifier: MIT
"""pylibcugraphops and Ascend's functions with arrays on a GPU, or on the host that plays one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import compat_calls
import gnograd as gg
import test_ascend
import test_compat
import test_compat_dimenet
import test_compat_edges
import test_compat_gat
from conftest import power_law
from gnograd.compat import ascend
from gnograd.compat.pylibcugraphops import dimenet
from gnograd.compat.pylibcugraphops import operators as ops
from gnograd.compat.pylibcugraphops.operators import ActivationKind, AggOp, mha_params
from gpus import GPUS, needs_gpu, on_host
from on_device import EPS, Lender, assert_close, calls, columns, numbers, to_device, to_host, wide
from test_compat_edges import (
    test_directed_messages,
    test_edge_updates,
    test_gradients_of_relations_not_wanted,
    test_relations,
    test_relations_of_samples_up_to_23_02,
    test_types_of_relations,
)

pytestmark = needs_gpu
if GPUS:
    from gnograd.backends import cuda

__all__ = [
    "calls",
    "test_directed_messages",
    "test_edge_updates",
    "test_gradients_of_relations_not_wanted",
    "test_relations",
    "test_relations_of_samples_up_to_23_02",
    "test_types_of_relations",
]


# ---- call sequences of pylibcugraphops: those of its own tests, with arrays on the device ----


class OnDevice:
    """The functions of a module with every array moved to the device and back."""

    def __init__(self, module=ops):
        self.module = module

    def __getattr__(self, name):
        function = getattr(self.module, name)
        if not callable(function) or isinstance(function, type):
            return function

        def call(*args, **kwargs):
            moved = {}

            def move(value):
                if not isinstance(value, np.ndarray):
                    return value
                return moved.setdefault(id(value), (value, cuda.to_device(value)))[1]

            function(*map(move, args), **{k: move(v) for k, v in kwargs.items()})
            for host, device in moved.values():
                host[...] = device.get()

        return call


@pytest.fixture(autouse=True)
def _on_device(monkeypatch):
    monkeypatch.setattr(test_compat_edges, "ops", OnDevice())


@pytest.fixture
def on_device(monkeypatch):
    for module in (compat_calls, test_compat, test_compat_gat):
        monkeypatch.setattr(module, "ops", OnDevice())
    monkeypatch.setattr(test_compat_dimenet, "dimenet", OnDevice(dimenet))
    # a GPU rounds in other places
    monkeypatch.setattr(
        test_compat_dimenet, "same", lambda a, b: assert_allclose(a, b, 1e-12, 1e-11)
    )


@pytest.mark.usefixtures("on_device")
class TestPylibcugraphops:
    @test_compat.every_op
    @test_compat.every_sequence
    def test_aggregation(self, sequence, op, any_graph, rng):
        test_compat.test_aggregation(sequence, op, any_graph, rng)

    @test_compat.every_type
    def test_types(self, sequence, op, dtype, integer, rng):
        test_compat.test_types(sequence, op, dtype, integer, rng)

    @pytest.mark.parametrize("integer", ["int32", "int64"])
    def test_saved_arrays(self, integer):
        test_compat.test_saved_arrays(integer)

    @pytest.mark.parametrize("edge_features", [False, True])
    @pytest.mark.parametrize("concat", [False, True])
    @pytest.mark.parametrize("test", [test_compat_gat.test_gat, test_compat_gat.test_gat_v2])
    def test_attention(self, test, concat, edge_features, any_graph, rng):
        test(concat, edge_features, any_graph, rng)

    @pytest.mark.parametrize("kind", ActivationKind, ids=lambda kind: kind.name)
    @pytest.mark.parametrize(
        "sequence", [compat_calls.gat, compat_calls.gat_v2], ids=lambda s: s.__name__
    )
    def test_activations(self, sequence, kind, rng):
        test_compat_gat.test_activations(sequence, kind, rng)

    @pytest.mark.parametrize("kind", ActivationKind, ids=lambda kind: kind.name)
    def test_saturated_scores(self, kind, rng):
        test_compat_gat.test_saturated_scores(kind, rng)

    def test_gradients_not_wanted(self, rng):
        test_compat_gat.test_gat_gradients_not_wanted(rng)
        for op in AggOp:
            test_compat.test_gradients_not_wanted(op, rng)

    @pytest.mark.parametrize("integer", ["int32", "int64"])
    def test_edge_to_edge(self, integer, rng):
        test_compat_dimenet.test_edge_to_edge(integer, rng)

    def test_edge_to_edge_second_order(self, rng):
        test_compat_dimenet.test_edge_to_edge_second_order(rng)

    def test_radial_basis(self, rng):
        test_compat_dimenet.test_radial_basis(rng)

    def test_dimenet_errors(self, rng):
        test_compat_dimenet.test_dimenet_errors(rng)


# ---- Ascend's functions ----


class AscendOnDevice:
    """The functions with every array moved to the device, and results back."""

    def __getattr__(self, name):
        found = getattr(ascend, name)
        if not name.startswith("nsa_"):
            return found
        return lambda **given: to_host(
            found(**{k: to_device(v) if isinstance(v, np.ndarray) else v for k, v in given.items()})
        )


@pytest.mark.parametrize("sparse_mode", [0, 2])
@pytest.mark.parametrize("dtype", EPS)
def test_ascend_values(dtype, sparse_mode, rng):
    given = test_ascend.arguments(rng, numbers(dtype), sparse_mode=sparse_mode)
    cotangent = rng.normal(size=(20, 6, 4)).astype(numbers(dtype))
    exact = {k: v.astype(float) if k in ("query", "key", "value") else v for k, v in given.items()}

    def results(module, arguments, cotangent):
        forward = module.nsa_selected_attention(**arguments)
        gradients = test_ascend.grad_arguments(arguments, forward, cotangent)
        return (*forward, *module.nsa_selected_attention_grad(**gradients))

    expected = results(ascend, exact, cotangent.astype(float))
    for i, (a, b) in enumerate(
        zip(results(AscendOnDevice(), given, cotangent), expected, strict=True)
    ):
        real = "float64" if dtype == "float64" else "float32"
        assert a.dtype == (real if i in (1, 2) else numbers(dtype))
        assert_close(a.astype(float), b, dtype, 4)


def test_ascend_rows_that_see_nothing(monkeypatch, rng):
    monkeypatch.setattr(test_ascend, "ascend", AscendOnDevice())
    test_ascend.test_rows_that_see_nothing(rng)


@pytest.mark.parametrize("gradient", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize(
    ("change", "message"),
    # the values of an array on a GPU are not looked at
    [limit for limit in test_ascend.LIMITS if "names a block" not in limit[1]],
)
def test_ascend_limits(change, message, gradient, monkeypatch, rng):
    monkeypatch.setattr(test_ascend, "ascend", AscendOnDevice())
    test_ascend.test_limits(change, message, gradient, rng)


def test_ascend_on_two_devices(rng):
    given = test_ascend.arguments(rng)
    given["key"] = to_device(given["key"])
    with pytest.raises(TypeError, match="query is on the CPU but key is on the GPU"):
        ascend.nsa_selected_attention(**given)


def assert_same_but_for_rounding(actual, expected, kind):
    """Check that results are equal but for rounding, as sums may have another order."""
    assert actual.dtype == expected.dtype
    scale = np.max(np.abs(expected.astype(float)), initial=1)
    error = np.abs(actual.astype(float) - expected.astype(float))
    assert np.all(error <= EPS[{"fp16": "float16", "bf16": "bfloat16"}[kind]] * scale)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@test_compat.every_op
@test_compat.every_sequence
def test_aggregation_in_half_precision(sequence, op, kind, rng, monkeypatch):
    graph, dtype = power_law(12, 40), compat_calls.half(kind)
    t, g = compat_calls.arrays(rng, graph, dtype), compat_calls.csc(graph, "int32")
    out, _, grads = sequence(g, t, op, dtype, "int32")
    monkeypatch.setattr(compat_calls, "ops", OnDevice())
    same, _, same_grads = sequence(g, t, op, dtype, "int32")
    assert_same_but_for_rounding(same, out, kind)
    for name, grad in grads.items():
        assert_same_but_for_rounding(same_grads[name], grad, kind)


@pytest.mark.parametrize(("kind", "bits"), [("fp16", 11), ("bf16", 8)])
@pytest.mark.parametrize("sequence", [compat_calls.concat_n2n, compat_calls.concat_n2n_e2n])
def test_gradient_of_two_parts_is_rounded_once(sequence, kind, bits, rng, monkeypatch):
    """A gradient of two parts is rounded once, for cotangents whose sums are exact in float32."""
    graph, dtype = power_law(12, 40), compat_calls.half(kind)
    t, g = compat_calls.arrays(rng, graph, dtype), compat_calls.csc(graph, "int32")
    step = 2.0 ** (1 - bits)
    t.c = (step * rng.integers(-(2**bits), 2**bits + 1, t.c.shape)).astype(dtype)
    monkeypatch.setattr(compat_calls, "ops", OnDevice())
    _, c, gradients = sequence(g, t, AggOp.Sum, dtype, "int32")
    _, expected = compat_calls.expected_from(sequence, graph, t, AggOp.Sum, c)
    exact = step * np.round(expected["x"] / step)
    assert_array_equal(gradients["x"], exact.astype(np.float32).astype(dtype))


@pytest.mark.parametrize("edge_features", [False, True])
@pytest.mark.parametrize("precisions", [(0, 0, 0), (0, 0, 1), (0, 1, 1)])
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_attention_in_half_precision(kind, precisions, edge_features, rng, monkeypatch):
    types = [("fp32" if p else kind) for p in precisions]
    graph = power_law(12, 40)
    t = compat_calls.attention_arrays(rng, graph, compat_calls.half(kind))
    g, params = compat_calls.csc(graph), mha_params(2, True, ActivationKind.ELU, 0.2)
    out, scores, grads = compat_calls.gat(g, t, params, edge_features, *types)
    monkeypatch.setattr(compat_calls, "ops", OnDevice())
    same, same_scores, same_grads = compat_calls.gat(g, t, params, edge_features, *types)
    assert_allclose(same_scores, scores, rtol=1e-4, atol=1e-5)
    assert_same_but_for_rounding(same, out, kind)
    for name, grad in grads.items():
        assert_same_but_for_rounding(same_grads[name], grad, kind)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_gat_v2_in_half_precision(kind, rng, monkeypatch):
    """Gradients equal those on the CPU from the same activation scores, which are rounded."""
    graph = power_law(12, 40)
    t = compat_calls.attention_arrays(rng, graph, compat_calls.half(kind), v2=True)
    g, params = compat_calls.csc(graph), mha_params(2, True, ActivationKind.Tanh)
    activated, c = compat_calls.unset(40, compat_calls.WIDTH, dtype=t.c.dtype), t.c
    ops.mha_gat_v2_n2n_fwd(
        compat_calls.like(t.c), None, activated, t.x_src, t.x_dst, t.a, g, params
    )
    gradients = []
    for functions in (ops, OnDevice()):
        grads = [compat_calls.like(x) for x in (t.x_src, t.x_dst, t.a)]
        functions.mha_gat_v2_n2n_bwd(*grads, None, c, t.x_src, t.a, None, activated, g, params)
        gradients.append(grads)
    for cpu, gpu in zip(*gradients, strict=True):
        assert_same_but_for_rounding(gpu, cpu, kind)


@pytest.mark.parametrize("mma", dimenet.MMAOp, ids=lambda mma: mma.name)
def test_edge_to_edge_in_every_math_mode(mma, rng):
    """Results of every math mode are as accurate as float32."""
    t, g = compat_calls.molecule(rng, "int32")
    inputs = tuple(x.astype(np.float32) for x in (t.vector, t.rbf, t.embedding, t.weights))
    out = cuda.to_device(np.full(inputs[2].shape, np.nan, np.float32))
    integers = map(cuda.to_device, (g.coo_idx, g.dst_offsets, g.dst_edge_index))
    dimenet.agg_edge_to_edge_fwd(out, *map(cuda.to_device, inputs), *integers, mma)
    exact = gg.agg_edge_to_edge(*wide(inputs), edges=tuple(g.coo_idx), n_nodes=7)
    assert_close(out.get().astype(float), exact, "float32", slack=1)


def test_old_functions_refuse_what_does_not_fit(rng):
    graph = power_law(12, 40)
    t, g = compat_calls.arrays(rng, graph), compat_calls.csc(graph)
    x, w = cuda.to_device(t.x), cuda.to_device(t.w)
    out = cuda.to_device(np.full((12, 6), np.nan))
    with pytest.raises(TypeError, match="input is on the CPU but edge_weight is on the GPU"):
        ops.agg_weighted_n2n_fwd(columns(out, 3), t.x, w, g)
    with pytest.raises(ValueError, match="output is not contiguous"):
        ops.agg_weighted_n2n_fwd(columns(out, 3), x, w, g)
    out = cuda.to_device(np.full((12, 3), np.nan))
    frozen = Lender(out, data=(out.__cuda_array_interface__["data"][0], True))
    with pytest.raises(ValueError, match="output is read-only"):
        ops.agg_weighted_n2n_fwd(frozen, x, w, g)
    with pytest.raises(ValueError, match="output_embedding shares memory with input_embedding"):
        ops.agg_simple_n2n_fwd(x, x, g)
    assert np.isnan(out.get()).all()


@on_host
def test_old_functions_use_the_stream_given(rng, calls):
    graph = power_law(12, 40)
    t, g = compat_calls.arrays(rng, graph, "float16"), compat_calls.csc(graph, "int32")
    x, out = cuda.to_device(t.x), cuda.to_device(np.full((12, 6), np.nan, "float16"))
    location = cuda.to_device(np.full((12, 3), -99, np.int32))
    ops.agg_concat_n2n_fwd(out, x, g, AggOp.Max, location, stream_id=90)
    ops.agg_concat_n2n_bwd(x, out, g, AggOp.Max, location, stream_id=90)
    assert {arguments[-1] for arguments in calls["launch"] + calls["assign"]} == {90}
    assert location.__cuda_array_interface__["stream"] == 90


def test_graphs_of_device_arrays():
    offsets, indices = np.array([0, 2, 3], np.int32), np.array([0, 1, 1], np.int32)
    csc = compat_calls.pylibcugraphops.make_csc(cuda.to_device(offsets), cuda.to_device(indices))
    assert csc.graph._made_there
    assert csc.index_dtype == "int32"
    assert_array_equal(csc.graph.indices, indices)
