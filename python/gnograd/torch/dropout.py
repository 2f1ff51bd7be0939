# SPDX-License-Identifier: MIT
"""Random numbers by their place: dropout as ``gnograd.mha_gat`` draws it, and Gumbel noise."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gnograd import _core
from gnograd.backends.cpu import address, check_status
from gnograd.torch.batches import register_loop

__all__ = ["dropout_factors", "gumbel_noise", "split_mix"]


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


@torch.library.custom_op("gnograd::gumbel_noise", mutates_args=())
def gumbel_noise(seed: Tensor, first: int, n: int, dtype: torch.dtype) -> Tensor:
    """Gumbel noise ``-log(-log(u + 1e-8) + 1e-8)`` of n numbers of the sequence of a seed.

    u is ``2**-53`` times `split_mix`, in the dtype of the noise.

    Parameters
    ----------
    seed : Tensor of int64, (1,)
    first, n : int
        Place of the first number, from 0, and how many there are.
    dtype : torch.dtype
        float32 or float64.

    Returns
    -------
    Tensor, (n,)

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch.dropout import gumbel_noise
    >>> gumbel_noise(torch.tensor([3]), 0, 3, torch.float64)
    tensor([-0.3424,  1.3480, -0.3083], dtype=torch.float64)
    """
    if seed.device.type != "cpu":
        u = split_mix(seed, first, n).to(dtype).mul_(2.0**-53)
        return u.add_(1e-8).log_().neg_().add_(1e-8).log_().neg_()
    noise = np.empty(n, {torch.float32: np.float32, torch.float64: np.float64}[dtype])
    draw = _core.gnograd_gumbel_f32 if dtype == torch.float32 else _core.gnograd_gumbel_f64
    check_status(draw(int(seed), first, n, address(noise)))
    return torch.from_numpy(noise)


@gumbel_noise.register_fake
def _(seed: Tensor, first: int, n: int, dtype: torch.dtype) -> Tensor:
    return seed.new_empty(n, dtype=dtype)


register_loop(gumbel_noise)


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
