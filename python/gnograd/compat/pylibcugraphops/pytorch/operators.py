# SPDX-License-Identifier: MIT
"""Operators on tensors, with first and second derivatives: those of `gnograd.torch`.

``n2n`` goes from nodes to nodes, ``e2n`` from edges to nodes, ``e2e`` from edges to edges. Where a
graph has more sources than destinations and there is only one tensor of features, the first sources
are the destinations. Aggregations are ``"sum"``, ``"mean"``, ``"min"`` and ``"max"``.

Tensors are float32 or float64; float16 and bfloat16 too, on the CPU in a copy of float32. All
gradients are deterministic, and those of 16 bits are summed in float32: the options that ask for
this are accepted, and change nothing.

Raises
------
TypeError, ValueError
    As for the operators of `gnograd.torch`, under whose names shapes and types are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

import gnograd
from gnograd.torch import functional
from gnograd.torch.graph import AnyGraph, Graph

__all__ = [
    "agg_concat_e2n",
    "agg_concat_n2n",
    "agg_hg_basis_n2n_post",
    "agg_simple_n2n",
    "mha_gat_n2n",
    "mha_gat_v2_n2n",
    "mha_simple_n2n",
    "update_efeat_bipartite_e2e",
    "update_efeat_e2e",
    "update_efeat_static_e2e",
]


class AnyCsc(Protocol):
    """A graph of `pytorch.graph`, or one of ``make_csc`` and related functions."""

    @property
    def graph(self) -> Any:
        """The graph for gnograd's own operators."""


Features: TypeAlias = "Tensor | Sequence[Tensor]"
"""Features of all nodes, or of sources and of destinations."""


def agg_concat_n2n(
    feat: Features, graph: AnyCsc, aggr: str = "sum", edge_weight: Tensor | None = None
) -> Tensor:
    """Aggregate features of sources beside the destinations' own, ``[neighbours | own]``.

    Parameters
    ----------
    feat : Tensor, (n_src, D), or two, (n_src, D) and (n_dst, Do)
        Features of sources, and of destinations.
    graph : CSC
    aggr : {"sum", "mean", "min", "max"}
    edge_weight : Tensor, (n_edges,), optional
        Factor of every edge.

    Returns
    -------
    Tensor, (n_dst, 2 * D) or (n_dst, D + Do)
    """
    known = _known("agg_concat_n2n", graph)
    x, own = _both("agg_concat_n2n", feat, known)
    return _call(functional.agg_concat, [x, edge_weight, None, own], graph=known, aggregation=aggr)


def agg_simple_n2n(
    feat: Features, graph: AnyCsc, aggr: str = "sum", edge_weight: Tensor | None = None
) -> Tensor:
    """Aggregate features of sources.

    Parameters
    ----------
    feat : Tensor, (n_src, D)
    graph : CSC
    aggr : {"sum", "mean", "min", "max"}
    edge_weight : Tensor, (n_edges,), optional
        Factor of every edge.

    Returns
    -------
    Tensor, (n_dst, D)
    """
    known = _known("agg_simple_n2n", graph)
    x = feat if isinstance(feat, Tensor) else feat[0]
    if edge_weight is None:
        return _call(functional.agg_simple, [x], graph=known, aggregation=aggr)
    return _call(functional.agg_weighted, [x, edge_weight], graph=known, aggregation=aggr)


def agg_concat_e2n(nfeat: Tensor, efeat: Tensor, graph: AnyCsc, aggr: str = "sum") -> Tensor:
    """Aggregate features of edges beside those of the destinations, ``[edges | own]``.

    Parameters
    ----------
    nfeat : Tensor, (n_dst, D)
    efeat : Tensor, (n_edges, De)
    graph : CSC
    aggr : {"sum", "mean", "min", "max"}

    Returns
    -------
    Tensor, (n_dst, De + D)
    """
    known = _known("agg_concat_e2n", graph)
    own = nfeat[: known.n_dst]
    return _call(functional.agg_concat, [None, None, efeat, own], graph=known, aggregation=aggr)


def agg_hg_basis_n2n_post(
    feat: Tensor,
    weights_comb: Tensor | None,
    graph: AnyCsc,
    concat_own: bool = False,
    norm_by_out_degree: bool = False,
) -> Tensor:
    """Aggregate features of sources by the type of edges, or in a basis of their combinations.

    Parameters
    ----------
    feat : Tensor, (n_src, D)
    weights_comb : Tensor, (num_edge_types, n_bases), optional
        Coefficients of the combinations.
    graph : HeteroCSC
    concat_own : bool
        Append the destinations' own features.
    norm_by_out_degree : bool
        Divide the sum of a type by the number of its edges that end at the node.

    Returns
    -------
    Tensor, (n_dst, blocks * D)
        A block for every type, or basis, and one for the nodes' own features.
    """
    known = _known("agg_hg_basis_n2n_post", graph)
    types, n_types = _types("agg_hg_basis_n2n_post", graph)
    own = _both("agg_hg_basis_n2n_post", feat, known)[1] if concat_own else None
    return _call(
        functional.agg_relational,
        [feat, None, weights_comb, own],
        graph=known,
        edge_type=types.to(feat.device),
        n_relations=n_types,
        aggregation="mean" if norm_by_out_degree else "sum",
    )


def mha_gat_n2n(
    feat: Features,
    attn_weights: Tensor,
    graph: AnyCsc,
    num_heads: int = 1,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    concat_heads: bool = True,
    edge_feat: Tensor | None = None,
    deterministic_dgrad: bool = False,
    deterministic_wgrad: bool = False,
    high_precision_dgrad: bool = False,
    high_precision_wgrad: bool = False,
) -> Tensor:
    """Graph attention, `gnograd.mha_gat`.

    Parameters
    ----------
    feat : Tensor, (n_src, H * C), or two, (n_src, H * C) and (n_dst, H * C)
    attn_weights : Tensor, (2 * H * C + H * Ce,)
        Weights for sources, destinations and edges.
    graph : CSC
    num_heads : int
    activation : str
    negative_slope : float
    concat_heads : bool
        Heads side by side, or their mean.
    edge_feat : Tensor, (n_edges, H * Ce), optional
    deterministic_dgrad, deterministic_wgrad, high_precision_dgrad, high_precision_wgrad : bool
        Not used.

    Returns
    -------
    Tensor, (n_dst, H * C) or (n_dst, C)
    """
    known = _known("mha_gat_n2n", graph)
    x_src, x_dst = _both("mha_gat_n2n", feat, known)
    return _call(
        functional.mha_gat,
        [x_src, x_dst, attn_weights, edge_feat],
        graph=known,
        num_heads=num_heads,
        concat_heads=concat_heads,
        activation=activation,
        negative_slope=negative_slope,
    )


def mha_gat_v2_n2n(
    feat: Features,
    attn_weights: Tensor,
    graph: AnyCsc,
    num_heads: int = 1,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    concat_heads: bool = True,
    edge_feat: Tensor | None = None,
    deterministic_dgrad: bool = False,
    deterministic_wgrad: bool = False,
) -> Tensor:
    """Graph attention with the activation inside, `gnograd.mha_gat_v2`.

    Parameters
    ----------
    attn_weights : Tensor, (H * C,)
    edge_feat : Tensor, (n_edges, H * C), optional

    All other parameters, and the result, are those of `mha_gat_n2n`.
    """
    known = _known("mha_gat_v2_n2n", graph)
    x_src, x_dst = _both("mha_gat_v2_n2n", feat, known)
    return _call(
        functional.mha_gat_v2,
        [x_src, x_dst, attn_weights, edge_feat],
        graph=known,
        num_heads=num_heads,
        concat_heads=concat_heads,
        activation=activation,
        negative_slope=negative_slope,
    )


def mha_simple_n2n(
    key_emb: Tensor,
    query_emb: Tensor,
    value_emb: Tensor,
    graph: AnyCsc,
    num_heads: int = 1,
    concat_heads: bool = True,
    edge_emb: Tensor | None = None,
    norm_by_dim: bool = True,
    score_bias: None = None,
) -> Tensor:
    """Attention as in a transformer, `gnograd.mha_simple`.

    Parameters
    ----------
    key_emb, value_emb : Tensor, (n_src, H * C)
    query_emb : Tensor, (n_dst, H * C)
    graph : CSC
    num_heads : int
    concat_heads : bool
        Heads side by side, or their mean.
    edge_emb : Tensor, (n_edges, H * C), optional
        Added to keys and values.
    norm_by_dim : bool
        Divide scores by the square root of C.
    score_bias : None
        Must be None, as in all codes that name it.

    Returns
    -------
    Tensor, (n_dst, H * C) or (n_dst, C)
    """
    if score_bias is not None:
        raise ValueError("mha_simple_n2n: score_bias is given, needs None")
    known = _known("mha_simple_n2n", graph)
    return _call(
        functional.mha_simple,
        [query_emb[: known.n_dst], key_emb, value_emb, edge_emb],
        graph=known,
        num_heads=num_heads,
        concat_heads=concat_heads,
        norm_by_dim=norm_by_dim,
    )


def update_efeat_bipartite_e2e(
    efeat: Tensor | None,
    src_feat: Tensor | None,
    dst_feat: Tensor | None,
    graph: AnyCsc,
    mode: str = "concat",
) -> Tensor:
    """Features of edges, of their sources and of their destinations, side by side or added up.

    Parameters
    ----------
    efeat : Tensor, (n_edges, De), or None
    src_feat : Tensor, (n_src, Ds), or None
    dst_feat : Tensor, (n_dst, Dd), or None
    graph : CSC
    mode : {"concat", "sum"}

    Returns
    -------
    Tensor, (n_edges, De + Ds + Dd) or (n_edges, De)
        ``[efeat | src_feat | dst_feat]``, without absent parts, or their sum.
    """
    known = _known("update_efeat_bipartite_e2e", graph)
    return _call(functional.update_edges, [efeat, src_feat, dst_feat], graph=known, mode=mode)


def update_efeat_static_e2e(
    efeat: Tensor | None,
    nfeat: Tensor,
    graph: AnyCsc,
    mode: str = "concat",
    use_source_emb: bool = True,
    use_target_emb: bool = True,
) -> Tensor:
    """`update_efeat_bipartite_e2e` for one set of nodes.

    Parameters
    ----------
    efeat : Tensor, (n_edges, De), or None
    nfeat : Tensor, (n_src, D)
    graph : CSC
    mode : {"concat", "sum"}
    use_source_emb, use_target_emb : bool
        Whether the features of the nodes at these ends take part.

    Returns
    -------
    Tensor, (n_edges, De + D + D) or (n_edges, De)
    """
    known = _known("update_efeat_static_e2e", graph)
    x_src, x_dst = _both("update_efeat_static_e2e", nfeat, known)
    ends = [x_src if use_source_emb else None, x_dst if use_target_emb else None]
    return _call(functional.update_edges, [efeat, *ends], graph=known, mode=mode)


def update_efeat_e2e(
    edge_feat: Tensor | None,
    node_feat: Features,
    graph: AnyCsc,
    use_source_emb: bool | str = True,
    use_target_emb: bool = True,
    mode: str | bool = "concat",
) -> Tensor:
    """`update_efeat_bipartite_e2e` for one or two sets of nodes.

    Parameters
    ----------
    edge_feat : Tensor, (n_edges, De), or None
    node_feat : Tensor, (n_src, D), or two, (n_src, Ds) and (n_dst, Dd), one of which may be None
    graph : CSC
    use_source_emb, use_target_emb : bool
        Whether the features of the nodes at these ends take part.
    mode : {"concat", "sum"}
        By position it may also come before the two, as in `update_efeat_static_e2e`.

    Returns
    -------
    Tensor, (n_edges, De + Ds + Dd) or (n_edges, De)
    """
    if isinstance(use_source_emb, str):
        last = True if isinstance(mode, str) else mode
        mode, use_source_emb, use_target_emb = use_source_emb, use_target_emb, last
    known = _known("update_efeat_e2e", graph)
    x_src, x_dst = _both("update_efeat_e2e", node_feat, known)
    ends = [x_src if use_source_emb else None, x_dst if use_target_emb else None]
    return _call(functional.update_edges, [edge_feat, *ends], graph=known, mode=mode)


def _known(name: str, graph: Any) -> AnyGraph:
    known = getattr(graph, "graph", None)
    if not isinstance(known, Graph | gnograd.Graph):
        raise TypeError(f"{name}: graph is of type {type(graph).__name__}, needs a CSC")
    return known


def _types(name: str, graph: Any) -> tuple[Tensor, int]:
    """Types of the rows of edge arrays, and the number of types."""
    if hasattr(graph, "types_by_row"):
        return graph.types_by_row, graph.num_edge_types
    if hasattr(graph, "n_edge_types"):  # from make_csc_hg or a related function
        return torch.tensor(graph.edge_types), graph.n_edge_types
    raise TypeError(f"{name}: graph is of type {type(graph).__name__}, needs a HeteroCSC")


def _both(name: str, feat: Any, graph: AnyGraph) -> tuple[Any, Any]:
    """Features of sources and of destinations."""
    if isinstance(feat, Tensor):
        if feat.shape[0] < graph.n_dst:
            raise ValueError(
                f"{name}: features have shape {tuple(feat.shape)}, need {graph.n_dst} rows or more "
                "for the destinations, or a tensor for each of both sets of nodes"
            )
        return feat, feat[: graph.n_dst]
    x_src, x_dst = feat
    return x_src, x_dst


def _call(operator: Callable[..., Any], inputs: list[Tensor | None], **static: Any) -> Tensor:
    """Call an operator, in float32 for 16-bit tensors on the CPU."""
    given = [x for x in inputs if x is not None]
    half = {x.dtype for x in given} & {torch.float16, torch.bfloat16}
    if half and given[0].device.type == "cpu":
        wide = [None if x is None else x.float() for x in inputs]
        narrow: Tensor = operator(*wide, **static).to(given[0].dtype)
        return narrow
    result: Tensor = operator(*inputs, **static)
    return result
