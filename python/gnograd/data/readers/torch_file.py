# SPDX-License-Identifier: MIT
"""Tensors of a PyTorch file, by the loader that only makes tensors and containers."""

import zipfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gnograd.data.contents import Contents, DataError, numeric, reason
from gnograd.data.readers.library import CLAIM, Budget, library

_CLASSES = ("torch_geometric.data.data.Data", "torch_geometric.data.hetero_data.HeteroData")
"""Classes that PyG names in its files beside the tensors."""

_DEEPEST = 16
"""Largest depth of nested containers."""

_HEAD = 1 << 20
"""Bytes of a description in which the names of classes are looked for."""


def contents(path: Path) -> Contents:
    """All tensors of a file, which is a dictionary, possibly nested, or one tensor.

    Names in nested dictionaries are ``outer.inner``, those in lists ``list.0``.

    Raises
    ------
    DataError
        The file is invalid, or contains other objects.
    """
    torch = library("torch", path)
    try:
        budget = Budget(path.stat().st_size)
        _check_archive(path)
        with _named_only(torch):
            found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({reason(error)})") from error
    except DataError as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    except Exception as error:
        # PyTorch's message would advise to load it unsafely
        raise DataError(f"{path}: cannot be read ({_advice(path)})") from error
    arrays: dict[str, NDArray[Any]] = {}
    unused: dict[str, str] = {}
    seen: dict[int, str] = {}

    def take(name: str, value: Any, depth: int) -> None:
        if isinstance(value, Mapping | list | tuple):
            # containers that contain themselves, or occur many times, are taken once
            if value and (first := seen.setdefault(id(value), name)) != name:
                unused[name] = f"it is '{first}' by another name"
            elif depth == _DEEPEST:
                unused[name] = "it is too deep"
            else:
                items = value.items() if isinstance(value, Mapping) else enumerate(value)
                for key, item in items:
                    take(f"{name}.{key}" if name else str(key), item, depth + 1)
            return
        try:
            array, why = _array(value, torch, budget)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            array, why = None, f"it cannot be an array of NumPy ({reason(error)})"
        if array is None:
            unused[name or "tensor"] = why
        else:
            arrays[name or ("tensor" if isinstance(value, torch.Tensor) else "number")] = array

    take("", _cut(found, torch), 0)
    return Contents(path, "PyTorch", arrays, unused)


class _Named:
    """Stand-in for a class that a file only names."""


def _named_only(torch: Any) -> AbstractContextManager[Any]:
    """Context in which the loader takes the names of PyG's classes, and makes no objects of them.

    PyTorch before 2.6 has none.
    """
    try:
        context = torch.serialization.safe_globals([(_Named, name) for name in _CLASSES])
        return cast(AbstractContextManager[Any], context)
    except (AttributeError, TypeError):
        return nullcontext()


def _advice(path: Path) -> str:
    """Reason why the loader refuses a file, and what to store."""
    with suppress(Exception), zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith("/data.pkl"))
        with archive.open(name) as stream:
            if b"torch_geometric" in stream.read(_HEAD):
                return (
                    "it holds objects of PyTorch Geometric, which are never loaded; store their "
                    "tensors, of a data set as torch.save((dataset._data.to_dict(), "
                    "dataset.slices), path)"
                )
    return (
        "damaged, or it holds other things than tensors, which are never loaded; store a "
        "dictionary of tensors"
    )


def _cut(found: Any, torch: Any) -> Any:
    """Tensors by name with ``offsets``, of a data set of PyG; anything else as it is.

    Such a file is ``(tensors, slices)``, and maybe a class: tensors of all samples, one behind the
    other, and by the same names where each sample begins.
    """
    if not isinstance(found, tuple | list) or len(found) not in (2, 3):
        return found
    data, slices = found[:2]
    if not isinstance(data, Mapping) or not isinstance(slices, Mapping) or "offsets" in data:
        return found
    if not slices or not all(name in data and _begins(s, torch) for name, s in slices.items()):
        return found
    name = next((n for n in ("pos", "x") if n in slices), next(iter(slices)))
    return {**data, "offsets": slices[name]}


def _begins(value: Any, torch: Any) -> bool:
    """True for a tensor that says where each sample begins, and where the last one ends."""
    if not isinstance(value, torch.Tensor) or value.ndim != 1 or len(value) < 2:
        return False
    return not value.is_floating_point() and int(value[0]) == 0 and bool((value.diff() >= 0).all())


def _array(value: Any, torch: Any, budget: Budget) -> tuple[NDArray[Any] | None, str]:
    """A tensor or number as an array, or the reason why it cannot be used."""
    if isinstance(value, bool | int | float):
        array = np.array(value)
    elif not isinstance(value, torch.Tensor):
        return None, f"it is of type {type(value).__name__}"
    elif value.layout != torch.strided or value.is_quantized:
        return None, "it is sparse or quantized; store it dense"
    else:
        dense = value.detach()
        wide = dense.is_floating_point() and dense.dtype not in (
            torch.float16,
            torch.float32,
            torch.float64,
        )
        # views may claim more numbers than there are in the file
        if not budget.take(dense.nelement() * (4 if wide else dense.element_size())):
            return None, CLAIM
        array = (dense.float() if wide else dense.resolve_conj().resolve_neg()).numpy()
    why = numeric(array)
    return (None, why) if why else (array, "")


def _check_archive(path: Path) -> None:
    """Raise DataError for a compressed archive: PyTorch does not compress."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
                raise DataError(CLAIM)
