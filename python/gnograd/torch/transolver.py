# SPDX-License-Identifier: MIT
"""Layer of Transolver: slice attention and a perceptron, each after a layer norm."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from torch import Tensor, nn

from gnograd.torch.activations import activation_module
from gnograd.torch.slice_attention import SliceAttention

__all__ = ["TransolverBlock", "TransolverMLP"]

_RENAMED = {
    "ln_2.": "ln_mlp1.0.",
    "mlp.linear_pre.0.": "ln_mlp1.1.layers.0.",
    "mlp.linear_post.": "ln_mlp1.1.layers.2.",
    "ln_3.": "ln_mlp2.0.",
    "mlp2.": "ln_mlp2.1.",
}
"""Transolver's names of parameters, and PhysicsNeMo's."""


class TransolverMLP(nn.Module):
    """Two linear layers with an activation between them, named as PhysicsNeMo's.

    Parameters
    ----------
    in_features, hidden_features, out_features : int
        Widths.
    act : str
        Activation: "gelu", "silu", "tanh", ...; an error lists all.

    Raises
    ------
    ValueError
        An unknown activation.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch.transolver import TransolverMLP
    >>> TransolverMLP(3, 16, 8)(torch.randn(100, 3)).shape
    torch.Size([100, 8])
    """

    def __init__(
        self, in_features: int, hidden_features: int, out_features: int, act: str = "gelu"
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(in_features, hidden_features),
            activation_module("act", act),
            nn.Linear(hidden_features, out_features),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers.

        Parameters
        ----------
        x : Tensor, (..., in_features)

        Returns
        -------
        Tensor, (..., out_features)
        """
        out: Tensor = self.layers(x)
        return out


class TransolverBlock(nn.Module):
    """Layer of Transolver: ``x + attention(norm(x))``, then ``x + perceptron(norm(x))``.

    Parameters
    ----------
    num_heads : int
        Heads of the attention.
    hidden_dim : int
        Width of the input, a multiple of `num_heads`.
    dropout : float
        Probability that a number of the attention's output is dropped in training.
    act : str
        Activation of the perceptron, as for `TransolverMLP`.
    mlp_ratio : int
        Hidden width of the perceptron in units of `hidden_dim`.
    last_layer : bool
        End with a layer norm and a linear layer to `out_dim` features.
    out_dim : int
        Width of the output of a last layer.
    slice_num : int
        Slices of the attention.
    plus : bool
        Transolver++; see `SliceAttention`.
    **attention
        More arguments of `SliceAttention`: `eps`, `temperature_range`, `gumbel`.

    Raises
    ------
    ValueError
        A width that the heads do not divide, or an unknown activation.

    Notes
    -----
    Loads the state dicts of PhysicsNeMo's ``TransolverBlock`` (without Transformer Engine, on
    irregular meshes) and of Transolver's ``Transolver_block``, which needs
    ``eps=1e-5, temperature_range=None`` for its numbers.

    References
    ----------
    Wu et al., Transolver: A Fast Transformer Solver for PDEs on General Geometries,
    arXiv:2402.02366, 2024.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import TransolverBlock
    >>> block = TransolverBlock(num_heads=4, hidden_dim=32, last_layer=True, out_dim=3)
    >>> block(torch.randn(2, 100, 32)).shape
    torch.Size([2, 100, 3])
    """

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        dropout: float = 0.0,
        act: str = "gelu",
        mlp_ratio: int = 4,
        last_layer: bool = False,
        out_dim: int = 1,
        slice_num: int = 32,
        plus: bool = False,
        **attention: Any,
    ) -> None:
        super().__init__()
        if num_heads < 1 or hidden_dim % num_heads:
            raise ValueError(
                f"TransolverBlock: hidden_dim is {hidden_dim}, needs a multiple of {num_heads} "
                "heads"
            )
        self.last_layer = last_layer
        self.ln_1 = nn.LayerNorm(hidden_dim)
        self.Attn = SliceAttention(
            hidden_dim, num_heads, hidden_dim // num_heads, slice_num, plus,
            dropout=dropout, **attention,
        )  # fmt: skip
        self.ln_mlp1 = nn.Sequential(
            nn.LayerNorm(hidden_dim),
            TransolverMLP(hidden_dim, mlp_ratio * hidden_dim, hidden_dim, act),
        )
        if last_layer:
            self.ln_mlp2 = nn.Sequential(nn.LayerNorm(hidden_dim), nn.Linear(hidden_dim, out_dim))
        self.register_load_state_dict_pre_hook(_rename)

    def forward(self, x: Tensor, cu_seqlens: Tensor | Sequence[int] | None = None) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        x : Tensor, (B, N, hidden_dim) or (N, hidden_dim)
            Features of the points.
        cu_seqlens : Tensor of int64 or sequence of int, (n_clouds + 1,), optional
            Borders of the clouds packed in ``x (N, hidden_dim)``; see `SliceAttention.forward`.

        Returns
        -------
        Tensor, in the shape of `x`; (..., out_dim) from a last layer

        Raises
        ------
        ValueError
            A shape or borders that do not fit.
        """
        x = x + self.Attn(self.ln_1(x), cu_seqlens)
        x = x + self.ln_mlp1(x)
        return self.ln_mlp2(x) if self.last_layer else x


def _rename(
    _module: nn.Module, state: MutableMapping[str, Any], prefix: str, *_arguments: Any
) -> None:
    """Bring a state dict of Transolver into the names of PhysicsNeMo's."""
    for name in [name for name in state if name.startswith(prefix)]:
        for theirs, ours in _RENAMED.items():
            if name.startswith(prefix + theirs):
                state[prefix + ours + name[len(prefix + theirs) :]] = state.pop(name)
