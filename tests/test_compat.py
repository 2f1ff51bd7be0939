# SPDX-License-Identifier: MIT
"""Call sequences of pylibcugraphops, forward and then backward with the saved arrays."""

from types import SimpleNamespace

import numpy as np
import pytest

import gnograd as gg
from conftest import Edges, edges, pairs, power_law
from gnograd.compat import pylibcugraphops
from gnograd.compat.pylibcugraphops import dimenet
from gnograd.compat.pylibcugraphops import operators as ops
from gnograd.compat.pylibcugraphops.operators import ActivationKind, AggOp, mha_params
from reference import aggregation as reference
from reference import attention as attention_reference
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

every_sequence = pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda s: s.__name__)
every_op = pytest.mark.parametrize("op", AggOp, ids=lambda op: op.name)


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


@every_op
@every_sequence
def test_aggregation(sequence, op, any_graph, rng):
    t = arrays(rng, any_graph)
    if SEQUENCES[sequence].count("x") == 2 and any_graph.n_src < any_graph.n_dst:
        with pytest.raises(ValueError, match="needs destinations that are among the sources"):
            sequence(csc(any_graph), t, op)
        return
    out, c, gradients = sequence(csc(any_graph), t, op)
    expected, expected_gradients = expected_from(sequence, any_graph, t, op, c)
    compare(out, expected)
    for name, gradient in gradients.items():
        compare(gradient, expected_gradients[name])


every_type = pairs(
    sequence=SEQUENCES, op=AggOp, dtype=["float32", "float64"], integer=["int32", "int64"]
)


@every_type
def test_types(sequence, op, dtype, integer, rng):
    bipartite = integer == "int32"
    graph = power_law(12, 40)
    t = arrays(rng, graph, dtype)
    g = csc(graph, integer, bipartite)
    out, c, gradients = sequence(g, t, op, dtype, integer)
    expected, expected_gradients = expected_from(sequence, graph, t, op, c)
    compare(out, expected, dtype)
    for name, gradient in gradients.items():
        assert gradient.dtype == dtype
        compare(gradient, expected_gradients[name], dtype)


@pytest.mark.parametrize("integer", ["int32", "int64"])
def test_saved_arrays(integer):
    """Locations are positions in the graph's arrays; degrees are sums of weights."""
    g = pylibcugraphops.make_csc(
        np.array([0, 3, 3, 4], integer), np.array([0, 1, 2, 1], integer), None
    )
    assert (g.n_src_nodes, g.n_dst_nodes, g.n_indices) == (3, 3, 4)
    x = np.array([[1.0, 5.0], [2.0, 5.0], [0.0, 5.0]])
    w = np.array([1.0, 1.0, 1.0, 0.5])
    out, location = unset(3, 2, dtype=float), unset(3, 2, dtype=integer)
    ops.agg_weighted_n2n_fwd(out, x, w, g, AggOp.Max, location)
    assert location.tolist() == [[1, 0], [-1, -1], [3, 3]]
    assert location.dtype == integer
    assert out.tolist() == [[2, 5], [0, 0], [1, 2.5]]
    degree = unset(3, dtype=float)
    ops.agg_weighted_n2n_fwd(out, x, w, g, AggOp.Mean, None, degree)
    assert degree.tolist() == [3, 0, 0.5]


def test_keywords(rng):
    """The argument names of the old library's documentation."""
    graph = power_law(6, 20)
    t, g = arrays(rng, graph), csc(graph)
    out, same = unset(6, D, dtype=float), unset(6, D, dtype=float)
    ops.agg_weighted_n2n_fwd(out, t.x, t.w, g)
    ops.agg_weighted_n2n_fwd(
        output_embedding=same, input_embedding=t.x, edge_weight=t.w, graph=g,
        aggregation_operation=AggOp.Sum, stream_id=0,
    )  # fmt: skip
    np.testing.assert_array_equal(out, same)
    with pytest.raises(TypeError, match=r"agg_weighted_n2n_fwd: .*'edge_weight'"):
        ops.agg_weighted_n2n_fwd(out, t.x, wieght=t.w, graph=g)


# ---- None ----


@every_op
def test_gradients_not_wanted(op, rng):
    graph = power_law(12, 40)
    t, g = arrays(rng, graph), csc(graph)
    out, c, both = weighted(g, t, op)
    _, location, degree = saved(t, op, D, D, "float64", "int64")
    ops.agg_weighted_n2n_fwd(out, t.x, t.w, g, op, location, degree)
    rest = (c, t.w, t.x, g, op, out, location, degree)
    grad_x, grad_w = like(t.x), like(t.w)
    ops.agg_weighted_n2n_bwd(grad_x, None, *rest)
    ops.agg_weighted_n2n_bwd(None, grad_w, *rest)
    np.testing.assert_array_equal(grad_x, both["x"])
    np.testing.assert_array_equal(grad_w, both["w"])
    ops.agg_weighted_n2n_bwd(None, None, *rest)


def test_one_of_two_blocks(rng):
    graph = power_law(12, 40)
    t, g = arrays(rng, graph), csc(graph)
    _, c, both = simple_n2n_e2n(g, t, AggOp.Sum)
    grad_x, grad_e = like(t.x), like(t.e)
    ops.agg_simple_n2n_e2n_bwd(grad_x, None, c, g)
    ops.agg_simple_n2n_e2n_bwd(None, grad_e, c, g)
    np.testing.assert_array_equal(grad_x, both["x"])
    np.testing.assert_array_equal(grad_e, both["e"])


# ---- errors ----


def read_only(array):
    array = array.copy()
    array.setflags(write=False)
    return array


WRONG = {
    "output missing": ({"output": None}, ValueError, "output is missing"),
    "x missing": ({"input": None}, ValueError, r"input is missing.*\(n_src=12, D\)"),
    "output misshapen": ({"output": np.ones((11, D))}, ValueError, "output has shape"),
    "x misshapen": ({"input": np.ones((12, D + 1))}, ValueError, "input has shape|output has"),
    "w misshapen": ({"edge_weight": np.ones((40, 1))}, ValueError, "edge_weight has shape"),
    "location missing": (
        {"output_extrema_location": None}, ValueError, "output_extrema_location is missing"
    ),
    "location misshapen": (
        {"output_extrema_location": np.zeros((12, D + 1), int)},
        ValueError,
        "output_extrema_location has shape",
    ),
    "location of another integer type": (
        {"output_extrema_location": np.zeros((12, D), np.int32)},
        TypeError,
        "output_extrema_location is int32, needs int64",
    ),
    "another dtype": (
        {"edge_weight": np.ones(40, np.float32)}, TypeError, "edge_weight is float32"
    ),
    "integers": ({"input": np.ones((12, D), int)}, TypeError, "input is int64, needs float32 or"),
    "no array": ({"edge_weight": [1.0] * 40}, TypeError, "edge_weight is of type list"),
    "read-only": ({"output": read_only(np.ones((12, D)))}, ValueError, "output is read-only"),
    "strided": ({"output": np.ones((12, 2 * D))[:, ::2]}, ValueError, "output is not contiguous"),
    "masked": (
        {"edge_weight": np.ma.array(np.ones(40), mask=True)}, TypeError, "edge_weight is a masked"
    ),
    "masked, and not used": (
        {"node_degree": np.ma.array(np.ones(12), mask=True)}, TypeError, "node_degree is a masked"
    ),
    "no graph": ({"graph": None}, TypeError, "graph is of type NoneType"),
    "no such aggregation": (
        {"aggregation_operation": 7}, ValueError, "aggregation_operation is 7, needs one of AggOp"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "message"), WRONG.values(), ids=WRONG.keys())
def test_errors(wrong, error, message, rng):
    """Errors name the argument, and nothing has been written."""
    graph = power_law(12, 40)
    t = arrays(rng, graph)
    arguments = {
        "output": unset(12, D, dtype=float),
        "input": t.x,
        "edge_weight": t.w,
        "graph": csc(graph),
        "aggregation_operation": AggOp.Max,
        "output_extrema_location": unset(12, D, dtype=np.int64),
        **wrong,
    }
    before = {k: v.copy() for k, v in arguments.items() if isinstance(v, np.ndarray)}
    with pytest.raises(error, match=f"^agg_weighted_n2n_fwd: .*({message})"):
        ops.agg_weighted_n2n_fwd(**arguments)
    for name, array in before.items():
        np.testing.assert_array_equal(arguments[name], array)


@pytest.mark.parametrize("missing", ["node_degree", "output_embedding"])
def test_mean_needs_what_was_saved(missing, rng):
    graph = power_law(12, 40)
    t, g = arrays(rng, graph), csc(graph)
    kept = {"node_degree": np.ones(12), "output_embedding": np.ones((12, D)), missing: None}
    grad_x, grad_w = like(t.x), like(t.w)
    with pytest.raises(ValueError, match=f"agg_weighted_n2n_bwd: {missing} is missing"):
        ops.agg_weighted_n2n_bwd(grad_x, grad_w, np.ones((12, D)), t.w, t.x, g, AggOp.Mean, **kept)
    assert np.isnan(grad_x).all()
    assert np.isnan(grad_w).all()


def test_shared_memory(rng):
    graph = power_law(12, 40)
    t, g = arrays(rng, graph), csc(graph)
    with pytest.raises(ValueError, match="output_embedding shares memory with input_embedding"):
        ops.agg_simple_n2n_fwd(t.x, t.x, g)


def test_graph_errors():
    offsets, indices = np.array([0, 1, 2]), np.array([0, 1])
    with pytest.raises(TypeError, match="offsets is int32 but indices is int64"):
        pylibcugraphops.make_csc(offsets.astype(np.int32), indices)
    with pytest.raises(TypeError, match="make_csc: indices is of type list"):
        pylibcugraphops.make_csc(offsets, [0, 1])
    with pytest.raises(IndexError):
        pylibcugraphops.make_bipartite_csc(offsets, indices, 1)


# ---- half precision ----


def half(name):
    return np.dtype(np.float16) if name == "fp16" else pytest.importorskip("ml_dtypes").bfloat16


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@every_op
@every_sequence
def test_half_precision(sequence, op, kind, rng):
    """Results of 16 bits are those of float32 for the same inputs, rounded."""
    dtype = half(kind)
    graph = power_law(12, 40)
    narrow = arrays(rng, graph, dtype)
    wide = SimpleNamespace(**{k: v.astype(np.float32) for k, v in vars(narrow).items()})
    g = csc(graph)
    out, _, gradients = sequence(g, narrow, op, dtype)
    expected, _, expected_gradients = sequence(g, wide, op, np.float32)
    np.testing.assert_array_equal(out, expected.astype(dtype))
    for name, gradient in gradients.items():
        # the mean of weights reads rounded sums of weights
        exact = op is not AggOp.Mean or "w" not in gradients
        tolerance = 0 if exact else 0.05
        np.testing.assert_allclose(
            gradient.astype(float), expected_gradients[name].astype(dtype).astype(float),
            rtol=tolerance, atol=tolerance,
        )  # fmt: skip


# ---- arrays of other libraries ----


class Lender:
    """An array by one of the protocols."""

    def __init__(self, array, protocol):
        setattr(self, protocol, getattr(array, protocol))
        if protocol == "__dlpack__":
            self.__dlpack_device__ = array.__dlpack_device__


@pytest.mark.parametrize("protocol", ["__array_interface__", "__dlpack__"])
def test_protocols(protocol, rng):
    if protocol == "__dlpack__" and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("such arrays are read-only in this NumPy")
    graph = power_law(12, 40)
    t, g = arrays(rng, graph), csc(graph)
    out, expected = unset(12, D, dtype=float), unset(12, D, dtype=float)
    ops.agg_simple_n2n_fwd(Lender(out, protocol), Lender(t.x, protocol), g)
    ops.agg_simple_n2n_fwd(expected, t.x, g)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_torch(name, rng):
    torch = pytest.importorskip("torch")
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    dtype = getattr(torch, name)
    graph = power_law(12, 40).graph
    g = pylibcugraphops.make_csc(
        torch.tensor(graph.offsets), torch.tensor(graph.indices, dtype=torch.int64),
        torch.tensor(graph.edge_ids),
    )  # fmt: skip
    x = torch.tensor(rng.normal(size=(12, D))).to(dtype)
    out, grad = torch.full((12, D), torch.nan, dtype=dtype), torch.full((12, D), 7, dtype=dtype)
    location = torch.full((12, D), -99)
    ops.agg_simple_n2n_fwd(out, x, g, AggOp.Max, location)
    ops.agg_simple_n2n_bwd(grad, torch.ones_like(out), g, AggOp.Max, location)
    expected = np.full((12, D), np.nan)
    ops.agg_simple_n2n_fwd(expected, x.double().numpy(), g, AggOp.Max, location.numpy())
    np.testing.assert_array_equal(out.double().numpy(), expected)
    assert grad.double().sum() == D * np.count_nonzero(graph.in_degree)


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


# ---- DimeNet++ ----

S, R, EMB, MID = 7, 6, 5, 3
NO_MMA = dimenet.MMAOp.HighPrecision


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


@pytest.mark.parametrize("integer", ["int32", "int64"])
def test_edge_to_edge(integer, rng):
    t, g = molecule(rng, integer)
    inputs = (t.vector, t.rbf, t.embedding, t.weights)
    by_dst = (g.coo_idx, g.dst_offsets, g.dst_edge_index, NO_MMA)
    by_src = (g.coo_idx, g.src_offsets, NO_MMA)
    static = {"edges": tuple(g.coo_idx), "n_nodes": 7}
    c, rdd, xdd = (rng.normal(size=a.shape) for a in (t.embedding, t.rbf, t.embedding))

    out = like(t.embedding)
    dimenet.agg_edge_to_edge_fwd(out, *inputs, *by_dst)
    np.testing.assert_allclose(out, gg.agg_edge_to_edge(*inputs, **static), rtol=1e-12, atol=1e-12)

    grads = like(t.rbf), like(t.embedding), like(t.weights)
    dimenet.agg_edge_to_edge_bwd(*grads, t.vector, t.rbf, t.embedding, c, t.weights, *by_src)
    for grad, expected in zip(grads, gg.agg_edge_to_edge.vjp(c, inputs, **static)[1:], strict=True):
        np.testing.assert_allclose(grad, expected, rtol=1e-12, atol=1e-12)

    second = like(t.rbf), like(t.embedding), np.ones_like(t.weights)
    dimenet.agg_edge_to_edge_bwd2_main(
        *second, t.vector, t.rbf, rdd, t.embedding, xdd, c, t.weights, *by_src
    )
    expected = gg.agg_edge_to_edge.hvp(c, inputs, (None, rdd, xdd, None), **static)[1:]
    second[2][...] -= 1  # weights are added to
    for grad, value in zip(second, expected, strict=True):
        np.testing.assert_allclose(grad, value, rtol=1e-11, atol=1e-11)

    grad_grad = like(out)
    dimenet.agg_edge_to_edge_bwd2_grad(
        grad_grad, t.vector, t.rbf, rdd, t.embedding, xdd, t.weights, *by_dst
    )
    # both are <c, derivative of out along rdd and xdd>
    product = np.sum(rdd * grads[0]) + np.sum(xdd * grads[1])
    assert np.sum(c * grad_grad) == pytest.approx(product, rel=1e-11)


def test_edge_to_edge_second_order(rng):
    """bwd2_main is the gradient of what bwd2_grad is paired with."""
    t, g = molecule(rng)
    c, rdd, xdd = (rng.normal(size=a.shape) for a in (t.embedding, t.rbf, t.embedding))
    by_src = (g.coo_idx, g.src_offsets, NO_MMA)

    def paired(rbf, embedding, weights):
        grad_rbf, grad_embedding = like(t.rbf), like(t.embedding)
        dimenet.agg_edge_to_edge_bwd(
            grad_rbf, grad_embedding, None, t.vector, rbf, embedding, c, weights, *by_src
        )
        return np.sum(rdd * grad_rbf) + np.sum(xdd * grad_embedding)

    second = like(t.rbf), like(t.embedding), np.zeros_like(t.weights)
    dimenet.agg_edge_to_edge_bwd2_main(
        *second, t.vector, t.rbf, rdd, t.embedding, xdd, c, t.weights, *by_src
    )
    at = [t.rbf, t.embedding, t.weights]
    for k, grad in enumerate(second):
        step = 1e-6 * rng.normal(size=grad.shape)
        ahead, behind = ([*at[:k], at[k] + s * step, *at[k + 1 :]] for s in (1, -1))
        difference = (paired(*ahead) - paired(*behind)) / 2
        assert np.sum(step * grad) == pytest.approx(difference, rel=1e-6)


same = np.testing.assert_array_equal


def test_radial_basis(rng):
    x, w = rng.random((9, 1)) + 0.1, np.pi * np.arange(1.0, 7.0)
    rbf, sbf = unset(9, R, dtype=float), unset(9, S * R, dtype=float)
    dimenet.radial_basis_fwd(rbf, sbf, x, w)
    for actual, expected in zip((rbf, sbf), gg.radial_basis(x, w), strict=True):
        same(actual, expected)

    c = rng.normal(size=rbf.shape), rng.normal(size=sbf.shape)
    grad_x, grad_w = like(x), np.ones_like(w)
    dimenet.radial_basis_bwd(grad_x, grad_w, *c, x, w)
    expected_x, expected_w = gg.radial_basis.vjp(c, (x, w))
    same(grad_x, expected_x)
    same(grad_w, 1 + expected_w)  # added to

    dx, dw = rng.normal(size=x.shape), rng.normal(size=w.shape)
    grad_c, grad_w = (like(rbf), like(sbf)), np.ones_like(w)
    dimenet.radial_basis_bwd_bwd(*grad_c, grad_w, dx, dw, *c, x, w)
    for actual, expected in zip(grad_c, gg.radial_basis.jvp((x, w), (dx, dw)), strict=True):
        same(actual, expected)
    expected_w = gg.radial_basis.hvp(c, (x, w), (dx, dw))[1]
    same(grad_w, 1 + expected_w)


def test_dimenet_errors(rng):
    t, g = molecule(rng)
    by_dst = (g.coo_idx, g.dst_offsets, g.dst_edge_index, NO_MMA)
    out = like(t.embedding)

    def fails(error, message, *arguments):
        with pytest.raises(error, match=f"agg_edge_to_edge_fwd: {message}"):
            dimenet.agg_edge_to_edge_fwd(*arguments)
        assert np.isnan(out).all()

    ok = (t.vector, t.rbf, t.embedding, t.weights)
    n = len(t.vector)
    fails(ValueError, "n_emb is 65, needs at most 64",
          out, *ok[:2], np.ones((n, 65)), np.ones((S * R + 65, MID)), *by_dst)  # fmt: skip
    fails(ValueError, "n_mid is 9, needs at most 8",
          out, *ok[:3], np.ones((S * R + EMB, 9)), *by_dst)  # fmt: skip
    fails(ValueError, r"input_rbf has shape .*, needs \(n_edges=\d+, S\*R=42\)",
          out, t.vector, t.rbf[:, :36].copy(), *ok[2:], *by_dst)  # fmt: skip
    fails(ValueError, "dst_offsets and dst_edge_index do not fit coo_idx",
          out, *ok, g.coo_idx, g.src_offsets, np.arange(n), NO_MMA)  # fmt: skip
    fails(TypeError, "dst_edge_index is float64, needs integers",
          out, *ok, g.coo_idx, g.dst_offsets, g.dst_edge_index.astype(float), NO_MMA)  # fmt: skip
    fails(ValueError, "coo_idx has shape", out, *ok, g.coo_idx[:, 1:], *by_dst[1:])
    fails(ValueError, "dst_offsets is missing", out, *ok, g.coo_idx, None, *by_dst[2:])
    fails(ValueError, "mma_operation is 5", out, *ok, *by_dst[:3], 5)
    fails(TypeError, "input_vector is float16",
          out, t.vector.astype(np.float16), *ok[1:], *by_dst)  # fmt: skip


def test_sizes_of_edges(rng):
    """A graph without edges gives sums of 0, and gradients to own features alone."""
    graph = edges([], 4, 4)
    t, g = arrays(rng, graph), csc(graph, bipartite=False)
    out, _, gradients = concat_n2n(g, t, AggOp.Mean)
    np.testing.assert_array_equal(out[:, :D], 0)
    np.testing.assert_array_equal(out[:, D:], t.x)
    np.testing.assert_array_equal(gradients["x"], t.c[:, D : 2 * D])
