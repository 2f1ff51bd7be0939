# SPDX-License-Identifier: MIT
"""Arrays of an .npz file, which may be damaged or malicious."""

import math
import os
import stat
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from gnograd.data.contents import FIELDS, SECONDS, Contents, DataError, in_seconds, numeric
from gnograd.data.readers.library import CLAIM, EXPANSION, Budget
from gnograd.data.stored import LARGE, mapped, room, temporary

Array = npt.NDArray[Any]

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

_OTHERS = {
    b"\x93NUMPY": "holds one array",
    b"MATLAB": "is a MATLAB file (which scipy.io.loadmat or h5py reads)",
    b"\x89HDF": "is an HDF5 file (which h5py reads)",
    b"\x80": "is a Python pickle",
}
"""Kinds of files by their first bytes."""
_PART = 1 << 20
_NEEDED = "needs an .npz file as numpy.savez writes it"


class NpzError(DataError):
    """Error about a file that cannot be used; the message says which one and why."""


class _LeftOut(Exception):
    """Reason why a member of a file is no array of numbers, beside which others may be used."""


def contents(path: Path) -> Contents:
    """All arrays of a file.

    Raises
    ------
    NpzError
    """
    unused: dict[str, str] = {}
    found = read(path, unused=unused)
    return _numbers(path, "NumPy .npz", found, unused)


def _numbers(
    path: Path, kind: str, found: Mapping[str, Array], left_out: Mapping[str, str] | None = None
) -> Contents:
    """Contents with the arrays that are numbers, or dates."""
    arrays = {name: in_seconds(array) for name, array in found.items()}
    unused = {name: why for name, array in arrays.items() if (why := numeric(array))}
    unused |= left_out or {}
    units = {name: SECONDS for name, array in found.items() if array.dtype.kind == "M"}
    arrays = {name: array for name, array in arrays.items() if name not in unused}
    return Contents(path, kind, arrays, unused, units=units)


def one_array(path: Path) -> Contents:
    """The array of a file ``.npy``, under the name of the file without its suffix.

    Raises
    ------
    NpzError
    """
    try:
        with open(path, "rb", opener=_open_regular) as file:
            size = os.fstat(file.fileno()).st_size
            large = size >= LARGE
            array = _mapped_array(file, 0, size, path) if large else _read_array(file, size)
    except (NpzError, _LeftOut) as error:
        raise NpzError(f"{path}: cannot be read ({error})") from error
    except Exception as error:
        raise NpzError(f"{path}: cannot be read ({_reason(error)})") from error
    return _numbers(path, "NumPy .npy", {path.stem: array})


def read(
    path: Path, names: Iterable[str] | None = None, unused: dict[str, str] | None = None
) -> dict[str, Array]:
    """Read some arrays of a file, or all.

    Nothing in the file is trusted: it is not unpickled, and memory is limited by the size of the
    file.

    Parameters
    ----------
    path : Path
    names : iterable of str, optional
    unused : dict, optional
        Gets what is left out of all, with the reason: Python objects, and members that are no
        arrays. Without it they are errors.

    Raises
    ------
    NpzError
    """
    try:
        with open(path, "rb", opener=_open_regular) as file:
            start = file.read(8)
            for signature, kind in _OTHERS.items():
                if start.startswith(signature):
                    raise NpzError(f"{kind}, {_NEEDED}")
            with zipfile.ZipFile(file) as archive:
                if any(name.endswith("/data.pkl") for name in archive.namelist()):
                    raise NpzError(f"is a PyTorch file, {_NEEDED}")
                size = os.fstat(file.fileno()).st_size
                budget = Budget(size)
                if names is None:
                    members = archive.namelist()
                    if unused is not None:
                        others = [m for m in members if not m.endswith(".npy")]
                        members = [m for m in members if m.endswith(".npy")]
                        unused |= {
                            m: "it is no array of NumPy"
                            for m in others
                            if f"{m}.npy" not in members
                        }
                    names = [m.removesuffix(".npy") for m in members]
                found = {}
                for name in names:
                    try:
                        found[name] = _array(archive, name, size, budget)
                    except _LeftOut as error:
                        if unused is None:
                            raise NpzError(f"array '{name}' cannot be used ({error})") from error
                        unused[name] = str(error)
                return found
    except NpzError as error:
        raise NpzError(f"{path}: {error}") from error
    except zipfile.BadZipFile as error:
        raise NpzError(f"{path}: cannot be read (not an .npz file, or damaged)") from error
    except Exception as error:
        raise NpzError(f"{path}: cannot be read ({_reason(error)})") from error


def _open_regular(path: str, flags: int) -> int:
    file = os.open(path, flags | os.O_NONBLOCK)  # a pipe is not waited for
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NpzError("is not a file")
    return file


def _array(archive: zipfile.ZipFile, name: str, file_size: int, budget: Budget) -> Array:
    try:
        member = archive.getinfo(f"{name}.npy")
    except KeyError:
        there = [other.removesuffix(".npy") for other in archive.namelist()]
        listed = ", ".join(there[:10]) + (", ..." if len(there) > 10 else "")
        raise NpzError(f"array '{name}' is missing (the file has: {listed or 'none'})") from None
    try:
        return _checked(archive, member, file_size, budget)
    except _LeftOut:
        raise
    except DataError as error:
        raise NpzError(f"array '{name}' cannot be read ({error})") from error
    # NumPy, zipfile and their dependencies raise almost anything on invalid bytes.
    except Exception as error:
        raise NpzError(f"array '{name}' cannot be read ({_reason(error)})") from error


def _checked(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, file_size: int, budget: Budget
) -> Array:
    if member.flag_bits & 1:
        raise NpzError("it is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NpzError("it is compressed by a method that NumPy does not use")
    if member.file_size > EXPANSION * min(member.compress_size, file_size):
        raise NpzError("damaged")
    if not budget.take(member.file_size):  # members may share their bytes
        raise NpzError(CLAIM)
    if member.file_size < LARGE:
        with archive.open(member) as stream:
            return _read_array(stream, member.file_size)
    file: Any = archive.fp
    with archive.open(member) as stream, temporary() as copy:
        # reading a member to its end also compares its checksum
        kept = member.compress_type != zipfile.ZIP_STORED
        while part := stream.read(_PART):
            if kept:
                with room():
                    copy.write(part)
        if kept:
            with room():
                copy.flush()
            return _mapped_array(copy, 0, member.file_size, None)
    # name and further fields, whose lengths are here, are behind a header of 30 bytes
    file.seek(member.header_offset + 26)
    lengths = int.from_bytes(file.read(2), "little"), int.from_bytes(file.read(2), "little")
    at = member.header_offset + 30 + sum(lengths)
    return _mapped_array(file, at, member.file_size, archive.filename)


def _header(stream: IO[bytes], n_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order of axes and dtype of an array in a stream of so many bytes."""
    start = stream.tell()
    version = np.lib.format.read_magic(stream)
    if version == (3, 0):  # which only fields with names beyond ASCII need
        raise _LeftOut(FIELDS)
    shape, reverse, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise _LeftOut("it holds Python objects, which are never loaded")
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or stream.tell() - start + size != n_bytes:
        raise NpzError("its size is not that of its header")
    return shape, reverse, dtype


def _read_array(stream: IO[bytes], n_bytes: int) -> Array:
    """Array of a stream of so many bytes, in the form of NumPy."""
    _header(stream, n_bytes)
    stream.seek(0)
    array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _mapped_array(file: IO[bytes], at: int, n_bytes: int, path: object) -> Array:
    """Array in a file, of which only the parts in use are in memory."""
    file.seek(at)
    shape, reverse, dtype = _header(file, n_bytes)
    array = mapped(file.fileno(), file.tell(), dtype, shape[::-1] if reverse else shape, path)
    return array.T if reverse else array


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it is larger than memory" if isinstance(error, MemoryError) else "damaged"
