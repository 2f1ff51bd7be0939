# SPDX-License-Identifier: MIT
"""Files that are either complete or absent, in directories locked by one process."""

import errno
import fcntl
import os
import re
import signal
import socket
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gnograd.cli.errors import JobError
from gnograd.weights import replaced

LOCK = ".gnograd.lock"

_PART = re.compile(r"\..+\.[0-9a-f]{16}\.gnograd-part")
"""Pattern of the names of unfinished files of `gnograd.weights.replaced`."""

_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks, such as some of clusters."""

_ATTEMPTS = 100


class FileError(JobError):
    """A file or directory that cannot be written."""


class BusyError(FileError):
    """A directory that another process has locked."""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Make a directory and lock it for this process.

    Unfinished files of killed processes are removed. The system frees the lock of a process however
    that ends; the lock file may stay, which does no harm. A directory that was made for the block
    and is still empty at its end is removed.

    Raises
    ------
    FileError
        The directory cannot be made or written.
    BusyError
        Another process has locked it.
    """
    absent = [d for d in (directory, *directory.parents) if not os.path.lexists(d)]
    with ExitStack() as stack:
        stack.callback(_remove_empty, absent)
        with writing(directory):
            lock = _lock(directory)
            if lock is not None:
                stack.callback(_unlock, directory, lock)
                os.ftruncate(lock, 0)
                os.write(lock, f"{os.getpid()} {socket.gethostname()}\n".encode())
                for name in filter(_PART.fullmatch, os.listdir(directory)):
                    (directory / name).unlink(missing_ok=True)
        yield


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block, which writes to a path, into a `FileError`."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({_reason(error)})") from error


@contextmanager
def atomic(path: Path) -> Iterator[BinaryIO]:
    """Make folders, and open a stream with `gnograd.weights.replaced`.

    Raises
    ------
    FileError
        The file cannot be written: full disk, no permission, or similar.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as stream:
            yield stream


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back an interrupt (Ctrl-C) to the end of the block: files that belong together stay so.

    Threads other than the main one get no interrupts, and a handler that Python did not set cannot
    be put back: nothing changes there.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is None:
        yield
        return
    waiting: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            signal.raise_signal(signal.SIGINT)


def cache_directory() -> Path | None:
    """Directory of generated data: ``$GNOGRAD_CACHE``, else the user's cache directory."""
    if chosen := os.environ.get("GNOGRAD_CACHE"):
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnograd"
    except RuntimeError:  # a user without a home
        return None


def _lock(directory: Path) -> int | None:
    """Make and lock a directory; return the open lock, or None if the file system has no locks."""
    for _ in range(_ATTEMPTS):
        directory.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # its owner has just removed lock or directory
            return _take(directory)
    raise FileError(f"{directory}: cannot be locked")


def _take(directory: Path) -> int | None:
    path = directory / LOCK
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    with ExitStack() as stack:
        stack.callback(os.close, lock)
        opened = os.fstat(lock)
        if not stat.S_ISREG(opened.st_mode) or opened.st_nlink > 1:
            raise FileError(f"{path}: is not a lock that gnograd has made")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = re.match(rb"(\d{1,10}) ([\w.-]{1,255})\n", os.read(lock, 300))
            who = f" (process {holder[1].decode()} on {holder[2].decode()})" if holder else ""
            raise BusyError(f"{directory}: another run is at work there{who}") from error
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
            path.unlink()
            return None
        if not os.path.samestat(opened, path.lstat()):
            raise FileNotFoundError(errno.ENOENT, "removed after it was opened", str(path))
        stack.pop_all()
        return lock


def _unlock(directory: Path, lock: int) -> None:
    with suppress(OSError):
        (directory / LOCK).unlink()
    os.close(lock)


def _remove_empty(directories: Iterable[Path]) -> None:
    with suppress(OSError):
        for directory in directories:
            directory.rmdir()


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
