# SPDX-License-Identifier: MIT
"""Process that reads files for another one: the other end of `gnograd.data.readers.process`.

It imports a format's library once, and then forks for every file, so that damage, and use of memory
and time, end with that file.

`serve` has no threads, so that forks of it are safe.
"""

import contextlib
import gc
import importlib
import json
import math
import os
import resource
import select
import signal
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, reason
from gnograd.data.readers import library
from gnograd.data.readers.library import CLAIM, SLACK, Budget, size_of
from gnograd.data.stored import LARGE, mapped, room, temporary

SECONDS, BYTES_A_SECOND = 20, 200_000
"""Processor time that any file may take, and the speed at which the slowest format is read."""

WAITING = 10
"""Wall-clock seconds for one of processor time, for slow disks and other programs."""

FILE, ENDED = b"f", b"e"
"""Messages that precede a file descriptor, and the status of a process."""

_GROUPS = ("arrays", "cells", "on_cells")
FACTS = ("kind", "unused", "flat", "series", "notes", "units", "dimensions")
"""Attributes of contents that are no arrays."""

_HEADER = 16
"""Bytes for position and length of the description, at the start of the last file passed."""


def serve() -> None:
    """Read files until the requesting process ends; requests come from standard input."""
    control = socket.socket(fileno=0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies of the processes of files
    while True:
        with contextlib.suppress(InterruptedError):
            told, descriptors, *_ = socket.recv_fds(control, 1, 1)
            if not told:
                return
            with socket.socket(fileno=descriptors[0]) as answers:
                with answers.makefile("rb") as asked:
                    request = json.loads(asked.readline())
                with contextlib.suppress(Exception):  # the reader reports a missing module
                    for name in importlib.import_module(request["reader"]).LIBRARIES:
                        with contextlib.suppress(ImportError):
                            importlib.import_module(name)
                gc.freeze()  # forks do not traverse these objects
                if os.fork() == 0:
                    with contextlib.suppress(BaseException):
                        control.close()
                        _watch(answers, request)
                    os._exit(0)


def _watch(answers: socket.socket, request: dict[str, Any]) -> None:
    """Read a file in a process of its own, and report its status, or end it."""
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
    poll.register(answers, 0)  # 0: a hang-up is always reported
    at_hand = 0
    with contextlib.suppress(OSError):
        at_hand = _size(request)
    happened = dict(poll.poll(1000 * WAITING * seconds(at_hand)))
    if ended not in happened:
        os.kill(reader, signal.SIGKILL)
    _, status = os.waitpid(reader, 0)
    code = os.waitstatus_to_exitcode(status)
    told = -code if code < 0 else min(code, 1)  # a signal, or 0 or 1
    answers.sendall(ENDED + bytes([told if happened else signal.SIGXCPU]))


def seconds(size: int) -> int:
    """Processor time that a file of this size may take."""
    return SECONDS + size // BYTES_A_SECOND


def _size(request: dict[str, Any]) -> int:
    path = Path(request["folder"]) / request["path"]
    module = importlib.import_module(request["reader"])
    size: int = getattr(module, "size_of", size_of)(path)
    return size


def _answer(answers: socket.socket, request: dict[str, Any]) -> None:
    """Read a file, and send its contents or the reason why it cannot be read."""
    os.chdir(request["folder"])
    path = Path(request["path"])
    try:
        size = _size(request)
        _limit(size)
        library.assemble = _assemble
        found = importlib.import_module(request["reader"]).contents(path)
        every = [*found.arrays.values(), *found.cells.values(), *found.on_cells.values()]
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
    """Limit memory and time of this process for a file of this size."""
    memory = 2 * Budget(size).whole + 4 * SLACK  # parsers hold data twice, and text
    memory = min(memory, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError):  # to be ended first when memory runs out
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
    for group in _GROUPS:
        for name, array in getattr(found, group).items():
            reverse = array.flags.f_contiguous and not array.flags.c_contiguous
            about = [group, name, array.dtype.str, array.shape, reverse]
            if array.nbytes >= LARGE:
                own = _shared.get(array.__array_interface__["data"][0])
                if own is None:
                    own = _file()
                    with room():
                        _write(own, array.T if reverse else array, 0)
                _send(answers, own)
                os.close(own)
                described.append([*about, None])
            else:
                described.append([*about, at])
                at += _write(memory, array.T if reverse else array, at)
    facts = {name: getattr(found, name) for name in FACTS}
    _describe(answers, memory, at, {"facts": facts, "described": described})


_shared: dict[int, int] = {}
"""Files that have the numbers of arrays, by the addresses of these."""


def _assemble(
    shape: Sequence[int], dtype: np.dtype[Any], parts: Iterable[NDArray[Any]]
) -> NDArray[Any]:
    """Array in a temporary file, whose descriptor is passed."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return library.in_memory(shape, dtype, parts)
    own, at = _file(), 0
    for part in parts:
        with room():
            at += _write(own, part.astype(dtype, copy=False), at)
    with contextlib.suppress(OSError, ValueError):  # mapping it takes no memory
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            most = soft + size if hard == resource.RLIM_INFINITY else min(soft + size, hard)
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    array = mapped(own, 0, dtype, shape)
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
    """Open a file without a name; on Linux, in memory."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("gnograd")
    return _file()


def _file() -> int:
    """Open a temporary file on disk, for what may not fit in memory."""
    with temporary() as file:
        return os.dup(file.fileno())


def _write(descriptor: int, array: NDArray[Any], at: int) -> int:
    """Write an array, and return its number of bytes."""
    for part in _parts(np.ascontiguousarray(array).reshape(-1).view(np.uint8)):
        at_once = part.data
        while at_once:
            n = os.pwrite(descriptor, at_once, at)
            at_once, at = at_once[n:], at + n
    return array.nbytes


def _parts(flat: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    for start in range(0, flat.size, LARGE):
        yield flat[start : start + LARGE]
