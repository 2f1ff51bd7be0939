# SPDX-License-Identifier: MIT
"""Arrays of a zarr store, a folder, by their paths: ``group/array``."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import SECONDS, Contents, DataError, in_seconds, numeric, reason
from gnograd.data.readers import library as memory
from gnograd.data.readers.library import CLAIM, Budget, library, size_of
from gnograd.data.readers.packing import Packing
from gnograd.data.stored import LARGE, slabs
from gnograd.data.units import unit_of

LIBRARIES = ("zarr",)

_CODECS = {
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta",
    "fixedscaleoffset", "fletcher32", "gzip", "lz4", "lzma", "packbits", "quantize",
    "sharding_indexed", "shuffle", "transpose", "zlib", "zstd",
}  # fmt: skip
"""Codecs that only convert numbers to bytes; pickle is not among them."""

_METADATA = ("zarr.json", ".zarray")


def contents(path: Path) -> Contents:
    """All arrays of a store.

    Raises
    ------
    DataError
        The store is invalid, or an array has a codec that is not known to be harmless.
    """
    zarr = library("zarr", path)
    arrays: dict[str, NDArray[Any]] = {}
    unused: dict[str, str] = {}
    notes: dict[str, str] = {}
    units: dict[str, str] = {}
    dimensions: dict[str, tuple[str, ...]] = {}
    try:
        if not any((path / name).exists() for name in (*_METADATA, ".zgroup")):
            raise DataError("it is a folder without zarr's metadata")
        _only_files(path)
        budget = Budget(size_of(path))
        for folder in sorted(_arrays(path)):
            name = folder.relative_to(path).as_posix()
            name = path.stem if name == "." else name
            if why := _refused(folder):
                unused[name] = why
                continue
            array = zarr.open_array(store=str(folder), mode="r")
            about = _attributes(folder, array)
            packing, why = None, numeric(in_seconds(np.empty(0, array.dtype)))
            try:
                packing = Packing.of(about, array.dtype)
            except DataError as error:
                why = why or str(error)
            if why or not budget.take(array.nbytes):
                unused[name] = why or CLAIM.replace("file", "store")
            else:
                arrays[name] = _read(array, packing)
                notes[name] = packing.note if packing else ""
                units[name] = SECONDS if array.dtype.kind == "M" else unit_of(about)
                dimensions[name] = _dimensions(folder, about)
    except DataError as error:
        raise DataError(f"{path}: cannot be read as zarr ({error})") from error
    except Exception as error:
        raise DataError(f"{path}: cannot be read as zarr ({reason(error)})") from error
    return Contents(path, "zarr", arrays, unused, notes=notes, units=units, dimensions=dimensions)


def _dimensions(folder: Path, about: dict[str, Any]) -> tuple[str, ...]:
    """Names of the axes of an array, of version 3 or as xarray has them; none if one has none."""
    names = about.get("_ARRAY_DIMENSIONS") or _metadata(folder).get("dimension_names") or ()
    fits = isinstance(names, list) and all(isinstance(n, str) and n for n in names)
    return tuple(names) if fits else ()


def _read(array: Any, packing: Packing | None) -> NDArray[Any]:
    if array.nbytes < LARGE or not array.shape:
        found = in_seconds(np.asarray(array[...]))
        return found if packing is None else packing.unpacked(found)
    where = slabs(array.shape, array.dtype.itemsize, array.chunks)
    parts = (in_seconds(np.asarray(array[part])) for part in where)
    kind = in_seconds(np.empty(0, array.dtype)).dtype
    return memory.unpacked(array.shape, kind, parts, packing)


def _attributes(folder: Path, array: Any) -> dict[str, Any]:
    """Attributes of an array; xarray has missing numbers of version 2 as those of absent chunks."""
    about = dict(array.attrs)
    fill = _metadata(folder).get("fill_value")
    if (folder / ".zarray").exists() and "_ARRAY_DIMENSIONS" in about and fill is not None:
        about.setdefault("_FillValue", np.asarray(array.fill_value))
    return about


def _only_files(path: Path) -> None:
    """Raise DataError for links, which may lead out of the store, and pipes, which may block."""
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            kind = (Path(folder) / name).lstat().st_mode
            if stat.S_ISLNK(kind):
                raise DataError(f"'{name}' is a link, which may lead out of the store")
            if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                raise DataError(f"'{name}' is not a file")


def _arrays(path: Path) -> set[Path]:
    """Folders of the arrays."""
    found = {file.parent for name in _METADATA for file in path.rglob(name)}
    return {folder for folder in found if _metadata(folder).get("node_type") != "group"}


def _metadata(folder: Path) -> dict[str, Any]:
    for name in _METADATA:
        if (folder / name).exists():
            found = json.loads((folder / name).read_text())
            if not isinstance(found, dict):
                raise DataError(f"'{name}' is no description of an array")
            return found
    return {}


def _refused(folder: Path) -> str | None:
    """Reason why an array is not read, from its description alone, or None."""
    about = _metadata(folder)
    kind = about.get("dtype", about.get("data_type"))
    if isinstance(kind, str) and ("O" in kind or "object" in kind):
        return "it holds objects, which are never loaded"
    for codec in sorted(_codecs(about)):
        if codec not in _CODECS:
            return f"its codec '{codec}' is not one of numbers"
    return None


def _codecs(about: dict[str, Any]) -> set[str]:
    """Names of all codecs in a description of version 2 or 3, nested ones included."""
    names: set[str] = set()
    waiting = [about.get("codecs"), about.get("filters"), about.get("compressor")]
    waiting += [about.get("storage_transformers")]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            name = item.get("id", item.get("name"))
            names.add(str(name).removeprefix("numcodecs."))
            inner = item.get("configuration", {})
            if isinstance(inner, dict):
                waiting += [inner.get("codecs"), inner.get("index_codecs")]
    return names
