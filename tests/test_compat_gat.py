# SPDX-License-Identifier: MIT
"""pylibcugraphops: graph attention."""

from types import SimpleNamespace

import numpy as np
import pytest

from compat_calls import (
    WIDTH,
    H,
    attention_arrays,
    compare,
    csc,
    expected_attention,
    gat,
    gat_v2,
    half,
    like,
    unset,
)
from conftest import power_law
from gnograd.compat.pylibcugraphops import operators as ops
from gnograd.compat.pylibcugraphops.operators import ActivationKind, mha_params
from reference import attention as attention_reference


@pytest.mark.parametrize("edge_features", [False, True])
@pytest.mark.parametrize("concat", [False, True])
def test_gat(concat, edge_features, any_graph, rng):
    t = attention_arrays(rng, any_graph)
    params = mha_params(H, concat, ActivationKind.LeakyReLU, 0.2)
    out, scores, grads = gat(csc(any_graph, "int32"), t, params, edge_features)
    expected, expected_grads = expected_attention(
        attention_reference.mha_gat, any_graph, t, params, edge_features
    )
    compare(out, expected, "float32")
    for name, grad in grads.items():
        compare(grad, expected_grads[name], "float32")
    softmax = np.zeros((any_graph.n_dst, H))
    np.add.at(softmax, np.sort(any_graph.dst), scores[1].T)  # edges are in the graph's order
    has_edges = np.bincount(any_graph.dst, minlength=any_graph.n_dst) > 0
    np.testing.assert_allclose(softmax, np.repeat(has_edges[:, None], H, axis=1), rtol=1e-6)


@pytest.mark.parametrize("edge_features", [False, True])
@pytest.mark.parametrize("concat", [False, True])
def test_gat_v2(concat, edge_features, any_graph, rng):
    t = attention_arrays(rng, any_graph, "float64", v2=True)
    params = mha_params(H, concat, ActivationKind.LeakyReLU, 0.2)
    out, _, grads = gat_v2(csc(any_graph), t, params, edge_features)
    expected, expected_grads = expected_attention(
        attention_reference.mha_gat_v2, any_graph, t, params, edge_features
    )
    compare(out, expected)
    for name, grad in grads.items():
        compare(grad, expected_grads[name])


@pytest.mark.parametrize("kind", ActivationKind, ids=lambda kind: kind.name)
@pytest.mark.parametrize("sequence", [gat, gat_v2], ids=lambda s: s.__name__)
def test_activations(sequence, kind, rng):
    graph = power_law(8, 30)
    v2 = sequence is gat_v2
    dtype = "float64" if v2 else "float32"
    t = attention_arrays(rng, graph, dtype, v2)
    params = mha_params(H, True, kind, 0.3)
    out, _, grads = sequence(csc(graph), t, params, True)
    by_name, _, _ = sequence(csc(graph), t, params._replace(activation=kind.name), True)
    formula = attention_reference.mha_gat_v2 if v2 else attention_reference.mha_gat
    expected, expected_grads = expected_attention(formula, graph, t, params, True)
    compare(out, expected, dtype)
    np.testing.assert_array_equal(out, by_name)
    for name, grad in grads.items():
        compare(grad, expected_grads[name], dtype)


@pytest.mark.parametrize("kind", ActivationKind, ids=lambda kind: kind.name)
def test_saturated_scores(kind, rng):
    """Saturated activations have derivative 0."""
    graph = power_law(8, 30)
    t = attention_arrays(rng, graph, "float32", v2=True)
    t.x_src *= 100
    params = mha_params(H, True, kind, 0.0)
    out, _, grads = gat_v2(csc(graph), t, params, True, "float32")
    expected, expected_grads = expected_attention(
        attention_reference.mha_gat_v2, graph, t, params, True
    )
    compare(out, expected, "float32")
    for name, grad in grads.items():
        scale = np.max(np.abs(expected_grads[name]), initial=1)
        np.testing.assert_allclose(grad, expected_grads[name], rtol=0, atol=1e-3 * scale)


@pytest.mark.parametrize("edge_features", [False, True])
@pytest.mark.parametrize("precisions", [(0, 0, 0), (0, 0, 1), (0, 1, 1)])
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_gat_half_precision(kind, precisions, edge_features, rng):
    """Results of 16 bits are those of float32 for the same inputs, rounded."""
    types = [("fp32" if p else kind) for p in precisions]
    graph = power_law(12, 40)
    narrow = attention_arrays(rng, graph, half(kind))
    wide = SimpleNamespace(**{k: v.astype(np.float32) for k, v in vars(narrow).items()})
    g, params = csc(graph), mha_params(H, True, ActivationKind.ELU, 0.2)
    out, scores, grads = gat(g, narrow, params, edge_features, *types)
    expected, expected_scores, expected_grads = gat(g, wide, params, edge_features)
    np.testing.assert_array_equal(out, expected.astype(out.dtype))
    np.testing.assert_array_equal(scores, expected_scores)
    for name, grad in grads.items():
        np.testing.assert_array_equal(grad, expected_grads[name].astype(grad.dtype))


def test_gat_gradients_not_wanted(rng):
    graph = power_law(12, 40)
    t, g, params = attention_arrays(rng, graph), csc(graph), mha_params(H)
    out, _, grads = gat(g, t, params, False)
    rest = (None, t.c, t.x_src, t.x_dst, t.a, None, g, params)
    for name in grads:
        only = {key: like(grad) if key == name else None for key, grad in grads.items()}
        ops.mha_gat_n2n_bwd_fp32_fp32_fp32_fp32(*only.values(), *rest)
        np.testing.assert_allclose(only[name], grads[name], rtol=1e-4, atol=1e-4)
    ops.mha_gat_n2n_bwd_fp32_fp32_fp32_fp32(None, None, None, *rest)
    same = like(out)
    ops.mha_gat_n2n_fwd_fp32_fp32(
        output_embedding=same, softmax_scores=None, src_node_embedding=t.x_src,
        dst_node_embedding=t.x_dst, attention_weights=t.a, graph=g, params=params,
    )  # fmt: skip
    np.testing.assert_array_equal(same, out)


def test_gat_errors(rng):
    graph = power_law(12, 40)
    t, g = attention_arrays(rng, graph), csc(graph)
    out, scores = unset(12, WIDTH, dtype=np.float32), unset(2, H, 40, dtype=np.float32)
    forward = ops.mha_gat_n2n_fwd_fp32_fp32

    def fails(error, message, *arguments):
        with pytest.raises(error, match=f"^mha_gat_n2n_fwd_fp32_fp32: {message}"):
            forward(*arguments)
        assert np.isnan(out).all()

    t64 = attention_arrays(rng, graph, "float64")
    ok = mha_params(H)
    fails(TypeError, "src_embedding is float64, needs float32",
          out, scores, t64.x_src, t.x_dst, t.a, g, ok)  # fmt: skip
    fails(ValueError, "attention_weights has shape",
          out, scores, t.x_src, t.x_dst, t.a_with_edges, g, ok)  # fmt: skip
    fails(ValueError, "softmax_scores has shape",
          out, scores[:, :1].copy(), t.x_src, t.x_dst, t.a, g, ok)  # fmt: skip
    fails(ValueError, "dst_embedding is missing", out, scores, t.x_src, None, t.a, g, ok)
    fails(ValueError, "src_embedding has shape",
          out, scores, t.x_src, t.x_dst, t.a, g, mha_params(4))  # fmt: skip
    fails(ValueError, "num_heads is 0", out, scores, t.x_src, t.x_dst, t.a, g, mha_params(0))
    fails(TypeError, "num_heads is 2.0", out, scores, t.x_src, t.x_dst, t.a, g, mha_params(2.0))
    fails(TypeError, "concat_heads is 0.5",
          out, scores, t.x_src, t.x_dst, t.a, g, mha_params(H, 0.5))  # fmt: skip
    fails(TypeError, "alpha is an array",
          out, scores, t.x_src, t.x_dst, t.a, g, mha_params(H, alpha=np.ones(3)))  # fmt: skip
    fails(TypeError, "src_embedding is a masked array",
          out, scores, np.ma.array(t.x_src), t.x_dst, t.a, g, ok)  # fmt: skip
    fails(ValueError, "activation is 'GELU', needs one of LeakyReLU",
          out, scores, t.x_src, t.x_dst, t.a, g, mha_params(H, True, "GELU"))  # fmt: skip
    fails(TypeError, "params is of type int", out, scores, t.x_src, t.x_dst, t.a, g, H)
