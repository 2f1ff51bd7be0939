# SPDX-License-Identifier: MIT
"""Weights of neighbours that decay to zero at the edge of the neighbourhood.

Every function takes squared distances and the squared radius, like neuraloperator's functions of
the same names: with ``t = x / radius`` in [0, 1] the weight is `scale` at 0 and 0 at 1. Distances
beyond the radius are not supported; only `bump_cutoff` gives 0 there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import e, pi

import torch
from torch import Tensor

__all__ = [
    "WEIGHTING_FN_REGISTRY",
    "bump_cutoff",
    "dispatch_weighting_fn",
    "half_cos_cutoff",
    "octic_cutoff",
    "quadr_cutoff",
    "quartic_cutoff",
]


def bump_cutoff(x: Tensor, radius: float = 1.0, scale: float = 1.0, eps: float = 1e-7) -> Tensor:
    """``exp(1 - 1 / (1 - t^2 + eps))``, smooth to all orders; `eps` keeps the edge finite."""
    t = x.clip(0.0, radius) / radius
    return scale * e * torch.exp(-1 / (1 - t.square() + eps))


def half_cos_cutoff(x: Tensor, radius: float = 1.0, scale: float = 1.0) -> Tensor:
    """``(1 + cos(pi t)) / 2``."""
    return scale * (0.5 + 0.5 * torch.cos(pi / radius * x))


def quadr_cutoff(x: Tensor, radius: float = 1.0, scale: float = 1.0) -> Tensor:
    """``1 - 2 t^2`` up to t = 1/2, then ``2 (1 - t)^2``."""
    t = x / radius
    return scale * torch.where(t < 0.5, 1 - 2 * t.square(), 2 * (1 - t).square())


def quartic_cutoff(x: Tensor, radius: float = 1.0, scale: float = 1.0) -> Tensor:
    """``(1 - t^2)^2``."""
    return scale * (1 - (x / radius).square()).square()


def octic_cutoff(x: Tensor, radius: float = 1.0, scale: float = 1.0) -> Tensor:
    """``1 - 6 t^4 + 8 t^6 - 3 t^8``."""
    s = (x / radius).square()
    return scale * (1 + s.square() * (-6 + s * (8 - 3 * s)))


WEIGHTING_FN_REGISTRY: dict[str, Callable[..., Tensor]] = {
    "bump": bump_cutoff,
    "half_cos": half_cos_cutoff,
    "quadr": quadr_cutoff,
    "quartic": quartic_cutoff,
    "octic": octic_cutoff,
}


def dispatch_weighting_fn(
    weight_function_name: str, sq_radius: float, scale: float = 1.0
) -> Callable[[Tensor], Tensor]:
    """Weighting function by name, for `GNOBlock` and `IntegralTransform`.

    Parameters
    ----------
    weight_function_name : {"bump", "half_cos", "quadr", "quartic", "octic"}
    sq_radius : float
        Square of the radius of the neighbourhoods.
    scale : float
        Weight at distance 0.

    Raises
    ------
    NotImplementedError
        Another name.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import dispatch_weighting_fn
    >>> weight = dispatch_weighting_fn("quartic", sq_radius=0.25, scale=2.0)
    >>> weight(torch.tensor([0.0, 0.125, 0.25]))
    tensor([2.0000, 1.1250, 0.0000])
    """
    function = WEIGHTING_FN_REGISTRY.get(weight_function_name)
    if function is None:
        raise NotImplementedError(
            f"dispatch_weighting_fn: weight_function_name is {weight_function_name!r}, "
            f"needs one of {', '.join(WEIGHTING_FN_REGISTRY)}"
        )
    return partial(function, radius=sq_radius, scale=scale)
