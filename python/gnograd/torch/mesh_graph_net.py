# SPDX-License-Identifier: MIT
"""MeshGraphNets, with the arguments and state dicts of PhysicsNeMo."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from gnograd.torch.activations import activation_module
from gnograd.torch.edges import without_free_rows
from gnograd.torch.mesh_blocks import (
    MeshEdgeBlock,
    MeshGraph,
    MeshNodeBlock,
    Processor,
    graph_between,
)
from gnograd.torch.mesh_mlp import MeshGraphMLP

__all__ = ["MeshGraphNet", "MeshGraphNetProcessor"]


class MeshGraphNetProcessor(Processor):
    """The processor of `MeshGraphNet`.

    Parameters
    ----------
    processor_size : int
        Pairs of a block of edges and a block of nodes.
    input_dim_node, input_dim_edge : int
    num_layers_node, num_layers_edge : int
        Hidden layers of the networks, which are as wide as `input_dim_edge`.
    aggregation, norm_type, activation_fn, do_concat_trick
        As in `MeshEdgeBlock` and `MeshNodeBlock`.
    num_processor_checkpoint_segments : int
        Number of segments, as for `set_checkpoint_segments`.
    checkpoint_offloading : bool
        Keep the ends of the segments in the host's memory.
    """

    def __init__(
        self,
        processor_size: int = 15,
        input_dim_node: int = 128,
        input_dim_edge: int = 128,
        num_layers_node: int = 2,
        num_layers_edge: int = 2,
        aggregation: str = "sum",
        norm_type: str | None = "LayerNorm",
        activation_fn: nn.Module | None = None,
        do_concat_trick: bool = False,
        num_processor_checkpoint_segments: int = 0,
        checkpoint_offloading: bool = False,
    ) -> None:
        activation_fn = nn.ReLU() if activation_fn is None else activation_fn
        # all blocks of edges are drawn before those of nodes, as in PhysicsNeMo
        of_edges = [
            MeshEdgeBlock(
                input_dim_node, input_dim_edge, input_dim_edge, input_dim_edge, num_layers_edge,
                activation_fn, norm_type, do_concat_trick,
            )
            for _ in range(processor_size)
        ]  # fmt: skip
        of_nodes = [
            MeshNodeBlock(
                aggregation, input_dim_node, input_dim_edge, input_dim_edge, input_dim_edge,
                num_layers_node, activation_fn, norm_type,
            )
            for _ in range(processor_size)
        ]  # fmt: skip
        super().__init__([block for pair in zip(of_edges, of_nodes, strict=True) for block in pair])
        self.set_checkpoint_segments(num_processor_checkpoint_segments)
        self.checkpoint_offloading = checkpoint_offloading and self.checkpoints

    def forward(self, node_features: Tensor, edge_features: Tensor, graph: MeshGraph) -> Tensor:
        """Features of the nodes after all blocks.

        Parameters
        ----------
        node_features : Tensor, (n_nodes, input_dim_node)
        edge_features : Tensor, (n_edges, input_dim_edge)
        graph : as for `MeshEdgeBlock`

        Returns
        -------
        Tensor, (n_nodes, input_dim_node)
        """
        offload: AbstractContextManager[Any] = nullcontext()
        if self.checkpoint_offloading:
            offload = torch.autograd.graph.save_on_cpu(pin_memory=node_features.is_cuda)
        with offload:
            made = graph_between(node_features, graph)
            return self.run(edge_features, node_features, made, keep_edges=False)[1]


class MeshGraphNet(nn.Module):
    """MeshGraphNets [1]_: encoders, message passing on the mesh, a decoder.

    Parameters
    ----------
    input_dim_nodes, input_dim_edges, output_dim : int
        Features of a node and of an edge, and of a node in the result.
    processor_size : int
        Steps of message passing.
    mlp_activation_fn : str or Module
        Name of an activation: "relu", "silu", "gelu", "tanh", "sin" and "identity" are fused,
        others are evaluated by PyTorch.
    num_layers_node_processor, num_layers_edge_processor : int
        Hidden layers of the networks of the processor.
    hidden_dim_processor : int
        Width of the processor.
    hidden_dim_node_encoder, num_layers_node_encoder : int
    hidden_dim_edge_encoder, num_layers_edge_encoder : int
    hidden_dim_node_decoder, num_layers_node_decoder : int
    aggregation : {"sum", "mean"}
    do_concat_trick : bool
        As in `MeshEdgeBlock`.
    num_processor_checkpoint_segments : int
        Keep only what the ends of so many segments of the processor need.
    checkpoint_offloading : bool
        Keep that in the host's memory.
    recompute_activation : bool
        Without effect: hidden arrays of edges are always computed again.
    norm_type : {"LayerNorm", "TELayerNorm"}

    Raises
    ------
    ValueError
        Names that are not known, a number of segments that does not divide that of the blocks.

    Notes
    -----
    The arguments and the state dict are those of PhysicsNeMo's module of the same name. With ``n``
    edges and width ``F`` a training step keeps ``n F`` numbers a step of message passing, the
    features of the edges; PyTorch's formula keeps some ``(2 L + 6) n F`` with L hidden layers.

    References
    ----------
    .. [1] Pfaff, Fortunato, Sanchez-Gonzalez, Battaglia, Learning Mesh-Based Simulation with Graph
       Networks, arXiv:2010.03409, 2020.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import MeshGraphNet
    >>> model = MeshGraphNet(input_dim_nodes=4, input_dim_edges=3, output_dim=2, processor_size=3)
    >>> edge_index = torch.randint(10, (2, 40))
    >>> model(torch.rand(10, 4), torch.rand(40, 3), edge_index).shape
    torch.Size([10, 2])
    """

    def __init__(
        self,
        input_dim_nodes: int,
        input_dim_edges: int,
        output_dim: int,
        processor_size: int = 15,
        mlp_activation_fn: str | nn.Module = "relu",
        num_layers_node_processor: int = 2,
        num_layers_edge_processor: int = 2,
        hidden_dim_processor: int = 128,
        hidden_dim_node_encoder: int = 128,
        num_layers_node_encoder: int = 2,
        hidden_dim_edge_encoder: int = 128,
        num_layers_edge_encoder: int = 2,
        hidden_dim_node_decoder: int = 128,
        num_layers_node_decoder: int = 2,
        aggregation: str = "sum",
        do_concat_trick: bool = False,
        num_processor_checkpoint_segments: int = 0,
        checkpoint_offloading: bool = False,
        recompute_activation: bool = False,
        norm_type: str = "LayerNorm",
    ) -> None:
        super().__init__()
        self.input_dim_nodes, self.input_dim_edges = input_dim_nodes, input_dim_edges
        self.output_dim = output_dim
        activation = (
            activation_module("MeshGraphNet: mlp_activation_fn", mlp_activation_fn)
            if isinstance(mlp_activation_fn, str)
            else mlp_activation_fn
        )
        width = hidden_dim_processor
        self.edge_encoder = MeshGraphMLP(
            input_dim_edges, width, hidden_dim_edge_encoder, num_layers_edge_encoder,
            activation, norm_type,
        )  # fmt: skip
        self.node_encoder = MeshGraphMLP(
            input_dim_nodes, width, hidden_dim_node_encoder, num_layers_node_encoder,
            activation, norm_type,
        )  # fmt: skip
        self.node_decoder = MeshGraphMLP(
            width, output_dim, hidden_dim_node_decoder, num_layers_node_decoder, activation, None
        )
        self.processor = MeshGraphNetProcessor(
            processor_size, width, width, num_layers_node_processor, num_layers_edge_processor,
            aggregation, norm_type, activation, do_concat_trick,
            num_processor_checkpoint_segments, checkpoint_offloading,
        )  # fmt: skip

    def forward(
        self, node_features: Tensor, edge_features: Tensor, graph: MeshGraph, **kwargs: Any
    ) -> Tensor:
        """Apply the model.

        Parameters
        ----------
        node_features : Tensor, (n_nodes, input_dim_nodes)
        edge_features : Tensor, (n_edges, input_dim_edges)
        graph : Graph, Tensor of int64, (2, n_edges), or a graph of PyG or DGL
        **kwargs
            Without effect.

        Returns
        -------
        Tensor, (n_nodes, output_dim)

        Raises
        ------
        ValueError
            Features of another width.
        """
        given = {"node_features": node_features, "edge_features": edge_features}
        widths = (self.input_dim_nodes, self.input_dim_edges)
        for (name, array), width in zip(given.items(), widths, strict=True):
            if array.ndim != 2 or array.shape[1] != width:
                raise ValueError(
                    f"MeshGraphNet: {name} has shape {tuple(array.shape)}, needs (n, {width})"
                )
        made = graph_between(node_features, graph)
        of_edges = self.edge_encoder(without_free_rows(edge_features, made))
        of_nodes = self.node_encoder(node_features)
        out: Tensor = self.node_decoder(self.processor(of_nodes, of_edges, made))
        return out
