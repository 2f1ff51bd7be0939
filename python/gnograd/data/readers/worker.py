# SPDX-License-Identifier: MIT
"""The other end of `gnograd.data.readers.process`: a process that reads files for another one.

It imports a format's library once, and then makes a process of its own for every file: what
that file does to it, in memory, time, or damage, ends with it.

One process a file needs little: `serve` has no threads, so that a copy of it (fork) is whole.
"""

import contextlib
import gc
import importlib
import json
import math
import mmap
import os
import resource
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, reason
from gnograd.data.readers import library
from gnograd.data.readers.library import CLAIM, SLACK, Budget, size_of

LARGE = 1 << 26
"""Bytes from which on an array is handed over in memory of its own, which is mapped, not copied."""

SECONDS, BYTES_A_SECOND = 20, 200_000
"""Time of a processor that any file may take, and how fast the slowest is read."""

WAITING = 10
"""Seconds of the clock for one of the processor: disks and other programs are slow, too."""

FILE, ENDED = b"f", b"e"
"""Bytes before a descriptor of a file, and before the status of a process."""

_HEADER = 16
"""Bytes of place and length of the description, at the start of the last file handed over."""


def serve() -> None:
    """Read files until nobody is there any more who asks; requests come from standard input."""
    control = socket.socket(fileno=0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes of files
    while True:
        with contextlib.suppress(InterruptedError):
            told, descriptors, *_ = socket.recv_fds(control, 1, 1)
            if not told:
                return
            with socket.socket(fileno=descriptors[0]) as answers:
                with answers.makefile("rb") as asked:
                    request = json.loads(asked.readline())
                with contextlib.suppress(Exception):  # the reader says what is missing
                    for name in importlib.import_module(request["reader"]).LIBRARIES:
                        with contextlib.suppress(ImportError):
                            importlib.import_module(name)
                gc.freeze()  # copies of this process do not look through all that is here
                if os.fork() == 0:
                    with contextlib.suppress(BaseException):
                        control.close()
                        _watch(answers, request)
                    os._exit(0)


def _watch(answers: socket.socket, request: dict[str, Any]) -> None:
    """Read a file in a process of its own; say how that ended, or end it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ended, open_while_reading = os.pipe()
    reader = os.fork()
    if reader == 0:
        with contextlib.suppress(BaseException):
            os.close(ended)
            _answer(answers, request)
            os._exit(0)
        os._exit(1)
    os.close(open_while_reading)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(answers, 0)  # that nobody waits for the answer any more is told unasked
    at_hand = 0
    with contextlib.suppress(OSError):
        at_hand = _size(request)
    happened = dict(poll.poll(1000 * WAITING * seconds(at_hand)))
    if ended not in happened:
        os.kill(reader, signal.SIGKILL)
    _, status = os.waitpid(reader, 0)
    code = os.waitstatus_to_exitcode(status)
    told = -code if code < 0 else min(code, 1)  # a signal, or success or not
    answers.sendall(ENDED + bytes([told if happened else signal.SIGXCPU]))


def seconds(size: int) -> int:
    """Time of a processor that a file of this size may take."""
    return SECONDS + size // BYTES_A_SECOND


def _size(request: dict[str, Any]) -> int:
    path = Path(request["folder"]) / request["path"]
    module = importlib.import_module(request["reader"])
    size: int = getattr(module, "size_of", size_of)(path)
    return size


def _answer(answers: socket.socket, request: dict[str, Any]) -> None:
    """Read a file, and hand over what it holds or why it cannot be read."""
    os.chdir(request["folder"])
    path = Path(request["path"])
    try:
        size = _size(request)
        _limit(size)
        library.allocate = _allocate
        found = importlib.import_module(request["reader"]).contents(path)
        every = [*found.arrays.values(), *found.cells.values()]
        if not Budget(size).take(sum(array.nbytes for array in every)):
            raise DataError(f"{path}: cannot be read as {found.kind} ({CLAIM})")
        _hand_over(answers, found)
    except (Exception, SystemExit) as error:
        text = str(error) if isinstance(error, DataError) else f"{path}: {_why(error)}"
        _describe(answers, _memory(), 0, {"error": text})


def _why(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "cannot be read (what is in it is too deep in each other)"
    return f"cannot be read ({reason(error)})"


def _limit(size: int) -> None:
    """Have the system end what takes more memory or time than a file of this size may."""
    memory = 2 * Budget(size).whole + 4 * SLACK  # parsers hold what they read twice, and text
    memory = min(memory, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError):  # where the system is short, this is what it ends first
        Path("/proc/self/oom_score_adj").write_text("1000")
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _lower(resource.RLIMIT_AS, pages * os.sysconf("SC_PAGE_SIZE") + memory)
    with contextlib.suppress(OSError, ValueError):
        _lower(resource.RLIMIT_CPU, seconds(size))
        _lower(resource.RLIMIT_CORE, 0)


def _lower(what: int, limit: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(what, (limit, hard))


def _hand_over(answers: socket.socket, found: Contents) -> None:
    memory, at = _memory(), _HEADER
    described = []
    for group, arrays in (("arrays", found.arrays), ("cells", found.cells)):
        for name, array in arrays.items():
            reverse = array.flags.f_contiguous and not array.flags.c_contiguous
            about = [group, name, array.dtype.str, array.shape, reverse]
            if array.nbytes >= LARGE:
                own = _shared.get(array.__array_interface__["data"][0])
                if own is None:
                    own = _memory()
                    _write(own, array.T if reverse else array, 0)
                _send(answers, own)
                os.close(own)
                described.append([*about, None])
            else:
                described.append([*about, at])
                at += _write(memory, array.T if reverse else array, at)
    others = {"kind": found.kind, "unused": dict(found.unused), "flat": found.flat}
    _describe(answers, memory, at, {**others, "described": described})


_shared: dict[int, int] = {}
"""Files that are the memory of arrays, by the places of these."""


def _allocate(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Memory of an array; that of large ones is a file, which is handed over as it is."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    own = _memory()
    os.ftruncate(own, size)
    array = np.frombuffer(mmap.mmap(own, size), dtype).reshape(shape)
    _shared[array.__array_interface__["data"][0]] = own
    return array


def _describe(answers: socket.socket, memory: int, at: int, what: dict[str, Any]) -> None:
    text = json.dumps(what).encode()
    at = max(at, _HEADER)
    for part, place in ((np.frombuffer(text, np.uint8), at), (np.array([at, len(text)]), 0)):
        _write(memory, part, place)
    _send(answers, memory)


def _send(answers: socket.socket, descriptor: int) -> None:
    socket.send_fds(answers, [FILE], [descriptor])


def _memory() -> int:
    """A file that has no name; on Linux, in memory."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("gnograd")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(descriptor: int, array: NDArray[Any], at: int) -> int:
    """Write an array, and return how many bytes that were."""
    for part in _parts(np.ascontiguousarray(array).reshape(-1).view(np.uint8)):
        at_once = part.data
        while at_once:
            n = os.pwrite(descriptor, at_once, at)
            at_once, at = at_once[n:], at + n
    return array.nbytes


def _parts(flat: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    for start in range(0, flat.size, LARGE):
        yield flat[start : start + LARGE]
