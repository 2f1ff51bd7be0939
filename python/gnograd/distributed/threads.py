# SPDX-License-Identifier: MIT
"""Threads in place of processes, for parts of a graph in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gnograd.distributed.communicator import Communicator, Message, Pending

__all__ = ["in_threads"]

T = TypeVar("T")
_Queue: TypeAlias = "SimpleQueue[NDArray[np.uint8] | None]"


def in_threads(size: int, work: Callable[[Communicator], T]) -> list[T]:
    """Run the work of `size` processes in threads of this one.

    Parameters
    ----------
    size : int
    work : callable
        Function of the communicator of its process.

    Returns
    -------
    list
        Results by rank.

    Raises
    ------
    Exception
        Exception of the first thread that has one.
    """
    shared = _Shared(size)
    results: list[Any] = [None] * size
    errors: list[BaseException | None] = [None] * size

    def run(rank: int) -> None:
        try:
            results[rank] = work(_Thread(shared, rank))
        except BaseException as error:  # raised below, in the caller's thread
            errors[rank] = error
            shared.fail(rank)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [error for error in errors if error is not None]
    if found:
        first = [e for e in found if not isinstance(e, threading.BrokenBarrierError)]
        raise (first or found)[0]
    return results


class _Shared:
    """Shared state of the threads of a group."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self.told: list[Any] = [None] * size
        self.mail: list[list[_Queue]] = [[SimpleQueue() for _ in self.told] for _ in self.told]
        """Queues by sender and receiver."""

    def fail(self, rank: int) -> None:
        """Wake all threads that wait for one that has ended by an error."""
        self.barrier.abort()
        for queue in self.mail[rank]:
            queue.put(None)


class _Thread(Communicator):
    """A thread of a group."""

    def __init__(self, shared: _Shared, rank: int) -> None:
        self._shared, self.rank, self.size = shared, rank, len(shared.told)

    def _maximum(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array(np.max(self._told(values), axis=0))

    def _all_gather(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.stack(self._told(values))

    def _all_to_all(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array([row[self.rank] for row in self._told(values)])

    def start(self, sends: Sequence[Message], receives: Sequence[Message]) -> Pending:
        for rank, data in sends:
            self._shared.mail[self.rank][rank].put(data.copy())
        return _Mail([(self._shared.mail[rank][self.rank], data) for rank, data in receives])

    def abort(self) -> None:
        self._shared.fail(self.rank)

    def _told(self, value: Any) -> list[Any]:
        """Values of all threads."""
        self._shared.told[self.rank] = value
        self._shared.barrier.wait()
        every = list(self._shared.told)
        self._shared.barrier.wait()
        return every


class _Mail:
    def __init__(self, receives: list[tuple[_Queue, Any]]) -> None:
        self._receives = receives

    def wait(self) -> None:
        for queue, data in self._receives:
            message = queue.get()
            if message is None:
                raise threading.BrokenBarrierError
            data[:] = message
