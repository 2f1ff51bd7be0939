# SPDX-License-Identifier: MIT
"""FLARE's attention: points are encoded to few latent tokens, and decoded from them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.arrays import need_positive
from gnograd.torch.slice_attention import equal_borders, items_of

__all__ = ["FLARE"]


class FLARE(nn.Module):
    """Attention through latent tokens, which are learned queries of a head.

    The latent tokens of a head attend to all points, and all points attend to the result with
    their keys as queries and the latent tokens as keys.

    Parameters
    ----------
    dim : int
        Width of the input and the output.
    heads : int
        Heads.
    dim_head : int
        Width of a head.
    dropout : float
        Probability that a number of the output is dropped in training.
    n_global_queries : int
        Latent tokens of a head.
    scale : float
        Factor of the logits: 1 in PhysicsNeMo.

    Raises
    ------
    ValueError
        A size of 0 or less.

    See Also
    --------
    SliceAttention : attention through weighted means of points.

    Notes
    -----
    Loads the state dict of PhysicsNeMo's ``FLARE`` layer (without Transformer Engine).

    References
    ----------
    Puri et al., FLARE: Fast Low-rank Attention Routing Engine, arXiv:2508.12594, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import FLARE
    >>> layer = FLARE(32, heads=4, dim_head=8, n_global_queries=16)
    >>> layer(torch.randn(2, 100, 32)).shape
    torch.Size([2, 100, 32])
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        dim_head: int = 64,
        dropout: float = 0.0,
        n_global_queries: int = 64,
        *,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        need_positive(
            type(self).__name__,
            dim=dim,
            heads=heads,
            dim_head=dim_head,
            n_global_queries=n_global_queries,
        )
        self.dim, self.heads, self.dim_head, self.scale = dim, heads, dim_head, scale
        self.q_global = nn.Parameter(torch.randn(1, heads, n_global_queries, dim_head))
        self.in_project_x = nn.Linear(dim, heads * dim_head)
        self.self_k = nn.Linear(dim_head, dim_head)
        self.self_v = nn.Linear(dim_head, dim_head)
        self.out_linear = nn.Linear(heads * dim_head, dim)
        self.out_dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Attend.

        Parameters
        ----------
        x : Tensor, (B, N, dim) or (N, dim)
            Features of the points.

        Returns
        -------
        Tensor, in the shape of `x`

        Raises
        ------
        ValueError
            A shape that does not fit.
        """
        return self._through_latents(x, lambda _points, own, _cu: own)

    def _through_latents(
        self, x: Tensor, mix: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    ) -> Tensor:
        """Encode points to the latent tokens, and decode them.

        `mix` takes the projected points and what they get (B N, heads, dim_head), and the borders
        of the clouds, None for one; it gives what is projected to the output.
        """
        batch = items_of(type(self).__name__, x, self.dim)
        points = self.in_project_x(x).reshape(-1, self.heads, self.dim_head)
        keys, values = self.self_k(points), self.self_v(points)
        latents = self.q_global[0].transpose(0, 1)
        cu_x = equal_borders(batch, x.shape[-2], x.device)
        cu_z = equal_borders(batch, len(latents), x.device)
        if batch != 1:
            latents = latents.repeat(batch, 1, 1)
        encoded = self.encode(latents, keys, values, cu_z, cu_x)
        out = functional.attention(keys, latents, encoded, cu_q=cu_x, cu_k=cu_z, scale=self.scale)
        out = mix(points, out, cu_x).reshape(*x.shape[:-1], self.heads * self.dim_head)
        out = self.out_linear(out)
        return self.out_dropout(out)

    def encode(
        self,
        latents: Tensor,
        keys: Tensor,
        values: Tensor,
        cu_q: Tensor | None,
        cu_k: Tensor | None,
    ) -> Tensor:
        """Attention of the latent tokens to these points, which are all that there are.

        A process that has some of the points of every cloud overrides this by attention to the
        points of all processes; the how-to on dense attention has it.

        Parameters
        ----------
        latents : Tensor, (B n_global_queries, heads, dim_head)
            Queries.
        keys, values : Tensor, (B N, heads, dim_head)
            Keys and values of the points.
        cu_q, cu_k : Tensor of int64, (B + 1,), or None
            Borders of the clouds among the queries and keys; None for one cloud.

        Returns
        -------
        Tensor, in the shape of `latents`
        """
        return functional.attention(latents, keys, values, cu_q=cu_q, cu_k=cu_k, scale=self.scale)
