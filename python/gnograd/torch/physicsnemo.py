# SPDX-License-Identifier: MIT
"""PhysicsNeMo's attention layers for points, with its arguments, on the operators of gnograd.

`gnograd.torch.patch_physicsnemo` puts them into PhysicsNeMo's models. There is no Transformer
Engine here: ``use_te=True`` is a `NotImplementedError` of every layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from gnograd.torch import flare, gale
from gnograd.torch.slice_attention import SliceAttention

__all__ = ["FLARE", "GALE", "GALE_FA", "PhysicsAttentionIrregularMesh"]


class PhysicsAttentionIrregularMesh(SliceAttention):
    """`SliceAttention` with PhysicsNeMo's arguments; with `plus` it draws noise in evaluation too.

    Parameters
    ----------
    dim, heads, dim_head, dropout, slice_num, plus
        As for `SliceAttention`.
    use_te : bool
        False.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch.physicsnemo import PhysicsAttentionIrregularMesh
    >>> layer = PhysicsAttentionIrregularMesh(32, 4, 8, slice_num=16, use_te=False)
    >>> layer(torch.randn(2, 100, 32)).shape
    torch.Size([2, 100, 32])
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        dim_head: int = 64,
        dropout: float = 0.0,
        slice_num: int = 64,
        use_te: bool = True,
        plus: bool = False,
    ) -> None:
        _refuse_te(self, use_te)
        super().__init__(dim, heads, dim_head, slice_num, plus, dropout=dropout, gumbel=plus)


class FLARE(flare.FLARE):
    """`gnograd.torch.FLARE` with PhysicsNeMo's arguments.

    Parameters
    ----------
    dim, heads, dim_head, dropout, n_global_queries
        As for `gnograd.torch.FLARE`.
    use_te : bool
        False.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch.physicsnemo import FLARE
    >>> FLARE(32, 4, 8, n_global_queries=16)(torch.randn(2, 100, 32)).shape
    torch.Size([2, 100, 32])
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        dim_head: int = 64,
        dropout: float = 0.0,
        n_global_queries: int = 64,
        use_te: bool = False,
    ) -> None:
        _refuse_te(self, use_te)
        super().__init__(dim, heads, dim_head, dropout, n_global_queries)


class GALE(gale.GALE):
    """`gnograd.torch.GALE` with PhysicsNeMo's arguments; with `plus` it draws noise in evaluation.

    Parameters
    ----------
    dim, heads, dim_head, dropout, slice_num, plus, context_dim, state_mixing_mode
        As for `gnograd.torch.GALE`.
    use_te : bool
        False.
    concrete_dropout : bool
        End with PhysicsNeMo's ``ConcreteDropout``.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch.physicsnemo import GALE
    >>> layer = GALE(32, 4, 8, slice_num=16, context_dim=5)
    >>> [out] = layer((torch.randn(2, 100, 32),), torch.randn(2, 4, 12, 5))
    >>> out.shape
    torch.Size([2, 100, 32])
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        dim_head: int = 64,
        dropout: float = 0.0,
        slice_num: int = 64,
        use_te: bool = False,
        plus: bool = False,
        context_dim: int = 0,
        concrete_dropout: bool = False,
        state_mixing_mode: str = "weighted",
    ) -> None:
        _refuse_te(self, use_te)
        super().__init__(
            dim, heads, dim_head, slice_num, plus, context_dim=context_dim,
            state_mixing_mode=state_mixing_mode, dropout=dropout, gumbel=plus,
        )  # fmt: skip
        if concrete_dropout:
            self.out_dropout = _concrete_dropout(dim, dropout)


class GALE_FA(gale.GALE_FA):
    """`gnograd.torch.GALE_FA` with PhysicsNeMo's arguments.

    Parameters
    ----------
    dim, heads, dim_head, dropout, n_global_queries, context_dim, state_mixing_mode
        As for `gnograd.torch.GALE_FA`.
    use_te : bool
        False.
    concrete_dropout : bool
        End with PhysicsNeMo's ``ConcreteDropout``.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch.physicsnemo import GALE_FA
    >>> layer = GALE_FA(32, 4, 8, n_global_queries=16, context_dim=5)
    >>> [out] = layer((torch.randn(2, 100, 32),), torch.randn(2, 4, 12, 5))
    >>> out.shape
    torch.Size([2, 100, 32])
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        dim_head: int = 64,
        dropout: float = 0.0,
        n_global_queries: int = 64,
        use_te: bool = False,
        context_dim: int = 0,
        concrete_dropout: bool = False,
        state_mixing_mode: str = "weighted",
    ) -> None:
        _refuse_te(self, use_te)
        super().__init__(
            dim, heads, dim_head, dropout, n_global_queries, context_dim=context_dim,
            state_mixing_mode=state_mixing_mode,
        )  # fmt: skip
        if concrete_dropout:
            self.out_dropout = _concrete_dropout(dim, dropout)


def _concrete_dropout(dim: int, dropout: float) -> Any:
    """PhysicsNeMo's layer at the end of GALE and GALE_FA."""
    from physicsnemo.nn.module.concrete_dropout import ConcreteDropout

    make: Callable[..., Any] = ConcreteDropout
    return make(in_features=dim, init_p=max(dropout, 0.05))


def _refuse_te(layer: nn.Module, use_te: bool) -> None:
    if use_te:
        raise NotImplementedError(f"{type(layer).__name__}: use_te is True, needs False")
