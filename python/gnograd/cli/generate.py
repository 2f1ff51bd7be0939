# SPDX-License-Identifier: MIT
"""Command `gnograd data`: write random problems and their solutions to a file for training."""

import shlex
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from gnograd.cli.config import DataConfig
from gnograd.cli.errors import JobError
from gnograd.cli.files import atomic
from gnograd.cli.problems import PROBLEMS, Problem, Solved
from gnograd.cli.random_streams import Stream, generator

__all__ = ["checksum", "generate", "refinement"]

Array = npt.NDArray[Any]

CHECKED = 3
"""Number of samples that are solved on a finer grid, too."""


def generate(name: str, config: DataConfig, out: Path, console: Console) -> dict[str, Array]:
    """Draw, solve, and write problems; print the accuracy of the solutions.

    Parameters
    ----------
    name : str
        One of `PROBLEMS`.
    config : DataConfig
        A larger set begins with the samples of a smaller one. Random nodes are different for every
        sample; for states in time they are the same for all.
    out : pathlib.Path
        File ``.npz``.
    console : rich.console.Console

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    JobError
        `points` are more than the nodes; the resolution is odd or too small, or no multiple of
        `every`; `every` for a problem with exact solutions.
    FileError
        The file cannot be written.
    """
    points, every, seed = config.points, config.every, config.seed
    problem = PROBLEMS[name]
    resolution = config.resolution or problem.resolution
    if resolution % 2 or resolution < problem.least:
        raise JobError(f"--resolution is {resolution}, needs an even number from {problem.least}")
    if resolution % every or resolution // every < problem.least:
        raise JobError(
            f"--every is {every}, but --resolution, {resolution}, is not that often "
            f"{problem.least} or more"
        )
    solved = []
    disable = not console.is_terminal
    for k in track(range(config.samples), "solving", console=console, disable=disable):
        rng = generator(seed, Stream.TRAINING_SAMPLE, k)
        sample = problem.solve(rng, resolution)
        if every > 1:
            if sample.every is None:
                raise JobError(f"--every: solutions of {name} are exact, lower --resolution")
            sample = _some(sample, sample.every(every))
        n = len(sample.points)
        if points > n:
            raise JobError(f"--points is {points}, but a sample has {n} nodes")
        if points:
            choice = generator(seed, Stream.EVALUATION, 0 if problem.in_time else k)
            sample = _some(sample, np.sort(choice.permutation(n)[:points]))
        solved.append(sample)
    arrays = _arrays(problem, solved)
    with atomic(out) as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]
    shapes = ", ".join(f"{n} {a.shape}" for n, a in arrays.items())
    console.print(f"written:  {out}: {shapes}", markup=False, soft_wrap=True)
    console.print(f"checksum: {checksum(arrays):08x}")
    error = refinement(problem, resolution, seed)
    if error is not None:
        console.print(f"error:    {error:.2g} relative L2, against twice the resolution")
    option = "--state" if problem.in_time else "--outputs"
    fields = ",".join(solved[0].outputs)
    command = f"gnograd train points --data {shlex.quote(str(out))} {option} {fields}"
    console.print(f"train:    {command}", markup=False, soft_wrap=True)
    return arrays


def checksum(arrays: Mapping[str, Array]) -> int:
    """CRC-32 of all numbers, rounded to float32 as they are in the file."""
    total = 0
    for name, array in arrays.items():
        total = zlib.crc32(np.ascontiguousarray(array).data, zlib.crc32(name.encode(), total))
    return total


def refinement(problem: Problem, resolution: int, seed: int) -> float | None:
    """Mean relative L2 difference from solutions of twice the resolution; None for exact ones."""
    errors = []
    for k in range(CHECKED):
        coarse, fine = (
            problem.solve(generator(seed, Stream.TRAINING_SAMPLE, k), n)
            for n in (resolution, 2 * resolution)
        )
        if fine.every is None:
            return None
        for name, u in coarse.outputs.items():
            true = fine.outputs[name][..., fine.every(2)]
            errors.append(np.linalg.norm(u - true) / np.linalg.norm(true))
    return float(np.mean(errors))


def _some(solved: Solved, rows: Array) -> Solved:
    """A solution on some of its nodes, in the precision of the file."""
    inputs, outputs = (
        {name: field[..., rows].astype(np.float32) for name, field in fields.items()}
        for fields in (solved.inputs, solved.outputs)
    )
    return Solved(solved.points[rows], inputs, outputs, solved.parameters)


def _arrays(problem: Problem, solved: list[Solved]) -> dict[str, Array]:
    """Join all samples in one array a quantity, by the names that `gnograd train points` knows."""
    first = solved[0]
    points = [s.points for s in solved]
    same = all(np.array_equal(x, points[0]) for x in points)
    arrays = {"points": points[0] if same else np.stack(points)}
    for kind in ("inputs", "outputs"):
        for name in getattr(first, kind):
            arrays[name] = np.stack([getattr(s, kind)[name] for s in solved])
    if first.parameters.size:
        arrays["parameters"] = np.stack([s.parameters for s in solved])
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    if problem.period:
        arrays["period"] = np.full(first.points.shape[1], problem.period, np.float32)
    return arrays
