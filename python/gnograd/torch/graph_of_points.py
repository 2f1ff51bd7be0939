# SPDX-License-Identifier: MIT
"""Graphs of near points, as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from torch import Tensor

from gnograd.notation.keywords import named_now
from gnograd.torch.searches import Pointer, items_of_batch, nearest_of, neighbors_of

__all__ = ["GraphOfPoints"]

G = TypeVar("G", bound="GraphOfPoints")


class GraphOfPoints:
    """Constructors of graphs from points; base of `gnograd.torch.Graph`."""

    if TYPE_CHECKING:

        @classmethod
        def _of_neighbors(cls: type[G], offsets: Tensor, indices: Tensor, n_src: int) -> G:
            """Graph of the result of a search."""

    @overload
    @classmethod
    def radius(
        cls: type[G],
        sources: Tensor,
        radius: float | Tensor,
        destinations: Tensor | None = None,
        *,
        include_self: bool = True,
        period: float | Sequence[float] | None = None,
        batch: Tensor | None = None,
        destination_batch: Tensor | None = None,
        source_items: Pointer = None,
        destination_items: Pointer = None,
        max_neighbors: int | None = None,
        choose: str = "nearest",
        seed: int = 0,
    ) -> G: ...
    @overload
    @classmethod
    def radius(
        cls: type[G],
        sources: Tensor,
        radius: list[float],
        destinations: Tensor | None = None,
        *,
        include_self: bool = True,
        period: float | Sequence[float] | None = None,
        batch: Tensor | None = None,
        destination_batch: Tensor | None = None,
        source_items: Pointer = None,
        destination_items: Pointer = None,
        max_neighbors: int | None = None,
        choose: str = "nearest",
        seed: int = 0,
    ) -> list[G]: ...
    @classmethod
    @named_now("include_self", "period", "source_items", "destination_items")
    def radius(
        cls: type[G],
        sources: Tensor,
        radius: float | Tensor | list[float],
        destinations: Tensor | None = None,
        *,
        include_self: bool = True,
        period: float | Sequence[float] | None = None,
        batch: Tensor | None = None,
        destination_batch: Tensor | None = None,
        source_items: Pointer = None,
        destination_items: Pointer = None,
        max_neighbors: int | None = None,
        choose: str = "nearest",
        seed: int = 0,
    ) -> G | list[G]:
        """Graph of all pairs of points at most `radius` apart, as `gnograd.Graph.radius` makes it.

        Parameters
        ----------
        sources, destinations : Tensor, (n_src, d), (n_dst, d)
            Points on one device, where they are searched.
        radius, include_self, period
            As for `gnograd.Graph.radius`; a list of radii makes one graph for each.
        batch, destination_batch : Tensor of int, (n_src,), (n_dst,), optional
            Item of the batch that every point belongs to, as ids that do not decrease: edges only
            join points of the same item. The second goes with `destinations`.
        source_items, destination_items : sequence of int or Tensor, (n_items + 1,), optional
            First point of every item, and the number of points at the end, in place of the ids.
            The second goes with `destinations`.
        max_neighbors, choose, seed
            As for `gnograd.Graph.radius`.
        """
        if choose not in ("nearest", "random"):
            raise ValueError(
                f"Graph.radius: choose is {choose!r}, needs one of 'nearest', 'random'"
            )
        radii = radius if isinstance(radius, list | tuple) else [radius]
        found = neighbors_of(
            *_points("radius", sources, destinations, include_self),
            radii, period,
            *_items(
                "radius", sources, destinations, source_items, destination_items, batch,
                destination_batch,
            ),
            max_neighbors, seed if choose == "random" and max_neighbors is not None else None,
        )  # fmt: skip
        graphs = [cls._of_neighbors(*each, sources.shape[0]) for each in found]
        return graphs if isinstance(radius, list | tuple) else graphs[0]

    @classmethod
    @named_now("period", "batch", "destination_batch")
    def knn(
        cls: type[G],
        sources: Tensor,
        k: int,
        destinations: Tensor | None = None,
        *,
        include_self: bool = True,
        period: float | Sequence[float] | None = None,
        batch: Tensor | None = None,
        destination_batch: Tensor | None = None,
        source_items: Pointer = None,
        destination_items: Pointer = None,
    ) -> G:
        """Graph of the k nearest sources of every destination, as `gnograd.Graph.knn` makes it.

        Parameters
        ----------
        sources, destinations : Tensor, (n_src, d), (n_dst, d)
            Points on one device, where they are searched.
        k, include_self, period
            As for `gnograd.Graph.knn`.
        batch, destination_batch, source_items, destination_items
            As for `Graph.radius`.
        """
        found = nearest_of(
            *_points("knn", sources, destinations, include_self),
            k, period,
            *_items(
                "knn", sources, destinations, source_items, destination_items, batch,
                destination_batch,
            ),
        )  # fmt: skip
        return cls._of_neighbors(*found, sources.shape[0])


def _points(
    name: str, sources: Tensor, destinations: Tensor | None, include_self: bool
) -> tuple[Tensor, Tensor | None]:
    """Sources and destinations; None as destinations where points are not their own neighbours."""
    if destinations is not None and not include_self:
        raise ValueError(f"Graph.{name}: include_self=False needs destinations=None")
    return sources, (sources if destinations is None and include_self else destinations)


def _items(
    name: str,
    sources: Tensor,
    destinations: Tensor | None,
    source_items: Pointer,
    destination_items: Pointer,
    batch: Tensor | None,
    destination_batch: Tensor | None,
) -> tuple[Pointer, Pointer]:
    """First point of every item: as given, or from the item of every point."""
    if batch is not None or destination_batch is not None:
        if source_items is not None or destination_items is not None:
            raise ValueError(f"Graph.{name}: batch and source_items: give one of them")
        return items_of_batch(batch, destination_batch, sources, destinations)
    if destinations is None and destination_items is None:
        destination_items = source_items
    return source_items, destination_items
