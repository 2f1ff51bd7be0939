# SPDX-License-Identifier: MIT
"""Graphs that are distributed: a process has a part only, and they compute operators themselves."""

from __future__ import annotations

import abc
from types import ModuleType

from gnograd.graph_arrays import GraphSizes

__all__ = ["GraphInParts"]


class GraphInParts(abc.ABC):
    """A graph that stands where a `Graph` does, and has faces of operators of its own."""

    @property
    @abc.abstractmethod
    def sizes(self) -> GraphSizes:
        """Sizes of the part that this process has: rows of the arrays that callers pass and get."""

    @property
    @abc.abstractmethod
    def faces(self) -> ModuleType:
        """Functions `forward`, `vjp`, `jvp` and `hvp` of this graph, an operator, and the call.

        Operators hand over what they were called with, in the order of their own arguments, static
        arguments last: nothing has been checked.
        """
