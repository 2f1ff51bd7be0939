# SPDX-License-Identifier: MIT
"""Operands of half precision: `torch.autocast`, and kernels that there are for them.

Half precision is computed by the kernels that a device has for it. Where there are none, a face
computes on float32 copies and returns the type that was given. What `torch.autocast` asks for is
done to the operands before they reach a face, so that a backward pass, which runs outside of it,
finds them as they were computed with.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnograd.backends import cpu, has_cuda
from gnograd.backends.cpu import dtype_name
from gnograd.faces.operator import Function
from gnograd.notation import shapes

__all__ = ["HALF", "autocast", "has_kernel", "single", "widened"]

HALF = (torch.float16, torch.bfloat16)
_SINGLE_OR_HALF = (torch.float32, *HALF)


def autocast(op: Function[Any, Any], operands: list[Any], static: dict[str, Any]) -> list[Any]:
    """Convert operands to the dtypes that the current region of `torch.autocast` prescribes."""
    device = next((x.device.type for x in operands if x is not None), "cpu")
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return operands
    inputs = operands[: len(op.inputs)]
    dtype, types = torch.float32, [torch.float32] * len(inputs)
    if any(x is not None and x.dtype in HALF for x in inputs):
        dtype = torch.get_autocast_dtype(device)
        if has_kernel(op.name, device, dtype):
            specs = op.signature(**static, **dict.fromkeys(op.arrays)).inputs.values()
            types = [torch.float32 if shapes.parse(spec).dtype else dtype for spec in specs]
    cast = [
        x.to(dtype) if x is not None and x.dtype in _SINGLE_OR_HALF else x
        for x, dtype in zip(inputs, types, strict=True)
    ]
    return [*cast, *operands[len(inputs) :]]


def widened(op: Function[Any, Any], operands: list[Any], static: dict[str, Any]) -> list[Any]:
    """Convert half-precision operands to float32 where kernels need that beside half precision."""
    if not any(x is not None and x.dtype in HALF for x in operands):
        return operands
    specs = op.signature(**static, **dict.fromkeys(op.arrays)).inputs.values()
    given = [(x, shapes.parse(spec).dtype) for x, spec in zip(operands, specs, strict=False)]
    half = next((x.dtype for x, prescribed in given if x is not None and not prescribed), None)
    found = [
        x.float() if x is not None and prescribed == "real" and x.dtype is half else x
        for x, prescribed in given
    ]
    return [*found, *operands[len(found) :]]


def has_kernel(operator: str, device: str, dtype: torch.dtype) -> bool:
    """True if kernels compute in this dtype on this kind of device."""
    name = dtype_name(dtype)
    if device != "cuda" or not has_cuda():
        return name in cpu.SUFFIXES
    from gnograd.backends.cuda import SUFFIXES
    from gnograd.backends.cuda_library import library

    return f"{operator}_forward_{SUFFIXES.get(name)}" in library().faces


# the mark of torch.compiler.assume_constant_result, without importing the compiler
has_kernel._dynamo_marked_constant = True  # type: ignore[attr-defined]


def single(value: Any) -> Any:
    """float32 copies of tensors of half precision, also of those in lists."""
    if isinstance(value, list | tuple):
        return [single(v) for v in value]
    return value.float() if isinstance(value, Tensor) and value.dtype in HALF else value
