# SPDX-License-Identifier: MIT
"""Files of data in many formats, and what is read of them."""

from pathlib import Path

import numpy as np
import pytest

from gnograd.data import (
    DataError,
    PointData,
    contents,
)

N, S = 12, 3


def arrays(d: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "points": rng.random((S, N, d)),
        "a": rng.random((S, N)).astype(np.float32),
        "v": rng.random((S, N, 2)).astype(np.float32),
        "outputs": rng.random((S, N, 1)).astype(np.float32),
        "parameters": rng.random((S, 2)).astype(np.float32),
    }


def to_npz(path: Path, what: dict[str, np.ndarray]) -> None:
    np.savez(path, **what)


def to_zarr(path: Path, what: dict[str, np.ndarray]) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.open_group(str(path), mode="w")
    for name, array in what.items():
        made = zarr.open_array(
            str(path / name), mode="w", shape=array.shape, chunks=array.shape, dtype=array.dtype
        )
        made[...] = array


def to_matlab_5(path: Path, what: dict[str, np.ndarray]) -> None:
    pytest.importorskip("scipy.io").savemat(path, what)


def to_matlab_7_3(path: Path, what: dict[str, np.ndarray]) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in what.items():
            file[name] = array.T
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64")


def to_torch(path: Path, what: dict[str, np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    torch.save({name: torch.from_numpy(array) for name, array in what.items()}, path)


def same(a: PointData, b: PointData) -> bool:
    return a.layout == b.layout and a.checksum() == b.checksum()


def refusal(path: Path) -> str:
    """Message of the error for a file: one line that names it."""
    with pytest.raises(DataError) as error:
        contents(path)
    text = str(error.value)
    assert text.startswith(f"{path}: ") and text.isprintable()
    return text
