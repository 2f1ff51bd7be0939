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

from gnograd.jax.adapter import jax_operator
from gnograd.jax.functional import (
    agg_concat,
    agg_edge_to_edge,
    agg_simple,
    agg_weighted,
    compress,
    compressed_attention,
    gno,
    gno_aggregate,
    gno_contract,
    gno_kernel,
    gno_with_gradient,
    gno_with_hessian,
    gno_with_laplacian,
    mha_gat,
    mha_gat_v2,
    mha_simple,
    radial_basis,
    select_blocks,
    selected_attention,
    window_attention,
)

__all__ = [
    "agg_concat",
    "agg_edge_to_edge",
    "agg_simple",
    "agg_weighted",
    "compress",
    "compressed_attention",
    "gno",
    "gno_aggregate",
    "gno_contract",
    "gno_kernel",
    "gno_with_gradient",
    "gno_with_hessian",
    "gno_with_laplacian",
    "jax_operator",
    "mha_gat",
    "mha_gat_v2",
    "mha_simple",
    "radial_basis",
    "select_blocks",
    "selected_attention",
    "window_attention",
]
