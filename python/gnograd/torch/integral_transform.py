# SPDX-License-Identifier: MIT
"""neuraloperator's integral transform and its kernel network.

A kernel network of linear layers with an activation between them is carried by `gnograd.gno` (one
hidden layer behind a narrow input) or `gnograd.gno_deep` (any other), which keep nothing of a
hidden width an edge. Modules of the user's own are evaluated by PyTorch, some edges at a time:
those of the backward pass are computed again, and what is kept is the kernel's value on every edge.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from torch.utils.checkpoint import checkpoint

from gnograd.distributed.graph import DistributedGraph
from gnograd.torch import functional
from gnograd.torch.activations import activation_name
from gnograd.torch.arrays import full_precision
from gnograd.torch.distributed import halo
from gnograd.torch.eager import in_transform
from gnograd.torch.graph import AnyGraph, Graph

__all__ = ["Activation", "IntegralTransform", "LinearChannelMLP", "Neighbors", "as_graph"]

Activation: TypeAlias = Callable[[Tensor], Tensor]
Neighbors: TypeAlias = "AnyGraph | Mapping[str, Tensor]"

TRANSFORM_TYPES = ("linear_kernelonly", "linear", "nonlinear_kernelonly", "nonlinear")

_EDGE_NUMBERS = 2**21
"""Largest size of PyTorch's temporaries in one evaluation of a kernel network, in numbers."""


class LinearChannelMLP(nn.Module):
    """Linear layers with a nonlinearity between them.

    Parameters
    ----------
    layers : sequence of int
        Widths: of the input, of the hidden layers, of the output.
    non_linearity : callable
    dropout : float
        Probability of dropout after every layer.
    """

    def __init__(
        self, layers: Sequence[int], non_linearity: Activation = gelu, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if len(layers) < 2:
            raise ValueError(f"LinearChannelMLP: layers is {layers}, needs two widths or more")
        self.n_layers = len(layers) - 1
        self.in_channels, self.out_channels = layers[0], layers[-1]
        self.non_linearity = non_linearity
        self.fcs = nn.ModuleList(map(nn.Linear, layers[:-1], layers[1:]))
        self.dropout = (
            nn.ModuleList(nn.Dropout(dropout) for _ in range(self.n_layers)) if dropout else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply to the last axis of ``x (..., layers[0])``."""
        for k, layer in enumerate(self.fcs):
            x = layer(x)
            if k < self.n_layers - 1:
                x = self.non_linearity(x)
            if self.dropout is not None:
                x = self.dropout[k](x)
        return x


class IntegralTransform(nn.Module):
    """Integral of a function against a learned kernel over neighbourhoods [1]_.

    With neighbours ``j`` of the query ``x_i``, weights ``w`` and ``k`` the kernel network

    ======================= =============================================
    transform_type          value at ``x_i``
    ======================= =============================================
    "linear_kernelonly"     sum or mean of ``w k([y_j, x_i])``
    "linear"                sum or mean of ``w k([y_j, x_i]) f_j``
    "nonlinear_kernelonly"  sum or mean of ``w k([y_j, x_i, f_j])``
    "nonlinear"             sum or mean of ``w k([y_j, x_i, f_j]) f_j``
    ======================= =============================================

    where products are element by element. Without ``f`` it is the first.

    Parameters
    ----------
    channel_mlp : Module, optional
        Kernel network, for inputs (n_edges, channels).
    channel_mlp_layers : sequence of int, optional
        Widths of a `LinearChannelMLP`, if no `channel_mlp` is given.
    channel_mlp_non_linearity : callable
        Nonlinearity of that network.
    transform_type : {"linear", "linear_kernelonly", "nonlinear_kernelonly", "nonlinear"}
    weighting_fn : callable, optional
        Function that computes weights from ``neighbors["weights"]``, see `dispatch_weighting_fn`.
    reduction : {"sum", "mean"}
        Reduction without weights; with weights it is the sum.
    use_torch_scatter : bool
        Without effect.

    Notes
    -----
    Derivatives are exact to second order, and a third is refused. A `LinearChannelMLP`, or a
    ``Sequential`` of ``Linear`` layers and an activation that `gnograd.gno` has, is evaluated by
    gnograd: with one hidden layer and an input no wider than that by `gnograd.gno`, which keeps the
    input of the network for an edge; any other by `gnograd.gno_deep`, which keeps nothing for an
    edge, and makes the first layer once a point. Otherwise what is kept an edge is
    the kernel's value, and PyTorch's temporaries for a part of the edges beside: some 20 MiB in
    float32.

    With "linear_kernelonly" a function `f_y` is left out, with a warning: neuraloperator says so,
    but multiplies by it. What it computes then is "linear".

    References
    ----------
    .. [1] Li et al., Neural Operator: Graph Kernel Network for Partial Differential Equations,
       arXiv:2003.03485, 2020.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import IntegralTransform, neighbor_search
    >>> y, x = torch.rand(200, 2), torch.rand(50, 2)
    >>> layer = IntegralTransform(channel_mlp_layers=[4, 64, 16], reduction="mean")
    >>> neighbors = neighbor_search(y, x, radius=0.2)
    >>> layer(y, neighbors, x, f_y=torch.rand(8, 200, 16)).shape
    torch.Size([8, 50, 16])
    """

    _theirs = "neuraloperator"

    def __init__(
        self,
        channel_mlp: nn.Module | None = None,
        channel_mlp_layers: Sequence[int] | None = None,
        channel_mlp_non_linearity: Activation = gelu,
        transform_type: str = "linear",
        weighting_fn: Activation | None = None,
        reduction: str = "sum",
        use_torch_scatter: bool = True,
    ) -> None:
        super().__init__()
        if transform_type not in TRANSFORM_TYPES:
            raise ValueError(
                f"IntegralTransform: transform_type is {transform_type!r}, "
                f"needs one of {', '.join(TRANSFORM_TYPES)}"
            )
        if reduction not in ("sum", "mean"):
            raise ValueError(
                f"IntegralTransform: reduction is {reduction!r}, needs one of 'sum', 'mean'"
            )
        if channel_mlp is None:
            if channel_mlp_layers is None:
                raise ValueError("IntegralTransform: needs channel_mlp or channel_mlp_layers")
            channel_mlp = LinearChannelMLP(channel_mlp_layers, channel_mlp_non_linearity)
        self.channel_mlp = channel_mlp
        self.transform_type = transform_type
        self.weighting_fn = weighting_fn
        self.reduction = reduction

    def forward(
        self,
        y: Tensor,
        neighbors: Neighbors,
        x: Tensor | None = None,
        f_y: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        y : Tensor, (n, d1)
            Points that are integrated over.
        neighbors : dict or Graph
            As `neighbor_search` returns it; ``neighbors["weights"]`` (n_edges,), if there, are
            the weights of the edges, or what `weighting_fn` makes weights of. A graph, from
            points of `y` to points of `x`, is what a dict is made into on every call. With a
            `gnograd.DistributedGraph` all points are those that this process owns.
        x : Tensor, (m, d2), optional
            Points at which the integral is wanted; `y` when left out.
        f_y : Tensor, (n, d3) or (batch, n, d3), optional
            Function on the points of `y`.
        weights : Tensor, (n,), optional
            Quadrature weight of every point of `y`.

        Returns
        -------
        Tensor, (m, d4) or (batch, m, d4)
            Values with the output width d4 of the kernel network; 0 where there are no neighbours.

        Raises
        ------
        KeyError
            `weighting_fn` without ``neighbors["weights"]``.
        ValueError
            Sizes that do not fit each other.
        """
        x = y if x is None else x
        if isinstance(neighbors, DistributedGraph):
            y, f_y, weights = (
                v if v is None else _with_halo(v, axis, neighbors)
                for v, axis in ((y, 0), (f_y, -2), (weights, 0))
            )
            neighbors = neighbors.local
        n = y.shape[0]
        graph = as_graph(neighbors, n, x.shape[0], y.device)
        index = graph.arrays.indices.long()
        weight = self._edge_weight(neighbors, weights, graph, y, x)
        if f_y is None:
            return self._integrate(graph, index, y, x, None, None, weight)
        if f_y.shape[-2] != n:
            raise ValueError(
                f"IntegralTransform: f_y has shape {tuple(f_y.shape)}, "
                f"needs one row for each of the {n} points of y"
            )
        enters = self.transform_type in ("nonlinear", "nonlinear_kernelonly")
        multiplies = self.transform_type in ("linear", "nonlinear")
        if self.transform_type == "linear_kernelonly" and not torch.compiler.is_compiling():
            warnings.warn(
                "IntegralTransform: transform_type='linear_kernelonly' leaves f_y out, by which "
                f"{self._theirs} multiplies; a network trained there wants 'linear'",
                stacklevel=2,
            )
        if f_y.ndim == 2:
            item = (f_y if enters else None, f_y if multiplies else None)
            return self._integrate(graph, index, y, x, *item, weight)
        if enters:  # every item has its own kernel
            items = [(f, f if multiplies else None) for f in f_y]
            if not items:
                nothing = self._integrate(
                    graph, index, y, x, f_y.sum(0), f_y.sum(0) if multiplies else None, weight
                )
                return nothing.expand(0, -1, -1)
            return torch.stack([self._integrate(graph, index, y, x, *f, weight) for f in items])
        if not multiplies:
            out = self._integrate(graph, index, y, x, None, None, weight)
            return out.expand(len(f_y), -1, -1)
        return self._integrate(graph, index, y, x, None, f_y, weight)  # one kernel for all items

    def _edge_weight(
        self, neighbors: Neighbors, weights: Tensor | None, graph: Graph, y: Tensor, x: Tensor
    ) -> Tensor | None:
        """Product of the weights of edges and points, or None."""
        n = y.shape[0]
        weight = neighbors.get("weights") if isinstance(neighbors, Mapping) else None
        if self.weighting_fn is not None:
            if weight is None:
                raise KeyError(
                    "IntegralTransform: weighting_fn needs neighbors['weights'], the squared "
                    "distances that neighbor_search gives with return_norm=True"
                )
            weight = self.weighting_fn(weight)
        if weights is None:
            return weight
        if weights.shape != (n,):
            raise ValueError(
                f"IntegralTransform: weights has shape {tuple(weights.shape)}, "
                f"needs ({n},), one for every point of y"
            )
        of_points = weights.index_select(0, graph.arrays.indices.long())
        return of_points if weight is None else weight * of_points

    def _integrate(
        self,
        graph: Graph,
        index: Tensor,
        y: Tensor,
        x: Tensor,
        kernel_input: Tensor | None,
        factor: Tensor | None,
        weight: Tensor | None,
    ) -> Tensor:
        """Sum over neighbours, for one function or a batch of them in `factor`."""
        reduction = self.reduction if weight is None else "sum"
        common: dict[str, Any] = dict(graph=graph, reduction=reduction, kernel="diagonal")
        network = _network(self.channel_mlp)
        if network is not None:
            channels = y.shape[1] + x.shape[1]
            channels += 0 if kernel_input is None else kernel_input.shape[1]
            _check_width(channels, network.linears[0].in_features)
            factor = _of_width(factor, network.linears[-1].out_features, self.transform_type)
            if not network.is_narrow:
                from_sources = y if kernel_input is None else torch.cat([y, kernel_input], dim=1)
                return _of_batch(
                    factor,
                    lambda h: functional.gno_deep(
                        h, from_sources, x, None, network.packed(y.shape[1], x.shape[1]), weight,
                        graph=graph, reduction=reduction, activation=network.activation,
                        widths=[layer.out_features for layer in network.linears],
                    ),
                )  # fmt: skip
        dst = graph.dst
        if network is not None and network.is_narrow:
            first, last = network.linears
            return functional.gno(
                factor, _edge_input(y, x, kernel_input, index, dst),
                first.weight.t(), _bias(first), last.weight.t(), _bias(last), weight,
                activation=network.activation, **common,
            )  # fmt: skip
        kernel = self._kernel_on_edges(index, dst, y, x, kernel_input)
        factor = _of_width(factor, kernel.shape[1], self.transform_type)
        identity = torch.eye(kernel.shape[1], dtype=kernel.dtype, device=kernel.device)
        none = kernel.new_zeros(kernel.shape[1])
        return functional.gno_contract(factor, kernel, identity, none, weight, **common)

    def _kernel_on_edges(
        self, index: Tensor, dst: Tensor, y: Tensor, x: Tensor, kernel_input: Tensor | None
    ) -> Tensor:
        """Value of the kernel network on every edge, some edges at a time.

        Under `torch.autocast` too in the dtype of the points: in bfloat16 neighbours would
        coincide.
        """
        # the backward pass may run after torch.func.functional_call has restored other parameters
        parameters: dict[str, Tensor] = dict(self.channel_mlp.named_parameters())

        def values(index_part: Tensor, dst_part: Tensor) -> Tensor:
            edges = _edge_input(y, x, kernel_input, index_part, dst_part)
            with full_precision(edges.device):
                if autocast and parameters:
                    edges = edges.to(next(iter(parameters.values())).dtype)
                made: Tensor = torch.func.functional_call(self.channel_mlp, parameters, edges)
            return made

        autocast = torch.is_autocast_enabled(y.device.type)

        channels = y.shape[1] + x.shape[1]
        if kernel_input is not None:
            channels += kernel_input.shape[1]
        if isinstance(self.channel_mlp, LinearChannelMLP):
            _check_width(channels, self.channel_mlp.in_channels)
        linears = [m for m in self.channel_mlp.modules() if isinstance(m, nn.Linear)]
        # outputs of layers before and after the nonlinearity
        numbers = channels + 2 * sum(layer.out_features for layer in linears)
        at_a_time = max(1, _EDGE_NUMBERS // numbers)
        # torch.func's transforms know no checkpoints
        if _holds(index.shape[0] <= at_a_time) or in_transform():
            return values(index, dst)
        parts = zip(index.split(at_a_time), dst.split(at_a_time), strict=True)
        return torch.cat([checkpoint(values, *part, use_reentrant=False) for part in parts])


def _with_halo(v: Tensor, axis: int, graph: DistributedGraph) -> Tensor:
    """Own rows, followed by those of the halo."""
    return halo(v.movedim(axis, 0), graph=graph).movedim(0, axis)


def as_graph(neighbors: Neighbors, n: int, m: int, device: torch.device) -> Graph:
    """Graph from n points to m points."""
    if isinstance(neighbors, Mapping):
        splits, index = neighbors["neighbors_row_splits"], neighbors["neighbors_index"]
        graph = Graph._of_neighbors(splits, index, n)
    else:
        graph = Graph.of(neighbors, device)
        if graph.arrays.edge_ids is not None:
            raise ValueError(
                "IntegralTransform: neighbors is a graph with edge_ids, needs one without"
            )
    if (graph.n_src, graph.n_dst) != (n, m):
        raise ValueError(
            f"IntegralTransform: neighbors is for {graph.n_src} and {graph.n_dst} points, "
            f"but y has {n} and x has {m}"
        )
    return graph


def _edge_input(
    y: Tensor, x: Tensor, kernel_input: Tensor | None, index: Tensor, dst: Tensor
) -> Tensor:
    """Input of the kernel network: ``[y_j, x_i]`` or ``[y_j, x_i, f_j]`` for every edge."""
    columns = [y.index_select(0, index), x.index_select(0, dst)]
    if kernel_input is not None:
        columns.append(kernel_input.index_select(0, index))
    kinds = [column.dtype for column in columns]
    dtype = functools.reduce(torch.promote_types, kinds)
    return torch.cat([column.to(dtype) for column in columns], dim=1)


class _Network(NamedTuple):
    """Linear layers with one activation between them."""

    linears: Sequence[nn.Linear]
    activation: str

    @property
    def is_narrow(self) -> bool:
        """True if the network has one hidden layer that is at least as wide as the input."""
        first = self.linears[0]
        return len(self.linears) == 2 and first.in_features <= first.out_features

    def packed(self, n_y: int, n_x: int) -> Tensor:
        """The layers as `gnograd.gno_deep` takes them, for an input ``[y, x, f]``.

        There `f` follows `y`: both belong to the source.
        """
        of_y, of_x, of_f = self.linears[0].weight.t().tensor_split([n_y, n_y + n_x])
        parts = [of_y, of_f, of_x, _bias(self.linears[0])]
        for layer in self.linears[1:]:
            parts += [layer.weight.t(), _bias(layer)]
        return torch.cat([part.reshape(-1) for part in parts])


def _network(module: nn.Module) -> _Network | None:
    """The layers and the activation of a kernel network that gnograd can carry."""
    parts: list[Any] = []
    if type(module) is nn.Sequential:
        parts = list(module)
    elif isinstance(module, LinearChannelMLP) or _is_theirs(module):
        plain: Any = module
        if plain.dropout is None or not plain.training:
            parts = [part for layer in plain.fcs for part in (layer, plain.non_linearity)][:-1]
    if len(parts) % 2 == 0 or any(type(part) is not nn.Linear for part in parts[::2]):
        return None
    names = {activation_name(activation) for activation in parts[1::2]} or {"identity"}
    name = names.pop()
    return None if names or name is None else _Network(parts[::2], name)


def _is_theirs(module: nn.Module) -> bool:
    kind = type(module)
    return kind.__name__ == "LinearChannelMLP" and kind.__module__.startswith("neuralop.")


def _bias(layer: nn.Linear) -> Tensor:
    return layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias


def _check_width(channels: int, needed: int) -> None:
    if channels != needed:
        raise ValueError(
            f"IntegralTransform: y, x and f_y give the kernel network {channels} channels, "
            f"but it takes {needed}"
        )


def _of_width(factor: Tensor | None, width: int, transform_type: str) -> Tensor | None:
    """Expand a function of one channel to all channels of the kernel, as neuraloperator does."""
    if factor is None or factor.shape[-1] == width:
        return factor
    if factor.shape[-1] != 1:
        raise ValueError(
            f"IntegralTransform: f_y has not as many channels as the kernel network gives, which "
            f"transform_type={transform_type!r} needs"
        )
    return factor.expand(*factor.shape[:-1], width)


def _of_batch(factor: Tensor | None, apply: Callable[[Tensor | None], Tensor]) -> Tensor:
    """Apply a function for several functions side by side to a batch of them."""
    if factor is None or factor.dim() == 2:
        return apply(factor)
    if not factor.shape[0]:  # an empty batch: apply to None for the shape
        return apply(factor.sum(0)).expand(0, -1, -1)
    out = apply(factor.transpose(0, 1).flatten(1))
    return out.unflatten(1, (factor.shape[0], -1)).transpose(0, 1)


def _holds(condition: Any) -> bool:
    """Truth of a comparison of sizes; true where a compiled program does not know them."""
    if not torch.compiler.is_compiling():
        return bool(condition)
    # imports SymPy, which takes long
    from torch.fx.experimental import symbolic_shapes

    return bool(getattr(symbolic_shapes, "guard_or_true", bool)(condition))
