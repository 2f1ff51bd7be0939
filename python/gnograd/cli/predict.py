# SPDX-License-Identifier: MIT
"""Command `gnograd predict`: evaluate a trained model on new points."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from gnograd.cli.config import Places
from gnograd.cli.errors import JobError
from gnograd.cli.inspect import need_cells
from gnograd.cli.point_problem import error_of, relative_errors, tell_far
from gnograd.cli.torch_engine import TorchEngine
from gnograd.data import (
    DataError,
    Layout,
    Prediction,
    Roles,
    Sample,
    expand,
    read,
    write,
)
from gnograd.data.writing import check_names
from gnograd.models import PointModel, load

__all__ = ["predict"]

Array = npt.NDArray[Any]


DEVIATION = "_std"
"""End of the name of a standard deviation, behind the name of the output."""


def predict(
    directories: Sequence[Path],
    files: Sequence[Path],
    out: Path,
    names: Places,
    steps: int | None,
    engine: TorchEngine,
    console: Console,
) -> list[Path]:
    """Write the outputs of a model, and print their errors if the data have outputs.

    Parameters
    ----------
    directories : sequence of pathlib.Path
        Folder of the model. Of several, an ensemble, the outputs are the mean, with the standard
        deviation at each point under the same name and `DEVIATION`.
    files : sequence of pathlib.Path
        Files with the inputs, by the names that they had in training.
    out : pathlib.Path
    names : Places
        Names in the data that differ from those of the training data.
    steps : int, optional
        Number of steps of a state in time.
    engine : TorchEngine
    console : rich.console.Console

    Returns
    -------
    list of pathlib.Path
        Written files.

    Raises
    ------
    gnograd.data.DataError
        Files cannot be read, do not fit the model, or cannot be written.
    JobError
        There is no model.
    """
    check_names(out, ())
    models = _models(directories, engine)
    layout = models[0].description.layout
    written_names = [f.name for f in layout.outputs]
    if len(models) > 1:
        for name in [f"{f.name}{DEVIATION}" for f in layout.outputs]:
            if name in written_names:
                raise JobError(
                    f"{out}: '{name}' would be the standard deviation, but is an output, too"
                )
            written_names.append(name)
    check_names(out, written_names, layout.in_time)
    if steps is not None and not layout.in_time:
        raise JobError("--steps is for models of states in time, which this one is not")
    if out.resolve() in {file.resolve() for given in expand(files) for file in given}:
        raise DataError(f"{out}: is among the --data, and would be overwritten")
    data = read(files, _roles(layout, names), needs_outputs=False)
    needed, known = layout, data.layout
    if known.period is None:  # the file may lack it
        known = replace(known, period=needed.period)
    if layout.in_time and (needed.step is None or known.step is None):
        if needed.step is not None and (data.facts.states + data.facts.input_times > 1).any():
            console.print(f"note: the data tells no times; a step is {needed.step:.7g}")
        known = replace(known, step=needed.step)
    if not known.outputs:
        known = replace(known, outputs=needed.outputs)
    if odd := needed.differences(known):
        raise DataError(f"{data.samples[0].source}: does not fit the model ({'; '.join(odd)})")
    known_for = data.facts.input_times
    for k in np.flatnonzero((known_for > 0) & (known_for < (steps or 0))).tolist():
        raise DataError(
            f"{data.samples[k].source}: inputs change in time and are there for {known_for[k]} "
            f"steps, but --steps is {steps}"
        )
    if any(model.network.meshed for model in models):
        need_cells(data)
    tell_far(models[0], data, console)
    step = data.layout.step or layout.step
    made: list[Prediction] = []
    errors: list[float] = []
    spreads: list[float] = []
    disable = not console.is_terminal
    for sample in track(data.samples, "predicting", console=console, disable=disable):
        every = np.stack([model.predict(sample, steps) for model in models])
        values = every[0] if len(models) == 1 else every.mean(axis=0, dtype=np.float64)
        values = values.astype(np.float32, copy=False)
        fields = _fields(layout, values)
        if len(models) > 1:
            deviation = every.std(axis=0, ddof=1, dtype=np.float64).astype(np.float32)
            fields |= {f"{n}{DEVIATION}": d for n, d in _fields(layout, deviation).items()}
            spreads.append(relative_errors(values + deviation, values))
        times = _times(sample, step, len(values)) if layout.in_time else None
        made.append(Prediction.of(sample, fields, layout.in_time, times))
        errors += _error(models[0], sample, values)
    written = write(out, made)
    for path in written if len(written) < 4 else written[:1]:
        console.print(f"written: {path}", markup=False, soft_wrap=True)
    if errors:
        several = f"{len(errors)} sample" + ("s" if len(errors) > 1 else "")
        console.print(f"relative L2 error of {several}: {np.mean(errors):.4g}")
    if spreads:
        console.print(
            f"standard deviation among {len(models)} models, relative to their mean: "
            f"{np.mean(spreads):.4g}"
        )
    return written


def _models(directories: Sequence[Path], engine: TorchEngine) -> list[PointModel]:
    """Models of all folders, which must have the same inputs and outputs."""
    models: list[PointModel] = []
    for k, directory in enumerate(directories):
        if directory.resolve() in [other.resolve() for other in directories[:k]]:
            raise JobError(f"{directory}: is given twice, needs another model for a spread")
        try:
            models.append(load(directory, engine.device))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise JobError(
                f"{directory}: holds no model, needs the --out of a training that has ended"
            ) from error
        except (ValueError, OSError) as error:
            raise JobError(str(error)) from error
        if odd := models[0].description.layout.differences(models[-1].description.layout):
            raise JobError(
                f"{directory}: is no model of the same as {directories[0]} ({'; '.join(odd)})"
            )
    return models


def _roles(layout: Layout, names: Places) -> Roles:
    """Names of arrays that the model knows."""

    def of(fields: Sequence[Any]) -> tuple[str, ...]:
        return tuple(f.name for f in fields)

    changing = "states" if layout.in_time else "outputs"
    return names.roles(
        inputs=of(layout.inputs),
        parameters=of(layout.parameters),
        period=layout.period,
        dimension=layout.dimension,
        **{changing: of(layout.outputs)},
    )


def _times(sample: Sample, step: float | None, n: int) -> Array | None:
    """Times of a trajectory, if known."""
    known = np.zeros(1) if sample.times is None else sample.times[:n]
    if len(known) < n and step is None:
        return None
    more = known[-1] + (step or 0.0) * np.arange(1, n - len(known) + 1)
    return np.concatenate([known, more])


def _fields(layout: Layout, values: Array) -> dict[str, Array]:
    """The columns of an output by name."""
    ends = np.cumsum([f.width for f in layout.outputs])[:-1]
    parts = np.split(values, ends, axis=-1)
    return {f.name: part for f, part in zip(layout.outputs, parts, strict=True)}


def _error(model: PointModel, sample: Sample, values: Array) -> list[float]:
    if sample.states is None:
        truth, made = sample.outputs, values
        known = truth is not None and truth.shape == made.shape
    else:
        truth, made = sample.states, values[1:]
        known = len(made) > 0 and truth.shape == values.shape
    return [error_of(model, made, truth)] if known and truth is not None else []
