# SPDX-License-Identifier: MIT
"""Formats whose parsers are those of other projects, read in a process of their own.

Parsers of HDF5, MATLAB, meshes and zarr are not made for files that somebody else has made up: one
damaged byte may end the process in which they run. Here this is one that only reads, with limits of
memory and time that follow from the size of the file. It is started with the first such file
(which takes as long as an interpreter needs that imports NumPy), ends with this process, and
makes a copy of itself for each file. Arrays come back through memory.
"""

import atexit
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError
from gnograd.data.readers.library import size_of
from gnograd.data.readers.worker import ENDED, FILE, seconds

_START = """
import json, sys, types
sys.path[:], where = json.loads(sys.argv[1])
for name, folders in where.items():  # readers need nothing of what importing these would load
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = folders
from gnograd.data.readers.worker import serve
serve()
"""

_HERE = Path(__file__).resolve().parent
_PACKAGES = {"gnograd": [str(_HERE.parents[1])], "gnograd.data": [str(_HERE.parent)]}
"""Places of these as files: editable installations name others."""

_ALONE = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")} | {
    "MALLOC_ARENA_MAX": "2"
}
"""Variables without which libraries make threads, and reserve memory for those, as they start."""

_MOST_MAPPED = 256
"""Arrays that may be mapped at a time: each takes a descriptor, of which there are some 1,000."""

_mapped: "weakref.WeakSet[mmap.mmap]" = weakref.WeakSet()


def contents(reader: str, what: str, path: Path) -> Contents:
    """Arrays of a file, by a module of `gnograd.data.readers` in another process.

    Parameters
    ----------
    reader : str
        Name of the module.
    what : str
        The format, for people.
    path : pathlib.Path

    Raises
    ------
    DataError
        Also where the parser crashes, or takes more time or memory than a file of this size may.
    """
    ours, theirs = socket.socketpair()
    files: list[int] = []
    try:
        with ours:
            with theirs:
                request = {
                    "reader": f"gnograd.data.readers.{reader}",
                    "path": str(path),
                    "folder": os.getcwd(),
                }
                ours.sendall(json.dumps(request).encode() + b"\n")
                _server.ask(theirs)
            code = _collect(ours, files)
        if code:
            raise DataError(f"{path}: cannot be read as {what} ({_ended(code, path)})")
        return _contents(path, files)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read as {what} (its reader: {error.strerror or error})"
        ) from error
    finally:
        for descriptor in files:
            os.close(descriptor)


def _collect(answers: socket.socket, files: list[int]) -> int:
    """Descriptors that come, and how the process ended that has sent them."""
    while True:
        told, descriptors, *_ = socket.recv_fds(answers, 1, 1)
        files += descriptors
        if told == ENDED:
            return (answers.recv(1) or b"\1")[0]
        if told != FILE or not descriptors:
            raise OSError("the process that reads files has ended")


def _ended(code: int, path: Path) -> str:
    if code == signal.SIGXCPU:
        return f"not done after {seconds(size_of(path))} s; damaged, or made to take long"
    if code == signal.SIGKILL:
        return "it needs more memory than there is"
    name = signal.Signals(code).name if code in set(signal.Signals) and code > 1 else "an error"
    return f"its parser ends with {name}: damaged, or not of this format"


def _contents(path: Path, files: list[int]) -> Contents:
    """Arrays and facts that have been handed over."""
    at, length = np.frombuffer(os.pread(files[-1], 16, 0), np.int64).tolist()
    found = json.loads(os.pread(files[-1], length, at))
    if "error" in found:
        raise DataError(found["error"])
    large = iter(files[:-1])
    groups: dict[str, dict[str, NDArray[Any]]] = {"arrays": {}, "cells": {}}
    for group, name, dtype, shape, reverse, place in found["described"]:
        size = (np.dtype(dtype), shape[::-1] if reverse else shape)
        array = _whole(next(large), *size) if place is None else _part(files[-1], place, *size)
        groups[group][name] = array.T if reverse else array
    return Contents(
        path, found["kind"], groups["arrays"], found["unused"], groups["cells"], found["flat"]
    )


def _part(file: int, at: int, dtype: np.dtype[Any], shape: list[int]) -> NDArray[Any]:
    array = np.empty(shape, dtype)
    rest = array.reshape(-1).view(np.uint8).data
    while rest:
        n = os.preadv(file, [rest], at)
        if n == 0:
            raise OSError("too short an answer")
        rest, at = rest[n:], at + n
    return array


def _whole(file: int, dtype: np.dtype[Any], shape: list[int]) -> NDArray[Any]:
    """An array that has a file to itself: memory of its own that is not copied."""
    if len(_mapped) >= _MOST_MAPPED:
        return _part(file, 0, dtype, shape)
    memory = mmap.mmap(file, 0, access=mmap.ACCESS_COPY)
    _mapped.add(memory)
    return np.frombuffer(memory, dtype).reshape(shape)


class _Server:
    """The process that reads, started when it is first asked; one for each of ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def ask(self, answers: socket.socket) -> None:
        """Have it read what `answers` asks for."""
        with self._lock:
            for again in (True, False):
                try:
                    socket.send_fds(self._started(), [b"?"], [answers.fileno()])
                    return
                except BrokenPipeError:  # somebody has ended it
                    self.stop()
                    if not again:
                        raise

    def _started(self) -> socket.socket:
        if self._control is None:
            if not sys.executable or getattr(sys, "frozen", False):
                raise OSError("needs the program Python, which sys.executable does not name")
            where = json.dumps([[str(place) for place in sys.path], _PACKAGES])
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _START, where],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **_ALONE},
                    start_new_session=True,  # keys of the terminal are for us alone
                )
            self._control = ours
        return self._control

    def stop(self) -> None:
        """End it."""
        if self._control is not None and self._process is not None:
            self._control.close()
            self._process.kill()
            self._process.wait()
            self._control = self._process = None

    def forget(self) -> None:
        """Leave it to the process that this one is a copy of."""
        if self._control is not None and self._process is not None:
            self._control.close()
            self._process.returncode = 0
        self.__init__()  # type: ignore[misc]


_server = _Server()
atexit.register(_server.stop)
os.register_at_fork(after_in_child=_server.forget)
