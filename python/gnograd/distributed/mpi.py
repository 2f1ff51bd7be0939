# SPDX-License-Identifier: MIT
"""Messages by MPI, through mpi4py."""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from gnograd.distributed.communicator import Communicator, Message, Pending
from gnograd.distributed.launchers import launched

__all__ = ["Mpi"]

_OURS = MPI.Comm.Create_keyval()
"""Attribute of a caller's communicator that keeps gnograd's duplicate, made only once."""

_LONGEST = 2**30
"""Largest message in bytes; longer ones are sent in pieces."""

_FORWARDED = 0.5
"""Seconds to wait until mpiexec has read the output of a process."""


class Mpi(Communicator):
    """Processes of an MPI communicator."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm.Dup()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        if self.size > 1:
            _end_all_after_errors()
            atexit.register(self._end_together)

    @classmethod
    def of(cls, comm: MPI.Intracomm | None) -> Mpi:
        """Communicator for one of MPI, COMM_WORLD if None; made once."""
        if comm is None:
            comm = MPI.COMM_WORLD
            _check_launcher(comm.Get_size())
        if comm == MPI.COMM_NULL:
            raise ValueError(
                "communicator: this process is not in it (COMM_NULL, as Split gives to a process "
                "without a colour)"
            )
        known: Any = comm.Get_attr(_OURS)
        if known is None:
            known = cls(comm)
            comm.Set_attr(_OURS, known)
        found: Mpi = known
        return found

    def _maximum(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.empty_like(values)
        self._comm.Allreduce(values, found, MPI.MAX)
        return found

    def _all_gather(self, values: NDArray[Any]) -> NDArray[Any]:
        every = np.empty((self.size, *values.shape), values.dtype)
        self._comm.Allgather(values, every)
        return every

    def _all_to_all(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.empty_like(values)
        self._comm.Alltoall(values, found)
        return found

    def start(self, sends: Sequence[Message], receives: Sequence[Message]) -> Pending:
        """Implement `Communicator.start`."""
        # receives first, so that messages find their memory
        requests = [
            post([piece, MPI.BYTE], rank)
            for post, messages in ((self._comm.Irecv, receives), (self._comm.Isend, sends))
            for rank, data in messages
            for piece in _pieces(data)
        ]
        return _Requests(requests)

    def abort(self) -> None:
        """Implement `Communicator.abort`."""
        self._comm.Abort(1)

    def _end_together(self) -> None:
        """Let no process wait for one that has ended, or called `sys.exit`."""
        if MPI.Is_finalized():
            return
        try:
            self.agree("the end of the program")
        except RuntimeError as error:
            print(error, file=sys.stderr)
            _wait_for_messages()
            self.abort()


class _Requests:
    def __init__(self, requests: list[MPI.Request]) -> None:
        self._requests = requests

    def wait(self) -> None:
        MPI.Request.Waitall(self._requests)


def _pieces(data: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    """A message in pieces whose lengths MPI 3 can count."""
    return [data[k : k + _LONGEST] for k in range(0, data.size, _LONGEST)]


def _check_launcher(size: int) -> None:
    """Raise an error if processes started together are all alone."""
    _, started, by_torch = launched()
    if size == 1 and started > 1 and not by_torch:
        library = MPI.Get_library_version().partition("\n")[0].partition(",")[0]
        raise RuntimeError(
            f"communicator: mpiexec started {started} processes, but mpi4py is with {library}, for "
            "which each of them is alone; start them with the mpiexec of that MPI"
        )


def _end_all_after_errors() -> None:
    """Make an uncaught exception end all processes instead of leaving them waiting."""
    before = sys.excepthook
    if getattr(before, "ends_all_processes", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        _wait_for_messages()
        if not MPI.Is_finalized():
            MPI.COMM_WORLD.Abort(1)

    hook.ends_all_processes = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def _wait_for_messages() -> None:
    """Wait until mpiexec has passed on the output: at an abort it drops unread text."""
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(_FORWARDED)
