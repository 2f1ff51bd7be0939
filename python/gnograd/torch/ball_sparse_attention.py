# SPDX-License-Identifier: MIT
"""Ball sparse attention: a layer for points in space."""

from __future__ import annotations

from gnograd.torch.point_attention import PointAttention

__all__ = ["BallSparseAttention"]


class BallSparseAttention(PointAttention):
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
        Head counts or a query group that do not divide; a ball of more than 256 points; no balls
        to select.

    See Also
    --------
    PointAttention : of which this is a setting, and the layer of BSA's authors another.

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
        if num_selected_balls < 1:
            raise ValueError(
                f"BallSparseAttention: num_selected_balls is {num_selected_balls}, needs at least "
                "1; PointAttention does without"
            )
        super().__init__(
            dim,
            num_heads,
            ball_size,
            selected=num_selected_balls,
            coord_dim=1 if position_dim is None else position_dim,
            distance_bias=distance_bias,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            compress_size=compress_size,
            query_group=query_group,
            offsets=position_dim is not None,
            bias=bias,
        )
