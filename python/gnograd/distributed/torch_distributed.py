# SPDX-License-Identifier: MIT
"""Messages by torch.distributed: gloo, nccl and other backends with point-to-point messages."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from gnograd.distributed.communicator import Communicator, Message, Pending

__all__ = ["TorchDistributed"]

_known: weakref.WeakKeyDictionary[Any, TorchDistributed] = weakref.WeakKeyDictionary()


class TorchDistributed(Communicator):
    """Processes of a process group.

    Numbers that the host reads go through gloo, features through the group itself. Groups belong to
    torch.distributed: one kept after its end may abort the program at its exit.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._ranks = dist.get_process_group_ranks(group)
        of_gpu = dist.get_backend(group) != "gloo"
        self.takes_gpu = of_gpu
        control = dist.new_group(self._ranks, backend="gloo") if of_gpu else group
        self._groups = weakref.ref(group), weakref.ref(control)

    @classmethod
    def of(cls, group: dist.ProcessGroup | None) -> TorchDistributed:
        """Communicator for a process group, the default one if None; made once."""
        group = dist.group.WORLD if group is None else group
        if group is None:
            raise RuntimeError("communicator: torch.distributed is not initialised")
        if group not in _known:
            _known[group] = cls(group)
        return _known[group]

    @property
    def _group(self) -> dist.ProcessGroup:
        """The group for messages."""
        return _there(self._groups[0])

    @property
    def _control(self) -> dist.ProcessGroup:
        """The group for numbers that the host reads."""
        return _there(self._groups[1])

    def _maximum(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        found = values.copy()
        dist.all_reduce(torch.from_numpy(found), dist.ReduceOp.MAX, self._control)
        return found

    def _all_gather(self, values: NDArray[Any]) -> NDArray[Any]:
        every = np.empty((self.size, *values.shape), values.dtype)
        dist.all_gather(list(torch.from_numpy(every)), torch.from_numpy(values), self._control)
        return every

    def _all_to_all(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        found, mine = np.empty_like(values), torch.from_numpy(values)
        dist.all_to_all_single(torch.from_numpy(found), mine, group=self._control)
        return found

    def start(self, sends: Sequence[Message], receives: Sequence[Message]) -> Pending:
        """Implement `Communicator.start`."""
        messages = [self._message(dist.irecv, *each) for each in receives]
        messages += [self._message(dist.isend, *each) for each in sends]
        return _Works(messages, dist.batch_isend_irecv(messages) if messages else [])

    def _message(self, direction: Any, rank: int, data: Any) -> dist.P2POp:
        on_gpu = isinstance(data, torch.Tensor)
        tensor = data if on_gpu else torch.from_numpy(data)
        group = self._group if on_gpu else self._control
        return dist.P2POp(direction, tensor, self._ranks[rank], group)

    def abort(self) -> None:
        """Implement `Communicator.abort`."""
        os._exit(1)  # the launcher sees it, and ends the others


def _there(group: weakref.ref[dist.ProcessGroup]) -> dist.ProcessGroup:
    found: dist.ProcessGroup | None = group()
    if found is None:
        raise RuntimeError("communicator: the process group has been destroyed")
    return found


class _Works:
    def __init__(self, messages: list[dist.P2POp], works: list[dist.Work]) -> None:
        self._messages = messages  # whose memory has to stay
        self._works = works

    def wait(self) -> None:
        for work in self._works:
            work.wait()
