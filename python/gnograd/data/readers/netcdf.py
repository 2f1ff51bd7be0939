# SPDX-License-Identifier: MIT
"""Arrays of a NetCDF file of any version, by netCDF4."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, numeric, reason
from gnograd.data.readers import library as memory
from gnograd.data.readers.library import CLAIM, Budget, library
from gnograd.data.stored import LARGE, slabs
from gnograd.data.units import unit_of

LIBRARIES = ("netCDF4",)


def _read(variable: Any) -> NDArray[Any]:
    size, kind = int(np.prod(variable.shape, dtype=np.int64)), variable.dtype
    if size * kind.itemsize < LARGE:
        found = variable[...]
        return _filled(found) if np.ma.is_masked(found) else np.asarray(found)
    chunks = variable.chunking()
    where = list(slabs(variable.shape, kind.itemsize, chunks if isinstance(chunks, list) else None))
    kind = np.result_type(variable[where[0]].dtype, np.float32)  # of all parts: some have gaps
    parts = (_filled(np.ma.asarray(variable[part])).astype(kind) for part in where)
    return memory.assemble(variable.shape, kind, parts)


def _filled(found: Any) -> NDArray[Any]:
    filled: NDArray[Any] = found.astype(np.result_type(found.dtype, np.float32)).filled(np.nan)
    return filled


def contents(path: Path) -> Contents:
    """All variables, as ``group/variable``, in the units that the file says.

    Scales and offsets are applied. Missing values are NaN.

    Raises
    ------
    DataError
    """
    netcdf = library("netCDF4", path)
    arrays: dict[str, NDArray[Any]] = {}
    unused: dict[str, str] = {}
    units: dict[str, str] = {}
    dimensions: dict[str, tuple[str, ...]] = {}
    budget = Budget(path.stat().st_size)

    def visit(group: Any, before: str, depth: int) -> None:
        for name, variable in group.variables.items():
            full = before + name
            if not isinstance(variable.dtype, np.dtype):
                unused[full] = (
                    "it is text" if variable.dtype is str else "it is no array of numbers"
                )
            elif why := numeric(np.empty(0, variable.dtype)):
                unused[full] = why
            elif not budget.take(8 * int(np.prod(variable.shape, dtype=np.int64))):
                unused[full] = CLAIM
            else:
                arrays[full] = _read(variable)
                units[full] = unit_of({n: variable.getncattr(n) for n in variable.ncattrs()})
                dimensions[full] = variable.dimensions
        for name, inner in group.groups.items():
            if depth < 16:
                visit(inner, f"{before}{name}/", depth + 1)

    try:
        with netcdf.Dataset(path, "r") as file:
            visit(file, "", 0)
    except Exception as error:
        raise DataError(f"{path}: cannot be read as NetCDF ({reason(error)})") from error
    return Contents(path, "NetCDF", arrays, unused, units=units, dimensions=dimensions)
