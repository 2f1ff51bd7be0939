# SPDX-License-Identifier: MIT
"""Arrays of a safetensors file."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, numeric, reason
from gnograd.data.stored import LARGE, mapped
from gnograd.weights import places, read_some

_NUMPY = {
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip
"""Types of NumPy by the words of the format."""


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays of a file; large ones are mapped."""
    where, large = places(path), {}
    with open(path, "rb") as file:
        for name, (kind, shape, at) in where.items():
            dtype = np.dtype(_NUMPY.get(kind, "V1"))
            if kind in _NUMPY and math.prod(shape) * dtype.itemsize >= LARGE:
                large[name] = mapped(file.fileno(), at, dtype, shape, path)
    rest = read_some(path, [name for name in where if name not in large])
    return {name: large[name] if name in large else rest[name] for name in where}


def contents(path: Path) -> Contents:
    """All arrays of a file.

    Raises
    ------
    DataError
    """
    try:
        arrays = _arrays(path)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        text = reason(error).removeprefix(f"{path}: ")
        raise DataError(f"{path}: cannot be read ({text})") from error
    # NumPy does not have bfloat16 and float8, which ml_dtypes converts
    arrays = {n: a if a.dtype.isbuiltin == 1 else a.astype("f4") for n, a in arrays.items()}
    unused = {name: why for name, array in arrays.items() if (why := numeric(array))}
    return Contents(
        path, "safetensors", {n: a for n, a in arrays.items() if n not in unused}, unused
    )
