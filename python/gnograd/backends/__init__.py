# SPDX-License-Identifier: MIT
"""Backends, one for each kind of memory: the only modules that call kernels.

A backend is a module with

- ``DEVICE``: its name in messages,
- ``SUFFIXES``: names of the dtypes it computes in, and the suffixes of its functions for each,
- ``describe(array)``: shape of an array, and the name of its dtype,
- ``is_contiguous(array)``: true if kernels can read it, and write to it,
- ``contiguous(array, stream=None)``: the array, or a copy that they can read,
- ``empty(shape, dtype, like, stream=None)``: memory for an output, on the device of an array,
- ``run(operator, face, dtype, arguments, stream=None)``: call the kernel. The arguments are in the
  order of the C interface: graphs, numbers, arrays, and None for an absent array. What a device
  needs besides (workspace) is added here. A stream is an address; None is the current one,
- ``faults(operator, arguments, n)``: the first items at fault in static arrays, for `n` kinds of
  fault, -1 for none; an empty list if kernels report faults themselves. May wait for the device,
- ``assign(target, source, add=False, stream=None)``: copy or add numbers, whatever their dtypes,
- ``layouts(arrays)``: what calls must share so that the checks of one hold for the others, and the
  arrays as prepared calls take them; None if kernels cannot take them as they are,
- ``prepare(function, arguments, n_absent, results, saved, like)``: a call of the kernel without its
  graph and arrays; ``run(graph, arrays)`` of what it returns makes it, in new memory.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from gnograd.backends import cpu, cuda_library

__all__ = ["backend_of", "has_cuda", "layouts_on_gpu"]


def has_cuda() -> bool:
    """True if there are CUDA kernels: of this build, of a wheel, or ``GNOGRAD_CUDA_LIBRARY``."""
    return cuda_library.find() is not None


def backend_of(array: Any) -> ModuleType | None:
    """Backend of an array; None if it is no array at all."""
    if isinstance(array, np.ndarray):
        return cpu
    if not hasattr(array, "__cuda_array_interface__"):
        return None
    if not has_cuda():
        raise RuntimeError(cuda_library.ABSENT)
    return importlib.import_module("gnograd.backends.cuda")


def layouts_on_gpu(arrays: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """`layouts` of the backend of GPUs; None unless all arrays are on one."""
    first = next((x for x in arrays if x is not None), None)
    if not hasattr(type(first), "__cuda_array_interface__") or not has_cuda():
        return None
    layouts: tuple[Any, Any] | None = importlib.import_module("gnograd.backends.cuda").layouts(
        arrays
    )
    return layouts
