# SPDX-License-Identifier: MIT
"""Call sequences of pylibcugraphops, forward and then backward with the saved arrays."""

from types import SimpleNamespace

import numpy as np
import pytest

from conftest import Edges
from gnograd.compat import pylibcugraphops
from gnograd.compat.pylibcugraphops import operators as ops
from gnograd.compat.pylibcugraphops.operators import ActivationKind, AggOp
from reference import aggregation as reference
from reference import derivatives

D, DE, DO = 3, 2, 4
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def csc(graph: Edges, integer="int64", bipartite=True):
    g = graph.graph
    offsets, indices = g.offsets.astype(integer), g.indices.astype(integer)
    ids = None if g.edge_ids is None else g.edge_ids.astype(integer)
    if bipartite:
        return pylibcugraphops.make_bipartite_csc(offsets, indices, g.n_src, ids)
    return pylibcugraphops.make_csc(offsets, indices, map_csc_to_coo=ids)


def unset(*shape, dtype):
    """Outputs hold nonsense before a call."""
    return np.full(shape, -99 if np.issubdtype(dtype, np.integer) else np.nan, dtype)


def compare(actual, expected, dtype="float64"):
    assert actual.shape == expected.shape
    scale = np.max(np.abs(expected), initial=1)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE[dtype] * scale)


# ---- aggregation: one old call sequence a family ----


def weighted(g, t, op, dtype="float64", integer="int64"):
    out, location, degree = saved(t, op, D, D, dtype, integer)
    ops.agg_weighted_n2n_fwd(out, t.x, t.w, g, op, location, degree)
    grad_x, grad_w = like(t.x), like(t.w)
    c = cotangent(t, out)
    ops.agg_weighted_n2n_bwd(grad_x, grad_w, c, t.w, t.x, g, op, out, location, degree)
    return out, c, {"x": grad_x, "w": grad_w}


def simple_n2n(g, t, op, dtype="float64", integer="int64"):
    out, location, _ = saved(t, op, D, D, dtype, integer)
    ops.agg_simple_n2n_fwd(out, t.x, g, op, location)
    grad_x, c = like(t.x), cotangent(t, out)
    ops.agg_simple_n2n_bwd(grad_x, c, g, op, location)
    return out, c, {"x": grad_x}


def simple_e2n(g, t, op, dtype="float64", integer="int64"):
    out, location, _ = saved(t, op, DE, DE, dtype, integer)
    ops.agg_simple_e2n_fwd(out, t.e, g, op, location)
    grad_e, c = like(t.e), cotangent(t, out)
    ops.agg_simple_e2n_bwd(grad_e, c, g, op, location)
    return out, c, {"e": grad_e}


def simple_n2n_e2n(g, t, op, dtype="float64", integer="int64"):
    out, location, _ = saved(t, op, D + DE, D + DE, dtype, integer)
    ops.agg_simple_n2n_e2n_fwd(out, t.x, t.e, g, op, location)
    grad_x, grad_e, c = like(t.x), like(t.e), cotangent(t, out)
    ops.agg_simple_n2n_e2n_bwd(grad_x, grad_e, c, g, op, location)
    return out, c, {"x": grad_x, "e": grad_e}


def concat_n2n(g, t, op, dtype="float64", integer="int64"):
    out, location, _ = saved(t, op, 2 * D, D, dtype, integer)
    ops.agg_concat_n2n_fwd(out, t.x, g, op, location)
    grad_x, c = like(t.x), cotangent(t, out)
    ops.agg_concat_n2n_bwd(grad_x, c, g, op, location)
    return out, c, {"x": grad_x}


def concat_e2n(g, t, op, dtype="float64", integer="int64"):
    out, location, _ = saved(t, op, DE + DO, DE, dtype, integer)
    ops.agg_concat_e2n_fwd(out, t.e, t.own, g, op, location)
    grad_e, grad_own, c = like(t.e), like(t.own), cotangent(t, out)
    ops.agg_concat_e2n_bwd(grad_e, grad_own, c, g, DE, DO, op, location)
    return out, c, {"e": grad_e, "own": grad_own}


def concat_n2n_e2n(g, t, op, dtype="float64", integer="int64"):
    out, location, _ = saved(t, op, D + DE + D, D + DE, dtype, integer)
    ops.agg_concat_n2n_e2n_fwd(out, t.x, t.e, g, D, DE, op, location)
    grad_x, grad_e, c = like(t.x), like(t.e), cotangent(t, out)
    ops.agg_concat_n2n_e2n_bwd(grad_x, grad_e, c, g, D, DE, op, location)
    return out, c, {"x": grad_x, "e": grad_e}


def concat_weighted(g, t, op, dtype="float64", integer="int64"):
    out, location, degree = saved(t, op, 2 * D, D, dtype, integer)
    ops.agg_concat_weighted_n2n_fwd(out, t.x, t.w, g, op, location, degree)
    grad_x, grad_w = like(t.x), like(t.w)
    c = cotangent(t, out)
    ops.agg_concat_weighted_n2n_bwd(grad_x, grad_w, c, t.w, t.x, g, op, out, location, degree)
    return out, c, {"x": grad_x, "w": grad_w}


SEQUENCES = {
    weighted: "x w",
    simple_n2n: "x",
    simple_e2n: "e",
    simple_n2n_e2n: "x e",
    concat_n2n: "x x",
    concat_e2n: "e own",
    concat_n2n_e2n: "x e x",
    concat_weighted: "x w x",
}
"""Inputs of every sequence; those whose nodes are their own neighbours have x twice."""


def arrays(rng, graph: Edges, dtype="float64"):
    shapes = {
        "x": (graph.n_src, D),
        "w": (graph.n_edges,),
        "e": (graph.n_edges, DE),
        "own": (graph.n_dst, DO),
        "c": (graph.n_dst, 9),
    }
    values = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    values["w"] = rng.random(graph.n_edges) + 0.5
    return SimpleNamespace(**{name: value.astype(dtype) for name, value in values.items()})


def like(array):
    return unset(*array.shape, dtype=array.dtype)


def cotangent(t, out):
    return np.ascontiguousarray(t.c[:, : out.shape[1]])


def saved(t, op, columns, aggregated, dtype, integer):
    """Arrays for what the forward pass writes, as far as this aggregation needs them."""
    n_dst = len(t.own)
    return (
        unset(n_dst, columns, dtype=dtype),
        unset(n_dst, aggregated, dtype=integer) if op in (AggOp.Min, AggOp.Max) else None,
        unset(n_dst, dtype=dtype) if op is AggOp.Mean else None,
    )


def expected_from(sequence, graph: Edges, t, op, c):
    """Output and gradients by the formulas, in float64."""
    names = SEQUENCES[sequence].split()
    own_is_x = names.count("x") == 2

    def formula(x, w, e, own):
        own = x[: graph.n_dst] if own_is_x else own
        return reference.agg_concat(
            x, w, e, own, graph.src, graph.dst, graph.n_dst, op.name.lower()
        )

    inputs = [
        getattr(t, name).astype(float) if name in names else None for name in ("x", "w", "e", "own")
    ]
    gradients = derivatives.vjp(formula, inputs, c.astype(float))
    return formula(*inputs), dict(zip(("x", "w", "e", "own"), gradients, strict=True))


# ---- half precision ----


def half(name):
    return np.dtype(np.float16) if name == "fp16" else pytest.importorskip("ml_dtypes").bfloat16


# ---- attention ----

H, C, CE = 2, 3, 2
WIDTH = H * C


def attention_arrays(rng, graph: Edges, dtype="float32", v2=False):
    e = H * (C if v2 else CE)
    shapes = {
        "x_src": (graph.n_src, WIDTH),
        "x_dst": (graph.n_dst, WIDTH),
        "a": (WIDTH if v2 else 2 * WIDTH,),
        "a_with_edges": (WIDTH if v2 else 2 * WIDTH + e,),
        "e": (graph.n_edges, e),
        "c": (graph.n_dst, WIDTH),
    }
    return SimpleNamespace(
        **{name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    )


def gat(g, t, params, edge_features, kind="fp32", dgrad="fp32", wgrad="fp32"):
    """The old call sequence in given types: output, scores and gradients by name."""
    dtypes = {"fp32": np.float32, "fp16": np.float16}
    if "bf16" in (kind, dgrad, wgrad):
        dtypes["bf16"] = half("bf16")
    width = WIDTH if params.concat_heads else C
    out = unset(g.n_dst_nodes, width, dtype=dtypes[kind])
    scores = unset(2, H, g.n_indices, dtype=np.float32)
    scratch = unset(2, H, g.n_indices, dtype=np.float32)
    c = np.ascontiguousarray(t.c[:, :width])
    grads = {
        "x_src": unset(*t.x_src.shape, dtype=dtypes[dgrad]),
        "x_dst": unset(*t.x_dst.shape, dtype=dtypes[dgrad]),
    }
    forward = f"mha_gat_n2n_fwd_{kind}_fp32"
    backward = f"mha_gat_n2n_bwd_{kind}_{dgrad}_{wgrad}_fp32"
    if edge_features:
        forward, backward = (s.replace("n2n", "n2n_efeat") for s in (forward, backward))
        a = t.a_with_edges
        grads["e"] = unset(*t.e.shape, dtype=dtypes[dgrad])
        grads["a"] = unset(*a.shape, dtype=dtypes[wgrad])
        getattr(ops, forward)(out, scores, t.x_src, t.x_dst, t.e, a, g, params)
        getattr(ops, backward)(
            *grads.values(), scratch, c, t.x_src, t.x_dst, t.e, a, scores, g, params
        )
    else:
        grads["a"] = unset(*t.a.shape, dtype=dtypes[wgrad])
        workspace = unset(g.n_dst_nodes, 2 * WIDTH, dtype=dtypes[wgrad])
        getattr(ops, forward)(out, scores, t.x_src, t.x_dst, t.a, g, params)
        getattr(ops, backward)(
            *grads.values(), scratch, c, t.x_src, t.x_dst, t.a, scores, g, params, workspace
        )
    return out, scores, grads


def gat_v2(g, t, params, edge_features, dtype="float64"):
    width = WIDTH if params.concat_heads else C
    out = unset(g.n_dst_nodes, width, dtype=dtype)
    scores, scratch = (unset(2, H, g.n_indices, dtype=dtype) for _ in range(2))
    activated = unset(g.n_indices, WIDTH, dtype=dtype)
    c = np.ascontiguousarray(t.c[:, :width])
    grads = {"x_src": like(t.x_src), "x_dst": like(t.x_dst)}
    if edge_features:
        grads["e"] = like(t.e)
        ops.mha_gat_v2_n2n_efeat_fwd(
            out, scores, activated, t.x_src, t.x_dst, t.e, t.a_with_edges, g, params
        )
        backward, a = ops.mha_gat_v2_n2n_efeat_bwd, t.a_with_edges
    else:
        ops.mha_gat_v2_n2n_fwd(out, scores, activated, t.x_src, t.x_dst, t.a, g, params)
        backward, a = ops.mha_gat_v2_n2n_bwd, t.a
    grads["a"] = like(a)
    backward(*grads.values(), scratch, c, t.x_src, a, scores, activated, g, params)
    return out, scores, grads


def expected_attention(formula, graph: Edges, t, params, edge_features):
    inputs = [t.x_src, t.x_dst, t.a_with_edges if edge_features else t.a]
    inputs = [x.astype(float) for x in [*inputs, *([t.e] if edge_features else [])]]

    def f(x_src, x_dst, a, e=None):
        return formula(
            x_src, x_dst, a, e, graph.src, graph.dst, graph.n_dst, params.num_heads,
            params.concat_heads, ActivationKind(params.activation).name, params.alpha,
        )  # fmt: skip

    out = f(*inputs)
    gradients = derivatives.vjp(f, inputs, t.c[:, : out.shape[1]].astype(float))
    return out, dict(zip(("x_src", "x_dst", "a", "e"), gradients, strict=False))


# ---- DimeNet++ ----

S, R, EMB, MID = 7, 6, 5, 3


def molecule(rng, integer="int64"):
    """Edges sorted by source, and what the old library was given beside them."""
    x = rng.normal(size=(7, 3))
    src, dst = np.nonzero(np.linalg.norm(x[:, None] - x, axis=2) + 9 * np.eye(7) < 2.5)
    order = np.argsort(dst, kind="stable")
    count = [np.bincount(end, minlength=7) for end in (src, dst)]
    src_offsets, dst_offsets = (np.concatenate([[0], np.cumsum(c)]) for c in count)
    t = SimpleNamespace(
        vector=x[dst] - x[src],
        rbf=rng.normal(size=(len(src), S * R)),
        embedding=rng.normal(size=(len(src), EMB)),
        weights=rng.normal(size=(S * R + EMB, MID)),
    )
    integers = {
        "coo_idx": np.stack([src, dst]),
        "src_offsets": src_offsets,
        "dst_offsets": dst_offsets,
        "dst_edge_index": order,
    }
    g = SimpleNamespace(**{name: array.astype(integer) for name, array in integers.items()})
    return t, g
