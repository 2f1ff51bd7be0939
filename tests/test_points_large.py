# SPDX-License-Identifier: MIT
"""Training and inspection of files larger than memory."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")
pytest.importorskip("torch")

import torch

import gnograd as gg
from memory import needs_linux, temporary_bytes
from points_runs import TRAIN, done

CHANNELS = 1000
"""Channels of large data, so that a training step is small beside them."""


def large_arrays(samples: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    a = np.tile(rng.standard_normal((100, CHANNELS)).astype("f4"), (samples, 4, 1))
    a *= 1 + np.arange(samples, dtype="f4")[:, None, None]
    return {"points": rng.random((400, 2)), "a": a, "b": a[..., :2] + 1}


def write_large(path: Path, samples: int) -> None:
    given = large_arrays(samples)
    if path.suffix == ".npz" and "compressed" in path.name:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, array in given.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, array)
    elif path.suffix == ".npz":
        np.savez(path, **given)
    elif path.suffix == ".safetensors":
        gg.save_weights(path, given)
    elif path.suffix == ".h5":
        import h5py

        with h5py.File(path, "w") as file:
            for name, array in given.items():
                file.create_dataset(name, data=array, chunks=name == "a" or None)
    elif path.suffix == ".nc":
        import netCDF4

        with netCDF4.Dataset(path, "w") as file:
            for name, array in given.items():
                axes = [f"{name}_{k}" for k in range(array.ndim)]
                for axis, n in zip(axes, array.shape, strict=True):
                    file.createDimension(axis, n)
                file.createVariable(name, array.dtype, axes)[...] = array
    else:
        path.mkdir()
        for name, array in given.items():
            np.save(path / f"{name}.npy", array)


def use_of(path: Path, command: str):
    """Use of a large file, after that of a small one, which brings all that is in memory anyway."""
    gg.set_num_threads(1)
    torch.set_num_threads(1)

    def use(data: Path) -> list[None]:
        more = ["--out", data.with_suffix(".run"), "--epochs=1", *TRAIN]
        verb, options = ("inspect", [data]) if command == "inspect" else ("train", [])
        if command == "train":
            options = ["points", "--data", data, *more]
        done(verb, *options, "--inputs=a", "--outputs=b", "--model=gno")
        return []

    small = path.with_name("small" + path.suffix)
    write_large(small, 6)
    use(small)
    return lambda: use(path)


LARGE_FILES = ["large.npz", "compressed.npz", "large", "large.h5", "large.nc", "large.safetensors"]


@needs_linux
@pytest.mark.parametrize("name", LARGE_FILES)
def test_data_larger_than_memory(tmp_path: Path, name: str) -> None:
    """Only what is in use of a large file is in memory, in any format."""
    for module in {".h5": ["h5py"], ".nc": ["netCDF4"]}.get(Path(name).suffix, []):
        pytest.importorskip(module)
    path = tmp_path / name
    write_large(path, 90)  # 138 MiB
    command = "train" if name == "large.npz" else "inspect"
    assert temporary_bytes(use_of, path, command) < 130 << 20
