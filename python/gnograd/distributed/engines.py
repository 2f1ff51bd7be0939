# SPDX-License-Identifier: MIT
"""Choice of the communicator: MPI, torch.distributed, or a single process."""

from __future__ import annotations

import sys
from typing import Any

from gnograd.distributed.communicator import Alone, Communicator
from gnograd.distributed.launchers import launched

__all__ = ["communicator"]


def communicator(group: Any = None) -> Communicator:
    """The processes that share a graph.

    Parameters
    ----------
    group : mpi4py.MPI.Comm, torch.distributed.ProcessGroup, Communicator or None
        None is all processes there are: the default group of torch.distributed if that is
        initialised, ``MPI.COMM_WORLD`` if mpi4py is imported or the program was started by
        ``mpiexec``, else this process alone.

    Returns
    -------
    Communicator
        Its messages are separate from other messages of `group`. With MPI, an uncaught exception
        ends all processes from now on, as with ``python -m mpi4py``; launchers of PyTorch do that
        themselves.

    Raises
    ------
    TypeError
        `group` is none of these.
    ValueError
        It is MPI's COMM_NULL: this process belongs to none.
    ImportError
        The program was started by ``mpiexec``, but there is no mpi4py.
    RuntimeError
        ``mpiexec`` belongs to another MPI than mpi4py found, so that every process is alone.

    Examples
    --------
    >>> import gnograd as gg
    >>> comm = gg.distributed.communicator()
    >>> comm.rank, comm.size
    (0, 1)
    """
    if isinstance(group, Communicator):
        return group
    kind = type(group).__module__.partition(".")[0]
    if group is None:
        kind = _engine_in_use()
    if kind == "mpi4py":
        from gnograd.distributed.mpi import Mpi

        return Mpi.of(group)
    if kind == "torch":
        from gnograd.distributed.torch_distributed import TorchDistributed

        return TorchDistributed.of(group)
    if group is None:
        return Alone()
    raise TypeError(
        f"communicator: group is of type {type(group).__name__}, needs one of mpi4py or "
        "torch.distributed, or None"
    )


def _engine_in_use() -> str:
    """The library that connects the processes of this program."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed and distributed.is_available() and distributed.is_initialized():
        return "torch"
    if "mpi4py.MPI" in sys.modules:
        return "mpi4py"
    started = launched()
    if started.size > 1 and not started.by_torch:
        try:
            import mpi4py.MPI  # noqa: F401
        except ImportError as error:
            raise ImportError(
                "communicator: the program was started by mpiexec, which needs mpi4py "
                "(pip install mpi4py, and the MPI it belongs to)"
            ) from error
        return "mpi4py"
    return ""
