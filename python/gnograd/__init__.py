# SPDX-License-Identifier: MIT
"""Differentiable message passing and block-sparse attention for neural-operator PDE codes."""

from importlib.metadata import version

from gnograd.dimenet import agg_edge_to_edge, radial_basis
from gnograd.gno import (
    gno,
    gno_aggregate,
    gno_contract,
    gno_kernel,
    gno_pack,
    gno_unpack,
)
from gnograd.graph import EdgesBySource, Graph
from gnograd.nsa import (
    compressed_attention,
    selected_attention,
    window_attention,
)
from gnograd.operator import Operator
from gnograd.runtime import (
    get_config,
    get_include,
    get_num_threads,
    get_pkgconfig_dir,
    set_num_threads,
    show_config,
)

__all__ = [
    "EdgesBySource",
    "Graph",
    "Operator",
    "agg_edge_to_edge",
    "compressed_attention",
    "get_config",
    "get_include",
    "get_num_threads",
    "get_pkgconfig_dir",
    "gno",
    "gno_aggregate",
    "gno_contract",
    "gno_kernel",
    "gno_pack",
    "gno_unpack",
    "radial_basis",
    "selected_attention",
    "set_num_threads",
    "show_config",
    "window_attention",
]
__version__ = version("gnograd")
