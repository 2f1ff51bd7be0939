# SPDX-License-Identifier: MIT
"""The graph neural operator on the tape: what all operators have not in common."""

import gc

import numpy as np
import pytest

import gnograd as gg
import gnograd.autodiff as ad
from conftest import Edges
from table import FRONT

D, H, F_IN, F_OUT = 2, 5, 3, 4


def number(y):
    weights = np.random.default_rng(3).normal(size=y.shape).astype(y.dtype)
    return ad.sum(ad.sin(y) * weights)


def test_graphs_live_as_long_as_their_arrays(rng):
    tape = ad.Tape("float64")
    h = tape.parameter(rng.normal(size=(3, 2)))
    kappa = rng.normal(size=(2, 2, 2))
    mark = tape.mark()
    y = ad.gno_aggregate(h, kappa, graph=gg.Graph.from_edges([0, 1], [1, 0], 3))
    gc.collect()
    ad.sum(y).backward()
    assert np.isfinite(h.grad).all()
    tape.rewind(mark)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"h": np.ones((4, F_IN))}, ValueError, r"gno: h is \(4, 3\), needs \(3, 3\)"),
        ({"coords": np.ones((2, D))}, ValueError, r"gno: coords is \(2, 2\), needs \(3, 2\)"),
        ({"b_u": np.ones(H + 1)}, ValueError, r"gno: b_u is \(6\), needs \(5\)"),
        ({"b_v": np.ones((F_OUT, F_IN))}, ValueError, r"gno: b_v is \(4, 3\), needs \(3, 4\)"),
        ({"U": np.ones((D, H), np.float32)}, TypeError, "gno: operands of different kinds"),
        ({"activation": "swish"}, ValueError, "activation is 'swish', needs one of"),
        ({"h": None}, ValueError, "gno: an operand has no value: h is missing"),
    ],
)
def test_errors(rng, changes, error, message):
    graph = gg.Graph.from_edges(src=[0, 1, 2], dst=[1, 0, 1])
    tape = ad.Tape("float64")
    inputs = {
        "h": rng.normal(size=(3, F_IN)),
        "coords": rng.normal(size=(3, D)),
        "U": rng.normal(size=(D, H)),
        "b_u": np.zeros(H),
        "V": tape.parameter(rng.normal(size=(H, F_IN, F_OUT))),
        "b_v": np.zeros((F_IN, F_OUT)),
    }
    with pytest.raises(error, match=message):
        ad.gno(**{**inputs, **changes}, graph=graph)
    assert ad.gno(**inputs, graph=graph).shape == (3, F_OUT)


# ---- with derivatives by the query positions ----


def test_jets_errors(rng):
    graph = gg.Graph.from_edges(src=[0, 1, 2], dst=[1, 0, 1])
    tape = ad.Tape("float64")
    edges = Edges(np.array([0, 1, 2]), np.array([1, 0, 1]), 3, 3)
    case = FRONT["gno_with_gradient"].change(widths=[4], d=2)
    inputs = [*case.inputs(edges, rng)]
    inputs[3] = tape.parameter(inputs[3])
    static = {**case.arguments(edges), "graph": graph}
    wrong = [*inputs[:1], np.ones((3, 3)), *inputs[2:]]
    with pytest.raises(ValueError, match="gno_with_gradient: y has shape"):
        ad.gno_with_gradient(*wrong, **static)
    with pytest.raises(ValueError, match="gno_with_gradient: layers has shape"):
        ad.gno_with_gradient(*inputs, **{**static, "widths": [5]})
    with pytest.raises(ValueError, match="gno_with_gradient: geometry is 'both'"):
        ad.gno_with_gradient(*inputs, **{**static, "geometry": "both"})
    with pytest.raises(ValueError, match="weight_derivatives goes with edge_weight"):
        ad.gno_with_gradient(*inputs[:6], None, inputs[7], **static)
    assert ad.gno_with_gradient(*inputs, **static)[1].shape == (graph.n_dst, 2, 2)
