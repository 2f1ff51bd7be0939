# SPDX-License-Identifier: MIT
"""Conversion of the arrays of a file to samples.

One file: what the arrays of a file are found to be in one step, all later steps need.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError
from gnograd.data.dimensions import check_dimensions
from gnograd.data.grid import GRIDS, POINT, SPACE, Grid
from gnograd.data.masks import Fill, Masking, extremes, fill_in, fill_value
from gnograd.data.roles import (
    EVERY,
    OFFSETS,
    OUTPUT_OFFSETS,
    PERIOD,
    Assignment,
    Roles,
    arranged,
    assign,
    either,
    is_row,
    n_points,
    no_points,
    not_finite,
)
from gnograd.data.samples import Facts, Field, Layout, Made, PointData, Sample
from gnograd.data.stored import LARGE, LIMIT, Columns, first_not_finite, in_order, intact, used

__all__ = ["samples_of"]

Array = NDArray[Any]
Arrays = Sequence[Array] | Array
"""Arrays of all samples, or one array for all."""

EVEN = 1e-3
"""Relative difference of two time steps that counts as rounding."""
_CHANNELS = 9
"""Largest number of channels that is not asked about: the components of a tensor."""
_ROUGH = 0.05
"""Largest such difference that rounding of the times in their dtype may explain."""
_MANY = 100_000
"""Largest number of samples, of a thousand bytes and their arrays each, that are made at once."""
_SMALL = 1 << 20
"""Bytes of an array that is converted at once also beside large ones."""


def samples_of(contents: Contents, roles: Roles, needs_outputs: bool = True) -> PointData:
    """Make samples from the contents of a file.

    Parameters
    ----------
    contents : Contents
    roles : Roles
    needs_outputs : bool
        Raise an error for a file without outputs, or with one time of a state only.

    Returns
    -------
    PointData

    Raises
    ------
    DataError
        Arrays do not fit each other; the message says which shapes they need.
    """
    names = assign(contents, roles, needs_outputs)
    contents, axes = arranged(contents, roles), dict[str, tuple[str, ...]]()
    if roles.on_grid or roles.layout is not None:
        contents, names, axes = _with_axes(contents, roles, names, needs_outputs)
    data = _Reading(contents, names, roles).data(needs_outputs)
    axes = {**data.axes, **axes}
    check_dimensions(contents, axes, roles.layout)
    return replace(data, axes=axes)


class _Reading:
    """Conversion of the arrays of one file."""

    def __init__(self, contents: Contents, names: Assignment, roles: Roles) -> None:
        self.contents, self.names, self.roles = contents, names, roles
        self.mask = roles.masking(contents)
        self.n_samples: int | None = None
        self.n_times: int | None = None
        self.said_by = ""
        self.certain = roles.layout is not None or roles.on_grid
        """Whether axes are known; otherwise those that have two meanings are asked for."""
        self.axes: dict[str, tuple[str, ...]] = {}
        every = (
            *names.inputs, *names.outputs, *names.states, names.points, names.output_points,
        )  # fmt: skip
        there = contents.arrays
        self.large = sum(there[n].nbytes for n in every if n is not None) > LIMIT
        """True if samples are made, and numbers converted, only when they are asked for."""

    def data(self, needs_outputs: bool) -> PointData:
        names = self.names
        offsets = self._offsets(OFFSETS)
        points = self._points(str(names.points), offsets)
        queries, query_offsets = points, offsets
        if names.output_points is not None:
            query_offsets = self._offsets(OUTPUT_OFFSETS)
            queries = self._points(names.output_points, query_offsets)
        states = [self._states(n, points, offsets, needs_outputs) for n in names.states]
        if states:
            inputs = [self._driving(n, points, needs_outputs) for n in names.inputs]
        else:
            inputs = [self._field(n, points, offsets) for n in names.inputs]
        outputs = [self._field(n, queries, query_offsets) for n in names.outputs]
        masks = [self._field(n, points, offsets) for n in self.roles.marks(self.contents)]
        times, orders, step = self._times(states, inputs)
        parameters = [self._parameters(n) for n in names.parameters]
        if needs_outputs and not self.roles.known:
            self._doubt_samples(points[0].shape[1])
        n = 1 if self.n_samples is None else self.n_samples
        if n == 0:
            raise self._error(self.said_by, "holds no sample")
        kept = not self.large and n <= _MANY
        dimension = points[0].shape[1]
        layout = Layout(
            dimension,
            tuple(Field(k, a[0].shape[-1]) for k, a in zip(names.inputs, inputs, strict=True)),
            tuple(
                Field(k, a[0].shape[-1])
                for k, a in zip(names.outputs + names.states, outputs + states, strict=True)
            ),
            tuple(Field(k, a[0].size) for k, a in zip(names.parameters, parameters, strict=True)),
            self._period(dimension),
            bool(states),
            names.output_points is not None,
            step,
            self._units(),
        )
        # arrays that samples share stay one array
        shared: dict[Any, Array] = {}

        def of(arrays: Sequence[Arrays], k: int, m: int, order: Array | None = None) -> Array:
            own = [k % len(a) for a in arrays]
            key = id(arrays), m, *own
            if key in shared:
                return shared[key]
            parts = [a[j] for a, j in zip(arrays, own, strict=True)]
            intact(*parts)
            made = self._joined(parts, order) if parts else np.zeros((m, 0), np.float32)
            if kept or all(len(a) == 1 for a in arrays):
                shared[key] = made
            return made

        none = np.zeros(0, np.float32)

        def make(k: int) -> Sample:
            for arrays in (points, queries, *parameters):
                intact(arrays[k % len(arrays)])
            x = _positions(points[k % len(points)])
            q = x if queries is points else _positions(queries[k % len(queries)])
            order = orders[k % len(orders)] if orders else None
            source = str(self.contents.path) + (f", sample {k}" if n > 1 else "")
            return Sample(
                x,
                of(inputs, k, len(x), order),
                q,
                of(outputs, k, len(q)) if outputs else None,
                np.concatenate(
                    [none, *(np.asarray(a[k % len(a)], np.float32) for a in parameters)]
                ),
                of(states, k, len(x), order) if states else None,
                self.contents.cells if len(queries) == 1 else {},
                source,
                times[k % len(times)] if times else None,
                self.contents.centers if queries is points else None,
            )

        left_out = dict(self.contents.unused) | dict(names.left_out)
        samples = self._samples(n, make, points, queries, states, inputs)
        if self.mask.leaves_out:
            before = Facts.of(samples) if isinstance(samples, list) else samples.facts
            samples = self._masked(samples, masks)
            self._check_kept(samples, layout)
            most = int((before.points - PointData(samples, layout).facts.points).max())
            if most:
                left_out["points without data"] = f"--mask leaves out up to {most} of a sample"
        return PointData(samples, layout, left_out, self.axes)

    def _samples(
        self,
        n: int,
        make: Callable[[int], Sample],
        points: Sequence[Array],
        queries: Sequence[Array],
        states: Sequence[Arrays],
        inputs: Sequence[Arrays],
    ) -> list[Sample] | Made:
        """Samples, or what makes them when they are asked for."""
        if not self.large and n <= _MANY:
            return [make(k) for k in range(n)]
        numbers, several = np.arange(n), max(len(points), len(queries)) > 1
        in_time = max((len(a[0]) for a in inputs if a[0].ndim == 3), default=0)
        return Made(
            make,
            Facts(
                numbers if several else 0 * numbers,
                _lengths(points)[numbers % len(points)],
                _lengths(queries)[numbers % len(queries)],
                np.full(n, len(states[0][0]) if states else 0),
                np.full(n, in_time),
            ),
        )

    def _masked(self, samples: list[Sample] | Made, masks: Sequence[Arrays]) -> list[Sample] | Made:
        """Samples without the points that have no data."""

        def mask(k: int) -> Array | None:
            return masks[0][k % len(masks[0])] if masks else None

        if isinstance(samples, list):
            masking = Masking(self.contents, self.mask)
            return masking.kept([(s, mask(k)) for k, s in enumerate(samples)])

        def kept(k: int) -> Sample:
            # a new one for each: it knows arrays by where they are in memory
            return Masking(self.contents, self.mask).kept([(samples[k], mask(k))])[0]

        known: dict[bytes, int] = {}
        facts = Facts(*map(np.copy, samples.facts))
        shared = not facts.geometry.any()
        for k in range(len(samples)):
            sample = kept(k)
            facts.points[k], facts.queries[k] = len(sample.points), len(sample.queries)
            if shared:  # then those with the same points have the same cells
                place = hashlib.sha256(sample.points.data).digest()
                facts.geometry[k] = known.setdefault(place, len(known))
        return Made(kept, facts)

    def _joined(self, parts: Sequence[Array], order: Array | None) -> Array:
        """Columns of several fields side by side, in float32."""
        times = max((len(p) for p in parts if p.ndim == 3), default=None)
        if times is None:
            made = np.concatenate([np.asarray(p, np.float32) for p in parts], axis=-1)
            used(made.nbytes if self.large else 0)
            return made
        if self.large:
            return cast(Array, Columns(parts, np.arange(times) if order is None else order))
        made = _side_by_side(parts)
        return made if order is None else made[order]

    # ---- arrays by role: a list with one array a sample, or with one for all ----

    def _points(self, name: str, offsets: Array | None) -> Sequence[Array]:
        array = self._array(name)
        missing = (self.roles.dimension or 0) - array.shape[-1]
        if array.ndim == 2 and 0 < missing <= self.contents.flat:
            array = np.pad(array, ((0, 0), (0, missing)))
        if offsets is not None:
            array = array[:, None] if array.ndim == 1 else array
            self._check_length(name, array, offsets)
            parts: Any = _Pieces(array, offsets) if array.ndim == 2 else []
            self.axes[name] = ("points of all samples", "coordinates")
        elif array.ndim == 3:
            self._count(name, len(array))
            self.axes[name] = ("samples", "points", "coordinates")
            parts = array
        else:
            self.axes[name] = ("points", "coordinates")
            if array.ndim == 2 and is_row(array.shape):
                array, self.axes[name] = array[0], ("coordinates", "points")
            parts = [array[:, None] if array.ndim == 1 else array]
        if not len(parts) or parts[0].ndim != 2 or not 1 <= parts[0].shape[1] <= 3:
            raise self._error(name, no_points(array))
        if _lengths(parts).min() == 0:
            raise self._error(name, "has samples without points")
        # of large data, those of single samples are converted when these are made
        if self.large and len(parts) > 1:
            return cast(Sequence[Array], parts)
        return [_positions(part) for part in parts]

    def _field(self, name: str, points: Sequence[Array], offsets: Array | None) -> Arrays:
        array = self._array(name)
        if offsets is not None:
            array = array[:, None] if array.ndim == 1 else array
            self._check_length(name, array, offsets)
            if array.ndim != 2:
                raise self._error(name, f"has shape {array.shape}, needs (n, channels)")
            self.axes[name] = ("points of all samples", "channels")
            return _Pieces(array, offsets)
        n = len(points[0])
        by_sample, here = None, array.shape
        if array.ndim == 3 and here[1] == n:
            by_sample = array
            if here[2] == n > 3:
                self._doubt(
                    name, f"{n} channels on {n} points, or a grid (--grid closed, --grid periodic)?"
                )
        elif array.ndim == 2 and here[1] == n:
            if here[0] == n > 1:
                self._doubt(name, f"{n} samples on {n} points, or {n} channels?")
            by_sample = array[..., None]
        elif array.ndim == 2 and here[0] == n:
            if here[1] > _CHANNELS:
                self._doubt(
                    name, f"{here[1]} channels of one sample, or {here[1]} samples (to transpose)?"
                )
            self.axes[name] = ("points", "channels")
            return [array]
        elif array.ndim == 1 and here[0] == n:
            self.axes[name] = ("points",)
            return [array[:, None]]
        self.axes[name] = ("samples", "points", "channels")[: array.ndim]
        if by_sample is None:
            raise self._error(
                name,
                f"has shape {here}, needs (n_samples, {n}) or (n_samples, {n}, channels), or "
                f"({n},) or ({n}, channels) where it is the same for all samples, for '"
                f"{self.names.points}' has {n} points",
            )
        self._count(name, len(by_sample))
        return by_sample

    def _states(
        self, name: str, points: Sequence[Array], offsets: Array | None, needs_steps: bool
    ) -> Arrays:
        if offsets is not None:
            raise self._error(name, "changes in time: store each trajectory as a file of its own")
        array, n = self._array(name), len(points[0])
        here = array.shape
        if 1 < n in here and here.count(n) > 1:
            self._doubt(name, f"which axis has the {n} points?")
        if array.ndim == 3 and here[1] == n and here[2] > _CHANNELS:
            self._doubt(name, f"{here[2]} channels at {here[0]} times, or samples and times?")
        if array.ndim == 1 and here[0] == n:
            parts: Arrays = [array[None, :, None]]
            axes = "points"
        elif array.ndim == 2 and here[1] == n:
            axes, parts = "times points", [array[..., None]]
        elif array.ndim == 2 and here[0] == n and not needs_steps:
            axes, parts = "points channels", [array[None]]
        elif array.ndim == 3 and here[2] == n:
            self._count(name, len(array))
            axes, parts = "samples times points", array[..., None]
        elif array.ndim == 3 and here[1] == n:
            axes, parts = "times points channels", [array]
        elif array.ndim == 4 and here[2] == n:
            self._count(name, len(array))
            axes, parts = "samples times points channels", array
        else:
            raise self._error(
                name,
                f"has shape {here}, needs (n_times, {n}[, channels]) or (n_samples, n_times, {n}"
                f"[, channels]), for '{self.names.points}' has {n} points",
            )
        self.axes[name] = tuple(axes.split())
        if needs_steps and len(parts[0]) < 2:
            raise self._error(name, "has one time only, needs two or more to learn steps from")
        if self.n_times not in (None, len(parts[0])):
            first = self.names.states[0]
            raise self._error(name, f"has {len(parts[0])} times, but '{first}' has {self.n_times}")
        self.n_times = len(parts[0])
        return parts

    def _driving(self, name: str, points: Sequence[Array], needs_steps: bool) -> Arrays:
        """Inputs of trajectories, which may change in time: (n, channels), or with times before."""
        array, n, n_times = self._array(name), len(points[0]), self.n_times
        here, samples = array.shape, self.n_samples or 1
        assert n_times is not None

        def are_times(k: int) -> bool:
            return k == n_times or (not needs_steps and k > n_times)

        alone, axes = samples == 1, ""
        found: list[Arrays] = []
        if array.ndim in (3, 4) and here[:1] == (samples,) and here[2] == n and are_times(here[1]):
            axes = "samples times points channels"
            found.append(array if array.ndim == 4 else array[..., None])
        if array.ndim in (2, 3) and here[1] == n:
            rows = array if array.ndim == 3 else array[..., None]
            if here[0] == self.n_samples or here[0] == 1:
                axes = "samples points channels"
                found.append(rows)
            elif alone and are_times(here[0]):
                axes = "times points channels"
                found.append([rows])
        elif array.ndim in (1, 2) and here[0] == n:
            axes = "points channels"
            found.append([array if array.ndim == 2 else array[:, None]])
        if array.ndim == 2 and here == (n, n) and alone and are_times(n):
            found.append([array])
        if len(found) > 1:
            raise self._error(
                name,
                f"has shape {here}, which may be read in two ways, for there are {n} points and "
                f"{n_times} times; add an axis of channels",
            )
        if not found:
            of_samples = "" if alone else f"{samples}, "
            raise self._error(
                name,
                f"has shape {here}, needs ({of_samples}{n}[, channels]), or ({of_samples}{n_times},"
                f" {n}[, channels]) where it changes in time, for '{self.names.points}' has {n} "
                f"points and '{self.names.states[0]}' {n_times} times"
                + ("" if alone else f" and {samples} samples"),
            )
        self.axes[name] = tuple(axes.split())[: array.ndim]
        return found[0]

    def _times(
        self, states: Sequence[Arrays], inputs: Sequence[Arrays]
    ) -> tuple[list[Array], list[Array | None], float | None]:
        """Times of trajectories, numbers of the times if these are to be sorted, and the step."""
        name = self.names.time
        if name is None:
            return [], [], None
        given = np.asarray(self.contents.arrays[name], np.float64)
        lengths = {len(a[0]) for a in inputs if a[0].ndim == 3} | {self.n_times}
        rows = given.reshape(1, -1) if given.size in lengths else given
        samples = self.n_samples or 1
        if rows.ndim != 2 or rows.shape[1] not in lengths or len(rows) not in (1, samples):
            raise self._error(
                name, f"has shape {given.shape}, needs ({self.n_times},), a time for each state"
            )
        if bad := not_finite(given):
            raise self._error(name, f"is not finite at index {bad}")
        self.axes[name] = ("samples", "times")[2 - given.ndim :] if given.ndim < 3 else ()
        times: list[Array] = []
        orders: list[Array | None] = []
        step = None
        for row in rows:
            order = np.argsort(row, kind="stable")
            times.append(row[order])
            sorts = bool((order != np.arange(len(order))).any())
            for arrays in (*states, *(a for a in inputs if a[0].ndim == 3)):
                if sorts and (len(arrays) < len(rows) or len(arrays[0]) != len(order)):
                    raise self._error(name, "does not ascend")
            orders.append(order if sorts else None)
            step = self._step(name, times[-1], step)
        return times, orders, step

    def _step(self, name: str, times: Array, before: float | None) -> float | None:
        """Length of the steps, which must be the same for all trajectories."""
        steps = np.diff(times)
        if not len(steps):
            return before
        short, long = int(np.argmin(steps)), int(np.argmax(steps))
        if steps[short] <= 0:
            raise self._error(name, f"has two states at the same time, {times[short]:.7g}")
        kind = self.contents.arrays[name].dtype
        rounding = 4 * np.finfo(kind).eps * np.abs(times).max() if kind.kind == "f" else 0.0
        rounding = min(rounding, _ROUGH * steps[short])
        if steps[long] - steps[short] > EVEN * steps[short] + rounding:
            first, second = (
                f"{steps[k]:.7g} from {times[k]:.7g} to {times[k + 1]:.7g}"
                for k in sorted((short, long))
            )
            raise self._error(
                name,
                f"is uneven: a step is {first}, and {second}; a model learns one step, so bring "
                "the states to even times",
            )
        mine = float((times[-1] - times[0]) / len(steps))
        if before is not None and abs(mine - before) > EVEN * before + rounding:
            raise self._error(name, f"has steps of {before:.7g}, and of {mine:.7g} in others")
        return mine if before is None else before

    def _parameters(self, name: str) -> list[Array]:
        array = self._array(name)
        if array.ndim == 2 and len(array) == 1 and self.n_samples is not None:
            array = array[0]  # a row, as MATLAB has what holds for all
        self.axes[name] = ("numbers",) if array.ndim < 2 else ("samples", "numbers")
        if array.ndim == 2:
            self._count(name, len(array))
            return list(array)
        if array.ndim == 1 and self.n_samples not in (None, 1) and len(array) == self.n_samples:
            self.axes[name] = ("samples",)
            return list(array[:, None])
        if array.ndim < 2:
            return [array.reshape(-1)]
        raise self._error(name, f"has shape {array.shape}, needs (n_samples, n_parameters)")

    def _offsets(self, name: str) -> Array | None:
        """First point of every sample, and the number of points, if samples differ in size."""
        if name not in self.contents.arrays:
            return None
        given = np.asarray(self.contents.arrays[name]).reshape(-1)
        with np.errstate(invalid="ignore"):
            offsets = given.astype(np.int64)  # MATLAB has them as float64
        if len(offsets) < 2 or offsets[0] != 0 or (offsets != given).any():
            raise self._error(name, "needs integers that begin with 0, one more than samples")
        if (np.diff(offsets) <= 0).any():
            raise self._error(name, "does not ascend")
        self._count(name, len(offsets) - 1)
        return offsets

    def _period(self, dimension: int) -> tuple[float, ...] | None:
        given = self.roles.period
        if given is None and PERIOD in self.names.others:
            given = tuple(np.asarray(self.contents.arrays[PERIOD], float).reshape(-1).tolist())
        if given is None and self.roles.grid == "periodic":
            given = (1.0,)
        if given is None:
            return None
        given = given * dimension if len(given) == 1 else given
        if len(given) != dimension or min(given) < 0 or not np.isfinite(given).all():
            lengths = ",".join(f"{length:g}" for length in given)
            text = f"{lengths}, needs {dimension} lengths, 0 along an axis that is not periodic"
            if self.roles.period is None:
                raise self._error(PERIOD, f"is {text}")
            raise DataError(f"{self.contents.path}: --period is {text}")
        return given if any(given) else None

    def _units(self) -> dict[str, str]:
        """Units of all quantities, and of places and times, where the file tells them."""
        names, units = self.names, self.contents.units
        along = ", ".join(units.get(name, "") for name in self.roles.along)
        known = {
            "points": units.get(str(names.points), along),
            "output points": units.get(str(names.output_points), ""),
            "times": units.get(str(names.time), ""),
        }
        for name in (*names.inputs, *names.outputs, *names.states, *names.parameters):
            known[name] = units.get(name, "")
        return {name: unit for name, unit in known.items() if unit.strip(", ")}

    # ---- checks ----

    def _doubt(self, name: str, why: str) -> None:
        """Raise DataError for axes with two meanings, unless they have been told."""
        if not self.certain:
            shape = self.contents.arrays[name].shape
            raise self._error(
                name,
                f"has shape {shape}: {why} Say what its axes are with --layout, as s,t,p,c for "
                "samples, times, points and channels",
            )

    def _doubt_samples(self, dimension: int) -> None:
        """Raise DataError for samples of a field that may be components of a vector."""
        arrays = self.contents.arrays
        if self.n_samples not in (2, 3) or dimension == 1:
            return
        names = self.names
        some = [*names.inputs, *names.outputs, *names.states, *names.parameters]
        if arrays[str(names.points)].ndim == 3 or OFFSETS in names.others:
            return
        rows = [name for name in some if arrays[name].shape[0] == self.n_samples]
        n = self.n_samples
        may_be = len(rows) < len(some) or n == dimension
        if may_be and all(arrays[name].ndim == 2 for name in rows):
            self._doubt(rows[0], f"{n} samples, or {n} components of a vector?")

    def _array(self, name: str) -> Array:
        """Numbers of an array; of large data they are checked, but converted later."""
        array = self.contents.arrays[name]
        if not array.size:
            raise self._error(name, "is empty")
        at_points = name not in self.names.parameters
        if name in self._of_points:
            self._check_finite(name, array)
        elif not (at_points and self.mask.field is not None):  # those are looked at when masked
            known = not (at_points and self.mask.missing)
            fills = self.mask.fills if at_points else ()
            ends = extremes(array, known, fills)
            if known and not np.isfinite(ends).all():
                self._check_finite(name, array)
            if not self.mask.every and (found := fill_value(array, ends, fills)):
                raise self._doubtful(name, found, at_points)
        if self.large and array.nbytes > _SMALL:
            return in_order(array) if array.nbytes > LARGE else array
        with np.errstate(over="ignore"):
            return array.astype(np.float64 if name in self._of_points else np.float32)

    def _check_kept(self, samples: Sequence[Sample], layout: Layout) -> None:
        """Raise DataError for a fill value at points that the field of a mask keeps."""
        if self.mask.field is None or self.mask.every:
            return
        outputs = "states" if layout.in_time else "outputs"
        for role, fields in (("inputs", layout.inputs), (outputs, layout.outputs)):
            if found := fill_in(samples, role):
                names = [field.name for field in fields for _ in range(field.width)]
                raise self._doubtful(names[found[0]], found[1], at_points=True)

    def _doubtful(self, name: str, found: Fill, at_points: bool) -> DataError:
        """Error about a number that may be a fill value."""
        value = f"{float(str(np.float32(found.value))):.9g}"  # digits that float32 needs
        where = "" if self.mask.field is None or not at_points else " that the mask keeps"
        which = f"--mask={self.mask.text(value)} leaves these points" if at_points else "leave it"
        return self._error(
            name,
            f"is {value} at {found.places} places{where}, and at most {found.others:.3g} in "
            f"magnitude at all others: {which} out, if it marks that there is no data; "
            f"--mask={self.mask.text(EVERY)} takes it as a number",
        )

    def _check_finite(self, name: str, array: Array) -> None:
        if at := first_not_finite(array):
            where = "; points without data are left out with --mask nan" if at else ""
            raise self._error(name, f"is not finite (as float32) at index {at}{where}")

    @property
    def _of_points(self) -> tuple[str | None, ...]:
        return self.names.points, self.names.output_points

    def _check_length(self, name: str, array: Array, offsets: Array) -> None:
        if len(array) != offsets[-1]:
            raise self._error(
                name, f"has {len(array)} rows, but the offsets end with {offsets[-1]}"
            )

    def _count(self, name: str, n_samples: int) -> None:
        """Check or set the number of samples, from that of an array."""
        if self.n_samples in (None, n_samples):
            self.n_samples, self.said_by = n_samples, self.said_by or name
        else:
            raise self._error(
                name, f"holds {n_samples} samples, but '{self.said_by}' holds {self.n_samples}"
            )

    def _error(self, name: str, text: str) -> DataError:
        return DataError(f"{self.contents.path}: array '{name}' {text}")


class _Pieces(Sequence[Array]):
    """Rows of an array by sample."""

    def __init__(self, array: Array, offsets: Array) -> None:
        self._array, self.offsets = array, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, k: Any) -> Any:
        if not 0 <= k < len(self):
            raise IndexError(k)
        return self._array[self.offsets[k] : self.offsets[k + 1]]


def _lengths(parts: Sequence[Array]) -> Array:
    """Numbers of points of all samples."""
    if isinstance(parts, np.ndarray):
        return np.full(len(parts), parts.shape[1])
    if isinstance(parts, _Pieces):
        return np.diff(parts.offsets)
    return np.array([len(part) for part in parts])


def _positions(part: Array) -> Array:
    """Positions in float64, the array itself if it has them."""
    return np.ascontiguousarray(part, np.float64)


def _side_by_side(parts: Sequence[Array]) -> Array:
    """Join columns of several fields, some of which may change in time."""
    times = max((len(p) for p in parts if p.ndim == 3), default=None)
    if times is None or all(p.ndim == 3 for p in parts):
        return np.concatenate(parts, axis=-1)
    wide = [p if p.ndim == 3 else np.broadcast_to(p, (times, *p.shape)) for p in parts]
    return np.concatenate(wide, axis=-1)


def _with_axes(
    contents: Contents, roles: Roles, names: Assignment, needs_steps: bool
) -> tuple[Contents, Assignment, dict[str, tuple[str, ...]]]:
    """Bring the axes of fields in order, and add the points if they are those of a grid."""
    if roles.grid is not None and roles.grid not in GRIDS:
        raise DataError(f"--grid is {roles.grid!r}, needs one of {either(GRIDS)}")
    fields = names.states + names.outputs + names.inputs + roles.marks(contents)
    if not fields:
        raise DataError(f"{contents.path}: has no field")
    known = {} if names.points is None else {POINT: n_points(contents.arrays[names.points])}
    grid = Grid(contents, roles.layout, names.states, fields, needs_steps, known)
    arrays = {**contents.arrays} | {name: grid.flat(name) for name in fields}
    axes = {name: grid.words(name) for name in fields}
    if roles.on_grid:
        name = "points of the grid"
        arrays[name] = grid.points(roles.grid, roles.along)
        axes |= dict(zip(roles.along, ((letter,) for letter in SPACE), strict=False))
        names = replace(names, points=name)
    return replace(contents, arrays=arrays), names, axes
