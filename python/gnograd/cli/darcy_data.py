# SPDX-License-Identifier: MIT
"""Pairs of coefficient and solution, generated and cached, or read from a file."""

import warnings
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnograd.cli import darcy_problem
from gnograd.cli.errors import JobError
from gnograd.cli.files import FileError, atomic, locked
from gnograd.cli.random_streams import Stream, generator
from gnograd.data.readers import npz

Array = npt.NDArray[Any]

SMALLEST_GRID = 8


class DataError(JobError):
    """Error about a data file that cannot be used; the message names the file and the array."""


@dataclass(frozen=True)
class DarcyData:
    """Coefficients and solutions on a uniform grid of the unit square.

    Entry ``[k, i, j]`` of both arrays, of shape ``(n_samples, grid, grid)`` and type
    float32, is sample ``k`` at the point ``(i, j) / (grid - 1)``; the boundary is part of the grid.
    """

    coefficient: Array
    solution: Array

    @property
    def grid(self) -> int:
        """Nodes per side."""
        return int(self.coefficient.shape[1])

    def __len__(self) -> int:
        return len(self.coefficient)

    def checksum(self) -> int:
        """CRC-32 of both arrays: tells whether a continued run sees the same data."""
        return zlib.crc32(
            np.ascontiguousarray(self.solution).data,
            zlib.crc32(np.ascontiguousarray(self.coefficient).data),
        )


def generate(
    train: int,
    test: int,
    grid: int,
    seed: int,
    directory: Path | None,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
    warn: Callable[[str], object] = warnings.warn,
) -> DarcyData:
    """Return `train` + `test` samples of the Darcy problem, from the cache if they are there.

    Every sample has its own stream of random numbers, so the first samples of
    a larger set are those of a smaller one, the test samples do not depend on
    `train`, and the same fields come back on another `grid`.

    Parameters
    ----------
    train, test : int
        Number of samples; those for training come first.
    grid : int
        Nodes per side.
    seed : int
    directory : pathlib.Path, optional
        Folder of the cache.
    track : callable
        Wraps the loop over samples, for a progress bar.
    warn : callable
        Called with the reason if the samples cannot be stored in the cache.
    """
    name = f"darcy-{grid}x{grid}-train{train}-test{test}-seed{seed}.npz"
    if directory is not None:
        with suppress(DataError):  # not there yet, or damaged: made anew
            data = load(directory / name)
            if data.coefficient.shape == (train + test, grid, grid):
                return data
    coefficient = np.empty((train + test, grid, grid), np.float32)
    solution = np.empty_like(coefficient)
    for k in track(range(train + test)):
        if k < train:
            rng = generator(seed, Stream.TRAINING_SAMPLE, k)
        else:
            rng = generator(seed, Stream.TEST_SAMPLE, k - train)
        a = darcy_problem.coefficient(rng, grid)
        coefficient[k], solution[k] = a, darcy_problem.solve(a)
    try:
        if directory is None:
            raise FileError("no home directory for a cache, set $GNOGRAD_CACHE")
        with locked(directory), atomic(directory / name) as file:
            np.savez(file, coefficient=coefficient, solution=solution)
    except FileError as error:
        warn(f"the samples are not kept for the next run: {error}")
    return DarcyData(coefficient, solution)


def load(path: Path) -> DarcyData:
    """Read and check a data file.

    Parameters
    ----------
    path : pathlib.Path
        NumPy ``.npz`` file with the arrays ``coefficient`` and ``solution``,
        both real floating point, finite, of one shape
        ``(n_samples, grid, grid)`` with ``grid >= 8``, as described in `DarcyData`.

    Raises
    ------
    DataError
        The file or one of its arrays is not as described.
    """
    try:
        arrays = npz.read(path, ["coefficient", "solution"])
    except npz.NpzError as error:
        raise DataError(str(error)) from error
    a, u = (_checked(path, name, array) for name, array in arrays.items())
    if u.shape != a.shape:
        raise DataError(
            f"{path}: array 'solution' has shape {u.shape}, but 'coefficient' has {a.shape}"
        )
    zero = np.flatnonzero(~u.any(axis=(1, 2)))
    if zero.size:
        raise DataError(
            f"{path}: array 'solution' is zero in sample {zero[0]}, "
            "so that a relative error has no meaning"
        )
    return DarcyData(a, u)


def _checked(path: Path, name: str, array: Array) -> Array:
    if array.dtype.kind != "f":
        raise DataError(f"{path}: array '{name}' must be real floating point, is {array.dtype}")
    if array.ndim != 3 or array.shape[1] != array.shape[2] or array.shape[1] < SMALLEST_GRID:
        raise DataError(
            f"{path}: array '{name}' must have shape (n_samples, grid, grid) with "
            f"grid >= {SMALLEST_GRID}, has {array.shape}"
        )
    if len(array) == 0:
        raise DataError(f"{path}: array '{name}' holds no sample")
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise DataError(
            f"{path}: array '{name}' is not finite (as float32) at index "
            f"{tuple(int(i) for i in bad[0])}"
        )
    return array
