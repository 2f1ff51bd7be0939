# SPDX-License-Identifier: MIT
"""Graphs that are distributed: a process has a part only, and they compute operators themselves."""

from __future__ import annotations

import abc
from types import ModuleType

from gnograd.notation.graph_arrays import GraphSizes

__all__ = ["GraphInParts"]


class GraphInParts(abc.ABC):
    """Base of graphs that can replace a `Graph` and compute the faces of operators themselves."""

    @property
    @abc.abstractmethod
    def sizes(self) -> GraphSizes:
        """Sizes of the part that this process has: rows of the arrays that callers pass and get."""

    @property
    @abc.abstractmethod
    def faces(self) -> ModuleType:
        """Functions `forward`, `vjp`, `jvp` and `hvp` of this graph, an operator, and the call.

        Operators pass on their unchecked arguments in order, static arguments last.
        """
