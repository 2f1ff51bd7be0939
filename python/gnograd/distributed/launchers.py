# SPDX-License-Identifier: MIT
"""Rank and size from the environment of a launcher: ``mpiexec``, ``srun``, ``torchrun``."""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["Launch", "launched"]

_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Variables for rank and number of processes of Open MPI, MPICH and its relatives, and Slurm."""


class Launch(NamedTuple):
    """Place of this process among those that were started together."""

    rank: int = 0
    size: int = 1
    by_torch: bool = False


def launched() -> Launch:
    """Read the environment, without connecting to other processes."""
    environ = os.environ
    if "TORCHELASTIC_RUN_ID" in environ:
        return Launch(int(environ["RANK"]), int(environ["WORLD_SIZE"]), by_torch=True)
    for rank, size in _MPI:
        if rank in environ and size in environ:
            return Launch(int(environ[rank]), int(environ[size]))
    return Launch()
