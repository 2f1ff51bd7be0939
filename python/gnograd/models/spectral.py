# SPDX-License-Identifier: MIT
"""Fourier layers on regular grids of any dimension."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["SpectralLayer"]


class SpectralLayer(nn.Module):
    """Multiply the lowest Fourier modes of functions on a grid by learned matrices [1]_.

    Parameters
    ----------
    width : int
        Channels.
    shape : sequence of int
        Points of the grid along its axes.
    modes : int
        Number of wave numbers that are kept, or as many as an axis has.

    References
    ----------
    .. [1] Z. Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations",
       arXiv:2010.08895, 2020.
    """

    def __init__(self, width: int, shape: Sequence[int], modes: int) -> None:
        super().__init__()
        self.shape = tuple(shape)
        # both signs of the wave number, except along the last axis, where one determines the other
        self.kept = [
            [k % n for k in range(-min(modes, (n + 1) // 2) + 1, min(modes, (n + 1) // 2))]
            for n in self.shape[:-1]
        ] + [list(range(min(modes, self.shape[-1] // 2 + 1)))]
        size = (width, width, *map(len, self.kept), 2)
        self.weight = nn.Parameter(torch.randn(size) * (1 / (2 * width)) ** 0.5)

    def forward(self, h: Tensor) -> Tensor:
        """Apply to functions (n_items, width, n_1, .., n_d)."""
        axes = tuple(range(2, h.ndim))
        with torch.autocast(h.device.type, enabled=False):  # FFTs of 16 bits take sizes 2^k only
            spectrum = torch.fft.rfftn(h.float(), dim=axes, norm="ortho")
            low = spectrum
            for axis, kept in zip(axes, self.kept, strict=True):
                low = low.index_select(axis, torch.tensor(kept, device=h.device))
            weight = torch.view_as_complex(self.weight.float())
            made = torch.einsum("bi...,io...->bo...", low, weight)
            for axis, kept in reversed(list(zip(axes, self.kept, strict=True))):
                wide = [*made.shape]
                wide[axis] = spectrum.shape[axis]
                rows = torch.tensor(kept, device=h.device)
                made = made.new_zeros(wide).index_copy(axis, rows, made)
            return torch.fft.irfftn(made, s=self.shape, dim=axes, norm="ortho")
