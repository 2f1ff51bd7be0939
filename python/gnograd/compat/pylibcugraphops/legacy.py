# SPDX-License-Identifier: MIT
"""Constructors of graphs up to 23.02: of all nodes (``fg``), and of samples (``mfg``)."""

from __future__ import annotations

from typing import Any

from gnograd.compat.pylibcugraphops.graph import (
    Csc,
    HeteroCsc,
    make_bipartite_csc,
    make_csc,
    with_types,
)
from gnograd.faces.operator import Array

__all__ = ["make_fg_csr", "make_fg_csr_hg", "make_mfg_csr", "make_mfg_csr_hg"]


def make_fg_csr(offsets: Array, indices: Array, ef_indices: Array | None = None) -> Csc:
    """Graph of one set of nodes, as `make_csc` makes it."""
    return make_csc(offsets, indices, ef_indices)


def make_mfg_csr(*arguments: Any) -> Csc:
    """Graph from sampled nodes to `out_nodes`, which are the first of them.

    Parameters
    ----------
    *arguments
        ``out_nodes, offsets, indices, sample_size, n_in_nodes``, or, with the sampled nodes
        themselves, ``out_nodes, in_nodes, offsets, indices, sample_size``. Of arrays of nodes only
        the number of sources is read; `sample_size`, the largest in-degree, is not.
    """
    return _sampled("make_mfg_csr", arguments)


def make_fg_csr_hg(
    offsets: Array,
    indices: Array,
    n_node_types: int,
    n_edge_types: int,
    node_types: Array | None,
    edge_types: Array,
    ef_indices: Array | None = None,
) -> HeteroCsc:
    """Graph of one set of nodes with edges of several types, as `make_csc_hg` makes it."""
    csc = make_csc(offsets, indices, ef_indices)
    return with_types("make_fg_csr_hg", csc, n_node_types, n_edge_types, edge_types)


def make_mfg_csr_hg(
    *arguments: Any,
    n_node_types: int,
    n_edge_types: int,
    out_node_types: Array | None,
    in_node_types: Array | None,
    edge_types: Array,
) -> HeteroCsc:
    """Graph of sampled nodes, as `make_mfg_csr` makes it, with edges of several types.

    Parameters
    ----------
    *arguments
        As for `make_mfg_csr`.
    n_node_types, out_node_types, in_node_types : int, array, array
        Types of the nodes, which no operator reads; 0 and None if there are none.
    n_edge_types, edge_types : int, array
        As for `make_csc_hg`.
    """
    csc = _sampled("make_mfg_csr_hg", arguments)
    return with_types("make_mfg_csr_hg", csc, n_node_types, n_edge_types, edge_types)


def _sampled(name: str, arguments: tuple[Any, ...]) -> Csc:
    if len(arguments) != 5:
        raise TypeError(f"{name}: got {len(arguments)} arguments by position, needs 5")
    _, *rest = arguments
    if hasattr(rest[2], "shape") and len(rest[2].shape):  # in_nodes is given
        in_nodes, offsets, indices, _sample_size = rest
        return make_bipartite_csc(offsets, indices, len(in_nodes))
    offsets, indices, _sample_size, n_in_nodes = rest
    return make_bipartite_csc(offsets, indices, n_in_nodes)
