# SPDX-License-Identifier: MIT
"""Axes of fields, on regular grids and on points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError
from gnograd.data.stored import LARGE, in_order

__all__ = ["AXES", "GRIDS", "POINT", "SPACE", "Grid"]

Array = NDArray[Any]

GRIDS = ("closed", "periodic")
SPACE, POINT = "xyz", "p"
AXES = {"s": "samples", "t": "times", POINT: "points", "c": "channels"} | {
    letter: letter for letter in SPACE
}
"""Letters of a layout: samples, times, points, or the axes of a grid, and channels."""


class Grid:
    """Axes of the fields of a file on a regular grid, or on points.

    Parameters
    ----------
    contents : Contents
    layout : sequence of str, optional
        Letters of `AXES`, in the order of the axes.
    states : sequence of str
        Arrays that have times.
    names : sequence of str
        Arrays on the grid; the first ones determine its size.
    needs_steps : bool
        Require times of a state.
    sizes : mapping of str to int, optional
        Known lengths of axes.
    """

    def __init__(
        self,
        contents: Contents,
        layout: Sequence[str] | None,
        states: Sequence[str],
        names: Sequence[str],
        needs_steps: bool = True,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.contents, self.states = contents, states
        self.arrays = {name: contents.arrays[name] for name in names}
        self.given = layout is not None
        self.sizes = dict(sizes or {})
        self.axes: dict[str, str] = {}
        letters = "".join(layout or ())
        if self.given:
            self._check(letters, needs_steps)
        # arrays with most axes first: they determine sizes that others share
        order = sorted(self.arrays, key=lambda name: -self.arrays[name].ndim)
        for name in order if self.given else self.arrays:
            choices = (
                self._by_layout(name, letters, needs_steps) if self.given else self._usual(name)
            )
            choices = [axes for axes in choices if self._fits(name, axes)]
            if self.given and not self.axes:  # one array has all axes
                choices = [axes for axes in choices if len(axes) == len(letters)]
            # an axis with the length of samples or times is that rather than channels
            fewest = min((axes.count("c") for axes in choices), default=0)
            choices = [axes for axes in choices if axes.count("c") == fewest]
            if len(choices) != 1:
                self._refuse(name, letters, choices)
            self.axes[name] = choices[0]
            self.sizes |= {
                letter: n
                for letter, n in zip(choices[0], self.arrays[name].shape, strict=True)
                if letter != "c"
            }
        self.space = [a for a in next(iter(self.axes.values())) if a in SPACE + POINT]
        if not self.given:
            self._doubt(next(iter(self.arrays)))

    def _check(self, layout: str, needs_steps: bool) -> None:
        space = [letter for letter in layout if letter in SPACE + POINT]
        once = all(layout.count(letter) == 1 for letter in layout if letter != "c")
        on_points = space == [POINT]
        if set(layout) - set(AXES) or not once:
            space = []
        if not on_points and sorted(space) != list(SPACE[: len(space)]):
            space = []
        if not space:
            raise DataError(
                f"--layout is {','.join(layout)!r}, needs s (samples), t (times), p (points) or x, "
                "y, z (axes of a grid), and c (channels) in the order of the axes, as s,t,x,y,c"
            )
        if self.states and needs_steps and "t" not in layout:
            raise DataError(f"--layout is {','.join(layout)!r}, needs t, the times of the state")
        if "t" in layout and not self.states:
            raise DataError(f"--layout is {','.join(layout)!r}: t is for times of a --state")

    def _by_layout(self, name: str, layout: str, needs_steps: bool) -> list[str]:
        """Layouts of an array: that given, with or without samples, times and channels."""
        kept = SPACE + POINT + ("t" if name in self.states and needs_steps else "")
        ways = {
            "".join(axes): None
            for axes in combinations(layout, self.arrays[name].ndim)
            if all(letter in axes for letter in layout if letter in kept)
        }
        return list(ways)

    def _usual(self, name: str) -> list[str]:
        before = "st" if name in self.states else "s"
        d = self.arrays[name].ndim - len(before)
        ways = [before + SPACE[:d]] if 1 <= d <= 3 else []
        if self.states and name not in self.states and 1 <= d - 1 <= 3:
            ways.append("st" + SPACE[: d - 1])  # an input that changes in time
        return ways

    def _fits(self, name: str, axes: str) -> bool:
        mine = dict(zip(axes, self.arrays[name].shape, strict=True))
        known = [letter for letter in self.sizes if letter in SPACE + POINT]
        if known and [letter for letter in axes if letter in SPACE + POINT] != known:
            return False
        for letter, n in mine.items():
            before = self.sizes.get(letter, n)
            # an initial state has one time, and inputs may have more
            begins = letter == "t" and 1 in (n, before)
            if letter != "c" and n != before and not begins:
                return False
        return True

    def _refuse(self, name: str, layout: str, choices: Sequence[str]) -> None:
        shape, others = self.arrays[name].shape, [n for n in self.axes if n != name]
        grid = f", the same grid as '{others[0]}'" if others else ""
        if choices:
            ways = " or ".join(map(",".join, choices))
            text = f"which may be {ways}{' of the layout' if layout else '; say with --layout'}"
        elif layout:
            fewer = f", or these without s, t or c{grid}" if others else ""
            text = f"needs the axes {','.join(layout)}{fewer}"
        else:
            times = "n_times, " if name in self.states else ""
            text = f"needs (n_samples, {times}n_1, .., n_d) with d = 1, 2 or 3{grid}"
            text += "; other axes are told with --layout"
        raise DataError(f"{self.contents.path}: array '{name}' has shape {shape}, {text}")

    def _doubt(self, name: str) -> None:
        """Raise DataError for axes of the grid that may also be channels or times."""
        sides, n_times = [self.sizes[letter] for letter in self.space], self.sizes.get("t")
        short, n_samples, why = min(sides), self.sizes.get("s"), ""
        grid = f"a grid of {' x '.join(map(str, sides))}"
        # only a square or cube with other numbers of samples and times leaves no doubt
        odd = len(sides) == 1 or short == 1 or short < max(sides)
        if odd or n_samples in sides:
            why = f"{n_samples} samples on {grid}, or are its axes others?"
        if odd and len(sides) > 1:
            why = f"{grid}, or samples, channels or times among its axes?"
        if n_times is not None and n_times > 1 and (odd or n_times >= short):
            why = f"{n_times} times on {grid}?"
        if why:
            shape = self.arrays[name].shape
            raise DataError(
                f"{self.contents.path}: array '{name}' has shape {shape}: {why} Say what its axes "
                "are with --layout, as s,t,x,y,c for samples, times, space and channels"
            )

    def flat(self, name: str) -> Array:
        """A field as (samples, times, points, channels), without samples or times if it has none.

        Points are in the order of the file.
        """
        array, axes = self.arrays[name], self.axes[name]
        order = [k for letter in "st" for k, a in enumerate(axes) if a == letter]
        order += [k for k, a in enumerate(axes) if a in SPACE + POINT]
        order += [k for k, a in enumerate(axes) if a == "c"]
        lead = sum(letter in axes for letter in "st")
        array = array.transpose(order)
        if array.nbytes >= LARGE:  # the axes of space become one, which would copy to memory
            array = in_order(array)
        points = int(np.prod(array.shape[lead : lead + len(self.space)]))
        array = array.reshape(*array.shape[:lead], points, -1)
        if name in self.states and "t" not in axes:
            array = array[..., None, :, :]
        elif "t" in axes and "s" not in axes and "s" in self.sizes:
            array = np.broadcast_to(array, (self.sizes["s"], *array.shape))
        return array

    def words(self, name: str) -> tuple[str, ...]:
        """Meaning of each axis of a field."""
        return tuple(AXES[letter] for letter in self.axes[name])

    def points(self, kind: str | None, along: Sequence[str] = ()) -> Array:
        """Points of the unit box, or with the coordinates of arrays `along` x, y, z."""
        sides = [self.sizes[letter] for letter in self.space]
        if along:
            axes = [self._axis(letter, along) for letter in self.space]
        else:
            axes = [np.arange(n) / max(1, n - (kind == "closed")) for n in sides]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sides))
        return grid[:, [self.space.index(letter) for letter in SPACE[: len(sides)]]]

    def _axis(self, letter: str, names: Sequence[str]) -> Array:
        """Coordinates along an axis of the grid."""
        if len(names) != len(self.space):
            raise DataError(
                f"{self.contents.path}: --points names {len(names)} arrays, but the grid of "
                f"--layout has {len(self.space)} axes"
            )
        name = names[SPACE.index(letter)]
        array, n = self.contents.arrays[name], self.sizes[letter]
        if array.size != n or array.squeeze().ndim > 1:
            raise DataError(
                f"{self.contents.path}: array '{name}' has shape {array.shape}, needs ({n},), the "
                f"coordinates along {letter}"
            )
        return np.asarray(array, np.float64).reshape(-1)
