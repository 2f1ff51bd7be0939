# SPDX-License-Identifier: MIT
"""Plans of exchanges of rows, made from the requests of processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gnograd.distributed.communicator import Communicator, Pending, as_bytes

__all__ = [
    "Ids", "Owners", "Plan", "Ticket", "by_directory", "edges_of", "in_blocks", "plan_of",
    "positions",
]  # fmt: skip

Ids: TypeAlias = NDArray[np.int64]
"""Global numbers of nodes."""
Owners: TypeAlias = Callable[[Ids], Ids]
"""A collective function that returns the owners of nodes, -1 for nodes without one."""


class Plan(NamedTuple):
    """Rows that this process sends and receives in an exchange, one message a neighbour."""

    neighbours: tuple[int, ...]
    """Ranks of the processes that rows go to or come from."""
    send_rows: Ids
    """Own rows that others need, in the order of the others' ranks, (n_send,)."""
    send_ends: tuple[int, ...]
    """First entry of `send_rows` for each neighbour, and the end."""
    receive_ends: tuple[int, ...]
    """First row of the halo from each neighbour, and the end."""
    number: int
    """Number of the plan among those of its communicator."""

    @property
    def n_send(self) -> int:
        """Number of rows that this process sends."""
        return self.send_ends[-1]

    @property
    def n_halo(self) -> int:
        """Number of rows that this process receives."""
        return self.receive_ends[-1]

    def start(self, comm: Communicator, rows: Any, back: bool, empty: Any) -> Ticket:
        """Start sending rows to processes that need them or, back, the halo's to their owners.

        Parameters
        ----------
        comm : Communicator
        rows : array, (n_send, ...) or, back, (n_halo, ...)
            Contiguous.
        back : bool
        empty : callable
            Function of a number of rows that makes memory for received rows.
        """
        ends = self.send_ends, self.receive_ends
        out_ends, in_ends = ends[::-1] if back else ends
        received = empty(in_ends[-1])
        pending = comm.start(self._messages(rows, out_ends), self._messages(received, in_ends))
        return Ticket(rows, received, pending)

    def _messages(self, rows: Any, ends: tuple[int, ...]) -> list[tuple[int, Any]]:
        parts = [(rank, rows[a:b]) for rank, a, b in self._parts(ends)]
        return [(rank, as_bytes(part)) for rank, part in parts if 0 not in part.shape]

    def _parts(self, ends: tuple[int, ...]) -> list[tuple[int, int, int]]:
        return list(zip(self.neighbours, ends, ends[1:], strict=False))

    def send_parts(self) -> list[tuple[slice, Ids]]:
        """For each neighbour, the slice of the sent rows, and their numbers among own rows."""
        return [(slice(a, b), self.send_rows[a:b]) for _, a, b in self._parts(self.send_ends)]


class Ticket:
    """Exchange of rows in progress."""

    def __init__(self, sent: Any, received: Any, pending: Pending) -> None:
        self._sent = sent  # whose memory has to stay
        self._received = received
        self._pending = pending

    def wait(self) -> Any:
        """Wait for the rows and return them."""
        self._pending.wait()
        self._sent = None
        return self._received


def plan_of(
    comm: Communicator, doing: str, owned: Ids, needed: Ids, owners: Owners
) -> tuple[Plan, Ids]:
    """Plan of an exchange, for which every process asks the owners for the rows that it needs.

    Parameters
    ----------
    comm : Communicator
    doing : str
        Name of the operation, for errors.
    owned : array of int64
        Nodes whose rows this process has, in their order.
    needed : array of int64
        Nodes of others whose rows it needs, each once, in ascending order.
    owners : callable
        Function that returns their owners.

    Returns
    -------
    plan : Plan
    order : array of int64
        The order in which the rows of `needed` come: by owner, then by number.

    Raises
    ------
    IndexError
        On all processes, if a node that one of them needs has no owner.
    """
    of_needed = owners(needed)
    with comm.together(doing):
        if of_needed.min(initial=0) < 0:
            lost = needed[np.argmin(of_needed)]
            raise IndexError(f"{doing}: node {lost} is a source of an edge, but nobody owns it")
    order = np.argsort(of_needed, kind="stable")
    counts = np.bincount(of_needed, minlength=comm.size)
    asked = comm.swap(np.split(needed[order], np.cumsum(counts)[:-1]))
    rows = [positions(owned, nodes) for nodes in asked]
    neighbours = [rank for rank in range(comm.size) if counts[rank] or rows[rank].size]
    plan = Plan(
        tuple(neighbours),
        np.concatenate([np.empty(0, np.int64), *(rows[rank] for rank in neighbours)]),
        (0, *np.cumsum([rows[rank].size for rank in neighbours]).tolist()),
        (0, *np.cumsum([counts[rank] for rank in neighbours]).tolist()),
        comm.next_plan(),
    )
    return plan, order


def edges_of(offsets: Ids, rows: Ids) -> tuple[Ids, Ids]:
    """Offsets of some rows, in their order, and positions of their edges."""
    degree = np.diff(offsets)[rows]
    ends = np.concatenate([[0], np.cumsum(degree)])
    return ends, np.repeat(offsets[:-1][rows] - ends[:-1], degree) + np.arange(ends[-1])


def positions(owned: Ids, nodes: Ids) -> Ids:
    """Positions of nodes in `owned`; -1 for nodes not in it."""
    if owned.size == 0 or nodes.size == 0:
        return np.full(nodes.size, -1)
    first = int(owned[0])
    if int(owned[-1]) - first == owned.size - 1 and (np.diff(owned) == 1).all():
        inside = (nodes >= first) & (nodes <= owned[-1])
        return np.where(inside, nodes - first, -1)
    order = np.argsort(owned, kind="stable")
    place = np.minimum(np.searchsorted(owned, nodes, sorter=order), owned.size - 1)
    found = order[place]
    return np.where(owned[found] == nodes, found, -1)


def in_blocks(first: Sequence[int] | Ids) -> Owners:
    """Owners of nodes that are numbered process by process.

    Parameters
    ----------
    first : sequence of int, (size + 1,)
        First node of every process, and the number of all nodes.
    """
    ends = np.asarray(first)
    return lambda nodes: np.searchsorted(ends, nodes, side="right") - 1


def by_directory(comm: Communicator, doing: str, owned: Ids) -> Owners:
    """Owners of nodes in any order, by a directory that is distributed over the processes.

    The part of the directory on a process covers a block of numbers, with one entry for every node
    in it: no process ever has all.

    Raises
    ------
    ValueError
        A node has two owners.
    """
    last = int(comm.maximum([owned.max(initial=-1)])[0])
    block = max(-(-(last + 1) // comm.size), 1)
    told = comm.swap(_by_block(owned, block, comm.size)[0])
    nodes = np.concatenate(told)
    owner = np.repeat(np.arange(comm.size), [part.size for part in told])
    order = np.argsort(nodes, kind="stable")
    nodes, owner = nodes[order], owner[order]
    with comm.together(doing):
        twice = np.flatnonzero(nodes[1:] == nodes[:-1])
        if twice.size:
            k = twice[0]
            raise ValueError(
                f"{doing}: node {nodes[k]} is owned by process {owner[k]} and by process "
                f"{owner[k + 1]}"
            )

    def owners(asked: Ids) -> Ids:
        parts, where = _by_block(asked, block, comm.size)
        questions = comm.swap(parts)
        found = [positions(nodes, question) for question in questions]
        answers = comm.swap([np.where(at < 0, -1, owner[at] if owner.size else -1) for at in found])
        result = np.empty(asked.size, np.int64)
        result[where] = np.concatenate(answers)
        return result

    return owners


def _by_block(nodes: Ids, block: int, size: int) -> tuple[list[Ids], Ids]:
    """Nodes for every process of a directory, and their original positions."""
    part = np.clip(nodes // block, 0, size - 1)
    order = np.argsort(part, kind="stable")
    counts = np.bincount(part, minlength=size)
    return np.split(nodes[order], np.cumsum(counts)[:-1]), order
