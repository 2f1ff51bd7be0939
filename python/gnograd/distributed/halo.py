# SPDX-License-Identifier: MIT
"""Exchange of halos as an operator."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gnograd.distributed.arrays import Rows, add_rows, check_kind, concatenate, take_rows
from gnograd.distributed.communicator import Communicator
from gnograd.distributed.part import EdgeHalo, Part
from gnograd.faces.call import Array, kind_of

__all__ = ["Halo", "extend", "fold", "halo"]


class Halo:
    """Rows of the nodes that this process owns, followed by those of its halo.

    ``h_ext = gnograd.halo(h_own, graph=dg)`` is linear in the rows of all processes. So `jvp` is
    the exchange of the tangent and `vjp` its adjoint: rows of the halo go back to their owners,
    which add them in the order of ranks, with the same bits in every run. `hvp` is zero.

    Parameters
    ----------
    h_own : array, (n_own, ...)
        Features of the nodes that this process owns, in the order of ``graph.owned``; of any type,
        the same on all processes.
    graph : DistributedGraph

    Returns
    -------
    h_ext : array, (n_own + n_halo, ...)
        Features for ``graph.local``.

    Raises
    ------
    TypeError, ValueError
        One process has no array, or one of another shape. On all processes.

    Notes
    -----
    A process sends one message to every neighbour, of as many rows as are in the other's halo.
    Operators of gnograd take a DistributedGraph in place of a graph, and need no `halo` before
    them; it is for operations of your own.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> dg = gg.DistributedGraph.from_local([0, 1, 2], [1, 0], owned=[0, 1])
    >>> gg.halo(np.array([[1.0], [2.0]]), graph=dg)
    array([[1.],
           [2.]])
    """

    name = "halo"
    inputs = ("h_own",)
    n_outputs = 1

    def __call__(self, h_own: Array, *, graph: Part) -> Array:
        """The extended features."""
        return self.forward(h_own, graph=graph)

    def forward(self, h_own: Array, *, graph: Part, return_saved: bool = False) -> Any:
        """The extended features; nothing has to be saved."""
        dg = _checked_graph(graph)
        _check_rows(dg, "halo", "h_own", h_own, dg.n_own)
        extended = extend(dg.comm, dg, h_own)
        return (extended, ()) if return_saved else extended

    def vjp(
        self,
        cotangent: Array,
        inputs: Sequence[Array] = (),
        wrt: Collection[str] | None = None,
        saved: Sequence[Array] | None = None,
        *,
        graph: Part,
    ) -> tuple[Array]:
        """The adjoint of the exchange, of ``cotangent (n_own + n_halo, ...)``."""
        dg = _checked_graph(graph)
        _check_rows(dg, "halo.vjp", "cotangent", cotangent, dg.n_own + dg.n_halo)
        return (fold(dg.comm, dg, cotangent),)

    def jvp(self, inputs: Sequence[Array], tangents: Sequence[Array], *, graph: Part) -> Array:
        """The exchange of the tangent."""
        (tangent,) = tangents
        return self.forward(tangent, graph=graph)

    def hvp(
        self,
        cotangent: Array,
        inputs: Sequence[Array],
        tangents: Sequence[Array],
        wrt: Collection[str] | None = None,
        *,
        graph: Part,
    ) -> tuple[Array]:
        """Zeros: the exchange is linear."""
        (h_own,) = inputs
        return (h_own * 0,)

    def __repr__(self) -> str:
        return "<gnograd operator halo>"

    def __reduce__(self) -> str:
        return "halo"


halo = Halo()


def extend(comm: Communicator, reach: Part | EdgeHalo, own: Array) -> Array:
    """Own rows, of nodes or of edges, followed by those of the halo; without checks."""
    sent = Rows(comm, reach.plan, [take_rows(own, reach.plan.send_rows)])
    (rows,) = sent.wait()
    return concatenate(own, rows, -own.ndim)


def fold(comm: Communicator, reach: Part | EdgeHalo, extended: Array) -> Array:
    """Adjoint of `extend`: add rows that come back to own rows, in the order of ranks."""
    sent = Rows(comm, reach.plan, [extended[reach.n_own :]], back=True)
    own = concatenate(extended[: reach.n_own], extended[:0], -extended.ndim)
    (rows,) = sent.wait()
    for part, mine in reach.plan.send_parts():
        add_rows(own, mine, rows[part])
    return own


def _checked_graph(graph: Any) -> Part:
    if not isinstance(graph, Part):
        raise TypeError(f"halo: graph is {kind_of(graph)}, needs a gnograd.DistributedGraph")
    return graph


def _check_rows(dg: Part, doing: str, name: str, array: Any, n: int) -> None:
    """Check for an array of n rows; an error of one process is raised on all."""
    error: Exception | None = None
    shape = getattr(array, "shape", None)
    if shape is None:
        error = TypeError(f"halo: {name} is {kind_of(array)}, needs an array")
    elif not shape or shape[0] != n:
        error = ValueError(f"halo: {name} has shape {tuple(shape)}, needs {n} rows")
    else:
        try:
            check_kind(array)
        except TypeError as caught:
            error = caught
    kind = "" if shape is None else f"{array.dtype}{list(shape[1:])}"
    dg.comm.agree(f"{doing}({kind}) on graph {dg.plan.number}", error)
