# SPDX-License-Identifier: MIT
"""Operators, halos and sums on a tape, for graphs distributed over processes.

Exchanges between processes are linear, so they are linear maps on the tape, which has their
derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.autodiff.arrays import Array, reshape, sqrt, transpose
from gnograd.autodiff.arrays import sum as sum_of
from gnograd.autodiff.linear_maps import linear_map
from gnograd.autodiff.optimizers import Optimizer
from gnograd.distributed import reductions
from gnograd.distributed.communicator import Communicator
from gnograd.distributed.graph import DistributedGraph
from gnograd.distributed.halo import extend, fold
from gnograd.distributed.part import EdgeHalo, Part
from gnograd.distributed.roles import Role, agree_on_rows, role_of
from gnograd.faces.call import kind_of
from gnograd.faces.operator import Operator

__all__ = ["halo", "in_parts", "mean", "norm", "shared", "sum", "sum_gradients"]


def halo(h_own: Array, *, graph: DistributedGraph) -> Array:
    """`gnograd.halo` on a tape: own rows, followed by those of the halo.

    Parameters
    ----------
    h_own : Array, (n_own, ...)
    graph : DistributedGraph

    Returns
    -------
    Array, (n_own + n_halo, ...)

    Examples
    --------
    >>> import gnograd as gg
    >>> import gnograd.autodiff as ad
    >>> dg = gg.DistributedGraph.from_local([0, 1, 2], [1, 0], owned=[0, 1])
    >>> h = ad.Tape().parameter([[1.0], [2.0]])
    >>> ad.halo(h, graph=dg).shape
    (2, 1)
    """
    if not isinstance(graph, DistributedGraph):
        raise TypeError(f"halo: graph is {kind_of(graph)}, needs a gnograd.DistributedGraph")

    shape = getattr(h_own, "shape", ())
    error: Exception | None = None
    if not isinstance(h_own, Array):
        error = TypeError(f"halo: h_own is {kind_of(h_own)}, needs an Array")
    elif not shape or shape[0] != graph.n_own:
        error = ValueError(f"halo: h_own has shape {shape}, needs {graph.n_own} rows")
    graph.comm.agree("halo on a tape", error)
    return _extended(graph.comm, graph, h_own)


def _extended(comm: Communicator, reach: Part | EdgeHalo, own: Array) -> Array:
    """Own rows, of nodes or of edges, followed by those of the halo."""

    def apply(rows: NDArray[Any], back: bool) -> NDArray[Any]:
        exchange = fold if back else extend
        out: NDArray[Any] = exchange(comm, reach, rows)
        return out

    return linear_map(own, reach.n_own + reach.n_halo, apply)


def sum(comm: Communicator, local: Array) -> Array:
    """`gnograd.distributed.sum` on a tape."""
    return _total(comm, "sum", local, False)


def shared(comm: Communicator, array: Array) -> Array:
    """`gnograd.distributed.shared` on a tape."""
    return _total(comm, "shared", array, True)


def _total(comm: Communicator, doing: str, local: Array, back: bool) -> Array:
    """Sum over the processes, whose adjoint changes nothing; or the other way round."""

    def apply(rows: NDArray[Any], transposed: bool) -> NDArray[Any]:
        return rows if transposed != back else comm.total(rows)

    comm.agree(f"{doing} of {local.dtype}{list(local.shape)}")
    return reshape(linear_map(reshape(local, (1, local.size)), 1, apply), local.shape)


def mean(comm: Communicator, rows: Array) -> Array:
    """`gnograd.distributed.mean` on a tape."""
    return sum(comm, sum_of(rows, 0)) / reductions.total_rows(comm, "mean", rows)


def norm(comm: Communicator, rows: Array) -> Array:
    """`gnograd.distributed.norm` on a tape."""
    return sqrt(sum(comm, sum_of(rows * rows)))


def sum_gradients(comm: Communicator, gradients: Any) -> Any:
    """Sum gradients over processes, into NumPy arrays; those of an optimizer in place."""
    if isinstance(gradients, Optimizer):
        sums = reductions.sum_gradients(comm, [p.grad for p in gradients.params])
        for parameter, total in zip(gradients.params, sums, strict=True):
            parameter.grad = total
        return gradients
    if isinstance(gradients, Mapping):
        return dict(zip(gradients, sum_gradients(comm, list(gradients.values())), strict=True))
    if isinstance(gradients, Array):
        return reductions.sum_gradients(comm, gradients.value)
    return reductions.sum_gradients(
        comm, [g.value if isinstance(g, Array) else g for g in gradients]
    )


def in_parts(
    op: Operator[Any, Any],
    function: Callable[..., Any],
    inputs: Sequence[Any],
    static: Mapping[str, Any],
) -> Any:
    """An operator of the tape on a `DistributedGraph`.

    Parameters
    ----------
    op : Operator
    function : callable
        The operator on the tape, for a graph.
    inputs, static
        Arguments of the call.
    """
    dg: DistributedGraph = static["graph"]
    error: Exception | None = None
    operands: list[Any] = []
    roles: list[Role] = []
    given: Mapping[str, Any] = static
    fetch = np.zeros((2, len(op.inputs)), np.int64)
    try:
        ordered, given = op.ordered(tuple(inputs), static)
        operands = [x if x is None or isinstance(x, Array) else np.asarray(x) for x in ordered]
        roles = [role_of(spec) for spec in op.signature(**given).inputs.values()]
        kinds: list[tuple[tuple[int, ...], str] | None] = []
        for k, (x, role) in enumerate(zip(operands, roles, strict=True)):
            if x is None:
                kinds.append(None)
                continue
            shape = _own_rows(dg, x.shape, role)
            kinds.append((shape, str(x.dtype)))
            if role.of == "n_src" and dg.n_halo:
                fetch[int(shape != x.shape), k] = 1
        op.results(kinds, **given)
    except Exception as caught:
        error = caught
    needed = agree_on_rows(dg.comm, op.name, f"{op.name} on a tape", error, fetch)
    if op.hops > 1:
        reach = dg.edge_halo
        whole = [
            _with_halo(dg, reach, x, -x.ndim) if role.of == "n_edges" else x
            for x, role in zip(operands, roles, strict=True)
        ]
        return function(*whole, **{**given, "graph": reach.local})[: reach.n_own]
    whole = [
        _with_halo(dg, dg, x, role.axis) if travels else x
        for x, role, travels in zip(operands, roles, needed, strict=True)
    ]
    return function(*whole, **{**given, "graph": dg.local})


def _own_rows(dg: DistributedGraph, shape: tuple[int, ...], role: Role) -> tuple[int, ...]:
    """Shape of an input without the rows of the halo, which a caller may have appended."""
    place = len(shape) + role.axis
    if role.of != "n_src" or place < 0 or shape[place] != dg.n_own + dg.n_halo:
        return shape
    return (*shape[:place], dg.n_own, *shape[place + 1 :])


def _with_halo(dg: DistributedGraph, reach: Part | EdgeHalo, x: Any, axis: int) -> Any:
    """The rows of an input, followed by those of the halo."""
    if not isinstance(x, Array):
        rows = extend(dg.comm, reach, np.ascontiguousarray(np.moveaxis(x, axis, 0)))
        return np.moveaxis(rows, 0, axis)
    if x.ndim == -axis:
        return _extended(dg.comm, reach, x)
    n = x.ndim + axis
    there, back = (
        (n, *range(n), *range(n + 1, x.ndim)),
        (*range(1, n + 1), 0, *range(n + 1, x.ndim)),
    )
    return transpose(_extended(dg.comm, reach, transpose(x, there)), back)
