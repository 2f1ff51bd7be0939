# SPDX-License-Identifier: MIT
"""GeoTransolver's attention: slices, or points, that also attend to a context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.flare import FLARE
from gnograd.torch.slice_attention import SliceAttention, equal_borders

__all__ = ["GALE", "GALE_FA"]


class _Context(nn.Module):
    """Attention of a layer's tokens to a context, mixed with what the layer does with them."""

    heads: int
    context_dim: int
    state_mixing_mode: str

    def _add_context(self, dim_head: int, context_dim: int, state_mixing_mode: str) -> None:
        """Make the parameters, in PhysicsNeMo's order."""
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
                f"{type(self).__name__}: state_mixing_mode is {state_mixing_mode!r}, needs "
                "'weighted' or 'concat_project'"
            )

    def forward(
        self, x: Tensor | Sequence[Tensor], context: Tensor | None = None
    ) -> Tensor | list[Tensor]:
        """Attend.

        Parameters
        ----------
        x : Tensor, (B, N, dim), or sequence of such
            Features of the points; of several sets of points, as PhysicsNeMo has them.
        context : Tensor, (B, heads, C, context_dim), optional
            Tokens that a layer attends to as well; a layer of its kind without them when left out.

        Returns
        -------
        Tensor, in the shape of `x`, or a list of such for a sequence

        Raises
        ------
        ValueError
            A shape that does not fit, or a context for a layer without one.
        """
        if not isinstance(x, Tensor):
            return [self._one(each, context) for each in x]
        return self._one(x, context)

    def _one(self, x: Tensor, context: Tensor | None) -> Tensor:
        """Result for one set of points."""
        raise NotImplementedError

    def _rows_of(self, context: Tensor, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows of a context (B C, heads, context_dim) for points x, and borders of the clouds."""
        shape = (x.shape[0] if x.ndim == 3 else 1, self.heads, self.context_dim)
        if context.ndim != 4 or (*context.shape[:2], context.shape[3]) != shape:
            raise ValueError(
                f"{type(self).__name__}: context has shape {tuple(context.shape)}, needs "
                f"({shape[0]}, {self.heads}, C, {self.context_dim})"
            )
        rows = context.transpose(1, 2).flatten(0, 1)
        return rows, equal_borders(shape[0], context.shape[2], x.device)

    def _across(
        self,
        tokens: Tensor,
        rows: Tensor,
        cu: Tensor | None,
        cu_context: Tensor | None,
        scale: float | None = None,
    ) -> Tensor:
        """Attention of tokens to the rows of a context."""
        q, k, v = self.cross_q(tokens), self.cross_k(rows), self.cross_v(rows)
        return functional.attention(q, k, v, cu_q=cu, cu_k=cu_context, scale=scale)

    def _mixed(self, among: Tensor, across: Tensor) -> Tensor:
        """Mixture of what tokens get from each other and from the context."""
        if self.state_mixing_mode == "concat_project":
            mixed: Tensor = self.concat_project(torch.cat([among, across], dim=-1))
            return mixed
        weight = torch.sigmoid(self.state_mixing)
        return weight * among + (1 - weight) * across


class GALE(_Context, SliceAttention):  # type: ignore[misc]  # packed clouds would need packed contexts
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
        self._add_context(dim_head, context_dim, state_mixing_mode)

    def _one(self, x: Tensor, context: Tensor | None) -> Tensor:
        """Result for one set of points."""
        if context is None:
            return self._through_slices(x, None, self._among_slices)
        rows, cu_context = self._rows_of(context, x)

        def attend(tokens: Tensor, cu: Tensor | None) -> Tensor:
            across = self._across(tokens, rows, cu, cu_context)
            return self._mixed(self._among_slices(tokens, cu), across)

        return self._through_slices(x, None, attend)


class GALE_FA(_Context, FLARE):  # type: ignore[misc]
    """Attention through latent tokens, mixed with that of the points to a context.

    Parameters
    ----------
    dim, heads, dim_head, dropout, n_global_queries
        As for `FLARE`.
    context_dim : int
        Width of the context; 0 for a layer that takes none.
    state_mixing_mode : {"weighted", "concat_project"}
        A learned weighted mean, or a linear layer and GELU on both side by side.
    scale : float
        Factor of all logits: 1 in PhysicsNeMo.

    Raises
    ------
    ValueError
        An unknown `state_mixing_mode`.

    See Also
    --------
    FLARE : without a context.
    GALE : through slices, which attend to the context in the points' place.

    Notes
    -----
    Loads the state dict of PhysicsNeMo's ``GALE_FA`` (without Transformer Engine and concrete
    dropout).

    References
    ----------
    Adams et al., GeoTransolver: Learning Physics on Irregular Domains Using Multi-scale Geometry
    Aware Physics Attention Transformer, arXiv:2512.20399, 2025.
    Puri et al., FLARE: Fast Low-rank Attention Routing Engine, arXiv:2508.12594, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import GALE_FA
    >>> layer = GALE_FA(32, heads=4, dim_head=8, n_global_queries=16, context_dim=5)
    >>> points, context = torch.randn(2, 100, 32), torch.randn(2, 4, 12, 5)
    >>> layer(points, context).shape
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
        context_dim: int,
        state_mixing_mode: str = "weighted",
        scale: float = 1.0,
    ) -> None:
        super().__init__(dim, heads, dim_head, dropout, n_global_queries, scale=scale)
        self.context_dim = context_dim
        if context_dim > 0:
            self._add_context(dim_head, context_dim, state_mixing_mode)
            for name in ("out_linear", "out_dropout"):  # they are last in PhysicsNeMo
                self.register_module(name, self._modules.pop(name))

    def _one(self, x: Tensor, context: Tensor | None) -> Tensor:
        """Result for one set of points."""
        if context is None:
            return FLARE.forward(self, x)
        if self.context_dim == 0:
            raise ValueError("GALE_FA: context is given, needs a layer with a context_dim")
        rows, cu_context = self._rows_of(context, x)

        def mix(points: Tensor, among: Tensor, cu: Tensor | None) -> Tensor:
            return self._mixed(among, self._across(points, rows, cu, cu_context, self.scale))

        return self._through_latents(x, mix)
