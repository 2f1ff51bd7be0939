# SPDX-License-Identifier: MIT
"""Which arrays of a file are points, inputs and outputs, and the samples that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError
from gnograd.data.samples import Field, Layout, PointData, Sample

__all__ = ["Assignment", "Roles", "assign", "samples_of"]

Array = NDArray[Any]

POINTS = ("points", "coordinates", "coords", "positions", "pos", "x")
OUTPUTS = ("outputs", "output", "targets", "target", "solution", "sol", "y")
PARAMETERS = ("parameters", "params", "globals")
OUTPUT_POINTS = ("output_points", "query_points", "queries")
OFFSETS, OUTPUT_OFFSETS, PERIOD, TIME = "offsets", "output_offsets", "period", "time"
"""Names that arrays are found by where none is given."""

GRIDS = ("closed", "periodic")

_POINTS_SHAPE = (
    "needs (n_points, d) or (n_samples, n_points, d), with d = 1, 2 or 3 coordinates of a point"
)


@dataclass(frozen=True)
class Roles:
    """Names of arrays, as a user gives them; None leaves it to their usual names.

    Attributes
    ----------
    points, output_points : str
    inputs, outputs, parameters : tuple of str
        No inputs is an empty tuple.
    states : tuple of str
        Quantities that are stepped in time, instead of outputs.
    period : tuple of float
        Lengths of a periodic box, 0 along axes that are not periodic.
    grid : {"closed", "periodic"}
        There are no points: fields are (n_samples, n_1, .., n_d), on the regular grid of
        the unit box with the points ``i / (n - 1)`` or, periodic, ``i / n``.
    dimension : int
        Of the space that a mesh lies in, which its points do not tell where all of them are
        in a plane or on a line.
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
    """Those that say how to read the others: offsets, period, time."""

    def role(self, name: str) -> str:
        """What an array is, in a word."""
        for role in ("inputs", "outputs", "parameters", "states"):
            if name in getattr(self, role):
                return {"states": "state"}.get(role, role.removesuffix("s"))
        if name == self.points:
            return "points"
        if name == self.output_points:
            return "output points"
        return name if name in self.others else "not used"


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
    there = contents.arrays
    points = None
    if roles.grid is None:
        points = _one(contents, roles.points, POINTS, "points", "--points NAME (or --grid)")
        assert points is not None
    output_points = _one(contents, roles.output_points, OUTPUT_POINTS)
    states = _all(contents, roles.states) or ()
    others = tuple(n for n in (OFFSETS, OUTPUT_OFFSETS, PERIOD, TIME) if n in there)
    parameters = _all(contents, roles.parameters)
    if parameters is None:
        named = {*(roles.inputs or ()), *(roles.outputs or ()), *states}
        parameters = tuple(n for n in PARAMETERS if n in there and n not in named)[:1]
    outputs = () if states else _outputs(contents, roles, needs_outputs)
    inputs = _all(contents, roles.inputs)
    if inputs is None:
        taken = {points, output_points, *parameters, *outputs, *states, *others}
        inputs = tuple(name for name in there if name not in taken)
        if roles.grid is None:
            inputs = tuple(n for n in inputs if _may_be_field(contents, n, str(points)))
    _check_once(contents, inputs=inputs, outputs=outputs, parameters=parameters, states=states)
    return Assignment(points, inputs, outputs, output_points, parameters, states, others)


def _check_once(contents: Contents, **names: tuple[str, ...]) -> None:
    """Refuse an array that is named twice: a model would learn what it is told."""
    seen: dict[str, str] = {}
    for role, of_role in names.items():
        for name in of_role:
            if name in seen:
                both = role if seen[name] == role else f"{seen[name]} and {role}"
                raise DataError(f"{contents.path}: array '{name}' is named twice ({both})")
            seen[name] = role


def _outputs(contents: Contents, roles: Roles, needed: bool) -> tuple[str, ...]:
    there, given = contents.arrays, roles.outputs
    if given is not None and not needed and not all(n in there for n in given):
        return ()
    outputs = _all(contents, given)
    if outputs is None:
        taken = (*(roles.inputs or ()), *(roles.parameters or ()))
        outputs = tuple(n for n in OUTPUTS if n in there and n not in taken)[:1]
    if needed and not outputs:
        raise DataError(
            f"{contents.path}: has no array called {_either(OUTPUTS)}; say which are the "
            f"outputs with --outputs NAME,.. ({_listed(contents)})"
        )
    return outputs


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
    if roles.grid is not None:
        contents, names = _on_grid(contents, roles.grid, names)
    return _Reading(contents, names, roles).data(needs_outputs)


class _Reading:
    """The arrays of one file, brought into form."""

    def __init__(self, contents: Contents, names: Assignment, roles: Roles) -> None:
        self.contents, self.names, self.roles = contents, names, roles
        self.n_samples: int | None = None
        self.said_by = ""

    def data(self, needs_outputs: bool) -> PointData:
        names = self.names
        offsets = self._offsets(OFFSETS)
        points = self._points(str(names.points), offsets)
        queries, query_offsets = points, offsets
        if names.output_points is not None:
            query_offsets = self._offsets(OUTPUT_OFFSETS)
            queries = self._points(names.output_points, query_offsets)
        inputs = [self._field(n, points, offsets) for n in names.inputs]
        outputs = [self._field(n, queries, query_offsets) for n in names.outputs]
        states = [self._states(n, points, offsets, needs_outputs) for n in names.states]
        parameters = [self._parameters(n) for n in names.parameters]
        n = 1 if self.n_samples is None else self.n_samples
        if n == 0:
            raise self._error(self.said_by, "holds no sample")
        dimension = points[0].shape[1]
        layout = Layout(
            dimension,
            tuple(Field(k, a[0].shape[1]) for k, a in zip(names.inputs, inputs, strict=True)),
            tuple(
                Field(k, a[0].shape[-1])
                for k, a in zip(names.outputs + names.states, outputs + states, strict=True)
            ),
            tuple(Field(k, a[0].size) for k, a in zip(names.parameters, parameters, strict=True)),
            self._period(dimension),
            bool(states),
            names.output_points is not None,
        )
        # what samples have in common stays one array
        shared: dict[Any, Array] = {}

        def of(arrays: list[list[Array]], k: int, m: int) -> Array:
            parts = [a[k % len(a)] for a in arrays]
            key = (m, *map(id, parts))
            if key not in shared:
                shared[key] = (
                    np.concatenate(parts, axis=-1) if parts else np.zeros((m, 0), np.float32)
                )
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
                )
            )
        return PointData(samples, layout)

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
            raise self._error(name, f"has shape {array.shape}, {_POINTS_SHAPE}")
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
        return parts

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
        bad = np.argwhere(~np.isfinite(numbers))
        if len(bad):
            at = tuple(int(i) for i in bad[0])
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


def _on_grid(contents: Contents, grid: str, names: Assignment) -> tuple[Contents, Assignment]:
    """The same with points, and with fields in one row a sample."""
    if grid not in GRIDS:
        raise DataError(f"--grid is {grid!r}, needs one of {_either(GRIDS)}")
    before = {n: 1 for n in names.inputs + names.outputs} | {n: 2 for n in names.states}
    if not before:
        raise DataError(f"{contents.path}: has no field on a grid")
    shapes = {name: contents.arrays[name].shape[k:] for name, k in before.items()}
    first = next(iter(shapes))
    for name, shape in shapes.items():
        if not 1 <= len(shape) <= 3 or shape != shapes[first]:
            times = "n_times, " if before[name] == 2 else ""
            raise DataError(
                f"{contents.path}: array '{name}' has shape {contents.arrays[name].shape}, needs "
                f"(n_samples, {times}n_1, .., n_d) with d = 1, 2 or 3, the same grid as '{first}'"
            )
    sides = shapes[first]
    axes = [np.arange(n) / max(1, n - (grid == "closed")) for n in sides]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sides))
    flat = {
        n: contents.arrays[n].reshape(*contents.arrays[n].shape[:k], -1) for n, k in before.items()
    }
    name = "points of the grid"
    return (
        replace(contents, arrays={**contents.arrays, **flat, name: points}),
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
    for name in usual:
        if name in contents.arrays and _may_be_points(contents.arrays[name]):
            return name
    if what is None:
        return None
    why = f"has no array called {_either(usual)}"
    for name in reversed(usual):
        if name in contents.arrays:
            why = f"array '{name}' has shape {contents.arrays[name].shape}, {_POINTS_SHAPE}"
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


def _may_be_points(array: Array) -> bool:
    if array.ndim == 1 or _is_row(array.shape):
        return True
    return array.ndim in (2, 3) and 1 <= array.shape[-1] <= 3


def _is_row(shape: tuple[int, ...]) -> bool:
    """Whether points on a line lie in a row, as MATLAB has vectors."""
    return len(shape) == 2 and shape[0] == 1 and shape[1] > 3


def _may_be_field(contents: Contents, name: str, points: str) -> bool:
    place = contents.arrays[points].shape
    n = place[-1] if len(place) == 1 or _is_row(place) else place[-2]
    shape = contents.arrays[name].shape
    return n in shape and len(shape) <= 3


def _either(names: Sequence[str]) -> str:
    return ", ".join(f"'{n}'" for n in names[:-1]) + f" or '{names[-1]}'"


def _listed(contents: Contents) -> str:
    there = [f"{name} {array.shape}" for name, array in contents.arrays.items()]
    return "the file has: " + (", ".join(there[:10]) + (", ..." if len(there) > 10 else "") or "-")
