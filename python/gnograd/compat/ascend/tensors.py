# SPDX-License-Identifier: MIT
"""PyTorch tensors in the functions of Ascend: values by the same kernels, and autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnograd.backends.tensors import numpy_of
from gnograd.torch import functional
from gnograd.torch.arrays import as_arrays

__all__ = ["Tensors", "of_tensors", "with_gradients"]

Optional = Sequence[Tensor | None]
HALF = (torch.float16, torch.bfloat16)


class Tensors:
    """`gnograd.compat.ascend.library.Library` of PyTorch."""

    xp = torch

    def array(self, value: Any) -> Tensor:
        """The tensor itself."""
        if not isinstance(value, Tensor):
            raise TypeError
        return value

    def dtype(self, array: Tensor) -> str:
        """Name of the dtype."""
        return str(array.dtype).removeprefix("torch.")

    def place(self, host: NDArray[Any], like: Tensor) -> Tensor:
        """Copy a NumPy array to the device of a tensor."""
        return torch.from_numpy(np.ascontiguousarray(host)).to(like.device)

    def host(self, array: Tensor) -> NDArray[Any]:
        """Copy a tensor to NumPy."""
        return numpy_of(array.cpu())

    def cast(self, array: Tensor, dtype: str) -> Tensor:
        """Convert a tensor to another dtype."""
        return array.to(getattr(torch, dtype))

    def descending(self, scores: Tensor) -> Tensor:
        """Stable order of the last axis, from the largest entry to the smallest."""
        return torch.argsort(scores, dim=-1, descending=True, stable=True)

    def cat(self, arrays: Sequence[Tensor], axis: int) -> Tensor:
        """Join tensors along an axis."""
        return torch.cat(list(arrays), axis)

    def apply(self, operator: str, inputs: Optional, **static: Any) -> Any:
        """Apply an operator of `gnograd.torch`."""
        function: Callable[..., Any] = getattr(functional, operator)
        first = next(x for x in inputs if x is not None)
        if first.dtype not in HALF or first.is_cuda:
            return function(*inputs, **static)
        found = function(*[None if x is None else x.float() for x in inputs], **static)
        return _each(lambda x: x.to(first.dtype), found)

    def gradients(self, operator: str, cotangent: Tensor, inputs: Optional, **static: Any) -> Any:
        """Gradients of the inputs of an operator, by autograd."""
        with torch.enable_grad():
            given = [None if x is None else x.detach().requires_grad_() for x in inputs]
            out = self.apply(operator, given, **static)
            return torch.autograd.grad(out, [x for x in given if x is not None], cotangent)


def of_tensors(function: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[Tensor, ...]:
    """Call a function of arrays with tensors; its results are tensors."""
    tensors = [x for x in (*arguments, *named.values()) if isinstance(x, Tensor)]
    dtype = tensors[0].dtype
    wide = dtype in HALF and not tensors[0].is_cuda
    with as_arrays(tensors) as (array, tensor):

        def pass_on(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            return array(x.float() if wide and x.dtype == dtype else x)

        found = function(
            *map(pass_on, arguments), **{name: pass_on(x) for name, x in named.items()}
        )
        return tuple(map(tensor, found))


def with_gradients(
    forward: Callable[..., Any], backward: Callable[..., Any], inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Results of a function of arrays, the first of which is differentiable.

    Parameters
    ----------
    forward : callable
        Function of the inputs.
    backward : callable
        Function of the inputs, the results and the cotangent of the first result; returns gradients
        of the first inputs, without the others.
    inputs : sequence of Tensor
    """
    results: tuple[Tensor, ...] = _WithGradients.apply(forward, backward, *inputs)  # type: ignore[no-untyped-call]
    return results


class _WithGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, forward: Any, backward: Any, *inputs: Any) -> Any:
        out, *others = of_tensors(forward, *inputs)
        out = out.to(inputs[0].dtype)
        ctx.of_arrays, ctx.n_inputs = backward, len(inputs)
        ctx.save_for_backward(*inputs, out, *others)
        ctx.mark_non_differentiable(*others)
        return (out, *others)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor, *_: Any) -> Any:
        saved = ctx.saved_tensors
        found = of_tensors(ctx.of_arrays, *saved, cotangent)
        gradients = [x.to(saved[0].dtype) for x in found]
        return (None, None, *gradients, *[None] * (ctx.n_inputs - len(gradients)))


def _each(change: Callable[[Tensor], Tensor], found: Any) -> Any:
    return tuple(map(change, found)) if isinstance(found, tuple) else change(found)
