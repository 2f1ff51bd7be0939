# SPDX-License-Identifier: MIT
"""GraphCast's processor, and its encoder and decoder between grid and mesh, as in PhysicsNeMo."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnograd.torch.mesh_blocks import (
    MeshEdgeBlock,
    MeshGraph,
    MeshNodeBlock,
    Processor,
    graph_between,
)
from gnograd.torch.mesh_mlp import (
    MeshGraphEdgeMLPConcat,
    MeshGraphEdgeMLPSum,
    MeshGraphMLP,
    check_aggregation,
    edge_network,
)

__all__ = ["GraphCastProcessor", "MeshGraphDecoder", "MeshGraphEncoder"]


class GraphCastProcessor(Processor):
    """The processor of GraphCast [1]_: message passing on meshes of several levels.

    Parameters
    ----------
    aggregation : {"sum", "mean"}
    processor_layers : int
        Pairs of a block of edges and a block of nodes.
    input_dim_nodes, input_dim_edges : int
    hidden_dim, hidden_layers : int
        Width and number of the hidden layers of the networks.
    activation_fn, norm_type, do_concat_trick, recompute_activation
        As in `MeshEdgeBlock`.

    References
    ----------
    .. [1] Lam et al., GraphCast: Learning skillful medium-range global weather forecasting,
       arXiv:2212.12794, 2022.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import GraphCastProcessor
    >>> model = GraphCastProcessor("sum", 2, 16, 16, 32)
    >>> edge_index = torch.randint(10, (2, 40))
    >>> efeat, nfeat = model(torch.rand(40, 16), torch.rand(10, 16), edge_index)
    >>> efeat.shape, nfeat.shape
    (torch.Size([40, 16]), torch.Size([10, 16]))
    """

    def __init__(
        self,
        aggregation: str = "sum",
        processor_layers: int = 16,
        input_dim_nodes: int = 512,
        input_dim_edges: int = 512,
        hidden_dim: int = 512,
        hidden_layers: int = 1,
        activation_fn: nn.Module | None = None,
        norm_type: str | None = "LayerNorm",
        do_concat_trick: bool = False,
        recompute_activation: bool = False,
    ) -> None:
        blocks: list[nn.Module] = []
        for _ in range(processor_layers):
            blocks += [
                MeshEdgeBlock(
                    input_dim_nodes, input_dim_edges, input_dim_edges, hidden_dim, hidden_layers,
                    activation_fn, norm_type, do_concat_trick,
                ),
                MeshNodeBlock(
                    aggregation, input_dim_nodes, input_dim_edges, input_dim_nodes, hidden_dim,
                    hidden_layers, activation_fn, norm_type,
                ),
            ]  # fmt: skip
        super().__init__(blocks)

    def forward(self, efeat: Tensor, nfeat: Tensor, graph: MeshGraph) -> tuple[Tensor, Tensor]:
        """Features of edges and nodes after all blocks.

        Parameters
        ----------
        efeat : Tensor, (n_edges, input_dim_edges)
        nfeat : Tensor, (n_nodes, input_dim_nodes)
        graph : as for `MeshEdgeBlock`
        """
        edges, nodes = self.run(efeat, nfeat, graph_between(nfeat, graph), keep_edges=True)
        assert edges is not None
        return edges, nodes


def _messages(
    network: MeshGraphEdgeMLPConcat | MeshGraphEdgeMLPSum,
    efeat: Tensor,
    nodes: tuple[Tensor, Tensor],
    graph: MeshGraph,
    aggregation: str,
) -> Tensor:
    """Aggregated messages at the destinations, without an array of new edge features."""
    _, messages = network.update(
        efeat, nodes, graph_between(nodes, graph),
        residual=False, reduction=aggregation, outputs="nodes",
    )  # fmt: skip
    assert messages is not None
    return messages


class MeshGraphEncoder(nn.Module):
    """Bring the features of a grid to the nodes of a mesh, along edges from one to the other.

    Parameters
    ----------
    aggregation : {"sum", "mean"}
    input_dim_src_nodes, input_dim_dst_nodes, input_dim_edges : int
        Features of the grid, of the mesh, and of the edges from grid to mesh.
    output_dim_src_nodes, output_dim_dst_nodes : int
        Equal to those of the input, to which they are added.
    output_dim_edges : int
        Features of the messages.
    hidden_dim, hidden_layers, activation_fn, norm_type, do_concat_trick, recompute_activation
        As in `MeshEdgeBlock`.
    """

    def __init__(
        self,
        aggregation: str = "sum",
        input_dim_src_nodes: int = 512,
        input_dim_dst_nodes: int = 512,
        input_dim_edges: int = 512,
        output_dim_src_nodes: int = 512,
        output_dim_dst_nodes: int = 512,
        output_dim_edges: int = 512,
        hidden_dim: int = 512,
        hidden_layers: int = 1,
        activation_fn: nn.Module | None = None,
        norm_type: str | None = "LayerNorm",
        do_concat_trick: bool = False,
        recompute_activation: bool = False,
    ) -> None:
        super().__init__()
        self.aggregation = check_aggregation("MeshGraphEncoder", aggregation)
        self.edge_mlp = edge_network(do_concat_trick)(
            efeat_dim=input_dim_edges, src_dim=input_dim_src_nodes, dst_dim=input_dim_dst_nodes,
            output_dim=output_dim_edges, hidden_dim=hidden_dim, hidden_layers=hidden_layers,
            activation_fn=activation_fn, norm_type=norm_type,
        )  # fmt: skip
        self.src_node_mlp = MeshGraphMLP(
            input_dim_src_nodes, output_dim_src_nodes, hidden_dim, hidden_layers,
            activation_fn, norm_type,
        )  # fmt: skip
        self.dst_node_mlp = MeshGraphMLP(
            input_dim_dst_nodes + output_dim_edges, output_dim_dst_nodes, hidden_dim,
            hidden_layers, activation_fn, norm_type,
        )  # fmt: skip

    def forward(
        self, g2m_efeat: Tensor, grid_nfeat: Tensor, mesh_nfeat: Tensor, graph: MeshGraph
    ) -> tuple[Tensor, Tensor]:
        """Features of the grid and of the mesh.

        Parameters
        ----------
        g2m_efeat : Tensor, (n_edges, input_dim_edges)
        grid_nfeat : Tensor, (n_src, input_dim_src_nodes)
        mesh_nfeat : Tensor, (n_dst, input_dim_dst_nodes)
        graph : as for `MeshEdgeBlock`
        """
        nodes = (grid_nfeat, mesh_nfeat)
        messages = _messages(self.edge_mlp, g2m_efeat, nodes, graph, self.aggregation)
        mesh = mesh_nfeat + self.dst_node_mlp(torch.cat([messages, mesh_nfeat], dim=-1))
        return grid_nfeat + self.src_node_mlp(grid_nfeat), mesh


class MeshGraphDecoder(nn.Module):
    """Bring the features of a mesh to the points of a grid, along edges from one to the other.

    Parameters
    ----------
    aggregation : {"sum", "mean"}
    input_dim_src_nodes, input_dim_dst_nodes, input_dim_edges : int
        Features of the mesh, of the grid, and of the edges from mesh to grid.
    output_dim_dst_nodes : int
        Equal to that of the input, to which it is added.
    output_dim_edges : int
        Features of the messages.
    hidden_dim, hidden_layers, activation_fn, norm_type, do_concat_trick, recompute_activation
        As in `MeshEdgeBlock`.
    """

    def __init__(
        self,
        aggregation: str = "sum",
        input_dim_src_nodes: int = 512,
        input_dim_dst_nodes: int = 512,
        input_dim_edges: int = 512,
        output_dim_dst_nodes: int = 512,
        output_dim_edges: int = 512,
        hidden_dim: int = 512,
        hidden_layers: int = 1,
        activation_fn: nn.Module | None = None,
        norm_type: str | None = "LayerNorm",
        do_concat_trick: bool = False,
        recompute_activation: bool = False,
    ) -> None:
        super().__init__()
        self.aggregation = check_aggregation("MeshGraphDecoder", aggregation)
        self.edge_mlp = edge_network(do_concat_trick)(
            efeat_dim=input_dim_edges, src_dim=input_dim_src_nodes, dst_dim=input_dim_dst_nodes,
            output_dim=output_dim_edges, hidden_dim=hidden_dim, hidden_layers=hidden_layers,
            activation_fn=activation_fn, norm_type=norm_type,
        )  # fmt: skip
        self.node_mlp = MeshGraphMLP(
            input_dim_dst_nodes + output_dim_edges, output_dim_dst_nodes, hidden_dim,
            hidden_layers, activation_fn, norm_type,
        )  # fmt: skip

    def forward(
        self, m2g_efeat: Tensor, grid_nfeat: Tensor, mesh_nfeat: Tensor, graph: MeshGraph
    ) -> Tensor:
        """Features of the grid.

        Parameters
        ----------
        m2g_efeat : Tensor, (n_edges, input_dim_edges)
        grid_nfeat : Tensor, (n_dst, input_dim_dst_nodes)
        mesh_nfeat : Tensor, (n_src, input_dim_src_nodes)
        graph : as for `MeshEdgeBlock`
        """
        nodes = (mesh_nfeat, grid_nfeat)
        messages = _messages(self.edge_mlp, m2g_efeat, nodes, graph, self.aggregation)
        out: Tensor = grid_nfeat + self.node_mlp(torch.cat([messages, grid_nfeat], dim=-1))
        return out
