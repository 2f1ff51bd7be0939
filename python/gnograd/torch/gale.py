# SPDX-License-Identifier: MIT
"""GeoTransolver's attention: slices that also attend to a context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.slice_attention import SliceAttention, equal_borders

__all__ = ["GALE"]


class GALE(SliceAttention):
    """Slice attention whose tokens also attend to a context (geometry-aware latent embeddings).

    The tokens get a mixture of their attention to each other and of that to tokens of the geometry
    and of global parameters.

    Parameters
    ----------
    dim, heads, dim_head, slice_num, plus
        As for `SliceAttention`.
    context_dim : int
        Width of the context.
    state_mixing_mode : {"weighted", "concat_project"}
        A learned weighted mean, or a linear layer and GELU on both side by side.
    **slices
        More arguments of `SliceAttention`: `dropout`, `eps`, `temperature_range`, `gumbel`.

    Raises
    ------
    ValueError
        An unknown `state_mixing_mode`.

    See Also
    --------
    SliceAttention : without a context.

    Notes
    -----
    Loads the state dict of PhysicsNeMo's ``GALE`` (without Transformer Engine and concrete
    dropout).

    References
    ----------
    Adams et al., GeoTransolver: Learning Physics on Irregular Domains Using Multi-scale Geometry
    Aware Physics Attention Transformer, arXiv:2512.20399, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import GALE
    >>> layer = GALE(32, heads=4, dim_head=8, slice_num=16, context_dim=5)
    >>> points, context = torch.randn(2, 100, 32), torch.randn(2, 4, 12, 5)
    >>> layer(points, context).shape
    torch.Size([2, 100, 32])
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        dim_head: int = 64,
        slice_num: int = 64,
        plus: bool = False,
        *,
        context_dim: int,
        state_mixing_mode: str = "weighted",
        **slices: Any,
    ) -> None:
        super().__init__(dim, heads, dim_head, slice_num, plus, **slices)
        self.context_dim, self.state_mixing_mode = context_dim, state_mixing_mode
        self.cross_q = nn.Linear(dim_head, dim_head)
        self.cross_k = nn.Linear(context_dim, dim_head)
        self.cross_v = nn.Linear(context_dim, dim_head)
        if state_mixing_mode == "weighted":
            self.state_mixing = nn.Parameter(torch.tensor(0.0))
        elif state_mixing_mode == "concat_project":
            self.concat_project = nn.Sequential(nn.Linear(2 * dim_head, dim_head), nn.GELU())
        else:
            raise ValueError(
                f"GALE: state_mixing_mode is {state_mixing_mode!r}, needs 'weighted' or "
                "'concat_project'"
            )

    def forward(  # type: ignore[override]  # clouds that are packed would need packed contexts
        self, x: Tensor | Sequence[Tensor], context: Tensor | None = None
    ) -> Tensor | list[Tensor]:
        """Attend.

        Parameters
        ----------
        x : Tensor, (B, N, dim), or sequence of such
            Features of the points; of several sets of points, as PhysicsNeMo has them.
        context : Tensor, (B, heads, C, context_dim), optional
            Tokens that the slices of every head attend to; only to each other when left out.

        Returns
        -------
        Tensor, in the shape of `x`, or a list of such for a sequence

        Raises
        ------
        ValueError
            A shape that does not fit.
        """
        if not isinstance(x, Tensor):
            return [self._one(each, context) for each in x]
        return self._one(x, context)

    def _one(self, x: Tensor, context: Tensor | None) -> Tensor:
        """Result for one set of points."""
        if context is None:
            return self._through_slices(x, None, self._among_slices)
        shape = (x.shape[0] if x.ndim == 3 else 1, self.heads, self.context_dim)
        if context.ndim != 4 or (*context.shape[:2], context.shape[3]) != shape:
            raise ValueError(
                f"GALE: context has shape {tuple(context.shape)}, needs ({shape[0]}, "
                f"{self.heads}, C, {self.context_dim})"
            )
        n = context.shape[2]
        rows = context.transpose(1, 2).flatten(0, 1)
        cu_c = equal_borders(shape[0], n, x.device)

        def attend(tokens: Tensor, cu: Tensor | None) -> Tensor:
            among = self._among_slices(tokens, cu)
            across = functional.attention(
                self.cross_q(tokens), self.cross_k(rows), self.cross_v(rows), cu_q=cu, cu_k=cu_c
            )
            if self.state_mixing_mode == "concat_project":
                mixed: Tensor = self.concat_project(torch.cat([among, across], dim=-1))
                return mixed
            weight = torch.sigmoid(self.state_mixing)
            return weight * among + (1 - weight) * across

        return self._through_slices(x, None, attend)
