# SPDX-License-Identifier: MIT
"""Processes of a training: shares of the work, and communication."""

import atexit
import io
import os
import socket
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

import gnograd as gg
from gnograd.cli.config import Parallel
from gnograd.cli.errors import JobError
from gnograd.distributed.communicator import Alone, Communicator
from gnograd.distributed.launchers import Launch, launched

Array = npt.NDArray[Any]
T = TypeVar("T")


class LaunchError(JobError):
    """Error about processes that cannot connect."""

    common = True


class Processes:
    """The processes that share a training, of which this is one.

    Parameters
    ----------
    comm : gnograd.distributed.Communicator
    parallel : Parallel
        Work that the processes share.

    Attributes
    ----------
    threads : int
        Number of threads of this process, if processes share the processors of a machine; 0 leaves
        it to OpenMP.
    place : int
        Number of this process among those of its machine.
    """

    def __init__(self, comm: Communicator, parallel: Parallel) -> None:
        self.comm = comm
        self.parallel = parallel if comm.size > 1 else Parallel.NONE
        self.threads = self.place = 0
        if comm.size > 1:
            self._share_machine()

    @property
    def first(self) -> bool:
        """True if this process reads and writes files."""
        return self.comm.rank == 0

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.comm.size

    # ---- shares of the work ----

    def share(self, n: int) -> slice:
        """Samples of this process out of n: all, unless processes share samples."""
        if self.parallel is not Parallel.DATA:
            return slice(n)
        rank, size = self.comm.rank, self.comm.size
        return slice(n * rank // size, n * (rank + 1) // size)

    def sum(self, part: Any) -> Any:
        """Sum of the parts of all processes; the part itself if there is one process.

        Differentiable, like `gnograd.distributed.sum`: gradients are this process' part.
        """
        return part if self.size == 1 else gg.distributed.sum(self.comm, part)

    def measured(
        self,
        items: Sequence[T],
        measure: Callable[[T], Any],
        columns: int = 1,
        track: Callable[[Sequence[T]], Iterable[T]] = iter,
    ) -> Array:
        """Numbers of every item, (len(items), columns), for which processes share the items.

        Parameters
        ----------
        items : sequence
        measure : callable
            Function of an item that returns its numbers.
        columns : int
            Number of these numbers.
        track : callable
            Wraps the loop over items, for a progress bar.
        """
        values = np.zeros((len(items), columns))
        share = self.share(len(items))
        for row, item in zip(values[share], track(items[share]), strict=True):
            row[:] = measure(item)
        return values if self.parallel is not Parallel.DATA else self.comm.sum(values)

    # ---- communication ----

    def lost(self, error: Exception) -> bool:
        """True if an error is due to a message from or to a process that has ended."""
        return self.size > 1 and "gloo" in str(error)  # MPI ends all by itself

    @contextmanager
    def together(self) -> Iterator[None]:
        """Raise a `JobError` that one process has in the block on all, with its message."""
        failure = None
        try:
            yield
        except JobError as error:
            failure = error
        if self.size > 1:
            text = np.frombuffer(str(failure or "").encode(), np.uint8)
            texts = self.comm.swap([text] * self.size)
            first = next((t for t in texts if t.size), None)
            if failure is None and first is not None:
                failure = JobError(first.tobytes().decode())
        if failure is not None:
            failure.common = True
            raise failure

    def from_first(self, make: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
        """Send arrays that the first process makes or reads to all; raise its `JobError` on all."""
        arrays: dict[str, Array] = {}
        with self.together():
            if self.first:
                arrays = dict(make())
        if self.size == 1:
            return arrays
        stream = io.BytesIO()
        if self.first:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
        nothing, everything = np.empty(0, np.uint8), np.frombuffer(stream.getbuffer(), np.uint8)
        sent = [everything if rank else nothing for rank in range(self.size)]
        received = self.comm.swap(sent if self.first else [nothing] * self.size)[0]
        if self.first:
            return arrays
        with np.load(io.BytesIO(received.data), allow_pickle=False) as file:
            return dict(file)

    def _share_machine(self) -> None:
        cores = sorted(_cores())
        mine = [zlib.crc32(text.encode()) for text in (socket.gethostname(), repr(cores))]
        beside = self.comm.all_gather(np.array(mine, np.int64)) == mine
        self.place = int(beside[: self.comm.rank, 0].sum())
        if "OMP_NUM_THREADS" not in os.environ:
            self.threads = max(1, len(cores) // int(beside.all(axis=1).sum()))


ALONE = Processes(Alone(), Parallel.NONE)


def connected(parallel: Parallel) -> Processes:
    """Return the processes that were started together.

    Raises
    ------
    LaunchError
        The processes cannot connect.
    """
    launch = launched()
    if launch.size == 1 or parallel is Parallel.NONE:
        return ALONE
    comm = _by_torch() if launch.by_torch else _by_mpi(launch)
    return Processes(comm, parallel)


def _by_torch() -> Communicator:
    import torch.distributed

    import gnograd.torch.distributed  # noqa: F401  before there is a group, see there

    torch.distributed.init_process_group("gloo")
    atexit.register(torch.distributed.destroy_process_group)
    return gg.distributed.communicator(torch.distributed.group.WORLD)


def _by_mpi(launch: Launch) -> Communicator:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the error below says it
            from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise LaunchError(
            f"{launch.size} processes were started, and need mpi4py to find each other ({error}); "
            "install it with: pip install mpi4py"
        ) from error
    if MPI.COMM_WORLD.Get_size() != launch.size:
        library = MPI.Get_library_version().split(",")[0].split("\n")[0].strip("\0 ")
        raise LaunchError(
            f"{launch.size} processes were started, but MPI ({library}) connects "
            f"{MPI.COMM_WORLD.Get_size()}; start them by the mpiexec of this MPI, or have mpi4py "
            "use the other one ($MPI4PY_LIBMPI)"
        )
    return gg.distributed.communicator(MPI.COMM_WORLD)


def _cores() -> set[int]:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))
