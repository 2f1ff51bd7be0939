# SPDX-License-Identifier: MIT
"""Points near others: within a radius, or the nearest ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, overload

from numpy.typing import ArrayLike

from gnograd.neighbors import cpu as neighbors_cpu
from gnograd.neighbors import gpu as neighbors_gpu
from gnograd.neighbors.arguments import Search, Wanted
from gnograd.notation.keywords import named_now
from gnograd.notation.static import Limits, integer

__all__ = ["Neighbors", "knn", "neighbors"]


class Neighbors(NamedTuple):
    """The neighbours of every destination."""

    offsets: Any
    """First neighbour of every destination, and their number, (n_dst + 1,), int64."""
    indices: Any
    """Sources of every destination, (n_edges,), int32."""


@overload
def neighbors(
    sources: Any,
    radius: float,
    destinations: Any = None,
    *,
    include_self: bool = True,
    period: ArrayLike | None = None,
    batch: Any = None,
    destination_batch: Any = None,
    source_items: Iterable[Any] | None = None,
    destination_items: Iterable[Any] | None = None,
    max_neighbors: int | None = None,
    choose: str = "nearest",
    seed: int = 0,
) -> Neighbors: ...
@overload
def neighbors(
    sources: Any,
    radius: Sequence[float],
    destinations: Any = None,
    *,
    include_self: bool = True,
    period: ArrayLike | None = None,
    batch: Any = None,
    destination_batch: Any = None,
    source_items: Iterable[Any] | None = None,
    destination_items: Iterable[Any] | None = None,
    max_neighbors: int | None = None,
    choose: str = "nearest",
    seed: int = 0,
) -> list[Neighbors]: ...
@named_now("include_self", "period", "source_items", "destination_items")
def neighbors(
    sources: Any,
    radius: float | Sequence[float],
    destinations: Any = None,
    *,
    include_self: bool = True,
    period: ArrayLike | None = None,
    batch: Any = None,
    destination_batch: Any = None,
    source_items: Iterable[Any] | None = None,
    destination_items: Iterable[Any] | None = None,
    max_neighbors: int | None = None,
    choose: str = "nearest",
    seed: int = 0,
) -> Neighbors | list[Neighbors]:
    """Sources at most `radius` away from every destination.

    On the CPU by a k-d tree, on a GPU by a hash table of cells. Both compare
    ``(x_1 - y_1)**2 + ... <= radius**2`` in float64, summed in the order of the axes, so that they
    agree on points at the radius, too. Arrays on a GPU are searched there; the host waits for the
    number of neighbours.

    Parameters
    ----------
    sources : array of float, (n_src, d)
        Coordinates. On a GPU in float32 or float64, with at most three axes.
    radius : float or list of float
        Largest Euclidean distance, inclusive. A list makes one search for each, with one k-d tree.
    destinations : array of float, (n_dst, d), optional
        Coordinates, on a GPU in the dtype of the sources; the sources when left out.
    include_self : bool, optional
        Make every point its own neighbour; ``False`` only without `destinations`.
    period : float or array of float, (d,), optional
        Lengths of a periodic box, 0 along axes that are not periodic. Distances are to the nearest
        image, and a source is a neighbour once even where more images are in reach.
    batch, destination_batch : array of int, (n_src,), (n_dst,), optional
        Item of the batch that every point belongs to, as ids that do not decrease: only points of
        the same item are neighbours. The second goes with `destinations`.
    source_items, destination_items : iterable of int, (n_items + 1,), optional
        First point of every item, and the number of points at the end, in place of the ids. The
        second goes with `destinations`.
    max_neighbors : int, optional
        Largest number of neighbours of a destination; no limit when left out.
    choose : {"nearest", "random"}, optional
        Choice of sources where more are in reach of a destination: the nearest, by number where
        distances are equal, or those with the smallest hashes of `seed` and the numbers of the two
        points, which are the same on every device and for any number of threads.
    seed : int, optional
        Seed of the random choice, from 0 to 2**63 - 1.

    Returns
    -------
    Neighbors or list of Neighbors
        `offsets` and `indices`, on the device of the points, the sources of a destination
        ascending; one for each radius of a list.

    Raises
    ------
    ValueError
        Points that are not finite or not of the same dimension, a negative radius or period, items
        that do not fit.
    TypeError
        Points on different devices, that are no real numbers, or no floats on a GPU; a radius that
        is not one number.
    NotImplementedError
        More than three axes on a GPU, or a dtype that the kernels lack.

    See Also
    --------
    knn : a number of neighbours, however far.
    neighbor_list : all periodic images, in a cell of any shape.
    Graph.radius : the same as a graph.

    Notes
    -----
    The hash is number j of the sequence that SplitMix64 [1]_ makes of number i of the sequence that
    it makes of `seed`, where i is the destination and j the source.

    References
    ----------
    .. [1] Steele, Lea, Flood. Fast splittable pseudorandom number generators. OOPSLA 2014.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> points = np.array([[0.0], [1.0], [3.0]])
    >>> offsets, indices = gg.neighbors(points, radius=1.5)
    >>> offsets, indices
    (array([0, 2, 4, 5]), array([0, 1, 0, 1, 2], dtype=int32))
    >>> gg.neighbors(points, radius=2.5, include_self=False, max_neighbors=1).indices
    array([1, 0, 1], dtype=int32)
    """
    wanted = Wanted.of("neighbors", radius, max_neighbors, choose, seed)
    search = Search.of(
        "neighbors", sources, destinations, include_self, period, source_items, destination_items,
        batch, destination_batch,
    )  # fmt: skip
    device = neighbors_gpu if search.on_gpu else neighbors_cpu
    found = [Neighbors(*each) for each in device.within(search, *wanted)]
    return found if isinstance(radius, list | tuple) else found[0]


@named_now("include_self", "period", "source_items", "destination_items")
def knn(
    sources: Any,
    k: int,
    destinations: Any = None,
    *,
    include_self: bool = True,
    period: ArrayLike | None = None,
    batch: Any = None,
    destination_batch: Any = None,
    source_items: Iterable[Any] | None = None,
    destination_items: Iterable[Any] | None = None,
) -> Neighbors:
    """The k sources nearest to every destination.

    On the CPU by a k-d tree, on a GPU by a tree of boxes. Distances are compared as by
    `neighbors`; among sources at the same distance the lower number counts as nearer, so that
    both find the same.

    Parameters
    ----------
    sources : array of float, (n_src, d)
        Coordinates. On a GPU in float32 or float64, with at most three axes.
    k : int
        Number of neighbours; where there are fewer sources (in an item of a batch), all of them.
    destinations, include_self, period, batch, destination_batch, source_items, destination_items
        As for `neighbors`.

    Returns
    -------
    Neighbors
        `offsets` and `indices`, on the device of the points, the nearest source first.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As for `neighbors`; a negative k.

    See Also
    --------
    neighbors : all within a radius, or the nearest of these.
    Graph.knn : the same as a graph.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> gg.knn(np.array([[0.0], [1.0], [3.0]]), k=2)
    Neighbors(offsets=array([0, 2, 4, 6]), indices=array([0, 1, 1, 0, 2, 1], dtype=int32))
    """
    k = integer("knn: k", k, Limits(0, endless=True))
    search = Search.of(
        "knn", sources, destinations, include_self, period, source_items, destination_items,
        batch, destination_batch,
    )  # fmt: skip
    device = neighbors_gpu if search.on_gpu else neighbors_cpu
    return Neighbors(*device.nearest(search, k))
