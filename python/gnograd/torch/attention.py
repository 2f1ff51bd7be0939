# SPDX-License-Identifier: MIT
"""Sparse attention layers: for sequences, and for points in space.

Both add three attentions, each weighted by a gate: to compressed tokens, which sees everything
coarsely; to the blocks whose compressed tokens got most attention, at full resolution; and to the
neighbourhood. Their cost grows linearly with the number of tokens, apart from the compressed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gnograd.nsa import compressed_offsets
from gnograd.torch import functional
from gnograd.torch.adapter import not_compiled

__all__ = ["BallSparseAttention", "NativeSparseAttention", "ball_tree_order"]

BRANCHES = 3  # compressed, selected, neighbourhood


class _Packed(NamedTuple):
    """Where the sequences of packed tokens begin, and those of their compressed tokens."""

    cu: Tensor
    cu_c: Tensor
    n_compressed: int


class _Branches(nn.Module):
    """Projections, learned compression and gates, which both layers have in common."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_kv_heads: int | None,
        head_dim: int | None,
        compress_block: int,
        bias: bool,
    ) -> None:
        super().__init__()
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if min(dim, num_heads, kv_heads) < 1 or num_heads % kv_heads:
            raise ValueError(
                f"dim {dim} and heads {num_heads}, {kv_heads} must be positive, and num_heads a "
                "multiple of num_kv_heads"
            )
        if head_dim is None and dim % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide dim {dim}: give head_dim")
        self.dim, self.num_heads, self.num_kv_heads = dim, num_heads, kv_heads
        self.head_dim = dim // num_heads if head_dim is None else head_dim
        self.to_q = nn.Linear(dim, num_heads * self.head_dim, bias=bias)
        # every branch has keys and values of its own, as in the paper
        self.to_kv = nn.Linear(dim, BRANCHES * 2 * kv_heads * self.head_dim, bias=bias)
        self.to_gate = nn.Linear(dim, BRANCHES * num_heads)
        self.to_out = nn.Linear(num_heads * self.head_dim, dim, bias=bias)
        self.compress_k = nn.Parameter(torch.full((compress_block, kv_heads), 1 / compress_block))
        self.compress_v = nn.Parameter(torch.full((compress_block, kv_heads), 1 / compress_block))

    def project(self, x: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Queries ``(T, heads, head_dim)``; keys and values of the branches."""
        q = self.to_q(x).view(len(x), self.num_heads, self.head_dim)
        kv = self.to_kv(x).view(len(x), BRANCHES, 2, self.num_kv_heads, self.head_dim)
        keys, values = kv.unbind(dim=2)
        return q, list(keys.unbind(dim=1)), list(values.unbind(dim=1))

    def combine(self, x: Tensor, branches: list[Tensor]) -> Tensor:
        """Sum of the branches ``(T, heads, head_dim)`` under their gates."""
        gates = torch.sigmoid(self.to_gate(x)).view(len(x), BRANCHES, self.num_heads, 1)
        total = (gates * torch.stack(branches, dim=1)).sum(dim=1)
        return self.to_out(total.reshape(len(x), self.num_heads * self.head_dim))


class NativeSparseAttention(_Branches):
    """Attention of a sequence to compressed tokens, selected blocks and a sliding window.

    ``out = sum_c sigmoid(g_c) o out_c`` over the three branches. Compressed tokens are learned
    weighted sums of `compress_block_size` tokens; the selected blocks are those whose compressed
    tokens get most attention, summed over the query heads that share a key/value head. Positions
    are not encoded: add an encoding to `x`.

    Parameters
    ----------
    dim : int
        Width of the input and the output.
    num_heads, num_kv_heads : int
        Query heads, and key/value heads (as many when left out), which divide them.
    head_dim : int, optional
        ``dim // num_heads`` when left out.
    compress_block_size, compress_stride : int
        Tokens behind a compressed one, and from one to the next.
    selection_block_size, num_selected_blocks : int
        Tokens in a block, and blocks that a query sees.
    window_size : int
        Tokens that the window reaches back, the query's own among them.
    first_blocks, local_blocks : int
        Blocks at the start, and up to the own one, that are always among the selected.
    causal : bool
        Whether a token sees no later one. If not, the window is the query's stretch of
        `window_size` tokens.
    query_block_size : int
        Consecutive tokens that share a selection.
    bias : bool
        Whether the projections have biases.

    Raises
    ------
    ValueError
        Head counts that do not divide, sequences that do not begin at multiples of
        `query_block_size`.

    References
    ----------
    Yuan et al., Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse Attention,
    arXiv:2502.11089, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import NativeSparseAttention
    >>> layer = NativeSparseAttention(
    ...     32, 4, 2, compress_block_size=8, compress_stride=4, selection_block_size=8,
    ...     num_selected_blocks=4, window_size=16)
    >>> layer(torch.randn(2, 100, 32)).shape
    torch.Size([2, 100, 32])
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        compress_block_size: int = 32,
        compress_stride: int = 16,
        selection_block_size: int = 64,
        num_selected_blocks: int = 16,
        window_size: int = 512,
        first_blocks: int = 1,
        local_blocks: int = 2,
        causal: bool = True,
        query_block_size: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__(dim, num_heads, num_kv_heads, head_dim, compress_block_size, bias)
        self.compress_block_size, self.compress_stride = compress_block_size, compress_stride
        self.selection_block_size = selection_block_size
        self.num_selected_blocks = num_selected_blocks
        self.window_size, self.causal = window_size, causal
        self.first_blocks, self.local_blocks = first_blocks, local_blocks
        self.query_block_size = query_block_size

    def forward(self, x: Tensor, cu_seqlens: Tensor | Sequence[int] | None = None) -> Tensor:
        """Attend.

        Parameters
        ----------
        x : Tensor, (T, dim) or (batch, T, dim)
            Tokens.
        cu_seqlens : Tensor of int64 or sequence of int, (n_sequences + 1,), optional
            First token of every sequence packed in ``x (T, dim)``, and the end; one sequence when
            left out. `torch.compile` breaks its graph here; for a batch it does not.

        Returns
        -------
        Tensor
            In the shape of `x`.
        """
        if x.ndim == 3:
            if cu_seqlens is not None:
                raise ValueError("cu_seqlens: a batch (batch, T, dim) is not packed")
            flat = x.flatten(0, 1)
            return self._attend(flat, self._equal(x) if len(x) > 1 else None).view_as(x)
        packed = None
        if cu_seqlens is not None:
            packed = self._packed(x, cu_seqlens)
        return self._attend(x, packed)

    @not_compiled
    def _packed(self, x: Tensor, cu_seqlens: Tensor | Sequence[int]) -> _Packed:
        """Borders of sequences of any lengths."""
        cu = _borders(cu_seqlens, len(x), self.query_block_size)
        cu_c = torch.from_numpy(
            compressed_offsets(cu.numpy(), self.compress_block_size, self.compress_stride)
        )
        return _Packed(cu.to(x.device), cu_c.to(x.device), int(cu_c[-1]))

    def _equal(self, x: Tensor) -> _Packed:
        """Borders of a batch ``(batch, T, dim)``, whose items are all of one length."""
        batch, length = x.shape[:2]
        if length % self.query_block_size:
            raise ValueError(
                f"x has items of {length} tokens, needs multiples of {self.query_block_size}, "
                "the tokens that share a selection"
            )
        count = max((length - self.compress_block_size) // self.compress_stride + 1, 0)
        item = torch.arange(batch + 1, dtype=torch.int64, device=x.device)
        return _Packed(item * length, item * count, batch * count)

    def _attend(self, x: Tensor, packed: _Packed | None) -> Tensor:
        """Attention of tokens ``(T, dim)``."""
        step: dict[str, Any] = {"block": self.compress_block_size, "stride": self.compress_stride}
        cu, cu_c, n_compressed = (None, None, None) if packed is None else packed
        q, (k_c, k_s, k_w), (v_c, v_s, v_w) = self.project(x)
        k_c, v_c = (
            functional.compress(t, w, cu=cu, n_compressed=n_compressed, **step)
            for t, w in ((k_c, self.compress_k), (v_c, self.compress_v))
        )
        coarse, lse = functional.compressed_attention(
            q, k_c, v_c, causal=self.causal, cu_q=cu, cu_k=cu_c, **step
        )
        blocks = functional.select_blocks(
            q.detach(),
            k_c.detach(),
            lse.detach(),
            block_size=self.selection_block_size,
            n_blocks=self.num_selected_blocks,
            n_keys=len(x),
            causal=self.causal,
            cu_q=cu,
            cu_k=cu,
            query_block=self.query_block_size,
            first_blocks=self.first_blocks,
            local_blocks=self.local_blocks,
            **step,
        )
        fine = functional.selected_attention(
            q,
            k_s,
            v_s,
            block_index=blocks,
            block_size=self.selection_block_size,
            causal=self.causal,
            cu_q=cu,
            cu_k=cu,
            query_block=self.query_block_size,
        )
        near = functional.window_attention(
            q, k_w, v_w, window=self.window_size, causal=self.causal, cu_q=cu, cu_k=cu
        )
        return self.combine(x, [coarse, fine, near])


@not_compiled
def _borders(cu_seqlens: Tensor | Sequence[int], n: int, multiple: int = 1) -> Tensor:
    """First item of every sequence, and the end: checked, on the host."""
    cu = torch.as_tensor(cu_seqlens).cpu()
    if cu.is_floating_point() or cu.dim() != 1 or len(cu) < 1:
        raise ValueError(
            f"cu_seqlens is of {cu.dtype} and shape {tuple(cu.shape)}, "
            "needs integers and (n_sequences + 1,)"
        )
    cu = cu.to(torch.int64)
    if cu[0] != 0 or cu[-1] != n or (cu.diff() < 0).any():
        raise ValueError(f"cu_seqlens is {cu.tolist()}, needs to ascend from 0 to {n}")
    if (cu[:-1] % multiple).any():
        raise ValueError(
            f"cu_seqlens: sequences must begin at multiples of {multiple}, "
            "the tokens that share a selection"
        )
    return cu


@not_compiled
def ball_tree_order(positions: Tensor) -> Tensor:
    """Order of points in which neighbours in the list are neighbours in space.

    The leaves of a balanced k-d tree (`scipy.spatial.cKDTree`), whose every node is a stretch of
    the list: so is a ball of points, and a ball of balls.

    Parameters
    ----------
    positions : Tensor, (N, d)
        Coordinates.

    Returns
    -------
    Tensor of int64, (N,)
        Row of every point of the list.

    Raises
    ------
    ValueError
        Positions that are not finite.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import ball_tree_order
    >>> ball_tree_order(torch.tensor([[3.0], [0.0], [2.0], [1.0]]))
    tensor([1, 3, 2, 0])
    """
    points = positions.detach().double().cpu().numpy()
    if not np.isfinite(points).all():
        raise ValueError("ball_tree_order: positions has values that are not finite")
    if len(points) == 0:
        return torch.empty(0, dtype=torch.int64, device=positions.device)
    # takes longer to import than gnograd
    from scipy.spatial import cKDTree

    order = cKDTree(points, leafsize=1, balanced_tree=True).indices
    return torch.from_numpy(order.astype(np.int64)).to(positions.device)


class BallSparseAttention(_Branches):
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
        Key/value heads where they are fewer; they divide num_heads.
    head_dim : int, optional
        ``dim // num_heads`` when left out.
    ball_size : int
        Points in a ball, at most 256.
    compress_size : int
        Points behind a compressed one.
    num_selected_balls : int
        Other balls that a point sees.
    query_group : int, optional
        Consecutive points that share a selection; it divides `ball_size`, which it is when left
        out.
    position_dim : int, optional
        Dimension of space. When given, a learned linear map of every point's position in its
        ball is added to its features.
    bias : bool
        Whether the projections have biases.

    Raises
    ------
    ValueError
        Head counts or a query group that do not divide; a ball of more than 256 points.

    References
    ----------
    Brita et al., BSA: Ball Sparse Attention for Large-scale Geometries, arXiv:2506.12541, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import BallSparseAttention
    >>> layer = BallSparseAttention(32, 4, ball_size=16, compress_size=4, position_dim=2)
    >>> layer(torch.randn(100, 32), torch.rand(100, 2)).shape
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

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor | Sequence[int] | None = None,
        *,
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
        ordered : bool
            Whether the points are already in the order of `ball_tree_order`, which a network of
            several layers needs only once.

        Returns
        -------
        Tensor, (N, dim)
            In the order of `x`.
        """
        if x.ndim != 2 or positions.ndim != 2 or len(x) != len(positions):
            raise ValueError(
                f"x has shape {tuple(x.shape)}, positions {tuple(positions.shape)}: need (N, dim) "
                "and (N, d)"
            )
        if cu_seqlens is not None:
            sizes = _borders(cu_seqlens, len(x)).diff().tolist()
            clouds = zip(x.split(sizes), positions.split(sizes), strict=True)
            return torch.cat([self.forward(f, p, ordered=ordered) for f, p in clouds])
        if ordered:
            return self._attend(x, positions)
        order = ball_tree_order(positions)
        out = self._attend(x[order], positions[order])
        return out[order.argsort()]

    def _attend(self, x: Tensor, positions: Tensor) -> Tensor:
        """Attention of one cloud in the order of the tree."""
        if self.position is not None:
            x = x + self.position(positions - self._centers(positions))
        step: dict[str, Any] = {"block": self.compress_size, "stride": self.compress_size}
        q, (k_c, k_s, k_b), (v_c, v_s, v_b) = self.project(x)
        k_c = functional.compress(k_c, self.compress_k, **step)
        v_c = functional.compress(v_c, self.compress_v, **step)
        coarse, lse = functional.compressed_attention(q, k_c, v_c, **step)
        balls = functional.select_blocks(
            q.detach(),
            k_c.detach(),
            lse.detach(),
            block_size=self.ball_size,
            n_blocks=self.num_selected_balls,
            query_block=self.query_group,
            exclude_own=True,
            **step,
        )
        fine = functional.selected_attention(
            q,
            k_s,
            v_s,
            block_index=balls,
            block_size=self.ball_size,
            query_block=self.query_group,
        )
        near = functional.window_attention(q, k_b, v_b, window=self.ball_size)
        return self.combine(x, [coarse, fine, near])

    def _centers(self, positions: Tensor) -> Tensor:
        """Mean position of every point's ball; the last may be smaller."""
        full = len(positions) // self.ball_size * self.ball_size
        balls = positions[:full].unflatten(0, (-1, self.ball_size))
        centers = balls.mean(dim=1, keepdim=True).expand_as(balls).flatten(0, 1)
        rest = positions[full:]
        return torch.cat([centers, rest.mean(dim=0).expand_as(rest)])
