# SPDX-License-Identifier: MIT
"""gnograd for JAX: the operators on JAX arrays.

Importing this package imports jax; nothing else in gnograd does.
"""

try:
    import jax.ffi  # noqa: F401
except ImportError as error:
    raise ImportError(
        "gnograd.jax needs JAX 0.6.2 or later: pip install jax, or jax[cuda12] for NVIDIA GPUs"
    ) from error

from gnograd.jax import functional
from gnograd.jax.adapter import jax_operator
from gnograd.jax.distributed import DistributedGraph, halo
from gnograd.jax.functional import *
from gnograd.jax.graph import Graph
from gnograd.jax.moments import neighborhood_moments

__all__ = [
    "DistributedGraph",
    "Graph",
    "halo",
    "jax_operator",
    "neighborhood_moments",
    *functional.__all__,
]
