# SPDX-License-Identifier: MIT
"""Good files of every format in which some bytes are others: read, or refused in a line."""

import json
import shutil
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import gnograd as gg
from gnograd.data import DataError, contents

MOST = 1 << 30
"""Bytes that no file here, all of which are small, accounts for."""


def arrays(trial):
    """Some numbers in arrays, on points in the plane."""
    n = int(trial.rng.integers(1, 40))
    return {
        "points": trial.rng.random((n, 2)),
        "a": trial.rng.random(n).astype("f4"),
        "v": trial.rng.random((n, 2)).astype(trial.pick("f2", "f4", "f8", "i8", "u1")),
    }


def npz(path, trial):
    trial.pick(np.savez, np.savez_compressed)(path, **arrays(trial))


def safetensors(path, trial):
    gg.save_weights(path, arrays(trial), metadata={"a": "b"})


def hdf5(path, trial):
    import h5py

    more = trial.pick({}, {"compression": "gzip", "chunks": True}, {"shuffle": True})
    with h5py.File(path, "w", libver=trial.pick("earliest", "latest")) as file:
        for name, array in arrays(trial).items():
            file.create_dataset(trial.pick("", "group/") + name, data=array, **more)
        file["link"] = h5py.SoftLink("/a")


def zarr(path, trial):
    import zarr

    version = trial.pick(2, 3)
    zarr.open_group(str(path), mode="w", zarr_format=version)
    for name, array in arrays(trial).items():
        made = zarr.open_array(
            str(path / name), mode="w", shape=array.shape, chunks=array.shape, dtype=array.dtype,
            zarr_format=version,
        )  # fmt: skip
        made[...] = array


def matlab(path, trial):
    from scipy.io import savemat

    what = arrays(trial) | {"s": {"b": np.eye(2), "t": "text"}, "c": np.array([1, "a"], object)}
    if trial.chance(0.2):
        savemat(path, arrays(trial), format="4")
    else:
        savemat(path, what, do_compression=trial.chance(0.5))


def pytorch(path, trial):
    import torch

    made = {n: torch.from_numpy(x) for n, x in arrays(trial).items() if x.dtype != np.uint16}
    old = trial.chance(0.3)
    torch.save({**made, "list": [1, 2.5, made["a"]]}, path, _use_new_zipfile_serialization=not old)


def mesh(path, trial):
    import meshio

    given = arrays(trial)
    n = len(given["points"])
    cells = trial.rng.integers(0, n, (5, 3))
    points = np.c_[given["points"], np.zeros(n)]
    kind = {
        ".vtu": trial.pick(("vtu", {"binary": False}), ("vtu", {})),
        ".vtk": trial.pick(("vtk42", {"binary": False}), ("vtk42", {}), ("vtk", {})),
        ".msh": trial.pick(("gmsh", {"binary": False}), ("gmsh", {}), ("gmsh22", {})),
        ".xdmf": ("xdmf", {"data_format": trial.pick("XML", "Binary", "HDF")}),
    }
    form, options = kind[path.suffix]
    # meshio writes fields of Gmsh's as np.float64(..), which nobody reads
    bare = path.suffix == ".msh" and not options.get("binary", True)
    fields = {} if bare else {"a": given["a"].astype(float)}
    made = meshio.Mesh(points, [("triangle", cells)], fields)
    meshio.write(path, made, file_format=form, **options)


FORMATS = {
    ".npz": (npz, "numpy"), ".safetensors": (safetensors, "numpy"), ".h5": (hdf5, "h5py"),
    ".zarr": (zarr, "zarr"), ".mat": (matlab, "scipy"), ".pt": (pytorch, "torch"),
    ".vtu": (mesh, "meshio"), ".vtk": (mesh, "meshio"), ".msh": (mesh, "meshio"),
    ".xdmf": (mesh, "meshio"),
}  # fmt: skip


def spoiled(trial, content):
    """Bytes with some that are others, gone, or there twice."""
    content = bytearray(content)
    for _ in range(trial.pick(1, 1, 1, 2, 3, 12)):
        at = int(trial.rng.integers(len(content) + 1))
        length = int(trial.pick(1, 1, 1, 2, 4, 8, 100))
        kind = trial.pick("byte", "bit", "extreme", "zero", "gone", "twice", "cut")
        part = content[at : at + length]
        if kind == "byte":
            part = trial.rng.bytes(len(part))
        elif kind == "bit" and part:
            part[0] ^= 1 << int(trial.rng.integers(8))
        elif kind == "extreme":
            number = trial.pick(2**31 - 1, 2**32 - 1, 2**63 - 1, 10**9, 0xFF, 77)
            part = number.to_bytes(8, "little")[: len(part)]
        elif kind == "zero":
            part = bytes(len(part))
        elif kind == "gone":
            part = b""
        elif kind == "twice":
            part = part * 2
        elif trial.chance(0.1):
            del content[at:]
            continue
        content[at : at + length] = part
    return bytes(content)


def damaged(suffix):
    """The subject of one format."""
    write, _ = FORMATS[suffix]

    def subject(trial):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"data{suffix}"
            write(path, trial)
            files = sorted(p for p in Path(folder).rglob("*") if p.is_file())
            victim = trial.pick(*files)
            victim.write_bytes(spoiled(trial, victim.read_bytes()))
            found = trial.attempt(f"contents of {suffix}", contents, path, names=[path.name])
            if isinstance(found, Exception):
                trial.expect(
                    isinstance(found, DataError), f"{type(found).__name__} is undocumented"
                )
                trial.expect(str(found).isprintable(), "a message of more than one line of text")
                return
            every = [*found.arrays.values(), *found.cells.values()]
            trial.expect(all(x.dtype.kind in "fiub" for x in every), "arrays that are no numbers")
            trial.expect(sum(x.nbytes for x in every) < MOST, "arrays that no byte accounts for")

    return subject


@cache
def model():
    """A folder with a model."""
    import torch

    from gnograd import models
    from gnograd.data import Field, Layout, PointData, Sample

    rng = np.random.default_rng(0)
    x, f = rng.random((20, 2)), rng.random((20, 1)).astype("f4")
    layout = Layout(2, (Field("f", 1),), (Field("u", 1),))
    torch.manual_seed(0)
    made = PointData([Sample(x, f, x, f, np.zeros(0, "f4"))], layout)
    folder = tempfile.TemporaryDirectory()
    models.save(models.PointModel.for_data(made, "gno"), folder.name)
    return folder


def damaged_model(trial):
    """Bytes of a model that are others, or a value of its description that is something else."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model"
        shutil.copytree(model().name, place)
        path = place / trial.pick("model.json", "model.json", "model.safetensors")
        if path.suffix == ".json" and trial.chance(0.7):
            text = json.loads(path.read_text())
            part = text
            while isinstance(part, dict) and part:
                within, key = part, trial.pick(*part)
                part = part[key]
            within[key] = trial.pick(
                None,
                True,
                -1,
                0,
                1.5,
                10**9,
                10**400,
                1e400,
                "x",
                [],
                {},
                [[]],
                [None],
                [1, 2],
                {"a": 1},
            )
            path.write_text(json.dumps(text))
        else:
            path.write_bytes(spoiled(trial, path.read_bytes()))
        found = trial.attempt("load", gg.load, place, names=["model"])
        if isinstance(found, Exception):
            trial.expect(isinstance(found, ValueError), f"{type(found).__name__} is undocumented")
            trial.expect(str(found).isprintable(), "a message of more than one line of text")


SUBJECTS = {
    f"file{suffix}": damaged(suffix) for suffix, (_, needs) in FORMATS.items() if find_spec(needs)
} | ({"model": damaged_model} if find_spec("torch") else {})
