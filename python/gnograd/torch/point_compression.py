# SPDX-License-Identifier: MIT
"""Compression of stretches of points: one key, value or query in place of several."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnograd.torch import functional

__all__ = ["COMPRESSIONS", "compress_stretches", "compressor"]

COMPRESSIONS = ("weighted", "mean", "mlp")


def compressor(
    kind: str, size: int, heads: int, head_dim: int, mlp_ratio: float
) -> nn.Parameter | nn.Module | None:
    """Parameters of a compression of `size` points: weights, a perceptron, or none for means.

    The perceptron is the same for all heads.
    """
    if kind == "weighted":
        return nn.Parameter(torch.full((size, heads), 1 / size))
    if kind == "mean":
        return None
    hidden = max(int(mlp_ratio * size * head_dim), 1)
    return nn.Sequential(nn.Linear(size * head_dim, hidden), nn.ReLU(), nn.Linear(hidden, head_dim))


def compress_stretches(x: Tensor, size: int, by: Tensor | nn.Module | None) -> Tensor:
    """Compress the full stretches of ``x (points, heads, head_dim)`` to a row each."""
    if isinstance(by, nn.Module):
        n = x.shape[0] // size
        stretches = x[: n * size].unflatten(0, (n, size))
        out: Tensor = by(stretches.transpose(1, 2).flatten(2))
        return out
    if by is None:
        by = x.new_full((size, x.shape[1]), 1 / size)
    return functional.compress(x, by, block=size, stride=size)
