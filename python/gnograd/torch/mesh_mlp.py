# SPDX-License-Identifier: MIT
"""Networks of mesh models: on rows, and on edges with the nodes at both ends."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gnograd.torch import functional
from gnograd.torch.activations import activation_name
from gnograd.torch.edges import ends_of, of_sources, used_rows, without_free_rows
from gnograd.torch.graph import AnyGraph

__all__ = [
    "MeshGraphEdgeMLPConcat",
    "MeshGraphEdgeMLPSum",
    "MeshGraphMLP",
    "check_aggregation",
    "edge_network",
]

Updated: TypeAlias = "tuple[Tensor | None, Tensor | None]"
"""Features of edges, and their sums or means at the destinations; None for one not wanted."""

_NORMS = ("LayerNorm", "TELayerNorm", None)


def _check_norm(label: str, norm_type: str | None) -> None:
    """Raise ValueError for an unknown normalisation."""
    if norm_type not in _NORMS:
        names = ", ".join(map(repr, _NORMS))
        raise ValueError(f"{label}: norm_type is {norm_type!r}, needs one of {names}")


def check_aggregation(label: str, aggregation: str) -> str:
    """Return an aggregation, or raise ValueError if it is unknown."""
    if aggregation not in ("sum", "mean"):
        raise ValueError(f"{label}: aggregation is {aggregation!r}, needs one of 'sum', 'mean'")
    return aggregation


class _LayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm` that ignores the additions of Transformer Engine to a state dict."""

    def _load_from_state_dict(
        self, state_dict: dict[str, Tensor], prefix: str, *arguments: object
    ) -> None:
        state_dict.pop(prefix + "_extra_state", None)
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def _behind_first(
    hidden_dim: int,
    output_dim: int,
    hidden_layers: int,
    activation_fn: nn.Module,
    norm_type: str | None,
) -> list[nn.Module]:
    """All layers after the first linear one, in the order of the state dicts."""
    layers: list[nn.Module] = [activation_fn]
    for _ in range(hidden_layers - 1):
        layers += [nn.Linear(hidden_dim, hidden_dim), activation_fn]
    layers.append(nn.Linear(hidden_dim, output_dim))
    if norm_type is not None:
        layers.append(_LayerNorm(output_dim))
    return layers


class MeshGraphMLP(nn.Module):
    """Linear layers with an activation between them, followed by a layer norm.

    Parameters
    ----------
    input_dim, output_dim, hidden_dim : int
        Widths.
    hidden_layers : int or None
        Number of hidden layers; None is the identity.
    activation_fn : Module
    norm_type : {"LayerNorm", "TELayerNorm"} or None
        Normalisation; the second is a layer norm too, by Transformer Engine in PhysicsNeMo.
    recompute_activation : bool
        Without effect.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int = 512,
        hidden_dim: int = 512,
        hidden_layers: int | None = 1,
        activation_fn: nn.Module | None = None,
        norm_type: str | None = "LayerNorm",
        recompute_activation: bool = False,
    ) -> None:
        super().__init__()
        _check_norm(type(self).__name__, norm_type)
        activation_fn = nn.SiLU() if activation_fn is None else activation_fn
        self.model: nn.Module = nn.Identity()
        if hidden_layers is not None:
            first = nn.Linear(input_dim, hidden_dim)
            behind = _behind_first(hidden_dim, output_dim, hidden_layers, activation_fn, norm_type)
            self.model = nn.Sequential(first, *behind)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to the last axis of ``x (..., input_dim)``."""
        out: Tensor = self.model(x)
        return out


class _EdgeNetwork(nn.Module):
    """A network of ``[e, x_src[j], x_dst[i]]`` on every edge ``(j -> i)``.

    The first layer is linear in the three, so that its products are made once a node. It and the
    layers behind are `gnograd.edge_mlp`, where that has the activation, and else PyTorch's.
    """

    def first_layer(self) -> tuple[Tensor, Tensor | None]:
        """Weight, (hidden_dim, efeat_dim + src_dim + dst_dim), and bias of the first layer."""
        raise NotImplementedError

    def behind(self) -> list[nn.Module]:
        """Layers after the first one, beginning with the activation."""
        raise NotImplementedError

    def forward(
        self, efeat: Tensor, nfeat: Tensor | tuple[Tensor, Tensor], graph: AnyGraph
    ) -> Tensor:
        """Value of the network on every edge."""
        edges, _ = self.update(efeat, nfeat, graph, residual=False, outputs="edges")
        assert edges is not None
        return edges

    def update(
        self,
        efeat: Tensor,
        nfeat: Tensor | tuple[Tensor, Tensor],
        graph: AnyGraph,
        residual: bool = True,
        reduction: str = "sum",
        outputs: str = "both",
    ) -> Updated:
        """New features of the edges, and their aggregation at the destinations.

        Parameters
        ----------
        efeat : Tensor, (n_edges, efeat_dim)
        nfeat : Tensor, (n_nodes, src_dim), or pair of (n_src, src_dim), (n_dst, dst_dim)
        graph : Graph
        residual : bool
            Add `efeat` to the network's value.
        reduction : {"sum", "mean"}
        outputs : {"both", "edges", "nodes"}
            Wanted results; the other is None.
        """
        x_src, x_dst = (nfeat, nfeat) if isinstance(nfeat, Tensor) else nfeat
        activation, *layers = self.behind()
        name = activation_name(activation)
        if name is None:
            return self._by_pytorch(efeat, x_src, x_dst, graph, residual, reduction, outputs)
        weight, bias = self.first_layer()
        linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
        parts = [weight.t(), weight.new_zeros(weight.shape[0]) if bias is None else bias]
        for linear in linears:
            parts += [linear.weight.t(), linear.bias]
        norm = layers[-1] if isinstance(layers[-1], nn.LayerNorm) else None
        if norm is not None:
            parts += [norm.weight, norm.bias]
        out: Any = functional.edge_mlp(
            efeat, x_src, x_dst, torch.cat([part.reshape(-1) for part in parts]),
            graph=graph, widths=[weight.shape[0], *(linear.out_features for linear in linears)],
            activation=name, layer_norm=norm is not None, residual=residual, reduction=reduction,
            outputs=outputs,
        )  # fmt: skip
        if outputs == "both":
            return out[0], out[1]
        return (out, None) if outputs == "edges" else (None, out)

    def _by_pytorch(
        self,
        efeat: Tensor,
        x_src: Tensor,
        x_dst: Tensor,
        graph: AnyGraph,
        residual: bool,
        reduction: str,
        outputs: str,
    ) -> Updated:
        weight, bias = self.first_layer()
        widths = [efeat.shape[1], x_src.shape[1], x_dst.shape[1]]
        of_edges, of_src, of_dst = weight.split(widths, dim=1)
        src, dst = ends_of(graph, efeat.device)
        efeat = without_free_rows(efeat, graph)
        z = F.linear(efeat, of_edges)
        z = z + of_sources(F.linear(x_src, of_src), graph)[src] + F.linear(x_dst, of_dst, bias)[dst]
        edges = z
        for layer in self.behind():
            edges = layer(edges)
        if residual:
            edges = edges + efeat
        edges = torch.where(used_rows(graph, efeat.device)[:, None], edges, 0)
        if outputs == "edges":
            return edges, None
        nodes = functional.agg_simple(None, edges, graph=graph, aggregation=reduction)
        return (edges if outputs == "both" else None), nodes


class MeshGraphEdgeMLPConcat(_EdgeNetwork, MeshGraphMLP):  # type: ignore[misc]
    """Network of the concatenated features of an edge, its source and its destination.

    Parameters
    ----------
    efeat_dim, src_dim, dst_dim, output_dim, hidden_dim : int
        Widths.
    hidden_layers : int
    activation_fn, norm_type, recompute_activation
        As in `MeshGraphMLP`.
    bias : bool
        Without effect: there is one, as in PhysicsNeMo.
    """

    def __init__(
        self,
        efeat_dim: int = 512,
        src_dim: int = 512,
        dst_dim: int = 512,
        output_dim: int = 512,
        hidden_dim: int = 512,
        hidden_layers: int = 2,
        activation_fn: nn.Module | None = None,
        norm_type: str | None = "LayerNorm",
        bias: bool = True,
        recompute_activation: bool = False,
    ) -> None:
        MeshGraphMLP.__init__(
            self, efeat_dim + src_dim + dst_dim, output_dim, hidden_dim, hidden_layers,
            activation_fn, norm_type, recompute_activation,
        )  # fmt: skip

    def first_layer(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the first layer."""
        first = self.model.get_submodule("0")
        assert isinstance(first, nn.Linear)
        return first.weight, first.bias

    def behind(self) -> list[nn.Module]:
        """Layers after the first one."""
        assert isinstance(self.model, nn.Sequential)
        return list(self.model)[1:]


class MeshGraphEdgeMLPSum(_EdgeNetwork):
    """`MeshGraphEdgeMLPConcat` with the three parts of the first weight as separate parameters.

    Parameters
    ----------
    efeat_dim, src_dim, dst_dim, output_dim, hidden_dim : int
        Widths.
    hidden_layers : int
    activation_fn, norm_type, recompute_activation
        As in `MeshGraphMLP`.
    bias : bool
        Give the first layer a bias.
    """

    def __init__(
        self,
        efeat_dim: int,
        src_dim: int,
        dst_dim: int,
        output_dim: int = 512,
        hidden_dim: int = 512,
        hidden_layers: int = 1,
        activation_fn: nn.Module | None = None,
        norm_type: str | None = "LayerNorm",
        bias: bool = True,
        recompute_activation: bool = False,
    ) -> None:
        super().__init__()
        _check_norm(type(self).__name__, norm_type)
        activation_fn = nn.SiLU() if activation_fn is None else activation_fn
        first = nn.Linear(efeat_dim + src_dim + dst_dim, hidden_dim, bias=bias)
        parts = first.weight.detach().split([efeat_dim, src_dim, dst_dim], dim=1)
        self.lin_efeat, self.lin_src, self.lin_dst = (nn.Parameter(p.clone()) for p in parts)
        self.register_parameter("bias", first.bias)
        self.model = nn.Sequential(
            *_behind_first(hidden_dim, output_dim, hidden_layers, activation_fn, norm_type)
        )

    def first_layer(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the first layer."""
        bias: Any = self.bias
        return torch.cat([self.lin_efeat, self.lin_src, self.lin_dst], dim=1), bias

    def behind(self) -> list[nn.Module]:
        """Layers after the first one."""
        return list(self.model)


def edge_network(
    do_concat_trick: bool,
) -> type[MeshGraphEdgeMLPConcat] | type[MeshGraphEdgeMLPSum]:
    """Network of edges whose first weight is one parameter, or three."""
    return MeshGraphEdgeMLPSum if do_concat_trick else MeshGraphEdgeMLPConcat
