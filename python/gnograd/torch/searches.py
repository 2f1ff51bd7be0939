# SPDX-License-Identifier: MIT
"""Searches for near points inside PyTorch's programs, by custom operators on any device."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gnograd.backends.tensors import numpy_of
from gnograd.neighbors.arguments import checked_items, items_of
from gnograd.neighbors.gpu import MOST_AXES
from gnograd.neighbors.search import knn, neighbors
from gnograd.torch.arrays import as_arrays
from gnograd.torch.batches import register_loop
from gnograd.torch.eager import in_transform, is_eager, leave_to_python

__all__ = ["Pointer", "items_of_batch", "nearest_of", "neighbors_of", "unknown_size"]

Pointer = Sequence[int] | Tensor | None


def _searched(
    search: Callable[..., Any],
    amount: Any,
    data: Tensor,
    queries: Tensor | None,
    period: list[float] | None,
    data_ptr: Tensor | None,
    queries_ptr: Tensor | None,
    **options: Any,
) -> list[Tensor]:
    """Results of `neighbors` or `knn` as a list of offsets and indices, in turn."""
    to_themselves = queries is None
    queries = data if queries is None else queries
    points = _coordinates(data, queries)
    box = period[0] if period is not None and len(period) == 1 else period
    with as_arrays(points) as (array, tensor):
        found = search(
            array(points[0]),
            amount,
            None if to_themselves else array(points[1]),
            include_self=not to_themselves,
            period=box,
            source_items=None if data_ptr is None else data_ptr.tolist(),
            destination_items=None if queries_ptr is None else queries_ptr.tolist(),
            **options,
        )
        arrays = itertools.chain(*found) if isinstance(found, list) else found
        return [tensor(x).to(queries.device, torch.int64) for x in arrays]


@leave_to_python
def _neighbors(
    data: Tensor,
    queries: Tensor | None,
    radii: list[float],
    period: list[float] | None,
    data_ptr: Tensor | None,
    queries_ptr: Tensor | None,
    max_neighbors: int | None,
    seed: int | None,
) -> list[Tensor]:
    choose: dict[str, Any] = {} if seed is None else {"choose": "random", "seed": seed}
    radius = radii[0] if len(radii) == 1 else radii
    return _searched(
        neighbors, radius, data, queries, period, data_ptr, queries_ptr,
        max_neighbors=max_neighbors, **choose,
    )  # fmt: skip


@leave_to_python
def _knn(
    data: Tensor,
    queries: Tensor | None,
    k: int,
    period: list[float] | None,
    data_ptr: Tensor | None,
    queries_ptr: Tensor | None,
) -> list[Tensor]:
    return _searched(knn, k, data, queries, period, data_ptr, queries_ptr)


def _with_room(items: Sequence[Tensor]) -> Tensor:
    """Indices of all items of a batch, padded to equal numbers."""
    return torch.nn.utils.rnn.pad_sequence(list(items), batch_first=True)


_op = torch.library.custom_op("gnograd::neighbors", _neighbors, mutates_args=())
register_loop(_op, _with_room)


@_op.register_fake
def _(
    data: Tensor,
    queries: Tensor | None,
    radii: list[float],
    period: list[float] | None,
    data_ptr: Tensor | None,
    queries_ptr: Tensor | None,
    max_neighbors: int | None,
    seed: int | None,
) -> list[Tensor]:
    return [x for _ in radii for x in _like_neighbors(data, queries)]


_op = torch.library.custom_op("gnograd::knn", _knn, mutates_args=())
register_loop(_op, _with_room)


@_op.register_fake
def _(
    data: Tensor,
    queries: Tensor | None,
    k: int,
    period: list[float] | None,
    data_ptr: Tensor | None,
    queries_ptr: Tensor | None,
) -> list[Tensor]:
    if data_ptr is not None:
        return _like_neighbors(data, queries)
    most = data.shape[0] - (queries is None)
    return _like_neighbors(data, queries, torch.sym_max(0, torch.sym_min(k, most)))


def _like_neighbors(data: Tensor, queries: Tensor | None, degree: Any = None) -> list[Tensor]:
    """Fake offsets and indices, with `degree` indices for every query, or an unknown number."""
    queries = data if queries is None else queries
    n = unknown_size() if degree is None else degree * queries.shape[0]
    return [queries.new_empty((length,), dtype=torch.int64) for length in (queries.shape[0] + 1, n)]


def unknown_size() -> Any:
    """Symbolic size that a compiled program learns when it runs.

    `new_dynamic_size` needs a setting of the compiler, without which unknown sizes break graphs;
    the layers here work with an unknown number of edges.
    """
    context = torch.library.get_ctx()
    sizes = getattr(context, "_shape_env", None)
    if sizes is None:
        return context.new_dynamic_size()
    size = sizes.create_unbacked_symint()
    torch._check(size >= 0)
    return size


@leave_to_python
def _batch_items(
    batch: Tensor, destination_batch: Tensor | None, n_src: int, n_dst: int | None
) -> list[Tensor]:
    ids = numpy_of(batch.cpu())
    others = None if destination_batch is None else numpy_of(destination_batch.cpu())
    return [torch.tensor(x, device="cpu") for x in items_of("neighbors", ids, others, n_src, n_dst)]


_op = torch.library.custom_op("gnograd::batch_items", _batch_items, mutates_args=())
register_loop(_op)


@_op.register_fake
def _(
    batch: Tensor, destination_batch: Tensor | None, n_src: int, n_dst: int | None
) -> list[Tensor]:
    n = unknown_size()
    return [torch.empty((n,), dtype=torch.int64) for _ in range(2)]


def items_of_batch(
    batch: Tensor | None, destination_batch: Tensor | None, data: Tensor, queries: Tensor | None
) -> tuple[Pointer, Pointer]:
    """First point of every item, of data and queries, from the item of every point."""
    n_dst = None if queries is None else queries.shape[0]
    if batch is None:
        items_of("neighbors", batch, destination_batch, data.shape[0], n_dst)
        return None, None
    make = _batch_items if is_eager(batch, destination_batch) else torch.ops.gnograd.batch_items
    first, second = make(batch, destination_batch, data.shape[0], n_dst)
    return first, second


def _arguments(
    operator: str,
    data: Tensor,
    queries: Tensor | None,
    period: float | Sequence[float] | None,
    data_ptr: Pointer,
    queries_ptr: Pointer,
) -> tuple[Tensor, Tensor | None, list[float] | None, Tensor | None, Tensor | None]:
    """Checked arguments in the form that custom operators take."""
    n_queries = data.shape[0] if queries is None else queries.shape[0]
    pointers = {"data_ptr": (data_ptr, data.shape[0]), "queries_ptr": (queries_ptr, n_queries)}
    # wrappers of other tensors have no values to check: that is done inside
    if not torch.compiler.is_compiling() and not in_transform():
        checked_items(operator, pointers)
    first, second = (None if ptr is None else _on_host(ptr) for ptr in (data_ptr, queries_ptr))
    box = None
    if period is not None:
        box = [float(p) for p in ([period] if isinstance(period, int | float) else period)]
    return data.detach(), None if queries is None else queries.detach(), box, first, second


def _on_host(ptr: Any) -> Tensor:
    """Borders as a tensor of int64, on the CPU unless it is one; whatever device is the default."""
    return ptr.long() if isinstance(ptr, Tensor) else torch.tensor(ptr, device="cpu").long()


def neighbors_of(
    data: Tensor,
    queries: Tensor | None,
    radii: Sequence[Any],
    period: float | Sequence[float] | None = None,
    data_ptr: Pointer = None,
    queries_ptr: Pointer = None,
    max_neighbors: int | None = None,
    seed: int | None = None,
) -> list[tuple[Tensor, Tensor]]:
    """Offsets and indices of the neighbours of every query, for every radius.

    Without queries, neighbours of every point of `data`, without the point itself. If there are
    more than `max_neighbors`, `seed` chooses; without a seed they are the nearest ones.
    """
    arguments = _arguments("neighbor_search", data, queries, period, data_ptr, queries_ptr)
    data, queries, box, first, second = arguments
    numbers = [radius.item() if isinstance(radius, Tensor) else radius for radius in radii]
    find = _neighbors if is_eager(data, queries) else torch.ops.gnograd.neighbors
    found = find(data, queries, numbers, box, first, second, max_neighbors, seed)
    return list(zip(found[::2], found[1::2], strict=True))


def nearest_of(
    data: Tensor,
    queries: Tensor | None,
    k: int,
    period: float | Sequence[float] | None = None,
    data_ptr: Pointer = None,
    queries_ptr: Pointer = None,
) -> tuple[Tensor, Tensor]:
    """Offsets and indices of the k points of `data` nearest to every query, or to all of `data`."""
    arguments = _arguments("knn", data, queries, period, data_ptr, queries_ptr)
    data, queries, box, first, second = arguments
    find = _knn if is_eager(data, queries) else torch.ops.gnograd.knn
    splits, index = find(data, queries, k, box, first, second)
    return splits, index


def _coordinates(data: Tensor, queries: Tensor) -> list[Tensor]:
    """Both as `gnograd.neighbors` takes them; on the CPU if a GPU has no kernels for them."""
    points = [data, queries]
    if data.is_cuda and data.dim() == 2 and data.shape[1] > MOST_AXES:
        points = [x.cpu() for x in points]
    if (
        data.is_cuda
        and data.dtype == queries.dtype
        and data.dtype in (torch.float32, torch.float64)
    ):
        return points
    return [x.double() for x in points]
