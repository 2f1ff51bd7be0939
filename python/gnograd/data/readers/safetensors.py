# SPDX-License-Identifier: MIT
"""Arrays of a safetensors file."""

from pathlib import Path

from gnograd.data.contents import Contents, DataError, numeric, reason
from gnograd.weights import load_weights


def contents(path: Path) -> Contents:
    """All arrays of a file.

    Raises
    ------
    DataError
    """
    try:
        arrays = load_weights(path)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        text = reason(error).removeprefix(f"{path}: ")
        raise DataError(f"{path}: cannot be read ({text})") from error
    # NumPy does not have bfloat16 and float8, which ml_dtypes converts
    arrays = {n: a if a.dtype.isbuiltin == 1 else a.astype("f4") for n, a in arrays.items()}
    unused = {name: why for name, array in arrays.items() if (why := numeric(array))}
    return Contents(
        path, "safetensors", {n: a for n, a in arrays.items() if n not in unused}, unused
    )
