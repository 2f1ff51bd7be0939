# SPDX-License-Identifier: MIT
"""Graphs distributed over processes: ownership of nodes, messages, and sums over processes."""

from gnograd.distributed.communicator import Communicator
from gnograd.distributed.engines import communicator
from gnograd.distributed.graph import DistributedGraph
from gnograd.distributed.halo import halo
from gnograd.distributed.partition import partition
from gnograd.distributed.plan import Plan
from gnograd.distributed.redistribute import redistribute
from gnograd.distributed.reductions import mean, norm, shared, sum, sum_gradients

__all__ = [
    "Communicator",
    "DistributedGraph",
    "Plan",
    "communicator",
    "halo",
    "mean",
    "norm",
    "partition",
    "redistribute",
    "shared",
    "sum",
    "sum_gradients",
]
