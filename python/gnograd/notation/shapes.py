# SPDX-License-Identifier: MIT
"""Sizes, found by comparing arrays with their shapes in the notation of `parse`.

A name stands for the same number wherever it comes, and ``*`` for the same leading axes. A
dimension may be an expression with one name that is still unknown, linear in it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from types import CodeType
from typing import Any, TypeAlias

from gnograd.notation.declaration import names_in, parse

__all__ = [
    "Shape", "Sizes", "close", "dtype_of", "match", "number", "parse", "readable", "shape_of",
    "value",
]  # fmt: skip

Shape: TypeAlias = tuple[int, ...]
Sizes: TypeAlias = dict[str, Any]
"""Sizes by their names, and the lengths of the leading axes as ``"*"``."""
_ARITHMETIC = {"float16": "float32", "bfloat16": "float32"}


def dtype_of(spec: str, dtype: str) -> str:
    """Dtype of an array, given that of the inputs.

    >>> dtype_of("n_dst D", "float16"), dtype_of("real n_dst", "float16")
    ('float16', 'float32')
    """
    written = parse(spec).dtype
    return _ARITHMETIC.get(dtype, dtype) if written == "real" else written or dtype


def match(label: str, shape: Shape, spec: str, sizes: Sizes) -> None:
    """Compare a shape with its notation; new names are added to `sizes`.

    >>> sizes = {"n_edges": 6}
    >>> match("gno: coords", (6, 2), "n_edges d", sizes)
    >>> sizes
    {'n_edges': 6, 'd': 2}
    >>> match("gno: hid", (5, 8), "n_edges H", sizes)
    Traceback (most recent call last):
    ValueError: gno: hid has shape (5, 8), needs (n_edges=6, H)
    """
    dims, _, _, leading = parse(spec)
    found = dict(sizes)
    n_leading = max(len(shape) - len(dims), 0) if leading else 0
    axes, own = shape[:n_leading], shape[n_leading:]
    fits = len(own) == len(dims) and all(map(_fits, dims, own, [found] * len(dims)))
    if not fits or (leading and found.setdefault("*", axes) != axes):
        raise ValueError(f"{label} has shape {shape}, needs {readable(spec, sizes)}")
    sizes.update(found)


def _fits(dim: str, length: int, sizes: Sizes) -> bool:
    """True if a dimension has its length; solves for its one unknown name, if it has one."""
    if dim in sizes:
        return bool(sizes[dim] == length)
    unknown = [name for name in names_in(dim) if name not in sizes]
    if unknown:
        (name,) = unknown
        constant = value(dim, {**sizes, name: 0})
        factor = value(dim, {**sizes, name: 1}) - constant
        sizes[name] = max(length - constant, 0) // factor
    return value(dim, sizes) == length


def close(specs: Iterable[str], sizes: Sizes) -> None:
    """Set all unknown names to 0, and the leading axes to (): only absent arrays have them.

    >>> sizes = {"n_dst": 3, "D": 2}
    >>> close(["n_src D", "n_edges De or None"], sizes)
    >>> sizes["De"], sizes["*"]
    (0, ())
    """
    sizes.setdefault("*", ())
    for spec in specs:
        for dim in parse(spec).dims:
            for name in names_in(dim):
                sizes.setdefault(name, 0)


def shape_of(spec: str, sizes: Mapping[str, Any]) -> Shape:
    """The shape, once all its names are known."""
    dims, _, _, leading = parse(spec)
    own = tuple(value(dim, sizes) for dim in dims)
    return (*sizes["*"], *own) if leading else own


def value(dim: str, sizes: Mapping[str, Any]) -> int:
    """Length of one dimension."""
    length: int = sizes[dim] if dim in sizes else number(dim, sizes)
    return length


def number(expression: str, sizes: Mapping[str, Any]) -> Any:
    """Value of an expression. Those evaluated are the package's own.

    >>> number("D**-0.5", {"D": 4})
    0.5

    ``n_batch`` is the product of the leading axes.

    >>> number("n_batch", {"*": (2, 5)})
    10
    """
    if expression == "n_batch":
        return math.prod(sizes["*"])
    return eval(_compiled(expression), {"__builtins__": {"max": max}}, sizes)


def readable(spec: str, sizes: Mapping[str, Any]) -> str:
    """Shape with the known sizes, for messages: ``(n_edges=6, d)``, ``(..., n_src=4, F_in)``."""
    words: list[str] = []
    if parse(spec).leading:
        words += map(str, sizes["*"]) if "*" in sizes else ["..."]
    for dim in parse(spec).dims:
        names = names_in(dim)
        known = names and all(name in sizes for name in names)
        words.append(f"{dim}={value(dim, sizes)}" if known else dim)
    return f"({', '.join(words)}{',' if len(words) == 1 else ''})"


@functools.cache
def _compiled(dim: str) -> CodeType:
    return compile(dim, "dimension", "eval")
