# SPDX-License-Identifier: MIT
"""Batches of calls, which PyTorch's transforms make, computed one call after the other.

Kernels are long compared with their calls. There are two kinds of batches: those of `torch.func`,
for which operators have rules that are made here, and the older ones of `torch.autograd`
(``is_grads_batched``, ``vectorize``), which come to derivatives as tensors without memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["is_batch", "one_by_one", "register_loop", "rows_of_batch"]

is_batch: Callable[[Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor
"""Function of a tensor: true if it is such a batch of `torch.autograd`."""


def register_loop(operator: Any, stack: Callable[[Sequence[Tensor]], Tensor] | None = None) -> None:
    """Give a custom operator its rule for `torch.func.vmap`.

    Parameters
    ----------
    operator : CustomOpDef
    stack : callable, optional
        Function that joins the results of all items; when left out they must have one shape.
    """

    def rule(info: Any, in_dims: Any, *args: Any) -> tuple[Any, Any]:
        return rows_of_batch(operator, info.batch_size, in_dims, args, stack or _stacked(operator))

    operator.register_vmap(rule)


def _stacked(operator: Any) -> Callable[[Sequence[Tensor]], Tensor]:
    def stack(items: Sequence[Tensor]) -> Tensor:
        shapes = sorted({tuple(item.shape) for item in items})
        if len(shapes) > 1:
            name = operator._qualname.partition("::")[2]
            raise ValueError(
                f"{name}: under torch.func.vmap items give results of different shapes, "
                f"{shapes[0]} and {shapes[-1]}"
            )
        return torch.stack(list(items))

    return stack


def rows_of_batch(
    function: Callable[..., Any],
    size: int,
    in_dims: Any,
    args: Any,
    stack: Callable[[Any], Tensor] = torch.stack,
) -> tuple[Any, Any]:
    """Results of a function for every item of a batch, and the axes of the items in them.

    Parameters
    ----------
    function : callable
        Returns a tensor, or a tuple or list of them.
    size : int
        Number of items.
    in_dims : sequence
        Axis of the items in every argument, None where there is none; lists for lists.
    args : sequence
    stack : callable
        Function that joins the results of all items.
    """

    def pick(value: Any, dim: Any, k: int) -> Any:
        if isinstance(value, list | tuple) and isinstance(dim, list | tuple):
            return [pick(v, d, k) for v, d in zip(value, dim, strict=True)]
        # kernels take the arrays of a graph in order
        return value if dim is None else value.select(dim, k).contiguous()

    if not size:
        return _results_of_nothing(function, in_dims, args)
    rows = [
        function(*(pick(value, dim, k) for value, dim in zip(args, in_dims, strict=True)))
        for k in range(size)
    ]
    if isinstance(rows[0], Tensor):
        return stack(rows), 0
    stacked = [stack(column) for column in zip(*rows, strict=True)]
    kind = type(rows[0])
    return kind(stacked), kind([0] * len(stacked))


def _results_of_nothing(function: Callable[..., Any], in_dims: Any, args: Any) -> tuple[Any, Any]:
    """`rows_of_batch` for a batch without items: results have the shapes of those of an item."""
    devices = []

    def shaped(value: Any, dim: Any) -> Any:
        if isinstance(value, list | tuple):
            dims = dim if isinstance(dim, list | tuple) else [None] * len(value)
            return [shaped(v, d) for v, d in zip(value, dims, strict=True)]
        if not isinstance(value, Tensor):
            return value
        devices.append(value.device)
        shape = list(value.shape)
        if dim is not None:
            del shape[dim]
        return value.new_empty(shape, device="meta")

    item = function(*(shaped(value, dim) for value, dim in zip(args, in_dims, strict=True)))
    if isinstance(item, Tensor):
        return item.new_empty((0, *item.shape), device=devices[0]), 0
    kind = type(item)
    none = [x.new_empty((0, *x.shape), device=devices[0]) for x in item]
    return kind(none), kind([0] * len(none))


def one_by_one(function: Callable[..., Sequence[Any]], *tensors: Tensor | None) -> Sequence[Any]:
    """Results of a function, item by item where tensors are batches of `torch.autograd`."""
    if not any(x is not None and is_batch(x) for x in tensors):
        return function(*tensors)
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    return _at_level(function, level, tensors)


def _at_level(
    function: Callable[..., Sequence[Any]], level: int, tensors: Sequence[Tensor | None]
) -> Sequence[Any]:
    """`one_by_one` for the batches of one level, which may contain batches of lower levels."""
    batches = {}
    for k, x in enumerate(tensors):
        if x is not None and is_batch(x):
            # if x is a batch of another level only, this gives no items
            items = torch._remove_batch_dim(x, level, 0, 0)
            if items.shape[0]:
                batches[k] = items
    if not batches:
        return function(*tensors) if level == 1 else _at_level(function, level - 1, tensors)
    size = next(iter(batches.values())).shape[0]
    rows = []
    for item in range(size):
        row = [batches[k][item] if k in batches else x for k, x in enumerate(tensors)]
        rows.append(function(*row) if level == 1 else _at_level(function, level - 1, row))
    return [
        None if column[0] is None else torch._add_batch_dim(torch.stack(column), 0, level)
        for column in zip(*rows, strict=True)
    ]
