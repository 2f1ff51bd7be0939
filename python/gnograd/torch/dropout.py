# SPDX-License-Identifier: MIT
"""Random numbers by their place, and factors of dropout as ``gnograd.mha_gat`` draws them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["dropout_factors", "split_mix"]


def dropout_factors(seed: Tensor, n_edges: int, num_heads: int, dropout: float) -> Tensor:
    """Factors by which `mha_gat`, `mha_gat_v2` and `mha_simple` multiply attention weights.

    Parameters
    ----------
    seed : Tensor of int64, (1,)
    n_edges : int
        Rows of the edge table.
    num_heads : int
    dropout : float
        Probability from 0 to 1 that a weight is dropped.

    Returns
    -------
    Tensor of float64, (n_edges, num_heads)
        0 where a weight is dropped, else ``1 / (1 - dropout)``.

    Examples
    --------
    >>> import gnograd.torch, torch
    >>> gnograd.torch.dropout_factors(torch.tensor([3]), 3, 2, 0.5)
    tensor([[0., 2.],
            [2., 0.],
            [0., 2.]], dtype=torch.float64)
    """
    kept = split_mix(seed, 0, n_edges * num_heads) >= math.ceil(math.ldexp(dropout, 53))
    factor = 0.0 if dropout == 1 else 1 / (1 - dropout)
    return kept.to(torch.float64).mul(factor).view(n_edges, num_heads)


def split_mix(seed: Tensor, first: int, n: int) -> Tensor:
    """First 53 bits of n numbers of the sequence that SplitMix64 makes of a seed.

    Parameters
    ----------
    seed : Tensor of int64, (1,)
    first, n : int
        Place of the first number, from 0, and how many there are.

    Returns
    -------
    Tensor of int64, (n,)
        From 0 to ``2**53 - 1``.
    """
    z = torch.arange(first + 1, first + n + 1, device=seed.device)
    z.mul_(_signed(0x9E3779B97F4A7C15)).add_(seed)
    z.bitwise_xor_(_shifted(z, 30)).mul_(_signed(0xBF58476D1CE4E5B9))
    z.bitwise_xor_(_shifted(z, 27)).mul_(_signed(0x94D049BB133111EB))
    z.bitwise_xor_(_shifted(z, 31))
    return _shifted(z, 11)


def _signed(bits: int) -> int:
    """Signed integer with these 64 bits: tensors have no unsigned ones."""
    return bits - 2**64


def _shifted(z: Tensor, n: int) -> Tensor:
    """Logical shift to the right, which fills up with zeros."""
    return (z >> n).bitwise_and_(2 ** (64 - n) - 1)
