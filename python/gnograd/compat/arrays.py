# SPDX-License-Identifier: MIT
"""Access to the memory of other libraries' arrays, without copies."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.backends.cpu import refuse_mask
from gnograd.backends.tensors import numpy_of
from gnograd.faces.operator import Array

__all__ = ["array_of", "on_host"]


def array_of(value: Any) -> Array:
    """The array itself, or a NumPy view of another library's memory; None if it is no array."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.partition(".")[0] == "torch":
        return _from_torch(value.detach())
    if hasattr(value, "__cuda_array_interface__"):
        return value
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else None


def _from_torch(tensor: Any) -> Array:
    if tensor.is_cuda:
        return tensor
    if str(tensor.dtype) != "torch.bfloat16":
        return numpy_of(tensor)
    # NumPy has no bfloat16 of its own
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("bfloat16 tensors on the CPU need the package ml_dtypes") from None
    return numpy_of(tensor.view(sys.modules["torch"].int16)).view(ml_dtypes.bfloat16)


def on_host(name: str, label: str, value: Array) -> NDArray[Any]:
    """NumPy array of the argument of a graph, which is checked and transposed on the host."""
    if value is None:
        raise ValueError(f"{name}: {label} is missing, needs an array of integers")
    array = array_of(value)
    if array is None:
        raise TypeError(f"{name}: {label} is of type {type(value).__name__}, needs an array")
    if isinstance(array, np.ndarray):
        refuse_mask(name, label, array)
        return array
    # CuPy has get, PyTorch cpu
    return np.asarray(array.get() if hasattr(array, "get") else array.cpu())
