# SPDX-License-Identifier: MIT
"""Partition of nodes by recursive coordinate bisection or METIS."""

from __future__ import annotations

from math import frexp
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd.distributed.communicator import Alone, Communicator
from gnograd.distributed.engines import communicator
from gnograd.neighbors.arguments import real_numbers
from gnograd.notation.static import AT_LEAST_1, choice, integer

if TYPE_CHECKING:
    from gnograd.graphs.graph import Graph

__all__ = ["partition"]

_METHODS = {"rcb": 0, "metis": 1}
_BITS = 10
"""Bits of a coordinate that one round of the search for a cut uses."""
_METIS_WEIGHT = 2**30
"""Largest sum of weights for METIS, which counts in 32 bits."""


def partition(
    x: ArrayLike | None,
    n_parts: int,
    method: str = "rcb",
    graph: Graph | None = None,
    weights: ArrayLike | None = None,
    comm: Any = None,
) -> NDArray[np.int32]:
    """Cut nodes into parts of equal size with few edges between them.

    Recursive coordinate bisection [1]_ cuts across the longest side of the box around the points,
    and then each of the two pieces, until there are as many parts as wanted. It needs no graph, and
    where points are spread over processes already, none needs all of them. METIS [2]_ looks at the
    edges instead; its parts may have a few per cent more or less nodes than the mean.

    Parameters
    ----------
    x : array of float, (n, d)
        Coordinates of the nodes. METIS does not use them, and takes None.
    n_parts : int
        Number of parts, 1 or more. With fewer nodes than parts, some parts are empty.
    method : {"rcb", "metis"}, optional
    graph : Graph, optional
        Edges between the nodes, for METIS: both directions count as one edge.
    weights : array of float, (n,), optional
        Work at every node, such as its number of edges; not negative. The parts get equal sums of
        them instead of equal numbers of nodes.
    comm : Communicator, or what `communicator` takes, optional
        Processes that have the points, each its own; they call this together. Points are ordered by
        rank. When left out, this process has all points.

    Returns
    -------
    array of int32, (n,)
        Part of every node. Same points give the same parts, on any number of processes; where
        coordinates are equal, the numbers of the nodes decide.

        Parts by coordinate bisection have ``n // n_parts`` nodes or one more; their weights are
        at most the largest weight of a node away from the mean, up to rounding.

    Raises
    ------
    ValueError, TypeError
        An argument that is not as above. Raised on all processes, even if only one has it.
    ImportError
        METIS without pymetis.

    See Also
    --------
    redistribute : bring rows of arrays to the processes that own them.
    DistributedGraph.from_global, DistributedGraph.radius : graphs from such parts.

    Notes
    -----
    A cut goes through the one node, in the order of the coordinate, the other coordinates and the
    number, that has just as much before it as the first piece is to get. It is found from
    histograms of some bits of the coordinates each, which are summed over the processes, those of
    all pieces at a time: so the answer is exact, and messages are few, and short whatever the
    number of nodes. Pieces are of about half of the parts, such that parts of a box become about as
    wide as long.

    Weights are rounded to multiples of a power of two that is 2**-53 of the largest weight times
    the number of nodes, or less. METIS gets integers, and minimises its communication volume: what
    is sent.

    References
    ----------
    .. [1] Berger, Bokhari. A partitioning strategy for nonuniform problems on multiprocessors.
       IEEE Trans. Comput. C-36, 1987.
    .. [2] Karypis, Kumar. A fast and high quality multilevel scheme for partitioning irregular
       graphs. SIAM J. Sci. Comput. 20, 1998.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> x = np.array([[0.0, 0.0], [3.0, 0.0], [1.0, 1.0], [2.0, 1.0], [5.0, 0.0]])
    >>> gg.distributed.partition(x, 2)
    array([0, 1, 0, 0, 1], dtype=int32)
    >>> gg.distributed.partition(x, 2, weights=[1, 1, 1, 1, 4])
    array([0, 0, 0, 0, 1], dtype=int32)
    """
    comm = Alone() if comm is None else communicator(comm)
    with comm.together("partition"):
        method = choice("partition: method", method, _METHODS)
        n_parts = integer("partition: n_parts", n_parts, AT_LEAST_1)
        work = None if weights is None else _checked_weights(weights)
        if method == "metis":
            if comm.size > 1:
                raise ValueError("partition: method 'metis' needs all nodes on one process")
            points = None if x is None else _checked_points(x)
            return _metis(points, n_parts, graph, work)
        points = _checked_points(x)
        if work is not None and len(work) != len(points):
            raise ValueError(f"partition: weights has {len(work)} entries, needs {len(points)}")
    return _coordinate_bisection(points, n_parts, work, comm)


def _checked_points(x: Any) -> NDArray[np.float64]:
    points = real_numbers("partition", "x", x)
    if points.ndim != 2 or points.shape[1] == 0:
        raise ValueError(f"partition: x has shape {points.shape}, needs (n, d)")
    if not np.isfinite(points).all():
        raise ValueError("partition: x has entries that are not finite")
    return points


def _checked_weights(weights: Any) -> NDArray[np.float64]:
    work = real_numbers("partition", "weights", weights)
    if work.ndim != 1:
        raise ValueError(f"partition: weights has shape {work.shape}, needs (n,)")
    if not (np.isfinite(work) & (work >= 0)).all():
        raise ValueError("partition: weights has entries that are negative or not finite")
    return work


# ---- recursive coordinate bisection: all pieces of a level at a time ----


class _Piece(NamedTuple):
    """Nodes of this process that go to the parts first .. last - 1."""

    nodes: NDArray[np.int64]
    """Numbers of the nodes, ascending, (m,)."""
    keys: NDArray[np.int64]
    """Integers in the order of the coordinates, (d, m)."""
    weights: NDArray[np.int64] | None
    """Weights of the nodes, (m,); None if all are 1."""
    first: int
    last: int
    before: int = 0
    """Sum of weights in the parts before `first`, on all processes."""
    n_nodes: int = 0
    """Number of such nodes on all processes."""
    weight: int = 0
    """Sum of their weights on all processes."""

    def where(self, chosen: NDArray[np.bool_], first: int, last: int) -> _Piece:
        """Piece of some of these nodes, for some of the parts."""
        weights = None if self.weights is None else self.weights[chosen]
        return _Piece(self.nodes[chosen], self.keys[:, chosen], weights, first, last)

    @property
    def own_size(self) -> list[int]:
        """Number of the nodes of this process, and the sum of their weights."""
        n = len(self.nodes)
        return [n, n if self.weights is None else int(self.weights.sum())]

    @property
    def own_bounds(self) -> NDArray[np.int64]:
        """Largest keys of every axis, then largest complements of keys, (2 d,)."""
        nothing = np.iinfo(np.int64).min
        largest = [each.max(axis=1, initial=nothing) for each in (self.keys, ~self.keys)]
        return np.concatenate(largest)


def _coordinate_bisection(
    points: NDArray[np.float64],
    n_parts: int,
    weights: NDArray[np.float64] | None,
    comm: Communicator,
) -> NDArray[np.int32]:
    n, d = points.shape
    _agree_on(comm, d, n_parts, weights is not None)
    keys = _ordered(np.ascontiguousarray(points.T) + 0.0)  # 0.0 and -0.0 are equal
    whole = _Piece(np.arange(n), keys, None, 0, n_parts)
    count, total = comm.sum(np.array(whole.own_size)).tolist()
    if weights is not None:
        whole = whole._replace(weights=_as_integers(weights, count, comm))
        count, total = comm.sum(np.array(whole.own_size)).tolist()
        if count and not total:
            raise ValueError("partition: weights is 0 at all nodes")
    part = np.zeros(n, np.int32)
    level = [whole._replace(n_nodes=count, weight=total)]
    while level:
        for piece in level:
            part[piece.nodes] = piece.first
        level = [piece for piece in level if piece.last - piece.first > 1 and piece.n_nodes]
        if level:
            level = _halves(level, total, n_parts, comm)
    return part


def _halves(level: list[_Piece], total: int, n_parts: int, comm: Communicator) -> list[_Piece]:
    """Cut every piece, and return the pieces on both sides of all cuts."""
    bounds = comm.maximum(np.concatenate([piece.own_bounds for piece in level]))
    cuts = [
        _Cut(piece, most, ~least, total, n_parts)
        for piece, (most, least) in zip(level, bounds.reshape(len(level), 2, -1), strict=True)
    ]
    while searching := [cut for cut in cuts if cut.rounds]:
        found = comm.sum(np.stack([cut.histogram() for cut in searching]))
        for cut, histogram in zip(searching, found, strict=True):
            cut.narrow(histogram)
    left = comm.all_gather(np.array([cut.left.sum() for cut in cuts]))
    for cut, ahead in zip(cuts, left[: comm.rank].sum(axis=0), strict=True):
        cut.by_number(int(ahead))
    halves = [half for cut in cuts for half in cut.halves()]
    sizes = comm.sum(np.array([half.own_size for half in halves])).tolist()
    known = []
    for piece, front, back, (n_front, of_front), (n_back, of_back) in zip(
        level, halves[::2], halves[1::2], sizes[::2], sizes[1::2], strict=True
    ):
        middle = piece.before + of_front
        known.append(front._replace(before=piece.before, n_nodes=n_front, weight=of_front))
        known.append(back._replace(before=middle, n_nodes=n_back, weight=of_back))
    return known


class _Cut:
    """A cut across the longest side of a piece, with a given weight in front.

    The node that it goes through is found by narrowing down candidates, which share its leading
    bits, beginning with those of the first coordinate. Nodes before the candidates are in front of
    the cut.
    """

    def __init__(
        self,
        piece: _Piece,
        most: NDArray[np.int64],
        least: NDArray[np.int64],
        total: int,
        n_parts: int,
    ) -> None:
        with np.errstate(over="ignore"):
            sides = _numbers(most) - _numbers(least)
        self._piece, self._least = piece, least
        self._middle = piece.first + _in_front(sides, piece.last - piece.first)
        # the border for exactly equal parts, so that errors of cuts do not add up
        border = (2 * total * self._middle + n_parts) // (2 * n_parts)
        self._border = border - piece.before
        self.rounds: list[tuple[int, int]] = []
        """Coordinates and bits that remain to be examined."""
        self._ahead = np.zeros(len(piece.nodes), bool)
        self._here = np.arange(len(piece.nodes))
        if self._border >= piece.weight:
            self._ahead[:], self._here = True, self._here[:0]
        elif self._border > 0:
            spans = [int(a) - int(b) for a, b in zip(most, least, strict=True)]
            self.rounds = [
                (int(axis), shift)
                for axis in np.argsort(-sides, kind="stable")
                for shift in reversed(range(0, spans[axis].bit_length(), _BITS))
            ]

    def histogram(self) -> NDArray[np.int64]:
        """Numbers and weights of the candidates of this process, by their next bits."""
        axis, shift = self.rounds.pop(0)
        # differences may overflow, and are right as unsigned numbers
        above = (self._piece.keys[axis, self._here] - self._least[axis]).view(np.uint64)
        bits = (above >> np.uint64(shift)) & np.uint64(2**_BITS - 1)
        self._bits = bits.astype(np.intp)
        counts = np.bincount(self._bits, minlength=2**_BITS)
        if self._piece.weights is None:
            return counts[None]
        weights = np.bincount(self._bits, self._piece.weights[self._here], 2**_BITS)
        return np.stack([counts, weights.astype(np.int64)])

    def narrow(self, histogram: NDArray[np.int64]) -> None:
        """Keep the candidates at the border, given the histogram of all processes."""
        counts, weights = histogram[0], histogram[-1]
        ends = np.cumsum(weights)
        through = int(np.searchsorted(ends, self._border, side="right"))
        self._ahead[self._here[self._bits < through]] = True
        self._border -= int(ends[through] - weights[through])
        self._here = self._here[self._bits == through]
        if counts[through] == 1:
            self.rounds = []

    @property
    def left(self) -> NDArray[np.int64]:
        """Weights of the remaining candidates, whose coordinates are equal."""
        if self._piece.weights is None:
            return np.ones(len(self._here), np.int64)
        return self._piece.weights[self._here]

    def by_number(self, ahead: int) -> None:
        """Order these by number; `ahead` is their weight on processes of lower rank."""
        own = self.left
        self._ahead[self._here] = 2 * (ahead + np.cumsum(own)) - own <= 2 * self._border

    def halves(self) -> tuple[_Piece, _Piece]:
        """The pieces in front of the cut and behind it."""
        piece, middle = self._piece, self._middle
        front = piece.where(self._ahead, piece.first, middle)
        return front, piece.where(~self._ahead, middle, piece.last)


def _in_front(sides: NDArray[np.float64], n_parts: int) -> int:
    """Number of parts of a box in front of the first cut, across its longest side.

    About half of them; 3 of 8 parts in a square, since three rows make better parts than two or
    four. Rows are as wide as the cells of a grid of as many cubes as parts, without the sides that
    are shorter than a cell.
    """
    ratios = np.sort(sides / sides.max())[::-1] if 0 < sides.max() < np.inf else np.ones(1)
    while True:
        width = (ratios.prod() / n_parts) ** (1 / len(ratios))
        if ratios[-1] > width or len(ratios) == 1:
            break
        ratios = ratios[:-1]
    rows = n_parts if width * n_parts <= 1 else max(round(1 / width), 2)
    return (2 * n_parts * (rows // 2) + rows) // (2 * rows)


def _agree_on(comm: Communicator, d: int, n_parts: int, has_weights: bool) -> None:
    """Raise an error if arguments differ between processes."""
    mine = [d, n_parts, int(has_weights)]
    largest = comm.agree("partition", None, [*mine, *(-number for number in mine)]).tolist()
    most, least = largest[:3], [-number for number in largest[3:]]
    for k, name in enumerate(("d", "n_parts")):
        if least[k] != most[k]:
            raise ValueError(f"partition: {name} is {least[k]} on a process, {most[k]} on another")
    if least[2] != most[2]:
        raise ValueError("partition: weights is given on some processes only")


def _as_integers(weights: NDArray[np.float64], count: int, comm: Communicator) -> NDArray[np.int64]:
    """Weights times a power of two, such that sums of all of them are exact in float64."""
    # bits of floats that are not negative are ordered as they are
    heaviest = comm.maximum(weights.max(initial=0.0).reshape(1).view(np.int64)).view(np.float64)
    scale = 53 - frexp(heaviest[0])[1] - count.bit_length()
    return np.rint(np.ldexp(weights, scale)).astype(np.int64)


def _ordered(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Integers in the order of numbers."""
    bits = numbers.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def _numbers(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Inverse of `_ordered`."""
    return (keys ^ ((keys >> 63) & np.int64(2**63 - 1))).view(np.float64)


# ---- METIS ----


def _metis(
    points: NDArray[np.float64] | None,
    n_parts: int,
    graph: Graph | None,
    weights: NDArray[np.float64] | None,
) -> NDArray[np.int32]:
    adjacency = _symmetric(graph)
    n = adjacency.shape[0]
    for name, array in ("x", points), ("weights", weights):
        if array is not None and len(array) != n:
            raise ValueError(f"partition: {name} has {len(array)} rows, but graph has {n} nodes")
    try:
        import pymetis
    except ImportError as error:
        raise ImportError(
            "partition: method 'metis' needs pymetis (pip install pymetis)"
        ) from error
    if n_parts == 1 or n <= n_parts:  # METIS does not do this well
        return np.arange(n, dtype=np.int32) * np.int32(n_parts > 1)
    work = None
    if weights is not None:
        total = weights.sum()
        if total == 0:
            raise ValueError("partition: weights is 0 at all nodes")
        whole = total < _METIS_WEIGHT and (weights == np.rint(weights)).all()
        work = np.rint(weights if whole else weights * (_METIS_WEIGHT / total)).astype(np.int64)
    _, part = pymetis.part_graph(
        n_parts,
        pymetis.CSRAdjacency(adjacency.indptr, adjacency.indices),
        vweights=work,
        recursive=False,
        options=pymetis.Options(objtype=pymetis.ObjType.VOL),
    )
    return np.asarray(part, np.int32)


def _symmetric(graph: Any) -> Any:
    """Sparse matrix of the edges in both directions, without self-loops."""
    if not hasattr(graph, "to_scipy"):
        raise TypeError(
            f"partition: graph is of type {type(graph).__name__}, needs a Graph for method 'metis'"
        )
    if graph.n_src != graph.n_dst:
        raise ValueError(
            f"partition: graph has {graph.n_src} sources and {graph.n_dst} destinations, "
            "needs the same nodes on both sides"
        )
    matrix = graph.to_scipy()
    matrix = (matrix + matrix.T).tocoo()
    others = matrix.row != matrix.col
    ends = matrix.row[others], matrix.col[others]
    return type(matrix)((matrix.data[others], ends), shape=matrix.shape).tocsr()
