# SPDX-License-Identifier: MIT
"""Conversion of tensors to the arrays that the rest of gnograd takes, and back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gnograd.backends.tensors import numpy_of

__all__ = ["as_arrays", "full_precision", "integers", "is_integral", "need_positive"]


@contextlib.contextmanager
def as_arrays(
    tensors: Sequence[Tensor | None],
) -> Iterator[tuple[Callable[..., Any], Callable[..., Tensor]]]:
    """Functions (array, tensor) that convert without a copy, on the device of the first tensor."""
    device = next((x.device for x in tensors if x is not None), torch.device("cpu"))
    if device.type == "cpu":
        yield (lambda x: None if x is None else numpy_of(x)), torch.from_numpy
        return
    # kernels take CUDA tensors as they are, and write to tensors
    from gnograd.backends import cuda

    def empty(shape: tuple[int, ...], dtype: str) -> Tensor:
        return torch.empty(shape, dtype=getattr(torch, dtype), device=device)

    stream = torch.cuda.current_stream(device).cuda_stream
    with torch.cuda.device(device), cuda.using(stream, empty):
        yield (lambda x: None if x is None else x.detach()), (lambda x: x)


def integers(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert integers to another type; none wraps around to another valid number.

    Numbers that do not fit become the largest or the smallest one, which is an error where it is
    used: rows that belong to no edge may hold anything. Tensors of no integers stay as they are.
    """
    if tensor.dtype is dtype or not is_integral(tensor):
        return tensor
    if tensor.dtype is torch.uint64:
        tensor = tensor.view(torch.int64)
        tensor = tensor.masked_fill(tensor < 0, torch.iinfo(torch.int64).max)
    if tensor.dtype in (torch.int64, torch.uint32) and dtype is torch.int32:
        limits = torch.iinfo(dtype)
        tensor = tensor.to(torch.int64).clamp(limits.min, limits.max)
    return tensor.to(dtype)


def is_integral(tensor: Tensor) -> bool:
    """True for integers, which truth values are not."""
    kind = tensor.dtype
    return not (kind.is_floating_point or kind.is_complex or kind is torch.bool)


def need_positive(name: str, **sizes: int) -> None:
    """Check sizes of a layer.

    Raises
    ------
    TypeError, ValueError
        One is no integer, or less than 1.
    """
    for argument, size in sizes.items():
        if not hasattr(size, "__index__"):
            raise TypeError(f"{name}: {argument} is {size!r}, needs an integer")
        if size < 1:
            raise ValueError(f"{name}: {argument} is {size}, needs at least 1")


def full_precision(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Context without `torch.autocast`, for computations with positions.

    In bfloat16 neighbouring points would coincide.
    """
    if not torch.amp.is_autocast_available(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)
