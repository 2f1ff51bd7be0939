# SPDX-License-Identifier: MIT
"""Numbers that packed arrays stand for, by attributes of the conventions of climate and forecast.

The library netCDF4 applies them by itself; files of the same programs are also read as HDF5 and
zarr. https://cfconventions.org/cf-conventions/cf-conventions.html#packed-data
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import DataError

__all__ = ["Packing"]

Array = NDArray[Any]

_MISSING = ("_FillValue", "missing_value")
_NAMES = (
    *_MISSING, "scale_factor", "add_offset", "valid_min", "valid_max", "valid_range", "_Unsigned",
)  # fmt: skip


@dataclass(frozen=True)
class Packing:
    """Scale and offset of numbers, and which of them are missing."""

    scale: float
    offset: float
    missing: Array
    least: float
    most: float
    unsigned: bool

    @classmethod
    def of(cls, about: Mapping[str, Any], dtype: np.dtype[Any]) -> Packing | None:
        """Packing by the attributes of an array, or None.

        Raises
        ------
        DataError
            An attribute has a value that is none of these.
        """
        given = {name: about[name] for name in _NAMES if name in about}
        if not given or dtype.kind not in "fiu":
            return None
        found = {n: _numbers(n, value) for n, value in given.items() if n != "_Unsigned"}
        one = {"scale_factor": 1.0, "add_offset": 0.0, "valid_min": -np.inf, "valid_max": np.inf}
        for name in one:
            if name in found:
                (one[name],) = _of_size(1, name, found[name])
        if "valid_range" in found:
            one["valid_min"], one["valid_max"] = _of_size(2, "valid_range", found["valid_range"])
        missing = [found[name] for name in _MISSING if name in found]
        return cls(
            float(one["scale_factor"]), float(one["add_offset"]),
            np.concatenate(missing) if missing else np.zeros(0), one["valid_min"],
            one["valid_max"], dtype.kind == "i" and str(_text(given.get("_Unsigned"))) == "true",
        )  # fmt: skip

    @property
    def note(self) -> str:
        """Words about what is applied."""
        scaled = (self.scale, self.offset) != (1, 0)
        return f"times {self.scale:.7g} plus {self.offset:.7g}" if scaled else ""

    def unpacked(self, array: Array) -> Array:
        """Numbers, with NaN where there is none."""
        # those of the type of the array, as 1e20 in float32 is
        with np.errstate(invalid="ignore", over="ignore"):
            missing = self.missing.astype(array.dtype, copy=False)
        if array.dtype.kind != "f":
            missing = missing[missing == self.missing]
        if self.unsigned:
            array, missing = (a.view(a.dtype.str.replace("i", "u")) for a in (array, missing))
        scaled = (self.scale, self.offset) != (1, 0)
        kind = np.result_type(array.dtype, np.float64 if scaled else np.float32)
        out: Array = array.astype(kind)
        gone = np.isin(array, missing) | (array < self.least) | (array > self.most)
        if scaled:
            out = out * self.scale + self.offset
        out[gone] = np.nan
        return out


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _numbers(name: str, value: Any) -> Array:
    value = _text(value)
    if isinstance(value, str) and name in _MISSING:  # as zarr of version 3 has floats
        try:
            return np.frombuffer(base64.b64decode(value, validate=True), "<f8")
        except (binascii.Error, ValueError):
            pass
    numbers = np.atleast_1d(np.asarray(value))
    if numbers.dtype.kind not in "fiu" or numbers.ndim > 1:
        raise DataError(f"its attribute {name} is {value!r:.40}, needs to be a number")
    return numbers


def _of_size(n: int, name: str, numbers: Array) -> Array:
    if len(numbers) != n:
        raise DataError(f"its attribute {name} has {len(numbers)} numbers, needs {n}")
    return numbers
