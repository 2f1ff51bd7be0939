# SPDX-License-Identifier: MIT
"""Tensors as the arrays that the rest of gnograd takes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["as_arrays"]


@contextlib.contextmanager
def as_arrays(
    tensors: Sequence[Tensor | None],
) -> Iterator[tuple[Callable[..., Any], Callable[..., Tensor]]]:
    """How tensors become arrays and arrays tensors, without a copy, on the device of the first."""
    device = next((x.device for x in tensors if x is not None), torch.device("cpu"))
    if device.type == "cpu":
        yield (lambda x: None if x is None else x.detach().numpy()), torch.from_numpy
        return
    # kernels take CUDA tensors as they are, and write to tensors
    from gnograd.backends import cuda

    def empty(shape: tuple[int, ...], dtype: str) -> Tensor:
        return torch.empty(shape, dtype=getattr(torch, dtype), device=device)

    stream = torch.cuda.current_stream(device).cuda_stream
    with torch.cuda.device(device), cuda.using(stream, empty):
        yield (lambda x: None if x is None else x.detach()), (lambda x: x)
