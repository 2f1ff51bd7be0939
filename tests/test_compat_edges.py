# SPDX-License-Identifier: MIT
"""Call sequences of pylibcugraphops on edges: relations, edge updates, directed messages."""

import numpy as np
import pytest

from compat_calls import compare, csc, half, like, unset
from conftest import Edges, edges, power_law
from gnograd.compat import pylibcugraphops
from gnograd.compat.pylibcugraphops import operators as ops
from reference import derivatives
from reference import edge_updates as edge_reference
from reference import relational as reference

D, R, B = 3, 4, 2


def typed(graph: Edges, rng, integer="int64"):
    """A graph with types of edges, and those types by rows of edge arrays."""
    g = graph.graph
    types = rng.integers(0, R, g.n_edges)
    ids = None if g.edge_ids is None else g.edge_ids.astype(integer)
    made = pylibcugraphops.make_bipartite_csc_hg(
        g.offsets.astype(integer), g.indices.astype(integer), 0, R, None,
        types.astype(np.int32), ids, n_src_nodes=g.n_src,
    )  # fmt: skip
    by_row = types.copy()
    if ids is not None:
        by_row[ids] = types
    return made, by_row


# ---- relations ----


def relational(g, x, coeff, c, concat_own, mean):
    """The old call sequence: output and gradients."""
    blocks = (R if coeff is None else coeff.shape[1]) + concat_own
    out = unset(g.n_dst_nodes, blocks * x.shape[1], dtype=x.dtype)
    ops.agg_hg_basis_n2n_post_fwd(out, x, coeff, g, concat_own, mean)
    grad_x, grad_coeff = like(x), None if coeff is None else like(coeff)
    ops.agg_hg_basis_n2n_post_bwd(grad_x, grad_coeff, c, x, coeff, g, concat_own, mean)
    return out, grad_x, grad_coeff


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("concat_own", [False, True])
@pytest.mark.parametrize("with_coeff", [False, True])
def test_relations(with_coeff, concat_own, mean, any_graph, rng):
    g, types = typed(any_graph, rng)
    n_dst = any_graph.n_dst
    x = rng.normal(size=(any_graph.n_src, D))
    coeff = rng.normal(size=(R, B)) if with_coeff else None
    c = rng.normal(size=(n_dst, ((B if with_coeff else R) + concat_own) * D))
    if concat_own and any_graph.n_src < n_dst:
        with pytest.raises(ValueError, match="agg_hg_basis_n2n_post_fwd: graph has"):
            relational(g, x, coeff, c, concat_own, mean)
        return

    def formula(x, *coeff):
        return reference.agg_relational(
            x, None, coeff[0] if coeff else None, x[:n_dst] if concat_own else None,
            any_graph.src, any_graph.dst, n_dst, types, R, "mean" if mean else "sum",
        )  # fmt: skip

    inputs = [x, *([coeff] if with_coeff else [])]
    out, *gradients = relational(g, x, coeff, c, concat_own, mean)
    compare(out, formula(*inputs))
    for a, b in zip(gradients, derivatives.vjp(formula, inputs, c), strict=False):
        compare(a, b)


@pytest.mark.parametrize("integer", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_types_of_relations(dtype, integer, rng):
    graph = power_law(12, 40)
    g, _ = typed(graph, rng, integer)
    x, coeff = rng.normal(size=(12, D)).astype(dtype), rng.normal(size=(R, B)).astype(dtype)
    c = rng.normal(size=(12, (B + 1) * D)).astype(dtype)
    found = relational(g, x, coeff, c, True, True)
    wide = relational(g, *(a.astype(float) for a in (x, coeff, c)), True, True)
    eps = np.finfo(dtype).eps
    for a, b in zip(found, wide, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a.astype(float), b, rtol=4 * eps, atol=8 * eps * np.abs(b).max())


def test_relations_of_samples_up_to_23_02(rng):
    """The raw call sequence of DGL 1.0, which gives no own features."""
    graph = edges([(6, 0), (0, 2), (5, 0), (3, 1), (1, 0), (3, 2)], 7, 3)
    g, types = typed(graph, rng)
    in_order = types if graph.graph.edge_ids is None else types[graph.graph.edge_ids]
    sample = pylibcugraphops.make_mfg_csr_hg(
        np.arange(3), np.arange(7), graph.graph.offsets, graph.graph.indices.astype(np.int64), 3,
        n_node_types=0, n_edge_types=R, out_node_types=None, in_node_types=None,
        edge_types=in_order.astype(np.int32),
    )  # fmt: skip
    x, coeff = rng.normal(size=(7, D)), rng.normal(size=(R, B))
    out, c = unset(3, B * D, dtype=float), rng.normal(size=(3, B * D))
    ops.agg_hg_basis_mfg_n2n_post_fwd(out, x, coeff, sample)
    grad_x, grad_coeff = like(x), like(coeff)
    ops.agg_hg_basis_mfg_n2n_post_bwd(grad_x, grad_coeff, c, x, coeff, sample)
    for a, b in zip(
        (out, grad_x, grad_coeff), relational(g, x, coeff, c, False, False), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_gradients_of_relations_not_wanted(rng):
    g, _ = typed(power_law(12, 40), rng)
    x, coeff, c = rng.normal(size=(12, D)), rng.normal(size=(R, B)), rng.normal(size=(12, B * D))
    _, grad_x, grad_coeff = relational(g, x, coeff, c, False, False)
    alone = like(coeff)
    ops.agg_hg_basis_n2n_post_bwd(None, alone, c, x, coeff, g)
    np.testing.assert_array_equal(alone, grad_coeff)
    alone = like(x)
    ops.agg_hg_basis_n2n_post_bwd(alone, None, c, x, coeff, g)
    np.testing.assert_array_equal(alone, grad_x)
    ops.agg_hg_basis_n2n_post_bwd(None, None, c, x, coeff, g)


def test_graphs_with_types():
    offsets, indices, types = np.array([0, 2, 3]), np.array([1, 4, 0]), np.array([0, 3, 1])
    rows = np.array([2, 0, 1])
    whole = pylibcugraphops.make_csc_hg(offsets, indices % 2, 0, R, None, types, rows)
    assert (whole.n_src_nodes, whole.n_dst_nodes, whole.n_edge_types) == (2, 2, R)
    np.testing.assert_array_equal(whole.edge_types, [3, 1, 0])
    make = pylibcugraphops.make_bipartite_csc_hg
    assert make(offsets, indices, 0, R, None, types).n_src_nodes == 5
    assert make(offsets, indices, 0, R, None, types, n_src_nodes=6).n_src_nodes == 6
    with pytest.raises(IndexError, match=r"make_csc_hg: edge_types\[1\] is 3, not one of 3 types"):
        pylibcugraphops.make_csc_hg(offsets, indices % 2, 0, 3, None, types)
    with pytest.raises(
        ValueError, match=r"edge_types has shape \(2,\), needs one for each of the 3"
    ):
        make(offsets, indices, 0, R, None, types[:2])
    with pytest.raises(TypeError, match="edge_types is float64, needs integers"):
        make(offsets, indices, 0, R, None, types.astype(float))
    with pytest.raises(ValueError, match="n_edge_types"):
        make(offsets, indices, 0, 0, None, types)
    plain = pylibcugraphops.make_csc(offsets, indices % 2)
    with pytest.raises(TypeError, match="agg_hg_basis_n2n_post_fwd: graph has no types of edges"):
        ops.agg_hg_basis_n2n_post_fwd(np.ones((2, 2)), np.ones((2, 1)), None, plain)


# ---- edge updates ----

PARTS = ["input_edge_embedding", "input_src_node_embedding", "input_dst_node_embedding"]


@pytest.mark.parametrize("present", ["esd", "es", "ed", "sd", "e", "s", "d"])
@pytest.mark.parametrize("mode", ["concat", "sum"])
def test_edge_updates(mode, present, any_graph, rng):
    g = csc(any_graph)
    widths = dict(zip("esd", (2, 3, 4) if mode == "concat" else (2, 2, 2), strict=True))
    rows = {"e": any_graph.n_edges, "s": any_graph.n_src, "d": any_graph.n_dst}
    given = {k: rng.normal(size=(rows[k], widths[k])) for k in present}

    def formula(*arrays):
        named = dict.fromkeys("esd") | dict(zip(present, arrays, strict=True))
        return edge_reference.update_edges(
            named["e"],
            named["s"],
            named["d"],
            any_graph.src,
            any_graph.dst,
            any_graph.n_dst,
            mode,
        )

    expected = formula(*given.values())
    out = unset(*expected.shape, dtype=float)
    inputs = [given.get(k) for k in "esd"]
    getattr(ops, f"update_efeat_e2e_{mode}_fwd")(out, *inputs, g)
    np.testing.assert_array_equal(out, expected)
    c = rng.normal(size=out.shape)
    grads = [None if x is None else like(x) for x in inputs]
    told = [widths[k] if k in present else 0 for k in "esd"] if mode == "concat" else [2]
    getattr(ops, f"update_efeat_e2e_{mode}_bwd")(*grads, c, g, *told)
    for k, b in zip(present, derivatives.vjp(formula, list(given.values()), c), strict=True):
        compare(grads["esd".index(k)], b)


def test_errors_of_edge_updates(rng):
    g = csc(power_law(12, 40))
    with pytest.raises(ValueError, match="update_efeat_e2e_sum_fwd: all inputs are None"):
        ops.update_efeat_e2e_sum_fwd(np.ones((40, 2)), None, None, None, g)
    with pytest.raises(ValueError, match="update_efeat_e2e_sum_fwd: input_src_node_embedding has"):
        ops.update_efeat_e2e_sum_fwd(np.ones((40, 2)), np.ones((40, 2)), np.ones((12, 3)), None, g)
    with pytest.raises(ValueError, match="concat_bwd: grad_output_edge_embedding has shape"):
        ops.update_efeat_e2e_concat_bwd(np.ones((40, 2)), None, None, np.ones((40, 3)), g, 2, 0, 0)


# ---- directed messages ----


def both_ways(rng, n=7, n_bonds=9):
    """Bonds in both directions, in any order, and the row of the edge that leads back."""
    pairs = rng.integers(0, n, (n_bonds, 2))  # some of them twice, or from a node to itself
    table = np.concatenate([pairs, pairs[:, ::-1]])
    order = rng.permutation(2 * n_bonds)
    place = np.argsort(order)
    reverse = place[(order + n_bonds) % (2 * n_bonds)]
    return edges(table[order].tolist(), n, n), reverse


def messages(x, graph, reverse, concat_own):
    rows = []
    for e in range(graph.n_edges):
        heard = [
            d for d in range(graph.n_edges) if graph.dst[d] == graph.src[e] and d != reverse[e]
        ]
        rows.append(x[heard].sum(0))
    out = np.array(rows).reshape(-1, x.shape[1])
    return np.concatenate([out, x], axis=1) if concat_own else out


@pytest.mark.parametrize("concat_own", [False, True])
def test_directed_messages(concat_own, rng):
    graph, reverse = both_ways(rng)
    g = csc(graph)
    x = rng.normal(size=(graph.n_edges, D))
    expected = messages(x, graph, reverse, concat_own)
    out = unset(*expected.shape, dtype=float)
    ops.agg_dmpnn_e2e_fwd(out, x, g, reverse.astype(np.int32), concat_own)
    compare(out, expected)
    c, grad = rng.normal(size=out.shape), like(x)
    ops.agg_dmpnn_e2e_bwd(grad, c, g, reverse, concat_own)
    compare(grad, derivatives.vjp(lambda x: messages(x, graph, reverse, concat_own), [x], c)[0])


def test_directed_messages_of_molecules(rng):
    """A message in a chain goes on, and does not come back."""
    graph = edges([(0, 1), (1, 0), (1, 2), (2, 1)], 3, 3)
    x, out = np.array([[1.0], [10.0], [100.0], [1000.0]]), unset(4, 1, dtype=float)
    ops.agg_dmpnn_e2e_fwd(out, x, csc(graph), np.array([1, 0, 3, 2]))
    np.testing.assert_array_equal(out[:, 0], [0, 1000, 1, 0])


def test_errors_of_directed_messages():
    graph = csc(edges([(0, 1), (1, 0), (1, 2), (2, 1)], 3, 3))
    x, out = np.ones((4, 1)), np.ones((4, 1))
    for reverse, error, message in (
        (
            [1, 0, 3],
            ValueError,
            r"rev_edge_ids is int64 of shape \(3,\), needs integers of shape \(4,",
        ),
        ([1, 0, 3, 4], IndexError, "rev_edge_ids names an edge that is not one of 4"),
        ([2, 0, 3, 1], ValueError, "rev_edge_ids names an edge that does not lead back"),
    ):
        with pytest.raises(error, match=f"agg_dmpnn_e2e_fwd: {message}"):
            ops.agg_dmpnn_e2e_fwd(out, x, graph, np.array(reverse))
    with pytest.raises(ValueError, match="rev_edge_ids is missing"):
        ops.agg_dmpnn_e2e_fwd(out, x, graph, None)


# ---- other arrays ----


@pytest.mark.parametrize("kind", ["float32", "fp16", "bf16"])
def test_tensors(kind, rng):
    """Tensors are written in their own memory; 16 bits are computed in float32, rounded once."""
    torch = pytest.importorskip("torch")
    if kind == "bf16":
        half(kind)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(kind, torch.float32)
    graph = power_law(12, 40)
    g, _ = typed(graph, rng)
    x, e = (torch.tensor(rng.normal(size=s)).to(dtype) for s in ((12, D), (40, 2)))
    out = torch.empty(12, R * D + D, dtype=dtype)
    ops.agg_hg_basis_n2n_post_fwd(out, x, None, g, concat_own=True)
    wide = unset(12, R * D + D, dtype=np.float32)
    ops.agg_hg_basis_n2n_post_fwd(wide, x.float().numpy(), None, g, concat_own=True)
    torch.testing.assert_close(out, torch.from_numpy(wide).to(dtype), rtol=0, atol=0)
    updated = torch.empty(40, 2 + D, dtype=dtype)
    ops.update_efeat_e2e_concat_fwd(updated, e, x, None, g)
    torch.testing.assert_close(updated, torch.cat([e, x[graph.src]], 1), rtol=0, atol=0)
