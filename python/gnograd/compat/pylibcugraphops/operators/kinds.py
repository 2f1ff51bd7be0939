# SPDX-License-Identifier: MIT
"""Kinds of aggregation and of activations, and parameters of attention."""

from __future__ import annotations

import enum
from typing import NamedTuple

__all__ = ["ActivationKind", "AggOp", "mha_params"]


class AggOp(enum.IntEnum):
    """Aggregation of the edges of a node."""

    Sum = 0
    Mean = 1
    Min = 2
    Max = 3


class ActivationKind(enum.IntEnum):
    """Activations of attention."""

    LeakyReLU = 0
    ELU = 1
    Linear = 2
    ReLU = 3
    Scalar = 4
    Sigmoid = 5
    Tanh = 6


class mha_params(NamedTuple):
    """Static arguments of attention.

    Attributes
    ----------
    num_heads : int
    concat_heads : bool
        Heads side by side, or their mean.
    activation : ActivationKind or str
        A member, or its name.
    alpha : float
        Parameter of LeakyReLU, ELU and Scalar.
    """

    num_heads: int = 1
    concat_heads: bool = True
    activation: ActivationKind | str = ActivationKind.LeakyReLU
    alpha: float = 0.2
