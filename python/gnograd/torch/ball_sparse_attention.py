# SPDX-License-Identifier: MIT
"""Ball sparse attention: a layer for points in space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.adapter import not_compiled
from gnograd.torch.arrays import full_precision, integers
from gnograd.torch.ball_tree import CloudLayout, ball_tree_order, clouds_of
from gnograd.torch.sparse_branches import SparseBranches, borders_of, checked_borders

__all__ = ["BallSparseAttention"]


class BallSparseAttention(SparseBranches):
    """Attention of points in space to their ball, to selected balls, and coarsely to all.

    The points are put in the order of a ball tree and cut into balls of `ball_size`; the last may
    be smaller. Every point sees the points of its own ball, learned weighted sums of
    `compress_size` points everywhere, and the `num_selected_balls` other balls that got most
    attention in this coarse picture, point by point. Nothing is causal.

    Parameters
    ----------
    dim : int
        Width of the input and the output.
    num_heads : int
        Query, key and value heads.
    num_kv_heads : int, optional
        Key/value heads if there are fewer; a divisor of num_heads.
    head_dim : int, optional
        ``dim // num_heads`` when left out.
    ball_size : int
        Points in a ball, at most 256.
    compress_size : int
        Points behind a compressed one.
    num_selected_balls : int
        Other balls that a point sees.
    query_group : int, optional
        Consecutive points that share a selection, a divisor of `ball_size`, and `ball_size` when
        left out.
    position_dim : int, optional
        Dimension of space. When given, a learned linear map of every point's position in its
        ball is added to its features.
    bias : bool
        Give the projections biases.
    distance_bias : bool
        Add a bias to the attention in balls that is linear in the distance of points, with the
        parameter ``sigma_att (1, num_heads, 1, 1)`` as in Erwin's layers.

    Raises
    ------
    ValueError
        Head counts or a query group that do not divide; a ball of more than 256 points.

    References
    ----------
    Brita et al., BSA: Ball Sparse Attention for Large-scale Geometries, arXiv:2506.12541, 2025.
    Zhdanov et al., Erwin: A Tree-based Hierarchical Transformer for Large-scale Physical Systems,
    arXiv:2502.17019, 2025, for the bias.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import BallSparseAttention
    >>> layer = BallSparseAttention(32, 4, ball_size=16, compress_size=4, position_dim=2)
    >>> layer(torch.randn(100, 32), torch.rand(100, 2)).shape
    torch.Size([100, 32])

    Two clouds, of 70 and 30 points, as PyG has them:

    >>> batch = torch.arange(2).repeat_interleave(torch.tensor([70, 30]))
    >>> layer(torch.randn(100, 32), torch.rand(100, 2), batch=batch).shape
    torch.Size([100, 32])
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        ball_size: int = 64,
        compress_size: int = 8,
        num_selected_balls: int = 4,
        query_group: int | None = None,
        position_dim: int | None = None,
        bias: bool = True,
        distance_bias: bool = False,
    ) -> None:
        super().__init__(dim, num_heads, num_kv_heads, head_dim, compress_size, bias)
        self.query_group = ball_size if query_group is None else query_group
        if not 1 <= ball_size <= 256:
            raise ValueError(f"ball_size is {ball_size}, needs 1 to 256")
        if self.query_group < 1 or ball_size % self.query_group:
            raise ValueError(
                f"query_group {self.query_group} does not divide ball_size {ball_size}"
            )
        self.ball_size, self.compress_size = ball_size, compress_size
        self.num_selected_balls = num_selected_balls
        self.position = None if position_dim is None else nn.Linear(position_dim, dim)
        self.sigma_att = None
        if distance_bias:  # near points first, as in Erwin
            self.sigma_att = nn.Parameter(-1 + 0.01 * torch.randn(1, num_heads, 1, 1))

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor | Sequence[int] | None = None,
        *,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        ordered: bool = False,
    ) -> Tensor:
        """Attend.

        Parameters
        ----------
        x : Tensor, (N, dim)
            Features of the points.
        positions : Tensor, (N, d)
            Coordinates.
        cu_seqlens : Tensor of int64 or sequence of int, (n_clouds + 1,), optional
            First point of every cloud packed in `x`, and the end; one cloud when left out.
        batch : Tensor of int64, (N,), optional
            Number of the cloud of every point, in any order, in place of `cu_seqlens`. Points of
            different clouds do not see each other.
        batch_size : int, optional
            Clouds in `batch`, some of which may be empty; one more than its largest number when
            left out.
            ``torch.compile(fullgraph=True)`` needs it, for that is read by the host.
        ordered : bool
            Set this if the points are already in the order of `ball_tree_order` (with `batch`, if
            there is one), which a network of several layers needs only once.

        Returns
        -------
        Tensor, (N, dim)
            In the order of `x`.

        Raises
        ------
        ValueError
            Shapes or borders that do not fit, positions that are not finite.
        """
        if x.ndim != 2 or positions.ndim != 2 or x.shape[0] != positions.shape[0]:
            raise ValueError(
                f"x has shape {tuple(x.shape)}, positions {tuple(positions.shape)}: need (N, dim) "
                "and (N, d)"
            )
        if batch is not None and cu_seqlens is not None:
            raise ValueError("batch and cu_seqlens are both given, needs one of them")
        if cu_seqlens is not None:
            cu = checked_borders(cu_seqlens, x.shape[0]).to(x.device)
            batch = torch.bucketize(torch.arange(x.shape[0], device=x.device), cu[1:], right=True)
            batch_size = len(cu) - 1
        if batch is not None:
            batch = self._checked(batch, x.shape[0])
        order = None if ordered else ball_tree_order(positions, batch)
        layout = None
        if batch is not None and x.shape[0] > 0:
            if ordered:
                _check_sorted(batch)
            if batch_size is None:
                batch_size = _largest(batch) + 1
            ones = torch.ones_like(batch)
            cu = borders_of(ones.new_zeros(batch_size).scatter_add(0, batch, ones))
            layout = clouds_of(cu, x.shape[0], self.ball_size, self.compress_size, self.query_group)
        if order is None:
            return self._attend(x, positions, layout)
        out = self._attend(x.index_select(0, order), positions.index_select(0, order), layout)
        return out.index_select(0, order.argsort())

    @staticmethod
    def _checked(batch: Tensor, n: int) -> Tensor:
        if batch.ndim != 1 or batch.shape[0] != n or batch.is_floating_point():
            raise ValueError(
                f"batch is of {batch.dtype} and shape {tuple(batch.shape)}, needs integers and "
                f"({n},)"
            )
        return integers(batch, torch.int64)

    def _attend(self, x: Tensor, positions: Tensor, clouds: CloudLayout | None) -> Tensor:
        """Attention of points in the order of their trees; a single cloud if there is no layout."""
        if self.position is not None:
            offset = positions - self._centers(positions, clouds)
            with full_precision(x.device):
                x = x + self.position(offset)
        step: dict[str, Any] = {"block": self.compress_size, "stride": self.compress_size}
        q, (k_c, k_s, k_b), (v_c, v_s, v_b) = self.project(x)
        cu = cu_c = None
        if clouds is not None:
            cu, cu_c = clouds.cu, clouds.cu_compressed
            k_c, v_c = (x.index_select(0, clouds.whole) for x in (k_c, v_c))
        k_c = functional.compress(k_c, self.compress_k, **step)
        v_c = functional.compress(v_c, self.compress_v, **step)
        coarse, lse = functional.compressed_attention(q, k_c, v_c, cu_q=cu, cu_k=cu_c, **step)
        fine = self._selected(q, k_s, v_s, k_c, lse, clouds)
        bias: dict[str, Any] = {}
        if self.sigma_att is not None:
            points = positions.to(lse.dtype)
            slope = self.sigma_att.flatten().to(lse.dtype)
            bias = {"positions_q": points, "positions_k": points, "slope": slope}
        near = functional.window_attention(
            q, k_b, v_b, window=self.ball_size, cu_q=cu, cu_k=cu, **bias
        )
        return self.combine(x, [coarse, fine, near])

    def _selected(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        k_c: Tensor,
        lse: Tensor,
        clouds: CloudLayout | None,
    ) -> Tensor:
        """Attention to the balls whose compressed points got most attention."""
        rows, k_c, lse = q, k_c.detach(), lse.detach()
        cu_q = cu_k = None
        if clouds is not None:
            cu_q, cu_k = clouds.cu_rows, clouds.cu
            rows = q.new_zeros(clouds.n_rows, *q.shape[1:]).index_copy(0, clouds.row, q)
            # padding rows have no weight in a selection
            none = lse.new_full((clouds.n_rows, lse.shape[1]), torch.inf)
            lse = none.index_copy(0, clouds.row, lse)
        balls = functional.select_blocks(
            rows.detach(),
            k_c,
            lse,
            block=self.compress_size,
            stride=self.compress_size,
            block_size=self.ball_size,
            n_blocks=self.num_selected_balls,
            n_keys=k.shape[0],
            cu_q=cu_q,
            cu_k=cu_k,
            query_block=self.query_group,
            exclude_own=True,
        )
        fine = functional.selected_attention(
            rows,
            k,
            v,
            block_index=balls,
            block_size=self.ball_size,
            query_block=self.query_group,
            cu_q=cu_q,
            cu_k=cu_k,
        )
        return fine if clouds is None else fine.index_select(0, clouds.row)

    def _centers(self, positions: Tensor, clouds: CloudLayout | None) -> Tensor:
        """Mean position of every point's ball; the last may be smaller."""
        size = self.ball_size
        if clouds is not None:
            there = torch.arange(size, device=positions.device) < clouds.ball_sizes[:, None]
            members = torch.where(there[..., None], positions[clouds.members], 0)
            return (members.sum(dim=1) / clouds.ball_sizes[:, None].clamp(min=1))[clouds.ball]
        full = positions.shape[0] // size * size
        balls = positions[:full].unflatten(0, (-1, size))
        centers = balls.mean(dim=1, keepdim=True).expand_as(balls).flatten(0, 1)
        rest = positions[full:]
        return torch.cat([centers, rest.mean(dim=0).expand_as(rest)])


@not_compiled
def _largest(batch: Tensor) -> int:
    return int(batch.max()) if batch.shape[0] else 0


def _check_sorted(batch: Tensor) -> None:
    """Check that ids do not decrease, unless the host had to wait for them."""
    if batch.is_cpu and not torch.compiler.is_compiling() and (batch.diff() < 0).any():
        raise ValueError("batch descends, but ordered=True needs the clouds one behind the other")
