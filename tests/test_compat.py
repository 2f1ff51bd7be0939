# SPDX-License-Identifier: MIT
"""pylibcugraphops: aggregation, errors, half precision, arrays of other libraries."""

from types import SimpleNamespace

import numpy as np
import pytest

from compat_calls import (
    SEQUENCES,
    D,
    arrays,
    compare,
    concat_n2n,
    csc,
    expected_from,
    half,
    like,
    saved,
    simple_n2n_e2n,
    unset,
    weighted,
)
from conftest import edges, pairs, power_law
from gnograd.compat import pylibcugraphops
from gnograd.compat.pylibcugraphops import operators as ops
from gnograd.compat.pylibcugraphops.operators import AggOp

every_sequence = pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda s: s.__name__)
every_op = pytest.mark.parametrize("op", AggOp, ids=lambda op: op.name)


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


def test_sizes_of_edges(rng):
    """A graph without edges gives sums of 0, and gradients to own features alone."""
    graph = edges([], 4, 4)
    t, g = arrays(rng, graph), csc(graph, bipartite=False)
    out, _, gradients = concat_n2n(g, t, AggOp.Mean)
    np.testing.assert_array_equal(out[:, :D], 0)
    np.testing.assert_array_equal(out[:, D:], t.x)
    np.testing.assert_array_equal(gradients["x"], t.c[:, D : 2 * D])
