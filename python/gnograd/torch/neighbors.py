# SPDX-License-Identifier: MIT
"""Neighbours within a radius, in the form that neuraloperator's layers take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.neighbors import neighbors
from gnograd.neighbors_arguments import checked_items
from gnograd.neighbors_gpu import MOST_AXES
from gnograd.torch.arrays import as_arrays
from gnograd.torch.eager import is_eager

__all__ = ["NeighborSearch", "neighbor_search", "neighbors_of"]

Pointer = Sequence[int] | Tensor | None


def _neighbors(
    data: Tensor,
    queries: Tensor | None,
    radius: float,
    period: list[float] | None,
    data_ptr: Tensor | None,
    queries_ptr: Tensor | None,
) -> tuple[Tensor, Tensor]:
    to_themselves = queries is None
    queries = data if queries is None else queries
    points = _coordinates(data, queries)
    box = period[0] if period is not None and len(period) == 1 else period
    with as_arrays(points) as (array, tensor):
        found = neighbors(
            array(points[0]),
            radius,
            None if to_themselves else array(points[1]),
            include_self=not to_themselves,
            period=box,
            source_items=None if data_ptr is None else data_ptr.tolist(),
            destination_items=None if queries_ptr is None else queries_ptr.tolist(),
        )
        splits, index = (tensor(x).to(queries.device, torch.int64) for x in found)
    return splits, index


_op = torch.library.custom_op("gnograd::neighbors", _neighbors, mutates_args=())


@_op.register_fake
def _(
    data: Tensor,
    queries: Tensor | None,
    radius: float,
    period: list[float] | None,
    data_ptr: Tensor | None,
    queries_ptr: Tensor | None,
) -> tuple[Tensor, Tensor]:
    queries = data if queries is None else queries
    splits = queries.new_empty((queries.shape[0] + 1,), dtype=torch.int64)
    return splits, queries.new_empty((_unknown_size(),), dtype=torch.int64)


def _unknown_size() -> Any:
    """A size that a compiled program finds when it runs.

    `new_dynamic_size` asks for a setting of the compiler's, without which graphs break where sizes
    are unknown; the layers here go on with an unknown number of edges.
    """
    context = torch.library.get_ctx()
    sizes = getattr(context, "_shape_env", None)
    if sizes is None:
        return context.new_dynamic_size()
    size = sizes.create_unbacked_symint()
    torch._check(size >= 0)
    return size


def neighbors_of(
    data: Tensor,
    queries: Tensor | None,
    radius: Any,
    period: float | Sequence[float] | None = None,
    data_ptr: Pointer = None,
    queries_ptr: Pointer = None,
) -> tuple[Tensor, Tensor]:
    """Offsets and indices of the neighbours of every query.

    Without queries they are those of every point of `data`, the point itself left out.
    """
    n_queries = data.shape[0] if queries is None else queries.shape[0]
    pointers = {"data_ptr": (data_ptr, data.shape[0]), "queries_ptr": (queries_ptr, n_queries)}
    if not torch.compiler.is_compiling():
        checked_items("neighbor_search", pointers)
    items = [
        None if ptr is None else torch.as_tensor(ptr, dtype=torch.int64)
        for ptr in (data_ptr, queries_ptr)
    ]
    box = None
    if period is not None:
        box = [float(p) for p in ([period] if isinstance(period, int | float) else period)]
    if isinstance(radius, Tensor):
        radius = radius.item()
    data, queries = data.detach(), None if queries is None else queries.detach()
    find = _neighbors if is_eager(data, queries) else torch.ops.gnograd.neighbors
    splits, index = find(data, queries, radius, box, *items)
    return splits, index


def neighbor_search(
    data: Tensor,
    queries: Tensor,
    radius: float,
    return_norm: bool = False,
    *,
    period: float | Sequence[float] | None = None,
    data_ptr: Pointer = None,
    queries_ptr: Pointer = None,
) -> dict[str, Tensor]:
    """Points of `data` at most `radius` away from every point of `queries`.

    By `gnograd.neighbors`: on the CPU by a k-d tree in any number of dimensions, on a GPU by a hash
    table of cells in up to three. Distances are compared in float64, between the coordinates as
    they are. The neighbours of a point come in ascending order.

    Parameters
    ----------
    data : Tensor, (n, d)
    queries : Tensor, (m, d)
        On the same device. With more than three coordinates, tensors on a GPU are searched on the
        CPU.
    radius : float
        Largest Euclidean distance, inclusive.
    return_norm : bool
        Return the squared distances too, for weighting functions.
    period : float or sequence of float, (d,), optional
        Lengths of a periodic box, 0 along axes that are not periodic; distances are then to the
        nearest image.
    data_ptr, queries_ptr : sequence of int, (batch + 1,), optional
        First point of every item of a batch, and the number of points at the end: only points of
        the same item are neighbours. Both or none.

    Returns
    -------
    dict
        ``neighbors_index`` (n_edges,), rows of `data`, and ``neighbors_row_splits`` (m + 1,), the
        first neighbour of every query; both int64. With `return_norm`, ``weights`` (n_edges,): the
        squared distances, in the dtype of the points and differentiable with respect to them.

    Raises
    ------
    ValueError
        Points that are not finite or not of the same dimension, a negative radius or period, a
        pointer that does not fit.

    See Also
    --------
    gnograd.neighbors : the same for arrays.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import neighbor_search
    >>> points = torch.tensor([[0.0], [0.4], [0.9]])
    >>> found = neighbor_search(points, points, radius=0.5)
    >>> found["neighbors_index"], found["neighbors_row_splits"]
    (tensor([0, 1, 0, 1, 2, 1, 2]), tensor([0, 2, 5, 7]))
    >>> neighbor_search(points, points, radius=0.2, period=1.0)["neighbors_index"]
    tensor([0, 2, 1, 0, 2])
    """
    splits, index = neighbors_of(data, queries, radius, period, data_ptr, queries_ptr)
    result = {"neighbors_index": index, "neighbors_row_splits": splits}
    if return_norm:
        offset = torch.repeat_interleave(queries, splits.diff(), dim=0, output_size=index.shape[0])
        offset = offset - data[index]
        result["weights"] = _nearest_image(offset, period).square().sum(-1)
    return result


class NeighborSearch(nn.Module):
    """`neighbor_search` as a module; neuraloperator's ``NeighborSearch``.

    Parameters
    ----------
    use_open3d : bool
        Without effect.
    return_norm : bool
        Return the squared distances too.
    """

    def __init__(self, use_open3d: bool = True, return_norm: bool = False) -> None:
        super().__init__()
        self.return_norm = return_norm

    def forward(
        self, data: Tensor, queries: Tensor, radius: float, **options: Any
    ) -> dict[str, Tensor]:
        """Apply `neighbor_search`, with its keyword arguments."""
        return neighbor_search(data, queries, radius, self.return_norm, **options)


def _coordinates(data: Tensor, queries: Tensor) -> list[Tensor]:
    """Both as `gnograd.neighbors` takes them; on the CPU where a GPU has no kernels for them."""
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


def _nearest_image(offset: Tensor, period: float | Sequence[float] | None) -> Tensor:
    if period is None:
        return offset
    box = torch.as_tensor(period, dtype=offset.dtype, device=offset.device)
    images = torch.where(box > 0, (offset.detach() / box).round(), 0.0)
    return offset - torch.where(box > 0, box * images, 0.0)
