# SPDX-License-Identifier: MIT
"""Attention of points in space: balls, pooled tokens, selected balls."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.adapter import not_compiled
from gnograd.torch.arrays import full_precision, integers, is_integral
from gnograd.torch.ball_tree import CloudLayout, ball_tree_order, clouds_of, pieces_of
from gnograd.torch.rotary_points import RotaryPoints
from gnograd.torch.sparse_branches import SparseBranches, borders_of, checked_borders

__all__ = ["PointAttention"]


class PointAttention(SparseBranches):
    """Attention of points in space to their ball, to pooled tokens of all, and to selected balls.

    The points are put in the order of a ball tree and cut into balls of `ball_size`; the last of a
    cloud may be smaller. What a point sees besides its own ball:

    - with `pooled`, a token for every `compress_size` points anywhere;
    - with `selected`, the points of so many other balls: those whose tokens get most attention from
      the points that share a selection.

    With balls and pooled tokens alone, one softmax runs over both, and a token is projected from
    the mean of its points' features. With selected balls, or a distance bias besides pooled tokens,
    each part has its keys, values and softmax, and a learned gate of every point and head weighs
    it; keys and values of tokens are then learned weighted sums of the points'.

    ==========================================  ================================================
    Erwin's ``BallMSA``                         ``pooled=False, distance_bias=True``
    MSPT's ``ChunkedGlobalPoolAttention``       ``norm=True, offsets=False``
    BSA, `BallSparseAttention`                  ``selected=4, compress_size=8``
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
        Other balls that a point sees, point by point.
    keep : int, optional
        Balls that the selection keeps at every level of the tree, as in `select_blocks`: its cost
        then grows with the points times the levels. All balls are compared when left out.
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

    Raises
    ------
    ValueError
        Sizes that do not fit: heads or a query group that do not divide, a ball of more than 256
        points, `keep` without selected balls, `norm` without pooled tokens in the softmax.

    See Also
    --------
    SliceAttention : attention through slices, for which points need no order.

    Notes
    -----
    Loads the state dicts of Erwin's ``BallMSA``; of MSPT's ``ChunkedGlobalPoolAttention`` with one
    mean token a chunk, but for its perceptron ``ff``, whose entries belong to the network; and of
    `BallSparseAttention`. MSPT gives the pooled tokens of a layer to the next one, which this does
    not.

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
    ) -> None:
        name = type(self).__name__
        compress_size = ball_size if compress_size is None else compress_size
        one_softmax = not selected and not (pooled and distance_bias)
        super().__init__(
            dim,
            num_heads,
            num_kv_heads,
            head_dim,
            compress_size if pooled and not one_softmax else None,
            bias,
            1 if one_softmax else int(pooled) + (selected > 0) + 1,
        )
        self.query_group = ball_size if query_group is None else query_group
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
        if keep is not None and not selected:
            raise ValueError(f"{name}: keep is {keep}, but no balls are selected")
        if norm and not (pooled and one_softmax):
            raise ValueError(
                f"{name}: norm needs pooled tokens in the softmax: no selected balls and no "
                "distance_bias"
            )
        self.ball_size, self.compress_size = ball_size, compress_size
        self.pooled, self.selected, self.keep = pooled, selected, keep
        self.position = nn.Linear(coord_dim, dim) if offsets else None
        self.norm = nn.LayerNorm(dim) if norm else None
        self.rotary = RotaryPoints(self.head_dim, coord_dim) if rotary else None
        self.sigma_att = None
        if distance_bias:  # near points first, as in Erwin
            self.sigma_att = nn.Parameter(-1 + 0.01 * torch.randn(1, num_heads, 1, 1))
        self.register_load_state_dict_pre_hook(_rename)

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
        q = self._rotated(q, positions)
        branches = []
        tokens = lse = None
        if self.pooled:
            tokens, coarse, lse = self._coarse(q, keys.pop(0), values.pop(0), positions, clouds)
            branches.append(coarse)
        if self.selected:
            if tokens is None:
                tokens = self._compressed(keys[0].detach(), None, positions, clouds)
            k = self._rotated(keys.pop(0), positions)
            branches.append(self._selected(q, k, values.pop(0), tokens, lse, clouds))
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
        self, k: Tensor, weights: Tensor | None, positions: Tensor, clouds: CloudLayout | None
    ) -> Tensor:
        """Keys of the tokens of full stretches, means without weights."""
        step: dict[str, Any] = {"block": self.compress_size, "stride": self.compress_size}
        if clouds is not None:
            k = k.index_select(0, clouds.whole)
        if weights is None:
            weights = k.new_full((self.compress_size, k.shape[1]), 1 / self.compress_size)
        tokens = functional.compress(k, weights, **step)
        if self.rotary is None:
            return tokens
        if clouds is not None:
            positions = positions.index_select(0, clouds.whole)
        n = tokens.shape[0]
        centers = positions[: n * self.compress_size].unflatten(0, (n, self.compress_size)).mean(1)
        return self.rotary(tokens, centers)

    def _coarse(
        self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, clouds: CloudLayout | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Keys of pooled tokens, attention to them, and its log-sum-exp."""
        step: dict[str, Any] = {"block": self.compress_size, "stride": self.compress_size}
        tokens = self._compressed(k, self.compress_k, positions, clouds)
        cu = cu_c = None
        if clouds is not None:
            cu, cu_c = clouds.cu, clouds.cu_compressed
            v = v.index_select(0, clouds.whole)
        values = functional.compress(v, self.compress_v, **step)
        out, lse = functional.compressed_attention(q, tokens, values, cu_q=cu, cu_k=cu_c, **step)
        return tokens, out, lse

    def _selected(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        tokens: Tensor,
        lse: Tensor | None,
        clouds: CloudLayout | None,
    ) -> Tensor:
        """Attention to the balls whose tokens got most attention."""
        step: dict[str, Any] = {"block": self.compress_size, "stride": self.compress_size}
        rows, tokens = q, tokens.detach()
        cu_q = cu_k = cu_c = None
        if clouds is not None:
            cu_q, cu_k, cu_c = clouds.cu_rows, clouds.cu, clouds.cu_compressed
            rows = q.new_zeros(clouds.n_rows, *q.shape[1:]).index_copy(0, clouds.row, q)
        if lse is None and self.keep is None:
            with torch.no_grad():
                cu = None if clouds is None else clouds.cu
                lse = functional.compressed_attention(
                    q.detach(), tokens, tokens, cu_q=cu, cu_k=cu_c, **step
                )[1]
        if lse is not None:
            lse = lse.detach()
            if clouds is not None:
                # padding rows have no weight in a selection
                none = lse.new_full((clouds.n_rows, lse.shape[1]), torch.inf)
                lse = none.index_copy(0, clouds.row, lse)
        shared: dict[str, Any] = {"query_block": self.query_group, "cu_q": cu_q, "cu_k": cu_k}
        balls = functional.select_blocks(
            rows.detach(),
            tokens,
            lse,
            block_size=self.ball_size,
            n_blocks=self.selected,
            n_keys=k.shape[0],
            exclude_own=True,
            keep=self.keep,
            **step,
            **shared,
        )
        fine = functional.selected_attention(
            rows, k, v, block_index=balls, block_size=self.ball_size, **shared
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


def _rename(
    module: nn.Module, state: MutableMapping[str, Any], prefix: str, *_arguments: Any
) -> None:
    """Bring state dicts of Erwin and MSPT into the names and shapes of this layer."""
    heads = module.num_heads
    for kind in ("weight", "bias"):
        both = None
        if f"{prefix}qkv.{kind}" in state:  # heads, features, and queries, keys, values
            rows = state.pop(f"{prefix}qkv.{kind}")
            both = rows.unflatten(0, (heads, -1, 3)).movedim(2, 0).flatten(0, 2)
        elif f"{prefix}attn.in_proj_{kind}" in state:
            both = state.pop(f"{prefix}attn.in_proj_{kind}")
        if both is not None:
            n = both.shape[0] // 3
            state[f"{prefix}to_q.{kind}"], state[f"{prefix}to_kv.{kind}"] = both[:n], both[n:]
        for theirs, ours in (
            ("proj", "to_out"), ("attn.out_proj", "to_out"), ("pe_proj", "position"),
        ):  # fmt: skip
            if f"{prefix}{theirs}.{kind}" in state:
                state[f"{prefix}{ours}.{kind}"] = state.pop(f"{prefix}{theirs}.{kind}")


@not_compiled
def _largest(batch: Tensor) -> int:
    return int(batch.max()) if batch.shape[0] else 0


def _check_sorted(name: str, batch: Tensor) -> None:
    """Check that ids do not decrease, unless the host had to wait for them."""
    if batch.is_cpu and not torch.compiler.is_compiling() and (batch.diff() < 0).any():
        raise ValueError(
            f"{name}: batch descends, but ordered=True needs the clouds one behind the other"
        )
