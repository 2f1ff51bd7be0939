# SPDX-License-Identifier: MIT
"""Points, networks and formulas for neuraloperator's layers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

N, M, CHANNELS = 12, 7, 3


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def points():
    """Points of integration and queries, the last of which has no neighbours."""
    generator = torch.Generator().manual_seed(0)
    y, x = (torch.rand(n, 2, dtype=torch.float64, generator=generator) for n in (N, M))
    x[-1] = 9
    return y, x
