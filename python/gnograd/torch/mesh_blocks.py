# SPDX-License-Identifier: MIT
"""Message passing on meshes: alternating blocks of edges and of nodes.

MeshGraphNets [1]_ and GraphCast [2]_ pass messages through networks of edges: a block of edges
updates the features of every edge from its own and those of the nodes at both ends, and a block of
nodes updates the features of every node from the sum or mean of its edges. Here the network of the
edges is `gnograd.edge_mlp`: no hidden array of the edges is kept, and where a block of nodes
follows, what it needs of the edges is made in the same pass. Arguments and state dicts are those of
PhysicsNeMo.

References
----------
.. [1] Pfaff, Fortunato, Sanchez-Gonzalez, Battaglia, Learning Mesh-Based Simulation with Graph
   Networks, arXiv:2010.03409, 2020.
.. [2] Lam et al., GraphCast: Learning skillful medium-range global weather forecasting,
   arXiv:2212.12794, 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import gnograd.graphs.graph
from gnograd.graphs.in_parts import GraphInParts
from gnograd.torch import functional
from gnograd.torch.eager import in_transform
from gnograd.torch.edges import Edges, graph_of
from gnograd.torch.graph import AnyGraph, Graph
from gnograd.torch.mesh_mlp import MeshGraphMLP, check_aggregation, edge_network

__all__ = ["MeshEdgeBlock", "MeshGraph", "MeshNodeBlock", "Processor", "graph_between"]

MeshGraph: TypeAlias = "Edges | Any"
"""A graph or an ``edge_index``, or an object that has one, as PyG's ``Data``; PyG's ``HeteroData``
with one type of edges; DGL's graphs."""

_AGGREGATIONS = ("sum", "mean")


def graph_between(nfeat: Tensor | tuple[Tensor, Tensor], given: MeshGraph) -> AnyGraph:
    """Graph between these nodes, from any form of edges that a block takes."""
    src, dst = (nfeat, nfeat) if isinstance(nfeat, Tensor) else nfeat
    if not isinstance(given, Tensor | Graph | gnograd.graphs.graph.Graph | GraphInParts):
        types = getattr(given, "edge_types", None)
        of_edges = given[types[0]] if types else given
        index = getattr(of_edges, "edge_index", None)
        given = torch.stack(given.edges(order="eid")) if index is None else index
    return graph_of(given, src.shape[0], dst.shape[0])


class MeshEdgeBlock(nn.Module):
    """Update the features of edges: ``e + network([e, x_src[j], x_dst[i]])``.

    Parameters
    ----------
    input_dim_nodes, input_dim_edges : int
        Features of a node and of an edge.
    output_dim : int
        Features of an edge behind the block; the same as before, to which they are added.
    hidden_dim, hidden_layers : int
        Width and number of the hidden layers of the network.
    activation_fn : Module, optional
        SiLU when left out. One that `gnograd.edge_mlp` has is fused; with another the network is
        evaluated by PyTorch, which keeps its hidden arrays for all edges.
    norm_type : {"LayerNorm", "TELayerNorm"} or None
        Normalisation after the network.
    do_concat_trick : bool
        Make the three parts of the first weight separate parameters, for state dicts that were made
        with it. The results are the same.
    recompute_activation : bool
        Without effect: hidden arrays are always computed again.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import MeshEdgeBlock
    >>> block = MeshEdgeBlock(16, 8, 8, hidden_dim=32)
    >>> edge_index = torch.randint(10, (2, 30))
    >>> efeat, nfeat = block(torch.rand(30, 8), torch.rand(10, 16), edge_index)
    >>> efeat.shape
    torch.Size([30, 8])
    """

    def __init__(
        self,
        input_dim_nodes: int = 512,
        input_dim_edges: int = 512,
        output_dim: int = 512,
        hidden_dim: int = 512,
        hidden_layers: int = 1,
        activation_fn: nn.Module | None = None,
        norm_type: str | None = "LayerNorm",
        do_concat_trick: bool = False,
        recompute_activation: bool = False,
    ) -> None:
        super().__init__()
        if input_dim_edges != output_dim:
            raise ValueError(
                f"MeshEdgeBlock: output_dim is {output_dim}, but it is added to features of "
                f"width input_dim_edges={input_dim_edges}"
            )
        self.edge_mlp = edge_network(do_concat_trick)(
            efeat_dim=input_dim_edges, src_dim=input_dim_nodes, dst_dim=input_dim_nodes,
            output_dim=output_dim, hidden_dim=hidden_dim, hidden_layers=hidden_layers,
            activation_fn=activation_fn, norm_type=norm_type,
        )  # fmt: skip

    def forward(
        self,
        efeat: Tensor,
        nfeat: Tensor | tuple[Tensor, Tensor],
        graph: MeshGraph,
        aggregation: str | None = None,
        keep_edges: bool = True,
    ) -> tuple[Any, ...]:
        """Apply the block.

        Parameters
        ----------
        efeat : Tensor, (n_edges, input_dim_edges)
        nfeat : Tensor, (n_nodes, input_dim_nodes), or a pair of sources and destinations
        graph : Graph, Tensor of int64, (2, n_edges), or a graph of PyG or DGL
            Rows of `efeat` are in the order of its edges.
        aggregation : {"sum", "mean"}, optional
            Aggregation of the new features at the destinations, in the same pass.
        keep_edges : bool
            False with an `aggregation` makes no features of edges: None stands for them.

        Returns
        -------
        efeat : Tensor, (n_edges, output_dim)
        nfeat : as given
        aggregate : Tensor, (n_dst, output_dim)
            With an `aggregation`.
        """
        made = graph_between(nfeat, graph)
        if aggregation is None:
            return self.edge_mlp.update(efeat, nfeat, made, outputs="edges")[0], nfeat
        check_aggregation("MeshEdgeBlock", aggregation)
        outputs = "both" if keep_edges else "nodes"
        efeat_new, aggregate = self.edge_mlp.update(
            efeat, nfeat, made, reduction=aggregation, outputs=outputs
        )
        return efeat_new, nfeat, aggregate


class MeshNodeBlock(nn.Module):
    """Update the features of nodes: ``x + network([aggregate of its edges, x])``.

    Parameters
    ----------
    aggregation : {"sum", "mean"}
        Aggregation of the edges that end at a node.
    input_dim_nodes, input_dim_edges : int
        Features of a node and of an edge.
    output_dim : int
        Features of a node behind the block; the same as before.
    hidden_dim, hidden_layers, activation_fn, norm_type, recompute_activation
        As in `MeshEdgeBlock`.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import MeshNodeBlock
    >>> block = MeshNodeBlock("mean", 16, 8, 16, hidden_dim=32)
    >>> edge_index = torch.randint(10, (2, 30))
    >>> efeat, nfeat = block(torch.rand(30, 8), torch.rand(10, 16), edge_index)
    >>> nfeat.shape
    torch.Size([10, 16])
    """

    def __init__(
        self,
        aggregation: str = "sum",
        input_dim_nodes: int = 512,
        input_dim_edges: int = 512,
        output_dim: int = 512,
        hidden_dim: int = 512,
        hidden_layers: int = 1,
        activation_fn: nn.Module | None = None,
        norm_type: str | None = "LayerNorm",
        recompute_activation: bool = False,
    ) -> None:
        super().__init__()
        self.aggregation = check_aggregation("MeshNodeBlock", aggregation)
        if input_dim_nodes != output_dim:
            raise ValueError(
                f"MeshNodeBlock: output_dim is {output_dim}, but it is added to features of "
                f"width input_dim_nodes={input_dim_nodes}"
            )
        self.node_mlp = MeshGraphMLP(
            input_dim_nodes + input_dim_edges, output_dim, hidden_dim, hidden_layers,
            activation_fn, norm_type,
        )  # fmt: skip

    def forward(
        self,
        efeat: Tensor | None,
        nfeat: Tensor,
        graph: MeshGraph,
        aggregate: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor]:
        """Apply the block.

        Parameters
        ----------
        efeat : Tensor, (n_edges, input_dim_edges), or None
            None only with `aggregate`.
        nfeat : Tensor, (n_dst, input_dim_nodes)
        graph : as for `MeshEdgeBlock`
        aggregate : Tensor, (n_dst, input_dim_edges), optional
            Aggregated features of the edges; computed from `efeat` when left out.

        Returns
        -------
        efeat : as given
        nfeat : Tensor, (n_dst, output_dim)
        """
        if aggregate is None:
            if efeat is None:
                raise ValueError("MeshNodeBlock: needs efeat or aggregate")
            aggregate = functional.agg_simple(
                None, efeat, graph=graph_between(nfeat, graph), aggregation=self.aggregation
            )
        out: Tensor = nfeat + self.node_mlp(torch.cat([aggregate, nfeat], dim=-1))
        return efeat, out


class Processor(nn.Module):
    """Alternating blocks of edges and of nodes.

    A block of edges and the block of nodes behind it read the edges together, in one pass.
    """

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.processor_layers = nn.ModuleList(blocks)
        self.num_processor_layers = len(self.processor_layers)
        self.set_checkpoint_segments(0)

    def set_checkpoint_segments(self, checkpoint_segments: int) -> None:
        """Keep only the ends of segments of the network; the backward pass computes the rest again.

        Parameters
        ----------
        checkpoint_segments : int
            Number of segments, a divisor of the number of blocks; 0 keeps all that blocks need.

        Raises
        ------
        ValueError
            A number of segments that does not divide that of the blocks.
        """
        n = self.num_processor_layers
        if checkpoint_segments < 0 or (checkpoint_segments and n % checkpoint_segments):
            raise ValueError(
                f"{type(self).__name__}: checkpoint_segments is {checkpoint_segments}, needs a "
                f"divisor of the number of blocks, {n}, or 0"
            )
        self.checkpoints = checkpoint_segments > 0
        length = n // max(checkpoint_segments, 1)
        self.checkpoint_segments = [(k, k + length) for k in range(0, n, length)] if n else []

    def run(
        self, efeat: Tensor, nfeat: Tensor, graph: AnyGraph, keep_edges: bool
    ) -> tuple[Tensor | None, Tensor]:
        """Features of edges and nodes after all blocks; None for the edges unless they are kept."""
        of_edges: Tensor | None = efeat
        for first, last in self.checkpoint_segments:
            keep = keep_edges or last < self.num_processor_layers
            if self.checkpoints and not in_transform():  # transforms know no checkpoints
                of_edges, nfeat = checkpoint(
                    self._segment, first, last, of_edges, nfeat, graph, keep,
                    use_reentrant=False, preserve_rng_state=False,
                )  # fmt: skip
            else:
                of_edges, nfeat = self._segment(first, last, of_edges, nfeat, graph, keep)
        return of_edges, nfeat

    def _segment(
        self,
        first: int,
        last: int,
        efeat: Tensor | None,
        nfeat: Tensor,
        graph: AnyGraph,
        keep_edges: bool,
    ) -> tuple[Tensor | None, Tensor]:
        aggregate = None
        for k in range(first, last):
            block: Any = self.processor_layers[k]
            if isinstance(block, MeshNodeBlock):
                efeat, nfeat = block(efeat, nfeat, graph, aggregate)
                aggregate = None
            elif k + 1 == last:
                efeat, nfeat = block(efeat, nfeat, graph)
            else:
                following = self.processor_layers[k + 1].aggregation
                keep = keep_edges or k + 2 < last
                efeat, nfeat, aggregate = block(efeat, nfeat, graph, following, keep)
        return efeat, nfeat
