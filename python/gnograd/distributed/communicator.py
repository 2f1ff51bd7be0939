# SPDX-License-Identifier: MIT
"""Groups of processes, independent of the library that carries their messages.

mpi4py and torch.distributed move the bytes; the few operations that gnograd needs are the abstract
methods of `Communicator`. All else is built on these: exchange of arrays of any lengths (`swap`),
sums in the order of ranks (`sum`), and errors of one process that are raised on all (`together`).
"""

from __future__ import annotations

import abc
import itertools
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd.backends.tensors import numpy_of

__all__ = ["Alone", "Communicator", "Pending", "as_bytes"]

_HEAD = 64
"""Number of integers that processes compare before a collective operation."""

Message: TypeAlias = tuple[int, Any]
"""A rank, and memory as made by `as_bytes`; or a tensor on a GPU if the engine takes these."""

_ERRORS: tuple[type[Exception], ...] = (
    NotImplementedError, RuntimeError, TypeError, ValueError, IndexError, KeyError, MemoryError,
    LookupError, OSError, ImportError,
)  # fmt: skip
"""Exceptions that keep their type on the other processes; subclasses before their bases."""


class Pending(Protocol):
    """Messages in transit."""

    def wait(self) -> None:
        """Return when all have been received and the memory of those sent may be used again."""


class Communicator(abc.ABC):
    """A group of processes, of which this is one.

    All methods but `start` are collective: every process of the group calls them in the same order.

    Attributes
    ----------
    rank : int
        Number of this process.
    size : int
        Number of processes.
    takes_gpu : bool
        True if messages may lie on a GPU; otherwise they go through the host.
    """

    rank: int
    size: int
    takes_gpu = False
    _n_plans = 0

    @abc.abstractmethod
    def _maximum(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """`maximum` on values whose form all processes have agreed on."""

    @abc.abstractmethod
    def _all_gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """`all_gather` on values whose form all processes have agreed on."""

    @abc.abstractmethod
    def _all_to_all(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """`all_to_all` on values whose form all processes have agreed on."""

    @abc.abstractmethod
    def start(self, sends: Sequence[Message], receives: Sequence[Message]) -> Pending:
        """Send messages, and receive others into memory, without waiting for either.

        At most one to and from another process, none to itself, and none that is empty.
        """

    @abc.abstractmethod
    def abort(self) -> None:
        """End all processes after an error that the others cannot notice."""

    # ---- operations built on these ----

    def maximum(self, values: ArrayLike) -> NDArray[np.int64]:
        """Largest of the processes' integers, entry by entry.

        Parameters
        ----------
        values : array of int64, (n,)
            As many on every process.
        """
        return self.agree("maximum", largest=values)

    def all_gather(self, values: ArrayLike) -> NDArray[Any]:
        """Numbers of all processes, (size, n).

        Parameters
        ----------
        values : array of int64 or float64, (n,)
            As many on every process, of one type.
        """
        mine = np.ascontiguousarray(values)
        self.agree(f"all_gather of {_text_of_array(mine)}")
        return self._all_gather(mine)

    def all_to_all(self, values: ArrayLike) -> NDArray[np.int64]:
        """One integer from every process; `values` are those for the others, (size,)."""
        mine = np.array(values, np.int64)
        error = None
        if mine.shape != (self.size,):
            error = ValueError(f"all_to_all: values has shape {mine.shape}, needs ({self.size},)")
        self.agree("all_to_all", error)
        return self._all_to_all(mine)

    def swap(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Give every process an array of its own, and get one from each.

        Parameters
        ----------
        arrays : sequence of array, (n,)
            One a process, of one type on all of them, of any lengths.
        """
        dtype = arrays[0].dtype
        lengths = self.all_to_all([array.size for array in arrays])
        received = [np.empty(n, dtype) for n in lengths]
        received[self.rank] = np.ascontiguousarray(arrays[self.rank])
        others = [rank for rank in range(self.size) if rank != self.rank]
        self.start(
            [(rank, as_bytes(arrays[rank])) for rank in others if arrays[rank].size],
            [(rank, as_bytes(received[rank])) for rank in others if received[rank].size],
        ).wait()
        return received

    def sum(self, array: NDArray[Any]) -> NDArray[Any]:
        """Sum over the processes, in the order of ranks: the same bits on all, in every run.

        Parameters
        ----------
        array : array
            Array of one shape and type on all processes.
        """
        self.agree(f"sum of {_text_of_array(np.asarray(array))}")
        return self.total(array)

    def total(self, array: NDArray[Any]) -> NDArray[Any]:
        """`sum` of arrays whose shape and type the processes have agreed on."""
        flat = np.ascontiguousarray(array).reshape(-1).copy()
        self.sum_in_place(flat, np.empty_like)
        return flat.reshape(np.shape(array))

    def sum_in_place(self, flat: Any, empty_like: Any) -> None:
        """`sum` of a vector of NumPy or a framework, in its own memory.

        A process sums one part of it for all, and no process holds more than two copies.
        """
        if self.size == 1:
            return
        ends = [len(flat) * k // self.size for k in range(self.size + 1)]
        parts = [flat[a:b] for a, b in itertools.pairwise(ends)]
        others = [rank for rank in range(self.size) if rank != self.rank]
        mine = parts[self.rank]
        theirs = {rank: empty_like(mine) for rank in others}
        self.start(
            [(rank, as_bytes(parts[rank])) for rank in others if len(parts[rank])],
            [(rank, as_bytes(theirs[rank])) for rank in others if len(mine)],
        ).wait()
        theirs[self.rank] = mine
        total = theirs[0]
        for rank in range(1, self.size):
            total = total + theirs[rank]
        mine[:] = total
        self.start(
            [(rank, as_bytes(mine)) for rank in others if len(mine)],
            [(rank, as_bytes(parts[rank])) for rank in others if len(parts[rank])],
        ).wait()

    @contextmanager
    def together(self, doing: str) -> Iterator[None]:
        """Raise an error that one process has in the block, which has no communication, on all.

        The block is local work. An error in it on one process is raised on all, with its message.

        Parameters
        ----------
        doing : str
            Name of the work, the same text on all processes: if it differs, all raise an error.
        """
        try:
            yield
        except Exception as error:
            self.agree(doing, error)
        else:
            self.agree(doing)

    def agree(
        self, doing: str, error: Exception | None = None, largest: ArrayLike = ()
    ) -> NDArray[np.int64]:
        """Agree on the outcome of local work, an error or none.

        Parameters
        ----------
        doing, error
            As for `together`.
        largest : array of int64, (n,), optional
            Equally many integers on all processes; the largest of each is returned.
        """
        if self.size == 1:
            if error is not None:
                raise error
            return np.array(largest, np.int64)
        numbers = np.array(largest, np.int64)
        same = zlib.crc32(f"{doing} {numbers.size}".encode())
        # of one length on all processes, even if they do different things
        head = np.zeros(_HEAD, np.int64)
        head[:3] = error is not None, same, -same
        first = numbers[: _HEAD - 3]
        head[3 : 3 + first.size] = first
        found = self._maximum(head)
        if found[0]:
            self._raise(error)
        if found[1] != -found[2]:
            every = enumerate(self._texts(doing))
            listed = "; ".join(f"process {rank} {text}" for rank, text in every)
            raise RuntimeError(f"the processes do different things: {listed}")
        found = found[3 : 3 + first.size]
        if first.size == numbers.size:
            return found
        return np.concatenate([found, self._maximum(numbers[first.size :])])

    def next_plan(self) -> int:
        """Number of a new plan, the same on all processes; it tells exchanges apart in errors."""
        self._n_plans += 1
        return self._n_plans

    def _raise(self, error: Exception | None) -> None:
        """Raise the error of the first process that has one."""
        texts = self._texts("" if error is None else _text_of(error))
        first = next(rank for rank in range(self.size) if texts[rank])
        kind, _, message = texts[first].partition(" ")
        raise _ERRORS[int(kind)](f"{message} (process {first})") from error

    def _texts(self, text: str) -> list[str]:
        """Texts of all processes."""
        data = text.encode(errors="replace")
        n = int(self._maximum(np.array([len(data)]))[0])
        padded = np.zeros(1 + -(-n // 8), np.int64)
        padded[0] = len(data)
        padded[1:].view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
        every = self._all_gather(padded)
        return [row[1:].view(np.uint8)[: row[0]].tobytes().decode() for row in every]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} communicator: process {self.rank} of {self.size}>"


class Alone(Communicator):
    """A single process."""

    rank, size = 0, 1

    def _maximum(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values.copy()

    def _all_gather(self, values: NDArray[Any]) -> NDArray[Any]:
        return values.copy()[None]

    def _all_to_all(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values.copy()

    def start(self, sends: Sequence[Message], receives: Sequence[Message]) -> Pending:
        """Do nothing: there are no other processes."""
        return _Done()

    def abort(self) -> None:
        """Do nothing: there are no other processes."""


class _Done:
    def wait(self) -> None:
        """Return at once."""


def _text_of_array(array: NDArray[Any]) -> str:
    return f"{array.dtype}{list(array.shape)}"


def as_bytes(array: Any) -> Any:
    """Memory of a contiguous NumPy array, or a tensor on the CPU, as bytes; others as they are."""
    if isinstance(array, np.ndarray):
        return array.reshape(-1).view(np.uint8)
    if not array.is_cuda:
        import torch

        return numpy_of(array.detach().reshape(-1).view(torch.uint8))
    return array


def _text_of(error: Exception) -> str:
    """Number and message of an error, with the name of a type that is not in `_ERRORS`."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    for k, kind in enumerate(_ERRORS):
        if isinstance(error, kind):
            return f"{k} {text}"
    return f"{_ERRORS.index(RuntimeError)} {type(error).__name__}: {text}"
