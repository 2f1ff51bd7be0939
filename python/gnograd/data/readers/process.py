# SPDX-License-Identifier: MIT
"""Reading of formats with parsers of other projects in a separate process.

Parsers of HDF5, MATLAB, meshes and zarr are not made for malicious files: one damaged byte may
crash the process in which they run. So they run in a process that only reads, with limits of memory
and time that follow from the size of the file. It is started with the first such file (which takes
as long as starting Python and importing NumPy), ends with this process, and forks for each file.
Arrays come back through shared memory.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError
from gnograd.data.readers.library import size_of
from gnograd.data.readers.worker import ENDED, FILE, seconds
from gnograd.data.stored import mapped

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
"""Paths of these modules: editable installations have other ones."""

_ALONE = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")} | {
    "MALLOC_ARENA_MAX": "2"
}
"""Environment in which libraries start without threads, for which they would reserve memory."""


def contents(reader: str, what: str, path: Path) -> Contents:
    """Arrays of a file, by a module of `gnograd.data.readers` in another process.

    Parameters
    ----------
    reader : str
        Name of the module.
    what : str
        Name of the format, for messages.
    path : pathlib.Path

    Raises
    ------
    DataError
        The file is invalid, or the parser crashes or exceeds the time or memory for its size.
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
    """Receive file descriptors, and the status of the process that has sent them."""
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
    """Arrays and facts from the received files."""
    at, length = np.frombuffer(os.pread(files[-1], 16, 0), np.int64).tolist()
    found = json.loads(os.pread(files[-1], length, at))
    if "error" in found:
        raise DataError(found["error"])
    large = iter(files[:-1])
    groups: dict[str, Any] = {}
    for group, name, dtype, shape, reverse, place in found["described"]:
        size = (np.dtype(dtype), shape[::-1] if reverse else shape)
        array = mapped(next(large), 0, *size) if place is None else _part(files[-1], place, *size)
        groups.setdefault(group, {})[name] = array.T if reverse else array
    groups.setdefault("arrays", {})
    return Contents(path, **groups, **found["facts"])


def _part(file: int, at: int, dtype: np.dtype[Any], shape: list[int]) -> NDArray[Any]:
    array = np.empty(shape, dtype)
    rest = array.reshape(-1).view(np.uint8).data
    while rest:
        n = os.preadv(file, [rest], at)
        if n == 0:
            raise OSError("too short an answer")
        rest, at = rest[n:], at + n
    return array


class _Server:
    """The reading process, started on first use; every process has its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def ask(self, answers: socket.socket) -> None:
        """Send a request, whose socket is `answers`."""
        with self._lock:
            for again in (True, False):
                try:
                    socket.send_fds(self._started(), [b"?"], [answers.fileno()])
                    return
                except BrokenPipeError:  # the process has been ended
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
                    start_new_session=True,  # Ctrl-C must not reach it
                )
            self._control = ours
        return self._control

    def stop(self) -> None:
        """End the process."""
        if self._control is not None and self._process is not None:
            self._control.close()
            self._process.kill()
            self._process.wait()
            self._control = self._process = None

    def forget(self) -> None:
        """After a fork, leave it to the parent process."""
        if self._control is not None and self._process is not None:
            self._control.close()
            self._process.returncode = 0
        self.__init__()  # type: ignore[misc]


_server = _Server()
atexit.register(_server.stop)
os.register_at_fork(after_in_child=_server.forget)
