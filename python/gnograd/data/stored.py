# SPDX-License-Identifier: MIT
"""Arrays in files, of which only the parts in use are in memory."""

from __future__ import annotations

import errno
import math
import mmap
import os
import resource
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import DataError
from gnograd.notation.text import printable

__all__ = [
    "LARGE",
    "LIMIT",
    "Columns",
    "Spool",
    "blocks",
    "first_not_finite",
    "in_order",
    "intact",
    "mapped",
    "room",
    "slabs",
    "spooled",
    "temporary",
    "used",
]

Array = NDArray[Any]

LARGE = 1 << 26
"""Bytes of an array from which on it stays in a file, and is mapped."""
LIMIT = 1 << 27
"""Bytes of data from which on samples are made when they are asked for."""
_BLOCK = 1 << 24
"""Bytes that are looked at at once."""
_PAGES = 1 << 16
"""Bytes that the system maps for a single one."""

_maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
_counted = 0


class _Map(mmap.mmap):
    """Mapped part of a file, and a descriptor by which changes of the file are noticed."""

    file: int | None = None
    state: tuple[int, int] | None = None
    name = ""

    def watch(self, file: int, name: str) -> None:
        """Remember the state of a file, which `check` compares."""
        self.file, self.name = os.dup(file), name
        weakref.finalize(self, os.close, self.file)
        self.state = self._now()

    def _now(self) -> tuple[int, int]:
        now = os.fstat(self.file)  # type: ignore[arg-type]
        return now.st_size, now.st_mtime_ns

    def check(self) -> None:
        """Raise DataError for a file that is not as it was."""
        if self.state is not None and self._now() != self.state:
            size, _ = self._now()
            was = f"{self.state[0]} bytes" if size != self.state[0] else "other bytes"
            raise DataError(
                f"{self.name}: was written to while it is in use (it had {was}); write a new file "
                "and rename it, which a run does not notice"
            )


def mapped(
    file: int, at: int, dtype: np.dtype[Any], shape: Sequence[int], path: object = None
) -> Array:
    """Array, in C order, in a file.

    Parameters
    ----------
    file : int
        Descriptor, which may be closed afterwards.
    at : int
        Place of its first byte.
    dtype : numpy.dtype
    shape : sequence of int
    path : path-like, optional
        Name of a file that others may write to, for messages of `intact`.

    Returns
    -------
    ndarray
        Read-only. It is not in memory but for what is used of it (`used`).
    """
    _more_files()
    skip = at % mmap.ALLOCATIONGRANULARITY
    length = skip + math.prod(shape) * dtype.itemsize
    memory = _Map(file, length, access=mmap.ACCESS_READ, offset=at - skip)
    if path is not None:
        memory.watch(file, printable(str(path)))
    _maps.add(memory)
    return np.ndarray(tuple(shape), dtype, memory, skip)


def intact(*arrays: Array) -> None:
    """Raise DataError for an array in a file that has been written to since it was mapped.

    To be called before a part of it is read: the numbers are others, and those of a file that has
    become shorter end the process (SIGBUS). A file that another one has replaced, by renaming, is
    still there for who has mapped it.
    """
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, _Map):
            base.check()


def _more_files() -> None:
    """Raise the limit of open files where mapped ones, each of which is two, come near it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 4 * len(_maps) > soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * soft, hard), hard))


def used(n_bytes: int) -> None:
    """Count bytes of mapped arrays that have been read, and drop them from memory when many."""
    global _counted
    _counted += max(n_bytes, _PAGES)
    if _counted >= LARGE and hasattr(mmap, "MADV_DONTNEED"):
        _counted = 0
        for memory in _maps:
            memory.madvise(mmap.MADV_DONTNEED)


def temporary() -> IO[bytes]:
    """Open a file without a name, in the folder for temporary files (``TMPDIR``)."""
    return tempfile.TemporaryFile(prefix="gnograd")


@contextmanager
def room() -> Iterator[None]:
    """Raise DataError, in place of an OSError, where a temporary file finds no room."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise DataError(
            f"the folder for temporary files, {tempfile.gettempdir()}, is full; TMPDIR names "
            "another one"
        ) from error


def spooled(shape: Sequence[int], dtype: np.dtype[Any], parts: Iterable[Array]) -> Array:
    """Array whose parts along its first axes come one after the other, in a temporary file."""
    with temporary() as file:
        for part in parts:
            with room():
                file.write(np.ascontiguousarray(part, dtype).reshape(-1).view(np.uint8).data)
        with room():
            file.flush()
        return mapped(file.fileno(), 0, dtype, shape)


def in_order(array: Array) -> Array:
    """Array in C order: itself, or a copy in a temporary file.

    A sample then is in one place; of samples along a fast axis each would read the whole file.
    """
    if array.flags.c_contiguous or not array.size:
        return array
    axis = int(np.argmax(array.strides))
    step = max(1, LARGE // max(1, array.nbytes // array.shape[axis]))
    where = [
        (slice(None),) * axis + (slice(k, k + step),) for k in range(0, array.shape[axis], step)
    ]
    if axis == 0:

        def parts() -> Iterator[Array]:
            for rows in where:
                intact(array)
                yield array[rows]
                used(array[rows].nbytes)

        return spooled(array.shape, array.dtype, parts())
    rows = max(1, LARGE // max(_PAGES >> 4, array[0].nbytes))
    with temporary() as file:
        with room():  # a write to a mapped file that finds none would end the process (SIGBUS)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, array.nbytes)
            else:
                file.truncate(array.nbytes)
        memory = mmap.mmap(file.fileno(), array.nbytes)
        _maps.add(memory)  # what is written stays in the file
        out = np.ndarray(array.shape, array.dtype, memory)
        for part in where:
            intact(array)
            source, target = array[part], out[part]
            for k in range(0, len(array), rows):
                target[k : k + rows] = source[k : k + rows]
                used(array[0].nbytes * rows)
        return mapped(file.fileno(), 0, array.dtype, array.shape)


def slabs(
    shape: Sequence[int], itemsize: int, chunks: Sequence[int] | None = None
) -> Iterator[tuple[slice, ...]]:
    """Parts of an array, in its order, that are a few megabytes large, and whole chunks."""
    axis = next((k for k, n in enumerate(shape) if n > 1), 0)
    row = math.prod(shape[axis + 1 :]) * itemsize
    chunk = chunks[axis] if chunks else 1
    step = max(1, _BLOCK // max(1, row * chunk)) * chunk
    for start in range(0, shape[axis], step):
        yield (slice(None),) * axis + (slice(start, start + step),)


def blocks(array: Array, start: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Parts of an array and the index of the first element of each, some megabytes at a time.

    What is mapped is dropped from memory after its turn.
    """
    if array.nbytes <= _BLOCK or not array.ndim:
        intact(array)
        yield (*start, *(0,) * array.ndim), array
        used(array.nbytes)
    elif len(array) == 1 or array[0].nbytes > _BLOCK:
        for k, part in enumerate(array):
            yield from blocks(part, (*start, k))
    else:
        step = max(1, _BLOCK // array[0].nbytes)
        for k in range(0, len(array), step):
            part = array[k : k + step]
            intact(part)
            yield (*start, k, *(0,) * (array.ndim - 1)), part
            used(part.nbytes)


def first_not_finite(array: Array, dtype: Any = np.float32) -> tuple[int, ...] | None:
    """Index of a number that is not finite in a type, if there is one: the first in memory."""
    turned = array.flags.f_contiguous and not array.flags.c_contiguous
    for start, part in blocks(array.T if turned else array):
        with np.errstate(over="ignore"):
            bad = np.argwhere(~np.isfinite(part.astype(dtype, copy=False)))
        if len(bad):
            whole = [0] * (len(start) - bad.shape[1]) + bad[0].tolist()
            found = tuple(int(a + b) for a, b in zip(start, whole, strict=True))
            return found[::-1] if turned else found
    return None


class Columns:
    """Fields of a trajectory side by side, float32 (times, n, channels), read time by time.

    Parameters
    ----------
    parts : sequence of ndarray, (times, n, channels) or (n, channels)
        Those that change in time, and those that do not.
    order : ndarray, int (times,)
        Numbers of the times in the arrays.
    """

    ndim = 3
    dtype = np.dtype(np.float32)

    def __init__(self, parts: Sequence[Array], order: Array) -> None:
        self.parts, self.order = parts, order

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of times, points and channels."""
        return len(self.order), self.parts[0].shape[-2], sum(p.shape[-1] for p in self.parts)

    @property
    def nbytes(self) -> int:
        """Number of bytes of all times."""
        return 4 * math.prod(self.shape)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, time: Any) -> Any:
        """Fields at a time (n, channels), `Columns` of a slice, or what an array would have."""
        if isinstance(time, slice):
            return Columns(self.parts, self.order[time])
        if not isinstance(time, int | np.integer):
            return np.asarray(self)[time]
        where = self.order[time]
        intact(*self.parts)
        found = np.concatenate(
            [np.asarray(p[where] if p.ndim == 3 else p, np.float32) for p in self.parts], axis=-1
        )
        used(found.nbytes)
        return found

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.stack([self[t] for t in range(len(self))]).astype(dtype or np.float32)

    def blocks(self, overlap: int = 0) -> Iterator[Array]:
        """Fields at some times after the other; each block begins with the last of the one before.

        Parameters
        ----------
        overlap : int
            Number of times that a block repeats.
        """
        size = 4 * math.prod(self.shape[1:])
        step = max(1, _BLOCK // max(1, size))
        for start in range(0, len(self) - overlap, step):
            yield np.asarray(self[start : start + step + overlap])


class Spool:
    """Temporary file that arrays are written to, and read from one by one."""

    def __init__(self) -> None:
        self._file = temporary()
        self._end = 0

    def put(self, array: Array) -> Callable[[], Array]:
        """Write an array, and return a function that reads it."""
        at, shape, dtype = self._end, array.shape, array.dtype
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for _, part in blocks(flat):
            with room():
                self._file.write(part.data)
        with room():
            self._file.flush()
        self._end += array.nbytes

        def get() -> Array:
            found = np.empty(shape, dtype)
            rest, place = found.reshape(-1).view(np.uint8).data, at
            while rest:
                n = os.preadv(self._file.fileno(), [rest], place)
                if n == 0:
                    raise OSError("a temporary file has become shorter")
                rest, place = rest[n:], place + n
            return found

        return get
