# SPDX-License-Identifier: MIT
"""Which arrays of a file are points, inputs and outputs, and the samples that they make."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError
from gnograd.data.samples import Field, Layout, PointData, Sample

__all__ = ["Assignment", "Roles", "arranged", "assign", "samples_of"]

Array = NDArray[Any]

POINTS = ("points", "coordinates", "coords", "positions", "pos", "x")
OUTPUTS = ("outputs", "output", "targets", "target", "solution", "sol", "y")
PARAMETERS = ("parameters", "params", "globals")
OUTPUT_POINTS = ("output_points", "query_points", "queries")
OFFSETS, OUTPUT_OFFSETS, PERIOD = "offsets", "output_offsets", "period"
TIMES = ("time", "times", "t")
"""Names that arrays are found by where none is given."""

GRIDS = ("closed", "periodic")
SPACE = "xyz"
AXES = {"s": "samples", "t": "times", "c": "channels"} | dict.fromkeys(SPACE, "space")
"""Letters of a layout."""

EVEN = 1e-3
"""Difference of two steps in time that is taken for rounding, as a part of a step."""

_POINTS_SHAPE = (
    "needs (n_points, d) or (n_samples, n_points, d), with d = 1, 2 or 3 coordinates of a point"
)


@dataclass(frozen=True)
class Roles:
    """Names of arrays, as a user gives them; None leaves it to their usual names.

    Attributes
    ----------
    points, output_points : str
        An array, or several with commas between them, one a coordinate.
    inputs, outputs, parameters : tuple of str
        No inputs is an empty tuple.
    states : tuple of str
        Quantities that are stepped in time, instead of outputs.
    time : str
        Times of the states.
    period : tuple of float
        Lengths of a periodic box, 0 along axes that are not periodic.
    grid : {"closed", "periodic"}
        There are no points: fields are (n_samples, n_1, .., n_d), on the regular grid of
        the unit box with the points ``i / (n - 1)`` or, periodic, ``i / n``.
    layout : tuple of str
        Axes of the fields on a grid, in their order: ``s`` samples, ``t`` times, ``x``, ``y``,
        ``z`` space, ``c`` channels. Fields may lack ``s``, ``t`` and ``c``.
    dimension : int
        Of the space that a mesh lies in, which its points do not tell where all of them are
        in a plane or on a line.

    Notes
    -----
    A name with ``*`` means all arrays that it fits, as samples in the order of their names:
    ``*/data`` is ``0000/data``, ``0001/data``, ..
    """

    points: str | None = None
    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None
    output_points: str | None = None
    parameters: tuple[str, ...] | None = None
    states: tuple[str, ...] | None = None
    period: tuple[float, ...] | None = None
    grid: str | None = None
    dimension: int | None = None
    time: str | None = None
    layout: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Assignment:
    """Names of the arrays of one file by what they are."""

    points: str | None
    """None on a grid."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_points: str | None
    parameters: tuple[str, ...]
    states: tuple[str, ...]
    others: tuple[str, ...]
    """Those that say how to read the others: offsets, period."""
    time: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Those that nothing is made of, and why."""

    def role(self, name: str) -> str:
        """What an array is, in a word."""
        for role in ("inputs", "outputs", "parameters", "states"):
            if name in getattr(self, role):
                return {"states": "state"}.get(role, role.removesuffix("s"))
        if name == self.points:
            return "points"
        if name == self.output_points:
            return "output points"
        if name == self.time:
            return "times"
        if name in self.others:
            return name
        why = self.left_out.get(name)
        return "not used" + (f": {why}" if why else "")


def assign(contents: Contents, roles: Roles, needs_outputs: bool = True) -> Assignment:
    """Say what the arrays of a file are.

    Parameters
    ----------
    contents : Contents
    roles : Roles
    needs_outputs : bool
        Whether a file without outputs is an error.

    Returns
    -------
    Assignment

    Raises
    ------
    DataError
        An array is missing, or it cannot be said what is meant.
    """
    contents = arranged(contents, roles)
    there = contents.arrays
    states = _all(contents, roles.states) or ()
    points, left_out = None, {}
    if roles.grid is None:
        if roles.layout is not None:
            raise DataError(f"{contents.path}: --layout is for fields on grids, needs --grid")
        points = _one(contents, roles.points, POINTS, "points", "--points NAME (or --grid)")
        assert points is not None
    elif roles.points is not None:
        raise DataError(f"{contents.path}: --points goes without --grid, which makes the points")
    output_points = _one(contents, roles.output_points, OUTPUT_POINTS)
    time = _time(contents, roles, states, points)
    others = tuple(n for n in (OFFSETS, OUTPUT_OFFSETS, PERIOD) if n in there)
    parameters = _all(contents, roles.parameters)
    if parameters is None:
        named = {*(roles.inputs or ()), *(roles.outputs or ()), *states}
        parameters = tuple(n for n in PARAMETERS if n in there and n not in named)[:1]
    outputs = () if states else _outputs(contents, roles, needs_outputs, points)
    inputs = _all(contents, roles.inputs)
    taken = {points, output_points, time, *parameters, *outputs, *states, *others}
    free = [name for name in there if name not in taken]
    if roles.grid is not None:
        for name in POINTS[:-1]:
            if name in free and name not in (inputs or ()):
                left_out[name] = "--grid makes the points"
    if inputs is None:
        known = outputs + states
        for name in free:
            for other in known:
                if _numbered(name) == _numbered(other) and name not in left_out:
                    raise DataError(
                        f"{contents.path}: arrays '{other}' and '{name}' look like samples of one "
                        f"quantity; take all as '{_numbered(name)}', or say what the inputs are "
                        "with --inputs"
                    )
            if name not in left_out and (why := _no_input(contents, name, points, known, roles)):
                left_out[name] = why
        inputs = tuple(name for name in free if name not in left_out)
    _check_once(contents, inputs=inputs, outputs=outputs, parameters=parameters, states=states)
    return Assignment(
        points, inputs, outputs, output_points, parameters, states, others, time, left_out
    )


def arranged(contents: Contents, roles: Roles) -> Contents:
    """Arrays of a file as roles mean them: coordinates of a point, and samples, as one array.

    Parameters
    ----------
    contents : Contents
    roles : Roles

    Returns
    -------
    Contents
        Arrays that are part of another one are not there by themselves.

    Raises
    ------
    DataError
        They do not fit each other.
    """
    names = [roles.points, roles.output_points, roles.time]
    for several in (roles.inputs, roles.outputs, roles.parameters, roles.states):
        names += several or ()
    for name in names:
        if name is not None and "*" in name and name not in contents.arrays:
            contents = _with_samples(contents, name)
    for given in (roles.points, roles.output_points):
        if given is not None and "," in given and given not in contents.arrays:
            contents = _with_points(contents, tuple(map(str.strip, given.split(","))), given)
    if roles.points is None and roles.grid is None:
        contents = _with_points(contents, _coordinates(contents, roles))
    return contents


def _with_samples(contents: Contents, pattern: str) -> Contents:
    """The same with all arrays whose names fit a pattern as one."""
    fits = re.compile(".*".join(map(re.escape, pattern.split("*"))))
    found = sorted(filter(fits.fullmatch, contents.arrays), key=by_number)
    if not found:
        raise DataError(f"{contents.path}: no array fits '{pattern}' ({_listed(contents)})")
    first = contents.arrays[found[0]]
    for name in found:
        if contents.arrays[name].shape != first.shape:
            raise DataError(
                f"{contents.path}: array '{name}' has shape {contents.arrays[name].shape}, but "
                f"'{found[0]}' has {first.shape}"
            )
    rest = {n: a for n, a in contents.arrays.items() if n not in found}
    stacked = np.stack([contents.arrays[name] for name in found])
    return replace(contents, arrays=rest | {pattern: stacked})


def by_number(name: str) -> tuple[list[str | int], str]:
    """Key for sorting names: step_2 comes before step_10."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if k % 2 else part for k, part in enumerate(parts)], name


def _numbered(name: str) -> str:
    """A path with ``*`` in place of what is a number only."""
    return "/".join("*" if part.isdigit() else part for part in name.split("/"))


def _with_points(contents: Contents, names: tuple[str, ...], called: str | None = None) -> Contents:
    """The same with arrays that have a coordinate each as one of points."""
    if len(names) < 2:
        return contents
    for name in names:
        _check_there(contents, name)
    columns = [contents.arrays[name] for name in names]
    shape = columns[0].shape
    for name, column in zip(names, columns, strict=True):
        if column.shape != shape:
            raise DataError(
                f"{contents.path}: array '{name}' has shape {column.shape}, but '{names[0]}' has "
                f"{shape}; coordinates of points need the same (axes of a grid are not points: "
                "--grid and --layout)"
            )
    if _is_row(shape) or (len(shape) > 1 and shape[-1] == 1):
        columns = [c.reshape(-1) if c.ndim == 2 else c[..., 0] for c in columns]
    if columns[0].ndim > 2:
        raise DataError(
            f"{contents.path}: array '{names[0]}' has shape {shape}, needs (n_points,) or "
            "(n_samples, n_points), as each coordinate of points"
        )
    for name, column in zip(names, columns, strict=True):
        if bad := _not_finite(column.astype(np.float64)):
            raise DataError(f"{contents.path}: array '{name}' is not finite at index {bad}")
    rest = {n: a for n, a in contents.arrays.items() if n not in names}
    points = np.stack(columns, axis=-1)
    return replace(contents, arrays={called or ",".join(names): points} | rest)


def _coordinates(contents: Contents, roles: Roles) -> tuple[str, ...]:
    """Arrays that have a coordinate each, as x and y, if that is how points are given."""
    there = contents.arrays
    if any(n in there and _may_be_points(there[n]) for n in POINTS[:-1]) or "x" not in there:
        return ()
    named = {
        *(roles.inputs or ()), *(roles.outputs or ()), *(roles.parameters or ()),
        *(roles.states or ()), roles.output_points, roles.time,
    }  # fmt: skip
    shape = there["x"].shape
    if "x" in named or not (len(shape) == 1 or _is_row(shape) or shape[-1] == 1):
        return ()
    names = ["x"]
    for name in SPACE[1:]:
        if name not in there or name in named or there[name].shape != shape:
            break
        names.append(name)
    return tuple(names) if len(names) > 1 else ()


def _time(
    contents: Contents, roles: Roles, states: Sequence[str], points: str | None
) -> str | None:
    """The array of times."""
    if roles.time is not None:
        _check_there(contents, roles.time)
        if not states:
            raise DataError(f"{contents.path}: --time is for states, needs --state")
        return roles.time
    named = {*(roles.inputs or ()), *(roles.outputs or ()), *(roles.parameters or ())}
    for name in TIMES:
        if not states or name not in contents.arrays or name in named or name in states:
            continue
        if name == TIMES[0]:
            return name
        # others may be a temperature
        array = contents.arrays[name]
        n = None if points is None else _n_points(contents.arrays[points])
        like_times = array.squeeze().ndim == 1 and array.size != n
        if like_times and array.size in contents.arrays[states[0]].shape:
            return name
    return None


def _n_points(array: Array) -> int:
    return int(array.shape[-1] if array.ndim == 1 or _is_row(array.shape) else array.shape[-2])


def _no_input(
    contents: Contents, name: str, points: str | None, known: Sequence[str], roles: Roles
) -> str | None:
    """Why an array that nobody has named is no input, or None if it is one."""
    shape = contents.arrays[name].shape
    if name in TIMES and not roles.states:
        return "times are of states (--state)"
    if points is not None:
        n = _n_points(contents.arrays[points])
        if n not in shape:
            return f"has shape {shape}, but '{points}' has {n} points"
        if len(shape) > (4 if roles.states else 3):
            return f"has shape {shape}, which has more axes than samples, points and channels"
        return None
    if not known:
        return None
    try:
        _Grid(contents, roles, (*known, name))
    except DataError:
        return f"has shape {shape}, which is not on the grid of '{known[0]}'"
    return None


def _check_once(contents: Contents, **names: tuple[str, ...]) -> None:
    """Refuse an array that is named twice: a model would learn what it is told."""
    seen: dict[str, str] = {}
    for role, of_role in names.items():
        for name in of_role:
            if name in seen:
                both = role if seen[name] == role else f"{seen[name]} and {role}"
                raise DataError(f"{contents.path}: array '{name}' is named twice ({both})")
            seen[name] = role


def _outputs(contents: Contents, roles: Roles, needed: bool, points: str | None) -> tuple[str, ...]:
    there, given = contents.arrays, roles.outputs
    if given is not None and not needed and not all(n in there for n in given):
        return ()
    outputs = _all(contents, given)
    if outputs is None:
        taken = (*(roles.inputs or ()), *(roles.parameters or ()))
        usual = (n for n in OUTPUTS if n in there and n not in taken)
        outputs = tuple(n for n in usual if not _is_coordinate(contents, n, points))[:1]
    if needed and not outputs:
        taken_as = ""
        if points is not None and roles.points is None and "," in points:
            taken_as = f" ({points.replace(',', ', ')} are taken as coordinates)"
        raise DataError(
            f"{contents.path}: has no array called {_either(OUTPUTS)}{taken_as}; say which are the "
            f"outputs with --outputs NAME,.. ({_listed(contents)})"
        )
    return outputs


def _is_coordinate(contents: Contents, name: str, points: str | None) -> bool:
    """Whether an array is a coordinate of the points once more, as y of a mesh may be."""
    if name not in SPACE or points is None:
        return False
    array, where = contents.arrays[name].squeeze(), contents.arrays[points]
    k = SPACE.index(name)
    if where.ndim < 2 or k >= where.shape[-1] or array.shape != where.shape[:-1]:
        return False
    return bool(np.allclose(array, where[..., k]))


def samples_of(contents: Contents, roles: Roles, needs_outputs: bool = True) -> PointData:
    """Samples of a file.

    Parameters
    ----------
    contents : Contents
    roles : Roles
    needs_outputs : bool
        Whether a file without outputs, or with one time of a state only, is an error.

    Returns
    -------
    PointData

    Raises
    ------
    DataError
        Arrays do not fit each other; the message says which shapes they need.
    """
    names = assign(contents, roles, needs_outputs)
    contents = arranged(contents, roles)
    if roles.grid is not None:
        contents, names = _on_grid(contents, roles, names, needs_outputs)
    return _Reading(contents, names, roles).data(needs_outputs)


class _Reading:
    """The arrays of one file, brought into form."""

    def __init__(self, contents: Contents, names: Assignment, roles: Roles) -> None:
        self.contents, self.names, self.roles = contents, names, roles
        self.n_samples: int | None = None
        self.n_times: int | None = None
        self.said_by = ""

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
        times, step = self._times(states, inputs)
        parameters = [self._parameters(n) for n in names.parameters]
        n = 1 if self.n_samples is None else self.n_samples
        if n == 0:
            raise self._error(self.said_by, "holds no sample")
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
        )
        # what samples have in common stays one array
        shared: dict[Any, Array] = {}

        def of(arrays: list[list[Array]], k: int, m: int) -> Array:
            parts = [a[k % len(a)] for a in arrays]
            key = (m, *map(id, parts))
            if key not in shared:
                shared[key] = _side_by_side(parts) if parts else np.zeros((m, 0), np.float32)
            return shared[key]

        samples = []
        for k in range(n):
            x, q = points[k % len(points)], queries[k % len(queries)]
            source = str(self.contents.path) + (f", sample {k}" if n > 1 else "")
            samples.append(
                Sample(
                    x,
                    of(inputs, k, len(x)),
                    q,
                    of(outputs, k, len(q)) if outputs else None,
                    np.concatenate([np.zeros(0, np.float32), *(a[k % len(a)] for a in parameters)]),
                    of(states, k, len(x)) if states else None,
                    self.contents.cells if len(queries) == 1 else {},
                    source,
                    times[k % len(times)] if times else None,
                )
            )
        return PointData(samples, layout, dict(self.contents.unused) | dict(names.left_out))

    # ---- arrays by what they are: a list with one array a sample, or with one for all ----

    def _points(self, name: str, offsets: Array | None) -> list[Array]:
        array = self._array(name).astype(np.float64)
        missing = (self.roles.dimension or 0) - array.shape[-1]
        if array.ndim == 2 and 0 < missing <= self.contents.flat:
            array = np.pad(array, ((0, 0), (0, missing)))
        if offsets is not None:
            array = array[:, None] if array.ndim == 1 else array
            self._check_length(name, array, offsets)
            parts = np.split(array, offsets[1:-1]) if array.ndim == 2 else []
        elif array.ndim == 3:
            self._count(name, len(array))
            parts = list(array)
        else:
            if array.ndim == 2 and _is_row(array.shape):
                array = array[0]
            parts = [array[:, None] if array.ndim == 1 else array]
        if not parts or parts[0].ndim != 2 or not 1 <= parts[0].shape[1] <= 3:
            raise self._error(name, _no_points(array))
        if min(map(len, parts)) == 0:
            raise self._error(name, "has samples without points")
        return [np.ascontiguousarray(part) for part in parts]

    def _field(self, name: str, points: list[Array], offsets: Array | None) -> list[Array]:
        array = self._array(name)
        if offsets is not None:
            array = array[:, None] if array.ndim == 1 else array
            self._check_length(name, array, offsets)
            if array.ndim != 2:
                raise self._error(name, f"has shape {array.shape}, needs (n, channels)")
            return np.split(array, offsets[1:-1])
        n = len(points[0])
        by_sample, here = None, array.shape
        if array.ndim == 3 and here[1] == n:
            by_sample = array
            if here[2] == n > 3:
                raise self._error(
                    name,
                    f"has shape {here}: {n} channels on {n} points, or a grid? Fields on grids "
                    "need --grid and --layout",
                )
        elif array.ndim == 2 and here[1] == n:
            by_sample = array[..., None]
        elif array.ndim == 2 and here[0] == n:
            return [array]
        elif array.ndim == 1 and here[0] == n:
            return [array[:, None]]
        if by_sample is None:
            raise self._error(
                name,
                f"has shape {here}, needs (n_samples, {n}) or (n_samples, {n}, channels), or "
                f"({n},) or ({n}, channels) where it is the same for all samples, for '"
                f"{self.names.points}' has {n} points",
            )
        self._count(name, len(by_sample))
        return list(by_sample)

    def _states(
        self, name: str, points: list[Array], offsets: Array | None, needs_steps: bool
    ) -> list[Array]:
        if offsets is not None:
            raise self._error(name, "changes in time: store each trajectory as a file of its own")
        array, n = self._array(name), len(points[0])
        here = array.shape
        if array.ndim == 1 and here[0] == n:
            parts = [array[None, :, None]]
        elif array.ndim == 2 and here[1] == n:
            parts = [array[..., None]]
        elif array.ndim == 2 and here[0] == n and not needs_steps:
            parts = [array[None]]
        elif array.ndim == 3 and here[2] == n:
            self._count(name, len(array))
            parts = list(array[..., None])
        elif array.ndim == 3 and here[1] == n:
            parts = [array]
        elif array.ndim == 4 and here[2] == n:
            self._count(name, len(array))
            parts = list(array)
        else:
            raise self._error(
                name,
                f"has shape {here}, needs (n_times, {n}[, channels]) or (n_samples, n_times, {n}"
                f"[, channels]), for '{self.names.points}' has {n} points",
            )
        if needs_steps and len(parts[0]) < 2:
            raise self._error(name, "has one time only, needs two or more to learn steps from")
        if self.n_times not in (None, len(parts[0])):
            first = self.names.states[0]
            raise self._error(name, f"has {len(parts[0])} times, but '{first}' has {self.n_times}")
        self.n_times = len(parts[0])
        return parts

    def _driving(self, name: str, points: list[Array], needs_steps: bool) -> list[Array]:
        """Inputs of trajectories, which may change in time: (n, channels), or with times before."""
        array, n, n_times = self._array(name), len(points[0]), self.n_times
        here, samples = array.shape, self.n_samples or 1
        assert n_times is not None

        def are_times(k: int) -> bool:
            return k == n_times or (not needs_steps and k > n_times)

        alone, found = samples == 1, []
        if array.ndim in (3, 4) and here[:1] == (samples,) and here[2] == n and are_times(here[1]):
            found.append(list(array if array.ndim == 4 else array[..., None]))
        if array.ndim in (2, 3) and here[1] == n:
            rows = array if array.ndim == 3 else array[..., None]
            if here[0] == self.n_samples or here[0] == 1:
                found.append(list(rows))
            elif alone and are_times(here[0]):
                found.append([rows])
        elif array.ndim in (1, 2) and here[0] == n:
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
        return found[0]

    def _times(
        self, states: list[list[Array]], inputs: list[list[Array]]
    ) -> tuple[list[Array], float | None]:
        """Times of trajectories, and their step; states, and inputs in time, are put in order."""
        name = self.names.time
        if name is None:
            return [], None
        given = np.asarray(self.contents.arrays[name], np.float64)
        lengths = {len(a[0]) for a in inputs if a[0].ndim == 3} | {self.n_times}
        rows = given.reshape(1, -1) if given.size in lengths else given
        samples = self.n_samples or 1
        if rows.ndim != 2 or rows.shape[1] not in lengths or len(rows) not in (1, samples):
            raise self._error(
                name, f"has shape {given.shape}, needs ({self.n_times},), a time for each state"
            )
        if bad := _not_finite(given):
            raise self._error(name, f"is not finite at index {bad}")
        times, step = [], None
        for k, row in enumerate(rows):
            order = np.argsort(row, kind="stable")
            times.append(row[order])
            if (order != np.arange(len(order))).any():
                for arrays in (*states, *(a for a in inputs if a[0].ndim == 3)):
                    mine = range(len(arrays)) if len(rows) == 1 else [k]
                    if len(arrays) < len(rows) or len(arrays[0]) != len(order):
                        raise self._error(name, "does not ascend")
                    for m in mine:
                        arrays[m] = arrays[m][order]
            step = self._step(name, times[-1], step)
        return times, step

    def _step(self, name: str, times: Array, before: float | None) -> float | None:
        """Length of the steps, the same for all, and for trajectories before."""
        steps = np.diff(times)
        if not len(steps):
            return before
        rounding = 4 * np.finfo(np.float32).eps * np.abs(times).max()
        if (steps <= rounding).any():
            k = int(np.argmin(steps))
            raise self._error(name, f"has two states at the same time, {times[k]:.7g}")
        short, long = int(np.argmin(steps)), int(np.argmax(steps))
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
        if array.ndim == 2:
            self._count(name, len(array))
            return list(array)
        if array.ndim == 1 and self.n_samples not in (None, 1) and len(array) == self.n_samples:
            return list(array[:, None])
        if array.ndim < 2:
            return [array.reshape(-1)]
        raise self._error(name, f"has shape {array.shape}, needs (n_samples, n_parameters)")

    def _offsets(self, name: str) -> Array | None:
        """First point of every sample, and the number of points, where they differ in it."""
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

    # ---- checks ----

    def _array(self, name: str) -> Array:
        array = self.contents.arrays[name]
        with np.errstate(over="ignore"):
            numbers = array.astype(np.float32)
        if not array.size:
            raise self._error(name, "is empty")
        if at := _not_finite(numbers):
            raise self._error(name, f"is not finite (as float32) at index {at}")
        return array.astype(np.float64) if name in self._of_points else numbers

    @property
    def _of_points(self) -> tuple[str | None, ...]:
        return self.names.points, self.names.output_points

    def _check_length(self, name: str, array: Array, offsets: Array) -> None:
        if len(array) != offsets[-1]:
            raise self._error(
                name, f"has {len(array)} rows, but the offsets end with {offsets[-1]}"
            )

    def _count(self, name: str, n_samples: int) -> None:
        """Say how many samples there are, as an array has them."""
        if self.n_samples in (None, n_samples):
            self.n_samples, self.said_by = n_samples, self.said_by or name
        else:
            raise self._error(
                name, f"holds {n_samples} samples, but '{self.said_by}' holds {self.n_samples}"
            )

    def _error(self, name: str, text: str) -> DataError:
        return DataError(f"{self.contents.path}: array '{name}' {text}")


def _side_by_side(parts: Sequence[Array]) -> Array:
    """Columns of several fields, of which some may change in time."""
    times = max((len(p) for p in parts if p.ndim == 3), default=None)
    if times is None or all(p.ndim == 3 for p in parts):
        return np.concatenate(parts, axis=-1)
    wide = [p if p.ndim == 3 else np.broadcast_to(p, (times, *p.shape)) for p in parts]
    return np.concatenate(wide, axis=-1)


def _not_finite(numbers: Array) -> tuple[int, ...] | None:
    """Index of the first number that is not finite."""
    bad = np.argwhere(~np.isfinite(numbers))
    return tuple(int(i) for i in bad[0]) if len(bad) else None


class _Grid:
    """Which axes the fields of a file have.

    Parameters
    ----------
    contents : Contents
    roles : Roles
    names : sequence of str
        The first ones say how large the grid is.
    needs_steps : bool
        Whether a state must have times.
    """

    def __init__(
        self, contents: Contents, roles: Roles, names: Sequence[str], needs_steps: bool = True
    ) -> None:
        self.contents, self.states = contents, roles.states or ()
        self.arrays = {name: contents.arrays[name] for name in names}
        self.given = roles.layout is not None
        self.sizes: dict[str, int] = {}
        self.axes: dict[str, str] = {}
        layout = "".join(roles.layout or ())
        if self.given:
            self._check(layout, needs_steps)
        # the ones with most axes first: they say the sizes that others have some of
        order = sorted(self.arrays, key=lambda name: -self.arrays[name].ndim)
        for name in order if self.given else self.arrays:
            choices = (
                self._by_layout(name, layout, needs_steps) if self.given else self._usual(name)
            )
            choices = [axes for axes in choices if self._fits(name, axes)]
            if self.given and not self.axes:  # one has them all
                choices = [axes for axes in choices if len(axes) == len(layout)]
            # an axis as long as samples or times are is these before it is channels
            fewest = min((axes.count("c") for axes in choices), default=0)
            choices = [axes for axes in choices if axes.count("c") == fewest]
            if len(choices) != 1:
                self._refuse(name, layout, choices)
            self.axes[name] = choices[0]
            self.sizes |= {
                letter: n
                for letter, n in zip(choices[0], self.arrays[name].shape, strict=True)
                if letter != "c"
            }
        self.space = [letter for letter in next(iter(self.axes.values())) if letter in SPACE]
        if not self.given:
            self._doubt(next(iter(self.arrays)))

    def _check(self, layout: str, needs_steps: bool) -> None:
        space = [letter for letter in layout if letter in SPACE]
        once = all(layout.count(letter) == 1 for letter in layout if letter != "c")
        if set(layout) - set(AXES) or not once or sorted(space) != list(SPACE[: len(space)]):
            space = []
        if not space:
            raise DataError(
                f"--layout is {','.join(layout)!r}, needs s (samples), t (times), x, y, z (space) "
                "and c (channels) in the order of the axes, as s,t,x,y,c"
            )
        if self.states and needs_steps and "t" not in layout:
            raise DataError(f"--layout is {','.join(layout)!r}, needs t, the times of the state")
        if "t" in layout and not self.states:
            raise DataError(f"--layout is {','.join(layout)!r}: t is for times of a --state")

    def _by_layout(self, name: str, layout: str, needs_steps: bool) -> list[str]:
        """All that is left of a layout without some of samples, times and channels."""
        kept = "xyz" + ("t" if name in self.states and needs_steps else "")
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
        known = [letter for letter in self.sizes if letter in SPACE]
        if known and [letter for letter in axes if letter in SPACE] != known:
            return False
        # a state to begin with has one time, and inputs may have more
        return all(
            self.sizes.get(letter, n) in ((n, 1) if letter == "t" else (n,))
            for letter, n in mine.items()
            if letter != "c"
        )

    def _refuse(self, name: str, layout: str, choices: Sequence[str]) -> None:
        shape, others = self.arrays[name].shape, [n for n in self.axes if n != name]
        grid = f", the same grid as '{others[0]}'" if others else ""
        if choices:
            ways = " or ".join(map(",".join, choices))
            text = f"which may be {ways} of the layout"
        elif layout:
            fewer = f", or these without s, t or c{grid}" if others else ""
            text = f"needs the axes {','.join(layout)}{fewer}"
        else:
            times = "n_times, " if name in self.states else ""
            text = f"needs (n_samples, {times}n_1, .., n_d) with d = 1, 2 or 3{grid}"
            text += "; other axes are told with --layout"
        raise DataError(f"{self.contents.path}: array '{name}' has shape {shape}, {text}")

    def _doubt(self, name: str) -> None:
        """Refuse a grid that may be channels, or times, in truth."""
        sides, n_times = [self.sizes[letter] for letter in self.space], self.sizes.get("t")
        short, long, d = min(sides), max(sides), len(sides)
        why = ""
        if short == 1 or (short < long and (d == 3 or short < 5 or 4 * short < long)):
            why = f"a grid of {' x '.join(map(str, sides))}, or channels or times among its axes?"
        if n_times is not None and n_times > 1 and (short < long or n_times >= short):
            why = f"{n_times} times on a grid of {' x '.join(map(str, sides))}?"
        if why:
            shape = self.arrays[name].shape
            raise DataError(
                f"{self.contents.path}: array '{name}' has shape {shape}: {why} Say what its axes "
                "are with --layout, as s,t,x,y,c for samples, times, space and channels"
            )

    def flat(self, name: str) -> Array:
        """A field as (samples, times, points, channels), without the first two where it has none.

        Points are in the order of the file.
        """
        array, axes = self.arrays[name], self.axes[name]
        order = [k for letter in "st" for k, a in enumerate(axes) if a == letter]
        order += [k for k, a in enumerate(axes) if a in SPACE]
        order += [k for k, a in enumerate(axes) if a == "c"]
        lead = sum(letter in axes for letter in "st")
        array = array.transpose(order)
        points = int(np.prod(array.shape[lead : lead + len(self.space)]))
        array = array.reshape(*array.shape[:lead], points, -1)
        if name in self.states and "t" not in axes:
            array = array[..., None, :, :]
        elif "t" in axes and "s" not in axes and "s" in self.sizes:
            array = np.broadcast_to(array, (self.sizes["s"], *array.shape))
        return array

    def points(self, kind: str) -> Array:
        """Points of the unit box, columns x, y, z."""
        sides = [self.sizes[letter] for letter in self.space]
        axes = [np.arange(n) / max(1, n - (kind == "closed")) for n in sides]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sides))
        return grid[:, [self.space.index(letter) for letter in SPACE[: len(sides)]]]


def _on_grid(
    contents: Contents, roles: Roles, names: Assignment, needs_steps: bool
) -> tuple[Contents, Assignment]:
    """The same with points, and with fields in one row a sample."""
    if roles.grid not in GRIDS:
        raise DataError(f"--grid is {roles.grid!r}, needs one of {_either(GRIDS)}")
    fields = names.states + names.outputs + names.inputs
    if not fields:
        raise DataError(f"{contents.path}: has no field on a grid")
    grid = _Grid(contents, roles, fields, needs_steps)
    flat = {name: grid.flat(name) for name in fields}
    name = "points of the grid"
    return (
        replace(contents, arrays={**contents.arrays, **flat, name: grid.points(roles.grid)}),
        replace(names, points=name),
    )


# ---- names ----


def _one(
    contents: Contents,
    given: str | None,
    usual: Sequence[str],
    what: str | None = None,
    option: str = "",
) -> str | None:
    if given is not None:
        _check_there(contents, given)
        return given
    if usual is POINTS:
        usual = ("x,y,z", "x,y", *usual)  # as `arranged` calls them
    for name in usual:
        if name in contents.arrays and _may_be_points(contents.arrays[name]):
            return name
    if what is None:
        return None
    usual = [name for name in usual if "," not in name]
    why = f"has no array called {_either(usual)}"
    for name in reversed(usual):
        if name in contents.arrays:
            why = f"array '{name}' {_no_points(contents.arrays[name])}"
        elif name in contents.unused:
            why = f"array '{name}' cannot be used ({contents.unused[name]})"
    raise DataError(
        f"{contents.path}: {why}; say which are the {what} with {option} ({_listed(contents)})"
    )


def _all(contents: Contents, given: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for name in given or ():
        _check_there(contents, name)
    return given


def _check_there(contents: Contents, name: str) -> None:
    if name not in contents.arrays:
        why = contents.unused.get(name)
        raise DataError(
            f"{contents.path}: array '{name}' "
            + (f"cannot be used ({why})" if why else f"is missing ({_listed(contents)})")
        )


def _no_points(array: Array) -> str:
    """Why an array cannot be points."""
    turned = array.ndim == 2 and 1 <= len(array) <= 3
    advice = "; transpose it, if its rows are coordinates" if turned else ""
    return f"has shape {array.shape}, {_POINTS_SHAPE}{advice}"


def _may_be_points(array: Array) -> bool:
    if array.ndim == 1 or _is_row(array.shape):
        return True
    return array.ndim in (2, 3) and 1 <= array.shape[-1] <= 3


def _is_row(shape: tuple[int, ...]) -> bool:
    """Whether points on a line lie in a row, as MATLAB has vectors."""
    return len(shape) == 2 and shape[0] == 1 and shape[1] > 3


def _either(names: Sequence[str]) -> str:
    return ", ".join(f"'{n}'" for n in names[:-1]) + f" or '{names[-1]}'"


def _listed(contents: Contents) -> str:
    there = [f"{name} {array.shape}" for name, array in contents.arrays.items()]
    return "the file has: " + (", ".join(there[:10]) + (", ..." if len(there) > 10 else "") or "-")
