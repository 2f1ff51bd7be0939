# SPDX-License-Identifier: MIT
"""Geometry of neighbourhoods, as JAX arrays."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from gnograd.jax import functional
from gnograd.operators.moments import NeighborhoodMoments, positions_of_destinations, unpack_moments

__all__ = ["neighborhood_moments"]


def neighborhood_moments(x: Any, graph: Any, destinations: Any = None) -> NeighborhoodMoments:
    """`gnograd.neighborhood_moments` with JAX arrays for arrays.

    Parameters
    ----------
    x : jax.Array, (n_src, d)
    graph : Graph
    destinations : jax.Array, (n_dst, d), optional

    Returns
    -------
    NeighborhoodMoments
        JAX arrays, differentiable by the positions; see `gnograd.torch.neighborhood_moments`.
    """
    y = positions_of_destinations(x, graph, destinations)
    moments = functional.offset_moments(x, y, graph=graph)
    count = jnp.asarray(graph.in_degree)
    return unpack_moments(moments, count, x.shape[1], jnp, jnp.asarray)
