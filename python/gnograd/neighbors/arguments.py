# SPDX-License-Identifier: MIT
"""Checked arguments of searches for near points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd.backends import cpu
from gnograd.notation.static import Limits, boolean, choice, exact_integers, integer, number, shown

__all__ = ["Search", "Wanted", "checked_items", "items_of", "length", "real_numbers", "shape_of"]


_CHOICES = {"nearest": 0, "random": 1}
_SEEDS = Limits(0, 2**63 - 1)


class Wanted(NamedTuple):
    """Selection of neighbours among the near points."""

    radii: list[float]
    """Radii, one search for each"""
    most: int | None
    """Largest number of neighbours of a destination; None for no limit"""
    seed: int | None
    """Seed of the random choice if there are more; None for the nearest"""

    @classmethod
    def of(cls, operator: str, radius: Any, max_neighbors: Any, choose: Any, seed: Any) -> Wanted:
        """Check the arguments of an operator."""
        several = isinstance(radius, list | tuple)
        radii = [
            length(f"{operator}: radius[{n}]" if several else f"{operator}: radius", r)
            for n, r in enumerate(radius if several else [radius])
        ]
        if not radii:
            raise ValueError(f"{operator}: radius is empty, needs one number or more")
        most = max_neighbors
        if most is not None:
            most = integer(f"{operator}: max_neighbors", most, Limits(0, endless=True))
        nearest = choice(f"{operator}: choose", choose, _CHOICES) == "nearest"
        seed = integer(f"{operator}: seed", seed, _SEEDS)
        return cls(radii, most, None if nearest else seed)


class Search(NamedTuple):
    """Points, the periodic box, and limits on which of them may be neighbours at all."""

    operator: str
    """Name for messages"""
    sources: Any
    """Coordinates (n_src, d); on the CPU in float64"""
    destinations: Any
    """Coordinates (n_dst, d)"""
    box: NDArray[np.float64]
    """Lengths of the periodic box, 0 along open axes, (d,)"""
    items: list[NDArray[np.int64]]
    """First source of every item, and first destination, (n_items + 1,) each"""
    own: int | None
    """Source that is destination 0, if points are not their own neighbours; else None"""

    @classmethod
    def of(
        cls,
        operator: str,
        sources: Any,
        destinations: Any,
        include_self: bool,
        period: ArrayLike | None,
        source_items: Iterable[Any] | None = None,
        destination_items: Iterable[Any] | None = None,
        batch: Any = None,
        destination_batch: Any = None,
        names: tuple[str, str] = ("sources", "destinations"),
    ) -> Search:
        """Check the arguments of an operator; `names` of the points are for messages."""
        include_self = boolean(f"{operator}: include_self", include_self)
        if destinations is not None and not include_self:
            raise ValueError(f"{operator}: include_self=False needs {names[1]}=None")
        alone = destinations is None
        if alone:
            destinations = sources
        points = dict(zip(names, (sources, destinations), strict=True))
        on_gpu = [hasattr(x, "__cuda_array_interface__") for x in points.values()]
        if on_gpu[0] != on_gpu[1]:
            raise TypeError(f"{operator}: of {names[0]} and {names[1]}, one is on a GPU")
        if not on_gpu[0]:
            points = {name: real_numbers(operator, name, x) for name, x in points.items()}
        shapes = [shape_of(x) for x in points.values()]
        for name, shape in zip(points, shapes, strict=True):
            if len(shape) != 2:
                raise ValueError(f"{operator}: {name} has shape {shape}, needs (points, d)")
            if shape[1] == 0:
                raise ValueError(
                    f"{operator}: {name} has shape {shape}, needs one coordinate or more"
                )
        (n_src, d), (n_dst, _) = shapes
        if shapes[1][1] != d:
            raise ValueError(
                f"{operator}: {names[0]} has {d} coordinates but {names[1]} has {shapes[1][1]}"
            )
        if batch is not None or destination_batch is not None:
            if source_items is not None or destination_items is not None:
                raise ValueError(f"{operator}: batch and source_items: give one of them")
            source_items, destination_items = items_of(
                operator, batch, destination_batch, n_src, None if alone else n_dst
            )
        elif alone and destination_items is None:
            destination_items = source_items
        items = checked_items(
            operator,
            {
                "source_items": (source_items, n_src),
                "destination_items": (destination_items, n_dst),
            },
        )
        sources, destinations = points.values()
        box = _box(operator, period, d)
        return cls(operator, sources, destinations, box, items, None if include_self else 0)

    @property
    def on_gpu(self) -> bool:
        """True if the points are on a GPU."""
        return not isinstance(self.sources, np.ndarray)


def shape_of(points: Any) -> tuple[int, ...]:
    """Shape of an array on any device."""
    interface = getattr(points, "__cuda_array_interface__", None)
    return tuple(interface["shape"]) if interface else np.shape(points)


def items_of(
    operator: str, batch: Any, destination_batch: Any, n_src: int, n_dst: int | None
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """First point of every item, of sources and destinations, from the item of every point.

    Parameters
    ----------
    operator : str
    batch, destination_batch : array of int, (n_src,), (n_dst,), or None
        Ids of sources and destinations, which do not decrease.
    n_src : int
    n_dst : int or None
        None where the sources are the destinations.

    Raises
    ------
    TypeError, ValueError
        Ids that are no integers, descend, or are not one a point; one of the two is missing.
    """
    if n_dst is None:
        if destination_batch is not None:
            raise ValueError(f"{operator}: destination_batch goes with destinations")
        destination_batch, n_dst = batch, n_src
    if (batch is None) != (destination_batch is None):
        raise ValueError(f"{operator}: batch goes with destination_batch: give both or none")
    if batch is None:
        return None, None
    ids = [
        _ids(f"{operator}: {name}", given, n)
        for name, given, n in (
            ("batch", batch, n_src), ("destination_batch", destination_batch, n_dst)
        )
    ]  # fmt: skip
    items = np.unique(np.concatenate(ids))
    first, second = (np.append(np.searchsorted(each, items), len(each)) for each in ids)
    if not len(items):  # no points at all: an item of none
        first, second = np.zeros(2, np.int64), np.zeros(2, np.int64)
    first[0] = second[0] = 0
    return first, second


def _ids(label: str, given: Any, n: int) -> NDArray[np.int64]:
    ids = np.asarray(given.get() if hasattr(given, "__cuda_array_interface__") else given)
    if hasattr(given, "mask"):
        raise TypeError(f"{label} is a masked array, needs integers")
    if ids.shape != (n,):
        raise ValueError(f"{label} has shape {ids.shape}, needs one id for each of {n} points")
    if ids.size and ids.dtype.kind not in "iu":
        raise TypeError(f"{label} is {ids.dtype}, needs integers")
    ids = exact_integers(label, ids, np.int64)
    if (ids[1:] < ids[:-1]).any():
        at = int(np.argmax(ids[1:] < ids[:-1])) + 1
        raise ValueError(f"{label} descends at point {at}, needs ids that do not")
    return ids


def checked_items(
    operator: str, given: Mapping[str, tuple[Iterable[Any] | None, int]]
) -> list[NDArray[np.int64]]:
    """First point of every item, and the number of points, for both kinds of points.

    Parameters
    ----------
    operator : str
    given : dict
        Value and number of points by the name of the argument; one item when left out.

    Raises
    ------
    ValueError
        One of them is missing, does not ascend to the number of points, or is of another length.
    """
    (first, second), missing = given, [items is None for items, _ in given.values()]
    if missing[0] != missing[1]:
        raise ValueError(f"{operator}: {first} goes with {second}: give both or none")
    checked = []
    for name, (items, n) in given.items():
        entries = [0, n] if items is None else _entries(f"{operator}: {name}", items)
        if len(entries) < 2 or entries[0] != 0 or entries[-1] != n or sorted(entries) != entries:
            raise ValueError(
                f"{operator}: {name} is {entries}, needs to ascend from 0 to the {n} points"
            )
        checked.append(np.array(entries))
    if len(checked[0]) != len(checked[1]):
        raise ValueError(
            f"{operator}: {first} has {len(checked[0])} entries but {second} has {len(checked[1])}"
        )
    return checked


def real_numbers(operator: str, name: str, values: Any) -> NDArray[np.float64]:
    """An array of float64; text is not parsed, and complex numbers keep both their parts."""
    cpu.refuse_mask(operator, name, values)
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" and array.size:
        raise TypeError(f"{operator}: {name} is {array.dtype}, needs real numbers")
    return array.astype(np.float64, copy=False)


def length(label: str, value: Any) -> float:
    """A number that is not negative, and may be infinite."""
    exact = number(label, value)
    if not exact >= 0:
        raise ValueError(f"{label} is {exact}, needs a number that is not negative")
    return exact


def _box(operator: str, period: ArrayLike | None, d: int) -> NDArray[np.float64]:
    """Length of the box along every axis, 0 where it is open."""
    given = real_numbers(operator, "period", 0 if period is None else period)
    if given.shape not in ((), (1,), (d,)):
        raise ValueError(f"{operator}: period has shape {given.shape}, needs one number or {d}")
    if not (np.isfinite(given) & (given >= 0)).all():
        raise ValueError(f"{operator}: period is {given}, needs numbers that are not negative")
    return np.broadcast_to(given, d).copy()


def _entries(label: str, items: Any) -> list[int]:
    entries = items.tolist() if hasattr(items, "tolist") else items
    if not isinstance(entries, Iterable) or isinstance(entries, str):
        raise TypeError(f"{label} is {shown(items)}, needs integers")
    return [integer(f"{label}[{k}]", entry) for k, entry in enumerate(entries)]
