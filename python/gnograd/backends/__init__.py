# SPDX-License-Identifier: MIT
"""Where arrays live and who computes on them: the only room that knows how kernels are called.

A backend is a module with

- ``DEVICE``: what it is called in messages,
- ``SUFFIXES``: the names of the dtypes it computes in, and how its functions' names end,
- ``contiguous(array)``: the array, or a copy that kernels can read,
- ``empty(shape, dtype)``: memory for an output,
- ``run(operator, face, dtype, arguments, stream=None)``: call the kernel. The arguments are in the
  order of the C interface: graphs, numbers, arrays, and None for an absent array. What a device
  needs besides (workspace) it adds itself. A stream is an address; None is the current one,
- ``assign(target, source, add=False, stream=None)``: copy or add numbers, whatever their dtypes.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

import numpy as np

from gnograd.backends import cpu

__all__ = ["backend_of", "has_cuda"]


def has_cuda() -> bool:
    """Whether this build of gnograd has CUDA kernels."""
    return importlib.util.find_spec("gnograd.backends.cuda") is not None


def backend_of(array: Any) -> ModuleType | None:
    """Backend of an array; None if it is no array at all."""
    if isinstance(array, np.ndarray):
        return cpu
    if not hasattr(array, "__cuda_array_interface__"):
        return None
    if not has_cuda():
        raise RuntimeError("gnograd was built without CUDA kernels")
    return importlib.import_module("gnograd.backends.cuda")
