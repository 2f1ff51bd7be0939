# SPDX-License-Identifier: MIT
"""One call of every operator on tensors, inputs of layers, and graphs of edges at random."""

from __future__ import annotations

import numpy as np
import torch

import calls
import gnograd.torch as gt

NAMES = list(calls.calls())
SELECTED = torch.from_numpy(calls.SELECTED).long()
"""Blocks of `selected_attention`: static arguments may be tensors of any integer type."""


class OtherMode(torch.overrides.TorchFunctionMode):
    """Something that wants to see operators, which then go through the dispatcher."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def leaves(arrays):
    return [torch.from_numpy(a).requires_grad_() for a in arrays]


def tensors(*shapes, seed=0):
    return leaves(calls.normal(*shapes, seed=seed))


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def in_torch(static):
    """Static arguments, with tensors in place of arrays."""
    return {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in static.items()}


def bind(name, graph):
    """Inputs of an operator, the operator on the graph, and its static arguments."""
    arrays, static = calls.call_of(name, graph)
    static = in_torch(static)
    return leaves(arrays), lambda *x: getattr(gt, name)(*x, **static), static


def edge_index():
    return torch.tensor([calls.SRC, calls.DST])


def random_edges(n_nodes, n_edges, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(n_nodes, (2, n_edges), generator=generator)


def same_graph(graph, other):
    """Check that two graphs have the same edges in the same order."""
    assert graph.sizes == other.sizes
    for name in ("src", "dst", "in_degree"):
        np.testing.assert_array_equal(getattr(graph, name), getattr(other, name), name)
    for mine, theirs in zip(gt.Graph.of(graph).arrays, gt.Graph.of(other).arrays, strict=True):
        if mine is not None and theirs is not None:
            np.testing.assert_array_equal(mine, theirs)
