# SPDX-License-Identifier: MIT
"""pylibcugraphops: radial basis and edge-to-edge aggregation of DimeNet++."""

import numpy as np
import pytest

import gnograd as gg
from compat_calls import EMB, MID, R, S, like, molecule, unset
from gnograd.compat.pylibcugraphops import dimenet

NO_MMA = dimenet.MMAOp.HighPrecision


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
