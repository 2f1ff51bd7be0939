# SPDX-License-Identifier: MIT
"""Rotary embedding of coordinates."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnograd.torch.arrays import full_precision

__all__ = ["RotaryPoints"]


class RotaryPoints(nn.Module):
    """Rotary embedding from coordinates, as AB-UPT has it.

    Neighbouring features of a head are rotated in pairs. Every axis has
    ``p = dim_head // coord_dim // 2`` pairs, axis by axis, whose angles are the coordinate times
    ``max_wavelength ** (-i / p)`` for ``i = 0 .. p - 1``; features that are left over at the end
    stay as they are. Scalar products of rotated queries and keys depend on the differences of
    coordinates only.

    Parameters
    ----------
    dim_head : int
        Width of a head, at least ``2 coord_dim``.
    coord_dim : int
        Dimension of the coordinates.
    max_wavelength : float
        Ratio of the largest wavelength to the smallest, which is 2 pi. AB-UPT scales coordinates
        into the range from 0 to 1000.

    Raises
    ------
    ValueError
        A head that is too narrow for a pair an axis.

    Notes
    -----
    It has no parameters. It is computed in the precision of the coordinates, or in float32 for
    half precision and under `torch.autocast`.

    References
    ----------
    Alkin et al., AB-UPT: Scaling Neural CFD Surrogates for High-Fidelity Automotive Aerodynamics
    Simulations via Anchored-Branched Universal Physics Transformers, arXiv:2502.09692, 2025.
    Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, arXiv:2104.09864,
    2021.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import RotaryPoints, attention
    >>> rotary = RotaryPoints(dim_head=16, coord_dim=3)
    >>> x, anchors = torch.rand(100, 3), torch.rand(20, 3)
    >>> q, k, v = torch.randn(100, 4, 16), torch.randn(20, 4, 16), torch.randn(20, 4, 16)
    >>> attention(rotary(q, x), rotary(k, anchors), v).shape
    torch.Size([100, 4, 16])
    """

    def __init__(self, dim_head: int, coord_dim: int, max_wavelength: float = 10000.0) -> None:
        super().__init__()
        if coord_dim < 1 or dim_head < 2 * coord_dim:
            raise ValueError(
                f"RotaryPoints: dim_head is {dim_head} and coord_dim {coord_dim}, needs a "
                "coord_dim of at least 1, and dim_head at least twice as large"
            )
        self.dim_head, self.coord_dim, self.max_wavelength = dim_head, coord_dim, max_wavelength

    def extra_repr(self) -> str:
        """Arguments."""
        return f"{self.dim_head}, {self.coord_dim}, max_wavelength={self.max_wavelength:g}"

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate.

        Parameters
        ----------
        x : Tensor, (..., T, heads, dim_head)
            Queries or keys.
        positions : Tensor, (..., T, coord_dim)
            Coordinates of the tokens, the same for all heads; leading axes may be missing or 1.
            With as many axes as `x`, each row of `x` has its own: (..., 1, T, coord_dim) goes with
            `x` (..., heads, T, dim_head).

        Returns
        -------
        Tensor, in the shape and dtype of `x`

        Raises
        ------
        ValueError
            Shapes that do not fit.
        """
        rows = positions if positions.ndim == x.ndim else positions.unsqueeze(-2)
        fits = x.ndim >= 2 and 2 <= rows.ndim <= x.ndim
        fits = fits and (x.shape[-1], rows.shape[-1]) == (self.dim_head, self.coord_dim)
        pairs = zip(reversed(rows.shape[:-1]), reversed(x.shape[:-1]), strict=False)
        if not fits or any(n not in (1, m) for n, m in pairs):
            raise ValueError(
                f"RotaryPoints: x has shape {tuple(x.shape)} and positions "
                f"{tuple(positions.shape)}, need (..., T, heads, {self.dim_head}) and "
                f"(..., T, {self.coord_dim})"
            )
        pairs_of_axis = self.dim_head // self.coord_dim // 2
        rotated = 2 * pairs_of_axis * self.coord_dim
        with full_precision(x.device):
            rows = rows.to(torch.promote_types(positions.dtype, torch.float32))
            steps = torch.arange(pairs_of_axis, dtype=rows.dtype, device=x.device)
            frequencies = self.max_wavelength ** (-steps / pairs_of_axis)
            angles = (rows[..., None] * frequencies).flatten(-2)
            cos, sin = angles.cos(), angles.sin()
            a, b = x[..., :rotated].unflatten(-1, (-1, 2)).unbind(-1)
            turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
            return torch.cat([turned.to(x.dtype), x[..., rotated:]], dim=-1)
