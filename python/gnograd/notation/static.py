# SPDX-License-Identifier: MIT
"""Static arguments, converted to the exact integers, numbers and names that kernels take.

Each is converted once, by its declared type, where it comes in. NumPy's scalars and arrays without
axes are as good as Python's numbers; nothing is rounded, parsed or cut to make it fit.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from operator import index
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = [
    "AT_LEAST_0", "AT_LEAST_1", "LARGEST", "Limits", "boolean", "choice", "converter",
    "exact_integers", "integer", "integers", "number", "shown",
]  # fmt: skip

LARGEST = 2**31 - 1
"""Largest size, so that kernels can add and multiply sizes in 64 bits."""


class Limits(NamedTuple):
    """Smallest and largest value of an integer, or of a real number that has limits."""

    least: int = -LARGEST
    most: int = LARGEST
    endless: bool = False
    """True if integers beyond `LARGEST` are accepted, and count as `LARGEST`: no limit."""


AT_LEAST_0, AT_LEAST_1 = Limits(0), Limits(1)
_ANY = Limits()


def integer(label: str, value: Any, limits: Limits = _ANY) -> int:
    """An integer within limits; the label, operator and argument, is for messages.

    >>> integer("window_attention: window", np.int32(3))
    3
    >>> integer("window_attention: window", 2.7)
    Traceback (most recent call last):
    TypeError: window_attention: window is 2.7, needs an integer
    """
    if type(value) is not int and type(value).__name__ == "SymInt":
        return value  # type: ignore[no-any-return]  # left open: checked when it is known
    exact: int = value if type(value) is int else _exact(label, value)
    if limits.least <= exact <= limits.most:
        return exact
    if limits.endless and exact > LARGEST:
        return LARGEST
    if limits.endless and limits.least == -LARGEST:
        return -LARGEST
    if limits.least > -LARGEST and limits.most < LARGEST:
        needed = f"{limits.least} to {limits.most}"
    else:
        needed = f"at least {limits.least}" if exact < limits.least else f"at most {limits.most}"
    raise ValueError(f"{label} is {shown(exact)}, needs {needed}")


def _exact(label: str, value: Any) -> int:
    # tensors of one element have an index, too, but may be tracers, or on a GPU
    if not isinstance(value, bool) and (_is_numpy(value) or not hasattr(value, "shape")):
        try:
            return index(value)
        except TypeError:
            pass
    raise TypeError(f"{label} is {shown(value)}, needs an integer")


def number(label: str, value: Any, limits: Limits = _ANY) -> float:
    """A real number; with limits one that lies between them.

    >>> number("mha_gat: negative_slope", np.array(0.5))
    0.5
    >>> number("mha_gat: dropout", 1.5, Limits(0, 1))
    Traceback (most recent call last):
    ValueError: mha_gat: dropout is 1.5, needs a number from 0 to 1
    """
    exact = value if type(value) is float else _real(label, value)
    if limits == _ANY:
        return exact
    if not limits.least <= exact <= limits.most:  # NaN lies nowhere
        raise ValueError(
            f"{label} is {shown(exact)}, needs a number from {limits.least} to {limits.most}"
        )
    return exact + 0.0  # -0.0 is 0.0


def _real(label: str, value: Any) -> float:
    real = not hasattr(value, "shape") and hasattr(value, "__float__")
    if _is_numpy(value):
        real = np.ndim(value) == 0 and value.dtype.kind in "fiu"
    if isinstance(value, bool) or not real:
        raise TypeError(f"{label} is {shown(value)}, needs a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{label} is {shown(value)}, which is too large") from None


def boolean(label: str, value: Any) -> bool:
    """True or False; anything else (1, "no", a mask) is an error."""
    if value is True or value is False:
        return value
    if _is_numpy(value) and np.ndim(value) == 0 and value.dtype.kind == "b":
        return bool(value)
    raise TypeError(f"{label} is {shown(value)}, needs True or False")


def integers(label: str, values: Any, limits: Limits = _ANY) -> list[int]:
    """One or more integers within limits."""
    if not isinstance(values, list | tuple):
        raise TypeError(f"{label} is {shown(values)}, needs a list of integers")
    if not values:
        raise ValueError(f"{label} is empty, needs one integer or more")
    return [integer(f"{label}[{k}]", value, limits) for k, value in enumerate(values)]


def exact_integers(label: str, values: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """An array of integers in another type; none is cut to make it fit.

    >>> exact_integers("agg_relational: edge_type", np.array([1, 2**32]), np.int32)
    Traceback (most recent call last):
    IndexError: agg_relational: edge_type[1] is 4294967296, needs -2147483648 to 2147483647
    """
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    if values.size and not np.can_cast(values.dtype, dtype):
        for extreme in (int(values.argmin()), int(values.argmax())):
            value = int(values.flat[extreme])
            if not least <= value <= most:
                place = ", ".join(map(str, np.unravel_index(extreme, values.shape)))
                raise IndexError(f"{label}[{place}] is {value}, needs {least} to {most}")
    return values.astype(dtype)


def choice(label: str, value: Any, choices: Mapping[str, int]) -> str:
    """One of the names in `choices`."""
    if isinstance(value, str) and value in choices:
        return value
    raise ValueError(f"{label} is {shown(value)}, needs one of {', '.join(map(repr, choices))}")


_KINDS: Mapping[str, Callable[[str, Any], Any]] = MappingProxyType({"bool": boolean})
_WITH_LIMITS: Mapping[str, Callable[[str, Any, Limits], Any]] = MappingProxyType(
    {"int": integer, "float": number, "Sequence[int]": integers}
)


def converter(
    label: str,
    annotation: str,
    choices: Mapping[str, int] | None = None,
    limits: Limits = _ANY,
) -> Callable[[Any], Any]:
    """Function that converts an argument declared with this annotation."""
    kind = annotation.removesuffix(" | None")
    if choices is not None:
        return lambda value: choice(label, value, choices)
    if kind in _WITH_LIMITS:
        bounded = _WITH_LIMITS[kind]

        def convert(value: Any) -> Any:
            return bounded(label, value, limits)

    else:
        plain = _KINDS[kind]

        def convert(value: Any) -> Any:
            return plain(label, value)

    if kind == annotation:
        return convert
    return lambda value: None if value is None else convert(value)


def shown(value: Any) -> str:
    """Short description of any wrong argument, for messages."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(
        value, bool | int | float | complex | str | bytes | list | tuple
    ):
        return reprlib.repr(value)
    if _is_numpy(value):
        shape = np.shape(value)
        return f"an array of shape {shape}" if shape else f"{value!r}"
    return f"of type {type(value).__name__}"


def _is_numpy(value: Any) -> bool:
    """True for an array or scalar of NumPy, except masked ones, which may have no value."""
    return isinstance(value, np.ndarray | np.generic) and not hasattr(value, "mask")
