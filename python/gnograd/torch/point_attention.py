# SPDX-License-Identifier: MIT
"""Attention of points in space: balls, pooled tokens, selected balls.

One file for one layer: its branches share projections, and a third of it is its documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.arrays import full_precision, integers, is_integral
from gnograd.torch.ball_tree import CloudLayout, ball_tree_order, clouds_of, pieces_of
from gnograd.torch.eager import not_compiled
from gnograd.torch.point_attention_weights import rename_weights
from gnograd.torch.point_compression import COMPRESSIONS, compress_stretches, compressor
from gnograd.torch.rotary_points import RotaryPoints
from gnograd.torch.sparse_branches import SparseBranches, borders_of, checked_borders

__all__ = ["PointAttention"]


class PointAttention(SparseBranches):
    """Attention of points in space to their ball, to pooled tokens of all, and to selected balls.

    The points are put in the order of a ball tree and cut into balls of `ball_size`; the last of a
    cloud may be smaller. What a point sees besides its own ball:

    - with `pooled`, a token for every `compress_size` points anywhere;
    - with `selected`, the points of so many other balls, or smaller blocks of them: those whose
      tokens get most attention from the points that share a selection.

    With balls and pooled tokens alone, one softmax runs over both, and a token is projected from
    the mean of its points' features. With selected balls, or a distance bias besides pooled tokens,
    each part has its keys, values and softmax, and a learned gate of every point and head weighs
    it; keys and values of tokens are then compressed from the points', as learned weighted sums if
    nothing else is said.

    ==========================================  ================================================
    Erwin's ``BallMSA``                         ``pooled=False, distance_bias=True``
    MSPT's ``ChunkedGlobalPoolAttention``       ``norm=True, offsets=False``
    `BallSparseAttention`                       ``selected=4, compress_size=8``
    BSA's ``NativeSparseAttention``             the last example
    balls selected among 1,000,000 points       ``pooled=False, selected=8, keep=16``
    ==========================================  ================================================

    Parameters
    ----------
    dim : int
        Width of the input and the output.
    num_heads : int
        Query, key and value heads.
    ball_size : int
        Points in a ball, at most 256.
    pooled : bool
        See pooled tokens.
    selected : int
        Other balls, or blocks of `selected_size` points outside the own ball, that a point sees,
        point by point.
    keep : int, optional
        Balls that the selection keeps at every level of the tree, as in `select_blocks`: its cost
        then grows with the points times the levels. All balls are compared when left out. Where
        the selection is of smaller blocks or by one query, as many more are kept as a ball has
        blocks.
    coord_dim : int
        Dimension of space.
    rotary : bool
        Rotate queries and keys by their coordinates, as `RotaryPoints` does; a token has the mean
        of its points' coordinates.
    distance_bias : bool
        Add a bias to the attention in balls that is linear in the distance of points, with the
        parameter ``sigma_att (1, num_heads, 1, 1)`` as in Erwin's layers.
    num_kv_heads : int, optional
        Key/value heads if there are fewer; a divisor of num_heads.
    head_dim : int, optional
        ``dim // num_heads`` when left out.
    compress_size : int, optional
        Points behind a pooled token; `ball_size` when left out.
    query_group : int, optional
        Consecutive points that share a selection, a divisor of `ball_size`, and `ball_size` when
        left out.
    offsets : bool
        Add a learned linear map of every point's position in its ball to its features.
    norm : bool
        Apply a layer norm to points and pooled tokens before they are projected.
    bias : bool
        Give the projections biases.
    selected_size : int, optional
        Points in a selected block, a divisor of `ball_size`, and `ball_size` when left out.
    compression : {"weighted", "mean", "mlp"}
        How keys and values of `compress_size` points become those of a token: learned weighted
        sums, means, or a perceptron of two layers for keys and one for values, which the heads
        share.
    query_compression : {"weighted", "mean", "mlp"}, optional
        How queries of the points that share a selection become the one query by which blocks are
        selected. "mean" selects by the mean of their logits. When left out, the attention of all
        these points counts, which costs as many times as much. A last group of fewer points is
        filled up with the mean of its queries.
    coarse_queries : bool
        Let the points that share a selection attend to pooled tokens by that one query, too.
    shared_kv : bool
        Use the same keys and values for balls, tokens and selected blocks.
    mlp_ratio : float
        Width of the hidden layers of the perceptrons by that of their inputs.

    Raises
    ------
    ValueError
        Sizes that do not fit: heads, a query group or a selected size that do not divide, a ball of
        more than 256 points; what selection needs without selected balls; `norm` without pooled
        tokens in the softmax, other compressions without tokens besides it.

    See Also
    --------
    SliceAttention : attention through slices, for which points need no order.

    Notes
    -----
    Loads the state dicts of Erwin's ``BallMSA``; of MSPT's ``ChunkedGlobalPoolAttention`` with one
    mean token a chunk, but for its perceptron ``ff``, whose entries belong to the network; of
    `BallSparseAttention`; and of the ``NativeSparseAttention`` of BSA's authors with gates of
    points. MSPT gives the pooled tokens of a layer to the next one, which this does not.

    The authors' flags of BSA: ``use_compress_mlp`` is `compression` ("mlp" or "mean"), in
    `query_compression`, too, with ``use_coarse_q_importance``, which is "mean" without it;
    ``use_coarse_q_attn`` is `coarse_queries`; and `query_group` is 1 without
    ``use_group_selection``. They give neither the positions nor ``sigma_att`` gradients. Where a
    cloud has fewer than `selected` blocks outside a ball, they take any of the own, and this none.

    References
    ----------
    Zhdanov et al., Erwin: A Tree-based Hierarchical Transformer for Large-scale Physical Systems,
    arXiv:2502.17019, 2025.
    Brita et al., BSA: Ball Sparse Attention for Large-scale Geometries, arXiv:2506.12541, 2025.
    Curvo et al., MSPT: Efficient Large-Scale Physical Modeling via Parallelized Multi-Scale
    Attention, arXiv:2512.01738, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import PointAttention
    >>> x, positions = torch.randn(100, 32), torch.rand(100, 3)
    >>> PointAttention(32, 4, ball_size=16)(x, positions).shape
    torch.Size([100, 32])
    >>> PointAttention(32, 4, 16, pooled=False, selected=2, keep=4)(x, positions).shape
    torch.Size([100, 32])

    The attention of BSA's authors, all of whose sizes but that of the ball are 8:

    >>> layer = PointAttention(
    ...     32, 4, ball_size=16, selected=4, distance_bias=True, compress_size=8, selected_size=8,
    ...     query_group=8, compression="mlp", query_compression="mlp", coarse_queries=True,
    ...     shared_kv=True)
    >>> layer(x, positions).shape
    torch.Size([100, 32])
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        ball_size: int,
        pooled: bool = True,
        selected: int = 0,
        keep: int | None = None,
        coord_dim: int = 3,
        rotary: bool = False,
        distance_bias: bool = False,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        compress_size: int | None = None,
        query_group: int | None = None,
        offsets: bool = True,
        norm: bool = False,
        bias: bool = True,
        selected_size: int | None = None,
        compression: str = "weighted",
        query_compression: str | None = None,
        coarse_queries: bool = False,
        shared_kv: bool = False,
        mlp_ratio: float = 2.0,
    ) -> None:
        name = type(self).__name__
        compress_size = ball_size if compress_size is None else compress_size
        one_softmax = not selected and not (pooled and distance_bias)
        super().__init__(
            dim,
            num_heads,
            num_kv_heads,
            head_dim,
            bias,
            1 if one_softmax else int(pooled) + (selected > 0) + 1,
            shared_kv,
        )
        self.query_group = ball_size if query_group is None else query_group
        self.selected_size = ball_size if selected_size is None else selected_size
        if not 1 <= ball_size <= 256:
            raise ValueError(f"{name}: ball_size is {ball_size}, needs 1 to 256")
        if self.query_group < 1 or ball_size % self.query_group:
            raise ValueError(
                f"{name}: query_group {self.query_group} does not divide ball_size {ball_size}"
            )
        if compress_size < 1 or selected < 0:
            raise ValueError(
                f"{name}: compress_size is {compress_size} and selected {selected}, need at least "
                "1 and 0"
            )
        if self.selected_size < 1 or ball_size % self.selected_size:
            raise ValueError(
                f"{name}: selected_size {self.selected_size} does not divide ball_size {ball_size}"
            )
        of_selection = {
            "keep": keep, "selected_size": selected_size, "query_compression": query_compression
        }  # fmt: skip
        for argument, value in of_selection.items():
            if value is not None and not selected:
                raise ValueError(f"{name}: {argument} is {value}, but no balls are selected")
        for argument, kind in (
            ("compression", compression), ("query_compression", query_compression)
        ):  # fmt: skip
            if kind not in COMPRESSIONS and (argument, kind) != ("query_compression", None):
                raise ValueError(f"{name}: {argument} is {kind!r}, needs one of {COMPRESSIONS}")
        if compression != "weighted" and (one_softmax or not pooled):
            raise ValueError(
                f"{name}: compression {compression!r} needs pooled tokens besides selected balls "
                "or a distance_bias"
            )
        if coarse_queries and (query_compression is None or not pooled):
            raise ValueError(f"{name}: coarse_queries needs query_compression and pooled tokens")
        if not mlp_ratio > 0:
            raise ValueError(f"{name}: mlp_ratio is {mlp_ratio}, needs more than 0")
        if norm and not (pooled and one_softmax):
            raise ValueError(
                f"{name}: norm needs pooled tokens in the softmax: no selected balls and no "
                "distance_bias"
            )
        self.ball_size, self.compress_size = ball_size, compress_size
        self.pooled, self.selected, self.keep = pooled, selected, keep
        self.query_compression, self.coarse_queries = query_compression, coarse_queries
        if pooled and not one_softmax:
            of_kv = compression, compress_size, self.num_kv_heads, self.head_dim, mlp_ratio
            self.compress_k, self.compress_v = (compressor(*of_kv) for _ in range(2))
        if query_compression is not None:
            self.compress_q = compressor(
                query_compression, self.query_group, num_heads, self.head_dim, mlp_ratio
            )
        self.position = nn.Linear(coord_dim, dim) if offsets else None
        self.norm = nn.LayerNorm(dim) if norm else None
        self.rotary = RotaryPoints(self.head_dim, coord_dim) if rotary else None
        self.sigma_att = None
        if distance_bias:  # near points first, as in Erwin
            self.sigma_att = nn.Parameter(-1 + 0.01 * torch.randn(1, num_heads, 1, 1))
        self.register_load_state_dict_pre_hook(rename_weights)

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
        name = type(self).__name__
        shape = x.shape[:1] if x.ndim == 2 and x.shape[1] == self.dim else None
        if positions.ndim != 2 or positions.shape[:1] != shape:
            raise ValueError(
                f"{name}: x has shape {tuple(x.shape)}, positions {tuple(positions.shape)}: need "
                f"(N, {self.dim}) and (N, d)"
            )
        if batch is not None and cu_seqlens is not None:
            raise ValueError(f"{name}: batch and cu_seqlens are both given, needs one of them")
        if cu_seqlens is not None:
            cu = checked_borders(cu_seqlens, x.shape[0], f"{name}: cu_seqlens").to(x.device)
            batch = torch.bucketize(torch.arange(x.shape[0], device=x.device), cu[1:], right=True)
            batch_size = len(cu) - 1
        if batch is not None:
            batch = self._checked(batch, x.shape[0])
        order = None if ordered else ball_tree_order(positions, batch)
        layout = None
        if batch is not None and x.shape[0] > 0:
            if ordered:
                _check_sorted(name, batch)
            if batch_size is None:
                batch_size = _largest(batch) + 1
            elif batch.is_cpu and not torch.compiler.is_compiling():
                largest = _largest(batch)
                if largest >= batch_size:
                    raise ValueError(f"{name}: batch has {largest}, but batch_size is {batch_size}")
            ones = torch.ones_like(batch)
            cu = borders_of(ones.new_zeros(batch_size).scatter_add(0, batch, ones))
            layout = clouds_of(cu, x.shape[0], self.ball_size, self.compress_size, self.query_group)
        if order is None:
            return self._attend(x, positions, layout)
        out = self._attend(x.index_select(0, order), positions.index_select(0, order), layout)
        return out.index_select(0, order.argsort())

    def _checked(self, batch: Tensor, n: int) -> Tensor:
        if batch.ndim != 1 or batch.shape[0] != n or not is_integral(batch):
            raise ValueError(
                f"{type(self).__name__}: batch is of {batch.dtype} and shape {tuple(batch.shape)}, "
                f"needs integers and ({n},)"
            )
        return integers(batch, torch.int64)

    def _attend(self, x: Tensor, positions: Tensor, clouds: CloudLayout | None) -> Tensor:
        """Attention of points in the order of their trees; a single cloud if there is no layout."""
        if self.position is not None:
            offset = positions - self._centers(positions, clouds)
            with full_precision(x.device):
                x = x + self.position(offset)
        if self.n_branches == 1:
            return self.merge_heads(self._in_one_softmax(x, positions, clouds))
        q, keys, values = self.project(x)
        one = self._one_query(q, positions, clouds) if self.query_compression else None
        q = self._rotated(q, positions)
        branches = []
        tokens = lse = None
        if self.pooled:
            tokens, coarse, lse = self._coarse(
                q, one, keys.pop(0), values.pop(0), positions, clouds
            )
            branches.append(coarse)
        if self.selected:
            if tokens is None:
                tokens = self._compressed(keys[0].detach(), None, positions, clouds)
            rows = self._padded(q, clouds)
            blocks = self._chosen(q, rows, one, tokens, lse, clouds)
            k = self._rotated(keys.pop(0), positions)
            branches.append(self._selected(rows, k, values.pop(0), blocks, clouds))
        k = self._rotated(keys[0], positions)
        branches.append(self._near(q, k, values[0], positions, clouds))
        return self.combine(x, branches)

    def _rotated(self, x: Tensor, positions: Tensor) -> Tensor:
        return x if self.rotary is None else self.rotary(x, positions)

    def _near(
        self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, clouds: CloudLayout | None
    ) -> Tensor:
        """Attention in balls."""
        cu = None if clouds is None else clouds.cu
        bias: dict[str, Any] = {}
        if self.sigma_att is not None:
            points = positions.to(torch.promote_types(q.dtype, torch.float32))
            slope = self.sigma_att.flatten().to(points.dtype)
            bias = {"positions_q": points, "positions_k": points, "slope": slope}
        return functional.window_attention(q, k, v, window=self.ball_size, cu_q=cu, cu_k=cu, **bias)

    def _in_one_softmax(self, x: Tensor, positions: Tensor, clouds: CloudLayout | None) -> Tensor:
        """Attention in balls, whose softmax runs over the pooled tokens, too, if there are any."""
        points = x if self.norm is None else self.norm(x)
        q, (k,), (v,) = self.project(points)
        q, k = self._rotated(q, positions), self._rotated(k, positions)
        if not self.pooled:
            return self._near(q, k, v, positions, clouds)
        n = x.shape[0]
        cu = torch.tensor([0, n], device=x.device) if clouds is None else clouds.cu[:-1]
        number, sizes, cu_tokens = pieces_of(cu, n, self.compress_size)
        tokens, centers = (
            a.new_zeros(len(sizes), a.shape[1]).index_add(0, number, a)
            / sizes.clamp(min=1)[:, None].to(a.dtype)
            for a in (x, positions)
        )
        tokens = tokens if self.norm is None else self.norm(tokens)
        (k_far,), (v_far,) = self.keys_and_values(tokens)
        k_far = self._rotated(k_far, centers)
        cu_balls = borders_of(pieces_of(cu, n, self.ball_size)[1])
        every: dict[str, Any] = {"block": 1, "stride": 1}
        near, lse = functional.compressed_attention(q, k, v, cu_q=cu_balls, cu_k=cu_balls, **every)
        far, lse_far = functional.compressed_attention(
            q, k_far, v_far, cu_q=torch.cat([cu, cu[-1:]]), cu_k=cu_tokens, **every
        )
        share = torch.sigmoid(lse - lse_far)[..., None].to(near.dtype)
        return share * near + (1 - share) * far

    def _compressed(
        self,
        k: Tensor,
        by: Tensor | nn.Module | None,
        positions: Tensor,
        clouds: CloudLayout | None,
    ) -> Tensor:
        """Keys of the tokens of full stretches, means without weights."""
        if clouds is not None:
            k = k.index_select(0, clouds.whole)
        tokens = compress_stretches(k, self.compress_size, by)
        if self.rotary is None:
            return tokens
        if clouds is not None:
            positions = positions.index_select(0, clouds.whole)
        n = tokens.shape[0]
        centers = positions[: n * self.compress_size].unflatten(0, (n, self.compress_size)).mean(1)
        return self.rotary(tokens, centers)

    def _one_query(self, q: Tensor, positions: Tensor, clouds: CloudLayout | None) -> Tensor:
        """One query of every group of points that share a selection."""
        groups = self._grouped(q, clouds).flatten(0, 1)
        one = compress_stretches(groups, self.query_group, self.compress_q)
        if self.rotary is None:
            return one
        return self.rotary(one, self._grouped(positions, clouds).mean(dim=1))

    def _grouped(self, x: Tensor, clouds: CloudLayout | None) -> Tensor:
        """Rows of groups ``(groups, query_group, ...)``, filled up with the mean of the group."""
        size, row = self.query_group, self._rows(x.shape[0], x.device, clouds)
        n_rows = -(-x.shape[0] // size) * size if clouds is None else clouds.n_rows
        shape = (n_rows // size, size, *[1] * (x.ndim - 1))
        there = x.new_zeros(n_rows).index_fill(0, row, 1).view(shape)
        groups = x.new_zeros(n_rows, *x.shape[1:]).index_copy(0, row, x).unflatten(0, shape[:2])
        mean = groups.sum(dim=1, keepdim=True) / there.sum(dim=1, keepdim=True).clamp(min=1)
        return torch.where(there > 0, groups, mean)

    def _rows(self, n: int, device: torch.device, clouds: CloudLayout | None) -> Tensor:
        """Row of every point where all groups of a selection are full."""
        return torch.arange(n, device=device) if clouds is None else clouds.row

    def _group_borders(self, clouds: CloudLayout | None) -> Tensor | None:
        """Borders of clouds among the groups that share a selection."""
        if clouds is None:
            return None
        return torch.div(clouds.cu_rows, self.query_group, rounding_mode="floor")

    def _coarse(
        self,
        q: Tensor,
        one: Tensor | None,
        k: Tensor,
        v: Tensor,
        positions: Tensor,
        clouds: CloudLayout | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys of pooled tokens, attention to them, and the log-sum-exp of what selects."""
        step: dict[str, Any] = {"block": self.compress_size, "stride": self.compress_size}
        tokens = self._compressed(k, self.compress_k, positions, clouds)
        cu = cu_c = None
        if clouds is not None:
            cu, cu_c = clouds.cu, clouds.cu_compressed
            v = v.index_select(0, clouds.whole)
        values = compress_stretches(v, self.compress_size, self.compress_v)
        if one is None or not self.coarse_queries:
            out, lse = functional.compressed_attention(
                q, tokens, values, cu_q=cu, cu_k=cu_c, **step
            )
            return tokens, out, lse if one is None else None
        out, lse = functional.compressed_attention(
            one, tokens, values, cu_q=self._group_borders(clouds), cu_k=cu_c, **step
        )
        group = torch.div(
            self._rows(q.shape[0], q.device, clouds), self.query_group, rounding_mode="floor"
        )
        return tokens, out.index_select(0, group), lse

    def _chosen(
        self,
        q: Tensor,
        rows: Tensor,
        one: Tensor | None,
        tokens: Tensor,
        lse: Tensor | None,
        clouds: CloudLayout | None,
    ) -> Tensor:
        """Blocks that every group of points selects: their tokens got most attention."""
        n_keys, tokens = q.shape[0], tokens.detach()
        step: dict[str, Any] = {"block": self.compress_size, "stride": self.compress_size}
        cu_q = cu_k = cu_c = None
        if clouds is not None:
            cu_q, cu_k, cu_c = clouds.cu, clouds.cu, clouds.cu_compressed
        if one is not None:
            q, rows, cu_q = one, one, self._group_borders(clouds)
        if lse is None and self.keep is None:
            with torch.no_grad():
                lse = functional.compressed_attention(
                    q.detach(), tokens, tokens, cu_q=cu_q, cu_k=cu_c, **step
                )[1]
        lse = None if lse is None else lse.detach()
        if clouds is not None and one is None:
            cu_q = clouds.cu_rows
            if lse is not None:
                # padding rows have no weight in a selection
                none = lse.new_full((clouds.n_rows, lse.shape[1]), torch.inf)
                lse = none.index_copy(0, clouds.row, lse)
        # blocks of the own ball: `select_blocks` leaves out the own block alone
        own = self.ball_size // self.selected_size
        own = 0 if own == 1 and one is None else own
        blocks = functional.select_blocks(
            rows.detach(),
            tokens,
            lse,
            block_size=self.selected_size,
            n_blocks=self.selected + own,
            n_keys=n_keys,
            query_block=self.query_group if one is None else 1,
            cu_q=cu_q,
            cu_k=cu_k,
            exclude_own=own == 0,
            keep=None if self.keep is None else self.keep + own,
            **step,
        )
        return self._without_own_ball(blocks, clouds) if own else blocks

    def _without_own_ball(self, blocks: Tensor, clouds: CloudLayout | None) -> Tensor:
        """The first blocks of every group that are not in its ball; -1 if there is none."""
        group = torch.arange(blocks.shape[0], device=blocks.device)
        borders = self._group_borders(clouds)
        if borders is not None:
            cloud = torch.bucketize(group, borders[1:], right=True).clamp(max=len(borders) - 2)
            group = group - borders[cloud]
        ball = torch.div(group * self.query_group, self.ball_size, rounding_mode="floor")
        size = self.ball_size // self.selected_size
        of_block = torch.div(blocks, size, rounding_mode="floor")
        blocks = torch.where(of_block == ball[:, None, None], -1, blocks)
        others = (blocks < 0).to(torch.uint8).argsort(dim=-1, stable=True)
        return blocks.gather(-1, others[..., : self.selected])

    @staticmethod
    def _padded(q: Tensor, clouds: CloudLayout | None) -> Tensor:
        """Rows of queries, of which every cloud has full groups."""
        if clouds is None:
            return q
        return q.new_zeros(clouds.n_rows, *q.shape[1:]).index_copy(0, clouds.row, q)

    def _selected(
        self, rows: Tensor, k: Tensor, v: Tensor, blocks: Tensor, clouds: CloudLayout | None
    ) -> Tensor:
        """Attention to blocks that groups of points share."""
        shared: dict[str, Any] = {
            "block_index": blocks, "block_size": self.selected_size, "query_block": self.query_group
        }  # fmt: skip
        if clouds is None:
            return functional.selected_attention(rows, k, v, **shared)
        fine = functional.selected_attention(
            rows, k, v, cu_q=clouds.cu_rows, cu_k=clouds.cu, **shared
        )
        return fine.index_select(0, clouds.row)

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


def _check_sorted(name: str, batch: Tensor) -> None:
    """Check that ids do not decrease, unless the host had to wait for them."""
    if batch.is_cpu and not torch.compiler.is_compiling() and (batch.diff() < 0).any():
        raise ValueError(
            f"{name}: batch descends, but ordered=True needs the clouds one behind the other"
        )
