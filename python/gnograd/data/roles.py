# SPDX-License-Identifier: MIT
"""Assignment of the arrays of a file to points, inputs and outputs.

One file, which alone decides this: each rule takes of the arrays that earlier ones have left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError
from gnograd.data.grid import POINT, SPACE, Grid
from gnograd.data.stored import LIMIT, spooled
from gnograd.data.units import same_unit

__all__ = ["Assignment", "Mask", "Roles", "arranged", "assign", "by_number", "names_in"]

Array = NDArray[Any]

POINTS = ("points", "coordinates", "coords", "positions", "pos", "x")
OUTPUTS = ("outputs", "output", "targets", "target", "solution", "sol", "y")
PARAMETERS = ("parameters", "params", "globals")
OUTPUT_POINTS = ("output_points", "query_points", "queries")
OFFSETS, OUTPUT_OFFSETS, PERIOD = "offsets", "output_offsets", "period"
TIMES = ("time", "times", "t")
"""Usual names of arrays, where none is given."""

NAN = "nan"
"""Part of a mask: where fields are not finite."""
EVERY = "none"
"""Part of a mask: all other numbers are numbers, also those that look like a fill value."""

_POINTS_SHAPE = (
    "needs (n_points, d) or (n_samples, n_points, d), with d = 1, 2 or 3 coordinates of a point"
)


def names_in(text: str) -> tuple[str, ...]:
    """Names with commas between them; one that has a comma is in double quotes, as in a table."""
    parts = re.findall(r'\s*(?:"((?:[^"]|"")+)"\s*|([^,]*))(?:,|$)', text)
    names = (quoted.replace('""', '"') or plain.strip() for quoted, plain in parts)
    return tuple(name for name in names if name)


def listed(names: Sequence[str]) -> str:
    """Text of which `names_in` makes these names."""
    odd = re.compile(r'[,"]|^\s|\s$')
    return ",".join('"' + n.replace('"', '""') + '"' if odd.search(n) else n for n in names)


@dataclass(frozen=True)
class Mask:
    """Parts of a mask."""

    field: str | None = None
    """Field that is 0 where there is no data."""
    fills: tuple[float, ...] = ()
    """Numbers that are no data."""
    missing: bool = False
    """True to leave out points where any field is not finite."""
    every: bool = False
    """True to take all other numbers as numbers, also those that look like a fill value."""

    @property
    def leaves_out(self) -> bool:
        """True if points may be left out."""
        return self.field is not None or self.missing

    def text(self, *more: str) -> str:
        """The mask as an option, with further parts."""
        parts = [] if self.field is None else [self.field]
        parts += [f"{fill:.9g}" for fill in self.fills]
        if self.missing and not self.fills:
            parts += [NAN]
        return listed([*parts, *more])


@dataclass(frozen=True)
class Roles:
    """Names of arrays, as given by a user; None stands for the usual names.

    Attributes
    ----------
    points, output_points : str
        An array, or several with commas between them, one a coordinate; with a layout of a grid,
        one an axis.
    inputs, outputs, parameters : tuple of str
        No inputs is an empty tuple.
    states : tuple of str
        Quantities that evolve in time, in place of outputs.
    time : str
        Times of the states.
    period : tuple of float
        Lengths of a periodic box, 0 along axes that are not periodic.
    grid : {"closed", "periodic"}
        Fields are (n_samples, n_1, .., n_d), without points, on the regular grid of the unit box
        with the points ``i / (n - 1)`` or, periodic, ``i / n``.
    layout : tuple of str
        Axes of the fields, in their order: ``s`` samples, ``t`` times, ``p`` points or ``x``,
        ``y``, ``z`` axes of a grid, ``c`` channels. Fields may lack ``s``, ``t`` and ``c``.
    dimension : int
        Dimension of the space around a mesh, needed if all its points are in a plane or on a line
        of it.
    cells : bool
        Fields on the cells of a mesh are taken, with a point at the center of each, in place of
        fields on its points.
    mask : str
        Points without data are left out: where this field is 0, where any field is not finite
        (``nan``) or where any is this number (``-9999``), or not finite; or where one of several
        is true that have commas between them. With ``none`` among them no other number is taken
        for the mark of a point without data; otherwise those that look like one are refused.
    known : bool
        Numbers of channels are known from other data, and will be compared: they are not asked for.

    Notes
    -----
    A name with ``*`` means all arrays that match, as samples in the order of their names:
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
    known: bool = False
    cells: bool = False
    mask: str | None = None

    @property
    def on_grid(self) -> bool:
        """True if fields are on a regular grid."""
        return self.grid is not None or (self.layout is not None and POINT not in self.layout)

    def masking(self, contents: Contents) -> Mask:
        """The mask, whose numbers are no names of arrays.

        Raises
        ------
        DataError
            It names two arrays.
        """
        if self.mask is None:
            return Mask()
        words = (self.mask,) if self.mask in contents.arrays else names_in(self.mask)
        words = tuple(dict.fromkeys(words))
        numbers = {word: number for word in words if (number := _fill(contents, word)) is not None}
        fields = [word for word in words if word not in (NAN, EVERY, *numbers)]
        if len(fields) > 1:
            raise DataError(
                f"{contents.path}: --mask names the arrays {_either(fields, 'and')}, needs one at "
                "most"
            )
        missing = bool(numbers) or NAN in words
        field = fields[0] if fields else None
        return Mask(field, tuple(dict.fromkeys(numbers.values())), missing, EVERY in words)

    def marks(self, contents: Contents) -> tuple[str, ...]:
        """Array that says where points have data, if the mask has one."""
        field = self.masking(contents).field
        return () if field is None else (field,)

    @property
    def along(self) -> tuple[str, ...]:
        """Arrays of the coordinates along the axes of a grid."""
        given = self.points if self.on_grid else None
        return () if given is None else names_in(given)


@dataclass(frozen=True)
class Assignment:
    """Names of the arrays of one file by role."""

    points: str | None
    """Name of the points; None on a grid."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_points: str | None
    parameters: tuple[str, ...]
    states: tuple[str, ...]
    others: tuple[str, ...]
    """Arrays that are needed to read the others: offsets, period."""
    time: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Unused arrays, with reasons."""

    def role(self, name: str) -> str:
        """Role of an array in a word."""
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
            return name if name in (OFFSETS, OUTPUT_OFFSETS, PERIOD) else "axis or mask"
        why = self.left_out.get(name)
        return "not used" + (f": {why}" if why else "")


def assign(contents: Contents, roles: Roles, needs_outputs: bool = True) -> Assignment:
    """Assign roles to the arrays of a file.

    Parameters
    ----------
    contents : Contents
    roles : Roles
    needs_outputs : bool
        Raise an error for a file without outputs.

    Returns
    -------
    Assignment

    Raises
    ------
    DataError
        An array is missing, or the assignment is ambiguous.
    """
    contents = arranged(contents, roles)
    there = contents.arrays
    states = _all(contents, roles.states) or ()
    points, left_out = None, {}
    if not roles.on_grid:
        points = _one(contents, roles.points, POINTS, "points", "--points NAME (or --grid)")
        assert points is not None
    elif roles.points is not None and roles.grid is not None:
        raise DataError(f"{contents.path}: --points goes without --grid, which makes the points")
    elif roles.points is None and roles.grid is None:
        raise DataError(
            f"{contents.path}: --layout has axes of a grid, needs --grid, or --points x,y with the "
            "arrays of the coordinates along its axes"
        )
    if roles.grid is not None and POINT in (roles.layout or ()):
        raise DataError(f"{contents.path}: --layout has points, goes without --grid")
    for name in roles.along:
        _check_there(contents, name)
    output_points = _one(contents, roles.output_points, OUTPUT_POINTS)
    time = _time(contents, roles, states, points)
    others = tuple(n for n in (OFFSETS, OUTPUT_OFFSETS, PERIOD) if n in there) + roles.along
    for name in roles.marks(contents):
        _check_there(contents, name)
        others += (name,)
    parameters = _all(contents, roles.parameters)
    if parameters is None:
        named = {*(roles.inputs or ()), *(roles.outputs or ()), *states}
        parameters = tuple(n for n in PARAMETERS if n in there and n not in named)[:1]
    outputs = () if states else _outputs(contents, roles, needs_outputs, points)
    inputs = _all(contents, roles.inputs)
    if needs_outputs and not states and roles.layout is None:
        _check_steady(contents, outputs, {*(inputs or ()), *parameters, *outputs})
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


_Key = tuple[str | int, ...]
"""Words, and values of numbers, that stand for the ``*`` of a pattern."""


def arranged(contents: Contents, roles: Roles) -> Contents:
    """Join arrays of a file as roles require: coordinates of points, and samples, to one array.

    Parameters
    ----------
    contents : Contents
    roles : Roles

    Returns
    -------
    Contents
        Contents without the arrays that have become part of another one.

    Raises
    ------
    DataError
        Arrays do not fit each other.
    """
    names = [roles.points, roles.output_points, roles.time]
    for several in (roles.inputs, roles.outputs, roles.parameters, roles.states):
        names += several or ()
    joined: dict[str, dict[_Key, str]] = {}
    for name in names:
        if name is not None and "*" in name and name not in contents.arrays:
            contents, joined[name] = _with_samples(contents, name)
    _check_same_samples(contents, joined)
    if roles.on_grid:
        return contents
    for given in (roles.points, roles.output_points):
        if given is not None and "," in given and given not in contents.arrays:
            contents = _with_points(contents, names_in(given), given)
    if roles.points is None:
        contents = _with_points(contents, _coordinates(contents, roles))
    return contents


def _check_same_samples(contents: Contents, joined: Mapping[str, Mapping[_Key, str]]) -> None:
    """Raise DataError if a sample of one pattern is not there in another one."""
    for (one, some), (other, others) in combinations(joined.items(), 2):
        odd = sorted(some.keys() ^ others.keys(), key=repr)
        if one.count("*") == other.count("*") and odd:
            name, lacks = (some[odd[0]], other) if odd[0] in some else (others[odd[0]], one)
            raise DataError(
                f"{contents.path}: array '{name}' has none beside it that fits '{lacks}', which is "
                "needed for each sample"
            )


def _with_samples(contents: Contents, pattern: str) -> tuple[Contents, dict[_Key, str]]:
    """Join all arrays whose names match a pattern; their names by what stands for its ``*``."""
    fits = re.compile("(.*)".join(map(re.escape, pattern.split("*"))))
    order = {
        name: by_number("/".join(match.groups()))
        for name in contents.arrays
        if (match := fits.fullmatch(name))
    }
    found = sorted(order, key=order.__getitem__)
    if not found:
        raise DataError(f"{contents.path}: no array fits '{pattern}' ({_listed(contents)})")
    first = contents.arrays[found[0]]
    for name in found:
        if contents.arrays[name].shape != first.shape:
            raise DataError(
                f"{contents.path}: array '{name}' has shape {contents.arrays[name].shape}, but "
                f"'{found[0]}' has {first.shape}"
            )
    units = {contents.units.get(name, "") for name in found}
    for unit in units:
        if not same_unit(unit, contents.units.get(found[0], "")):
            raise DataError(
                f"{contents.path}: arrays that fit '{pattern}' are in several units "
                f"({', '.join(sorted(units))})"
            )
    rest = {n: a for n, a in contents.arrays.items() if n not in found}
    parts = [contents.arrays[name] for name in found]
    if sum(part.nbytes for part in parts) > LIMIT:
        kind = np.result_type(*parts)
        stacked = spooled((len(parts), *first.shape), kind, parts)
    else:
        stacked = np.stack(parts)
    units_of = {**contents.units, pattern: max(units)}
    made = replace(contents, arrays=rest | {pattern: stacked}, units=units_of)
    return made, {tuple(order[name][0]): name for name in found}


def by_number(name: str) -> tuple[list[str | int], str]:
    """Key for sorting names: step_2 comes before step_10."""
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if k % 2 else part for k, part in enumerate(parts)], name


def _numbered(name: str) -> str:
    """A path with ``*`` in place of parts that are numbers: 0/u, 0.u and u.0, but not u_0.5."""
    return re.sub(r"((?<![^/])|(?<=[^\W\d]\.))[0-9]+(?=/|$|\.[^\W\d])", "*", name)


def _with_points(contents: Contents, names: tuple[str, ...], called: str | None = None) -> Contents:
    """Join arrays of single coordinates to one array of points."""
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
    if is_row(shape) or (len(shape) > 1 and shape[-1] == 1):
        columns = [c.reshape(-1) if c.ndim == 2 else c[..., 0] for c in columns]
    if columns[0].ndim > 2:
        raise DataError(
            f"{contents.path}: array '{names[0]}' has shape {shape}, needs (n_points,) or "
            "(n_samples, n_points), as each coordinate of points"
        )
    for name, column in zip(names, columns, strict=True):
        if bad := not_finite(column.astype(np.float64)):
            raise DataError(f"{contents.path}: array '{name}' is not finite at index {bad}")
    rest = {n: a for n, a in contents.arrays.items() if n not in names}
    points = np.stack(columns, axis=-1)
    called = called or ",".join(names)
    unit = ", ".join(contents.units.get(n, "") for n in names)
    units = {**contents.units} | ({called: unit} if unit.strip(", ") else {})
    return replace(contents, arrays={called: points} | rest, units=units)


def _coordinates(contents: Contents, roles: Roles) -> tuple[str, ...]:
    """Arrays of single coordinates, such as x and y, if points are given so."""
    there = contents.arrays
    if any(n in there and _may_be_points(there[n]) for n in POINTS[:-1]) or "x" not in there:
        return ()
    named = {
        *(roles.inputs or ()), *(roles.outputs or ()), *(roles.parameters or ()),
        *(roles.states or ()), roles.output_points, roles.time,
    }  # fmt: skip
    shape = there["x"].shape
    if "x" in named or not (len(shape) == 1 or is_row(shape) or shape[-1] == 1):
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
        n = None if points is None else n_points(contents.arrays[points])
        if array.size != n and _may_be_times(contents, name, states):
            return name
    # a date in the unit says that these are times
    dated = [
        name
        for name in contents.arrays
        if states and " since " in contents.units.get(name, "") and name not in named
        if _may_be_times(contents, name, states)
    ]
    if len(dated) > 1:
        raise DataError(
            f"{contents.path}: {either(dated)} may be the times of the states; say with --time"
        )
    return dated[0] if dated else None


def _may_be_times(contents: Contents, name: str, states: Sequence[str]) -> bool:
    """True for an array of numbers, as many as a state may have times."""
    array = contents.arrays[name]
    return array.squeeze().ndim == 1 and array.size in contents.arrays[states[0]].shape


def n_points(array: Array) -> int:
    """Number of points in their array, all samples of which have as many."""
    return int(array.shape[-1] if array.ndim == 1 or is_row(array.shape) else array.shape[-2])


def _no_input(
    contents: Contents, name: str, points: str | None, known: Sequence[str], roles: Roles
) -> str | None:
    """Reason why an array without a given role is no input, or None if it is one."""
    shape = contents.arrays[name].shape
    if name in TIMES and not roles.states:
        return "times are of states (--state)"
    if points is not None and roles.layout is None:
        n = n_points(contents.arrays[points])
        if n not in shape:
            return f"has shape {shape}, but '{points}' has {n} points"
        if len(shape) > (4 if roles.states else 3):
            return f"has shape {shape}, which has more axes than samples, points and channels"
        if _counts(contents.arrays[name], n):
            return "it numbers the points; name it with --inputs if it is a field"
        return None
    if not known:
        return None
    size = {} if points is None else {POINT: n_points(contents.arrays[points])}
    try:
        Grid(contents, roles.layout, roles.states or (), (*known, name), sizes=size)
    except DataError:
        return f"has shape {shape}, which does not have the axes of '{known[0]}'"
    return None


def _counts(array: Array, n: int) -> bool:
    """True for the numbers 0, 1, .. or 1, 2, .. of n points, as tools write them beside fields."""
    if array.shape not in ((n,), (n, 1), (1, n)) or n < 4 or array.dtype.kind == "b":
        return False
    numbers = array.reshape(-1)
    return bool(numbers[0] in (0, 1) and (numbers == np.arange(n) + numbers[0]).all())


def _check_steady(contents: Contents, outputs: Sequence[str], named: set[str]) -> None:
    """Raise DataError if outputs without a state seem to change in time."""
    for name in TIMES:
        if name not in contents.arrays or name in named:
            continue
        times = contents.arrays[name]
        if times.size < 2 or times.squeeze().ndim > 1:
            continue
        for output in outputs:
            if contents.arrays[output].shape[:1] == (times.size,):
                raise DataError(
                    f"{contents.path}: array '{output}' has {times.size} times; say with --state "
                    "what changes in time, or with --layout, as s,p,c, that these are samples"
                )


def _check_once(contents: Contents, **names: tuple[str, ...]) -> None:
    """Raise DataError for an array with two roles: an output must not be an input."""
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
            f"{contents.path}: has no array called {either(OUTPUTS)}{taken_as}; say which are the "
            f"outputs with --outputs NAME,.. ({_listed(contents)})"
        )
    return outputs


def _is_coordinate(contents: Contents, name: str, points: str | None) -> bool:
    """True if an array repeats a coordinate of the points, such as y beside x."""
    there = contents.arrays
    if name not in SPACE[1:] or points is None or there[points].ndim < 2:
        return False
    where, names = there[points], SPACE[: SPACE.index(name) + 1]
    return where.shape[-1] >= len(names) and all(
        n in there
        and there[n].squeeze().shape == where.shape[:-1]
        and np.allclose(there[n].squeeze(), where[..., k])
        for k, n in enumerate(names)
    )


def not_finite(numbers: Array) -> tuple[int, ...] | None:
    """Index of the first number that is not finite."""
    bad = np.argwhere(~np.isfinite(numbers))
    return tuple(int(i) for i in bad[0]) if len(bad) else None


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
        usual = ("x,y,z", "x,y", *usual)  # names that `arranged` gives
    for name in usual:
        if name in contents.arrays and _may_be_points(contents.arrays[name]):
            return name
    if what is None:
        return None
    usual = [name for name in usual if "," not in name]
    why = f"has no array called {either(usual)}"
    for name in reversed(usual):
        if name in contents.arrays:
            why = f"array '{name}' {no_points(contents.arrays[name])}"
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


def no_points(array: Array) -> str:
    """Reason why an array cannot be points."""
    turned = array.ndim == 2 and 1 <= len(array) <= 3
    advice = "; transpose it, if its rows are coordinates" if turned else ""
    return f"has shape {array.shape}, {_POINTS_SHAPE}{advice}"


def _may_be_points(array: Array) -> bool:
    if array.ndim == 1 or is_row(array.shape):
        return True
    return array.ndim in (2, 3) and 1 <= array.shape[-1] <= 3


def is_row(shape: tuple[int, ...]) -> bool:
    """True if points on a line are a row vector, as in MATLAB."""
    return len(shape) == 2 and shape[0] == 1 and shape[1] > 3


def either(names: Sequence[str]) -> str:
    return _either(names, "or")


def _either(names: Sequence[str], word: str) -> str:
    return ", ".join(f"'{n}'" for n in names[:-1]) + f" {word} '{names[-1]}'"


def _fill(contents: Contents, word: str) -> float | None:
    """Number that a word of a mask is, if it is one and no array has its name."""
    if word in contents.arrays:
        return None
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _listed(contents: Contents) -> str:
    there = [f"{listed([name])} {array.shape}" for name, array in contents.arrays.items()]
    return "the file has: " + (", ".join(there[:10]) + (", ..." if len(there) > 10 else "") or "-")
