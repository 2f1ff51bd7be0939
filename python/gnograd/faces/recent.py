# SPDX-License-Identifier: MIT
"""Cache of checked calls, by static arguments, dtypes and shapes.

A call is checked argument by argument once (`gnograd.faces.operator`). The results of the checks
serve all later calls with the same static arguments, dtypes and shapes, which only need memory for
their results and the addresses of their arrays. A graph counts by its sizes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from gnograd.graphs.graph import Graph

__all__ = ["Recent", "key_of"]


class Recent:
    """Cache that drops the entries that were not used for the longest time.

    Parameters
    ----------
    size : int
        The cache has at most twice as many entries. Threads may share it: the worst that can happen
        is that an entry is dropped too early.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._now: dict[Hashable, Any] = {}
        self._before: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self._now) + len(self._before)

    def get(self, key: Hashable) -> Any:
        """The entry of a key, None if there is none."""
        found = self._now.get(key)
        if found is None:
            found = self._before.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Hashable, value: Any) -> None:
        """Add an entry."""
        now = self._now
        if len(now) >= self._size:
            self._before, self._now = now, {}
            now = self._now
        now[key] = value


def key_of(static: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Unique key for static arguments; None if some are not plain, and need checks in every call.

    >>> key_of({"window": 3}) == key_of({"window": 3.0})
    False
    >>> key_of({"scale": 0.0}) == key_of({"scale": -0.0})
    False
    >>> key_of({"window": object()}) is None
    True
    """
    key: list[Any] = []
    for name, value in static.items():
        kind = type(value)
        if kind is Graph:
            key += name, value.sizes
        elif kind is float:
            key += name, kind, value or str(value)  # 0.0 == -0.0
        elif kind in _PLAIN:
            key += name, kind, value
        elif kind in _SEQUENCES and all(type(entry) is int for entry in value):
            key += name, kind, tuple(value)
        else:
            return None
    return tuple(key)


_PLAIN = frozenset({int, bool, str, type(None)})
_SEQUENCES = frozenset({list, tuple})
