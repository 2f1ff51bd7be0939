# SPDX-License-Identifier: MIT
"""Command `gnograd inspect`: show the contents of data files, and check them."""

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gnograd.cli.config import Preparation
from gnograd.cli.point_split import split
from gnograd.data import (
    Contents,
    DataError,
    PointData,
    Roles,
    assign,
    expand,
    read,
    samples_of,
)
from gnograd.data.files import load, together
from gnograd.data.grid import SPACE
from gnograd.data.neighbors import CLOUDS, FEW, TYPICAL, neighbors_within, radius_of
from gnograd.data.repeated import repeated
from gnograd.data.roles import arranged
from gnograd.data.samples import Field, Layout
from gnograd.data.statistics import ROUNDING, statistics, still, target
from gnograd.data.stored import blocks
from gnograd.notation.text import printable

__all__ = [
    "HELD_OUT",
    "check_units",
    "inspect",
    "need_cells",
    "need_inputs",
    "summary",
    "tell",
    "tell_repeated",
]

HELD_OUT = "validation"
"""Name of the set by which the best model is chosen."""
_SHOWN = 10
"""Largest number of unused arrays, and of repeated samples, that are listed by name."""


def inspect(
    paths: Sequence[Path],
    roles: Roles,
    console: Console,
    config: Preparation | None = None,
    held_out: Sequence[Path] = (),
    picture: Path | None = None,
) -> PointData:
    """Show the arrays of the first file of each path, and a summary of the data of all files.

    Parameters
    ----------
    paths : sequence of pathlib.Path
    roles : gnograd.data.Roles
    console : rich.console.Console
    config : Preparation, optional
        Settings of the training that is to follow.
    held_out : sequence of pathlib.Path
        Samples by which that training will choose the best model, as for `train`.
    picture : pathlib.Path, optional
        File for a picture of the first sample.

    Returns
    -------
    PointData

    Raises
    ------
    DataError
        The data are inconsistent; the tables have been shown.
    """
    for files in expand(paths):
        arrays = [file for file in files if file.suffix.lower() == ".npy"]
        first = [load(file, roles) for file in arrays or files[:1]]
        _show(together(first)[0], roles, console)
        if more := len(files) - len(first):
            console.print(f"and {more} more files like this one, if they fit\n")
    config = Preparation() if config is None else config
    data = read(paths, roles)
    need_inputs(data, roles)
    console.print("[green]fits[/]: " + escape(summary(data)), soft_wrap=True)
    training, kept, why = data, None, ""
    if held_out:
        kept = read(held_out, replace(roles, dimension=data.layout.dimension, known=True))
        PointData.join([data, kept])  # check for equal quantities
    else:
        try:
            training, kept = split(data, config)
        except DataError as error:
            why = str(error)
    check_units(training)
    tell(training, console, config.model, config.radius)
    if kept is None:
        console.print(f"note: {why}", markup=False, soft_wrap=True)
    else:
        parts = (_several(len(part), "sample") for part in (training, kept))
        console.print("training: {}; held out: {}".format(*parts), soft_wrap=True)
        tell_repeated(training, {HELD_OUT: kept}, console)
    if picture is not None:
        from gnograd.cli.sample_picture import draw

        draw(data, picture)
        console.print(f"picture: {picture}", markup=False, soft_wrap=True)
    return data


def check_units(data: PointData) -> None:
    """Raise an error for outputs whose squares overflow or vanish in float32."""
    found = statistics(data)["output"]
    columns = [f.name for f in data.layout.outputs for _ in range(f.width)]
    std = np.where(found.constant, 0.0, found.std)
    for name, mean, deviation in zip(columns, np.abs(found.mean), std, strict=True):
        if max(mean, deviation) > 1e18 or 0 < deviation < 1e-18:
            raise DataError(
                f"{data.samples[0].source}: '{name}' has numbers around "
                f"{max(mean, deviation):.1g}, whose squares float32 does not hold; bring it to "
                "other units"
            )


def tell(data: PointData, console: Console, model: str, radius: float | None) -> None:
    """Print facts about training data as a model sees them, and warnings, one line each."""
    notes = [f"'{name}' is not used: {why}" for name, why in data.left_out.items()]
    if len(notes) > _SHOWN:
        notes[_SHOWN:] = [f"{len(notes) - _SHOWN} more arrays are not used"]
    if data.layout.in_time and data.layout.step is None:
        notes.append("the files tell no times: steps are taken as equally long")
    notes += still(data)
    aim, still_all = target(data), statistics(data)["output"].constant.all()
    if aim.adds is not None and aim.ratio == 0 and not (data.layout.in_time or still_all):
        names = ", ".join(f.name for f in data.layout.outputs)
        notes.append(
            f"{_inputs_at(data.layout, aim.adds)} is {names} but for a constant: with it as an "
            "input there is nothing to learn (--inputs)"
        )
    _, several = np.unique(next(iter(data.clouds())), axis=0, return_counts=True)
    cloud = np.concatenate(list(itertools.islice(data.clouds(), CLOUDS)))
    sides = np.ptp(cloud, axis=0)
    notes += [
        f"all points have {letter} = {place:.4g}; without it they are of fewer dimensions"
        for letter, side, place in zip(SPACE, sides, cloud[0], strict=False)
        if len(sides) > 1 and side <= ROUNDING * sides.max()
    ]
    notes += [
        f"points spread over {side / length:.3g} of the period along {letter}; is --period in "
        "their unit?"
        for letter, side, length in zip(SPACE, sides, data.layout.period or (), strict=False)
        if length and not 0.5 <= side / length <= 2
    ]
    if several.max() > 1 == several.min():
        twice = int((several > 1).sum())
        notes.append(f"{twice} of {len(several)} places have several points")
    if several.min() > 1:
        notes.append(
            f"each of {len(several)} places has {several.min()} points or more; rows for times or "
            "samples are told apart only by an axis of their own"
        )
    for line in (
        "targets: " + _learned(data),
        "normalisation: every channel and target to mean 0 and deviation 1 in the training samples",
    ):
        console.print(line, markup=False, soft_wrap=True)
    if model in TYPICAL:
        clouds = list(itertools.islice(data.clouds(), CLOUDS))
        period = data.layout.period
        why, d = "", data.layout.dimension
        if radius is None:
            radius = radius_of(clouds, TYPICAL[model][d], period)
            why = f"; typically {TYPICAL[model][d]}, which {model} learns from in {d}-D"
        found = neighbors_within(clouds, radius, period)
        numbers = f"{found.mean:.3g} a point, {found.least} at least{why}"
        console.print(f"neighbours within {radius:.4g}: {numbers}", markup=False, soft_wrap=True)
        if found.mean < FEW:
            notes.append(
                f"{found.mean:.2g} neighbours a point are too few; a larger --radius helps"
            )
    if model == "mgn":
        if data.meshed:
            degrees = [
                np.bincount(s.edges_in(data.layout.period).reshape(-1), minlength=len(s.points))
                for s in itertools.islice(data.geometries(), CLOUDS)
            ]
            every = np.concatenate(degrees)
            numbers = f"{every.mean():.3g} a point, {every.min()} at least"
            console.print(f"edges of the mesh: {numbers}", markup=False, soft_wrap=True)
            if not every.min():
                notes.append("some points are in no cell, and so without messages")
        else:
            some = any(s.cells for s in data.geometries())
            why = "not all samples have cells" if some else "there are no cells"
            if some and data.layout.period is not None:
                why = "no cells cross the border of the periodic box, or end on both sides of it"
            notes.append(f"messages are passed between nearest points: {why}")
    for note in notes:
        line = "".join(c if c.isprintable() else "?" for c in note)  # names may hold anything
        console.print(f"note: {line}", markup=False, soft_wrap=True)


def tell_repeated(
    training: PointData, sets: Mapping[str, PointData], console: Console
) -> dict[str, dict[int, int]]:
    """Print which samples of other sets are in the training data, and return them by set."""
    every = repeated(training, sets)
    for name, found in every.items():
        if not found:
            continue
        data = sets[name]
        some = [
            f"{data.samples[k].source}, as {training.samples[of].source}"
            for k, of in itertools.islice(found.items(), _SHOWN)
        ]
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        what = "with steps that are" if data.layout.in_time else "also"
        line = (
            f"warning: {name} has {_several(len(found), 'sample')} of {len(data)} {what} in the "
            f"training data, so its error is not one on unseen data: {'; '.join(some)}{more}"
        )
        console.print(printable(line), markup=False, soft_wrap=True)
    return every


def _learned(data: PointData) -> str:
    """Target of a model of the data, and the reason for it, in words."""
    layout, found = data.layout, target(data)
    names = ", ".join(printable(f.name) for f in layout.outputs)
    if layout.in_time:
        much = f"vary {found.ratio:.2g} times as much as the state"
        if found.adds is None:
            return f"{names} at the next time, as its changes in a step {much}"
        return f"changes of {names} in a step, which {much}"
    if found.ratio is None:
        return f"{names}; no input has its form"
    if found.adds is None:
        return f"{names}; differences from inputs vary {found.ratio:.2g} times as much"
    near = _inputs_at(layout, found.adds)
    return f"differences of {names} from {near}, which vary {found.ratio:.2g} times as much"


def _inputs_at(layout: Layout, column: int) -> str:
    """Names of as many inputs as there are outputs, from that of a column on."""
    ends = np.cumsum([f.width for f in layout.inputs]).tolist()
    first = int(np.searchsorted(ends, column, side="right"))
    return ", ".join(printable(f.name) for f in layout.inputs[first : first + len(layout.outputs)])


def need_cells(*parts: PointData) -> None:
    """Raise DataError for samples without the edges along which a model passes messages."""
    for part in parts:
        for sample in part.geometries():
            if not len(sample.edges_in(part.layout.period)):
                raise DataError(
                    f"{sample.source}: has no cells, but mgn passes messages along the edges of "
                    "those of the training data"
                )


def need_inputs(data: PointData, roles: Roles) -> None:
    """Raise DataError if samples have no inputs, unless that was asked for.

    Raises
    ------
    DataError
        The message names arrays that might be inputs.
    """
    layout = data.layout
    if roles.inputs is not None or layout.inputs or layout.parameters or layout.in_time:
        return
    if data.left_out or data.same_points:
        left = "; ".join(f"'{name}' {why}" for name, why in list(data.left_out.items())[:_SHOWN])
        raise DataError(
            f"{data.samples[0].source}: has no inputs{f' ({left})' if left else ''}; say which "
            "they are with --inputs NAME,.., or --inputs '' if there are none"
        )


def summary(data: PointData) -> str:
    """Summary of the data in words."""
    layout, facts = data.layout, data.facts
    points = _range(facts.points)
    text = f"{_several(len(data), 'sample')} of {points} points, {layout.dimension}-D"
    if len(data) > 1 and data.same_points:
        text += ", the same for all"
    text += f"; inputs: {_fields(layout.inputs)}"
    if facts.input_times.any():
        text += " in time"
    if layout.in_time:
        steps = _range(facts.states)
        text += f"; state: {_fields(layout.outputs)} at {steps} times"
    else:
        text += f"; outputs: {_fields(layout.outputs)}"
    if layout.apart:
        text += f" at {_range(facts.queries)} points of their own"
    if layout.parameters:
        text += f"; parameters: {_fields(layout.parameters)}"
    if layout.step is not None:
        text += f"; time step: {layout.step:.7g}"
    if layout.period:
        text += f"; period: {', '.join(f'{p:g}' if p else '-' for p in layout.period)}"
    return text


def _show(found: Contents, roles: Roles, console: Console) -> None:
    names, axes = None, {}
    with suppress(DataError):  # the message follows the tables
        axes = dict(samples_of(found, roles, needs_outputs=False).axes)
        names, found = assign(found, roles), arranged(found, roles)
    table = Table("array", "axes", "type", "range", "taken as", title_justify="left")
    table.title = escape(f"{found.path}: {found.kind}")
    for name, array in found.arrays.items():
        spans = [(float(part.min()), float(part.max())) for _, part in blocks(array) if part.size]
        finite = bool(spans) and bool(np.isfinite(spans).all())
        span = "[red]not finite[/]"
        if finite:
            span = f"{min(low for low, _ in spans):.4g} to {max(high for _, high in spans):.4g}"
        table.add_row(
            escape(printable(name)),
            escape(_axes(array.shape, axes.get(name, ()))),
            str(array.dtype),
            span if array.size else "",
            "?" if names is None else escape(names.role(name) + _said(found, name)),
        )
    for name, why in found.unused.items():
        table.add_row(escape(printable(name)), "", "", "", escape(printable(f"not used: {why}")))
    console.print(table)
    for kind, cells in found.cells.items():
        console.print(f"{len(cells)} cells of type {escape(printable(kind))}")


def _said(found: Contents, name: str) -> str:
    """What the file says of an array, in brackets."""
    said = found.said(name)
    return f" ({printable(said)})" if said else ""


def _axes(shape: Sequence[int], words: Sequence[str]) -> str:
    """Lengths of axes with their meaning, if that is known."""
    if len(shape) != len(words):
        return str(tuple(shape))
    return ", ".join(f"{n} {word}" for n, word in zip(shape, words, strict=True))


def _fields(fields: Sequence[Field]) -> str:
    return ", ".join(f"{printable(f.name)} ({f.width})" for f in fields) or "none"


def _range(numbers: NDArray[np.int64]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _several(n: int, what: str) -> str:
    return f"{n} {what}" + ("s" if n != 1 else "")
