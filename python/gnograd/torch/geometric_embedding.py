# SPDX-License-Identifier: MIT
"""GAOT's embeddings of positions and of the shape of neighbourhoods."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.arrays import full_precision
from gnograd.torch.graph import AnyGraph, Graph
from gnograd.torch.moments import neighborhood_moments

__all__ = ["GeometricEmbedding", "node_pos_encode"]

_CHANNELS = 64
_LEAST_SPREAD = 1e-6
"""Smallest standard deviation over the destinations by which features are divided."""


def node_pos_encode(x: Tensor, freq: int = 4) -> Tensor:
    """Sines and cosines of every coordinate at whole frequencies.

    Parameters
    ----------
    x : Tensor, (..., d)
    freq : int
        Frequencies ``pi, 2 pi, ..., freq pi`` of ``x + 1``.

    Returns
    -------
    Tensor, (..., 2 * freq * d)
        For every frequency the sines of all coordinates, then the cosines.
    """
    frequencies = torch.arange(1, freq + 1, device=x.device)
    phase = frequencies[:, None] * (torch.pi * (x + 1))[..., None, :]
    return torch.cat([phase.sin(), phase.cos()], dim=-1).flatten(-2)


class GeometricEmbedding(nn.Module):
    """Features of the shape of every neighbourhood [1]_.

    Parameters
    ----------
    input_dim : int
        Coordinates of a point.
    output_dim : int
    method : {"statistical", "pointnet"}
        A network of the moments of `gnograd.neighborhood_moments`, in standard units over all
        destinations; or of the offset of every neighbour, pooled.
    pooling : {"max", "mean"}
        Pooling of the second method.

    Notes
    -----
    Arguments and parameters are those of GAOT's module of this name, so that a ``state_dict`` loads
    as it is. Of a single destination there is no standard deviation: its statistics are 0; in GAOT
    they are NaN.

    References
    ----------
    .. [1] Wen et al., Geometry Aware Operator Transformer as an Efficient and Accurate Neural
       Surrogate for PDEs on Arbitrary Domains, arXiv:2505.18781, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import GeometricEmbedding, Graph
    >>> x, y = torch.rand(100, 2), torch.rand(30, 2)
    >>> GeometricEmbedding(2, 16)(x, y, Graph.radius(x, 0.3, y)).shape
    torch.Size([30, 16])
    """

    def __init__(
        self, input_dim: int, output_dim: int, method: str = "statistical", pooling: str = "max"
    ) -> None:
        super().__init__()
        self.input_dim, self.output_dim = input_dim, output_dim
        self.method, self.pooling = method.lower(), pooling.lower()
        if self.method not in ("statistical", "pointnet"):
            raise ValueError(
                f"GeometricEmbedding: method is {method!r}, needs one of 'statistical', 'pointnet'"
            )
        if self.pooling not in ("max", "mean"):
            raise ValueError(
                f"GeometricEmbedding: pooling is {pooling!r}, needs one of 'max', 'mean'"
            )
        if self.method == "statistical":
            self.mlp = nn.Sequential(
                nn.Linear(3 + 2 * input_dim, _CHANNELS), nn.ReLU(),
                nn.Linear(_CHANNELS, output_dim), nn.ReLU(),
            )  # fmt: skip
        else:
            self.pointnet_mlp = nn.Sequential(
                nn.Linear(input_dim, _CHANNELS), nn.ReLU(),
                nn.Linear(_CHANNELS, _CHANNELS), nn.ReLU(),
            )  # fmt: skip
            self.fc = nn.Sequential(nn.Linear(_CHANNELS, output_dim), nn.ReLU())

    def forward(
        self, input_geom: Tensor, latent_queries: Tensor, graph: AnyGraph, n_items: int = 1
    ) -> Tensor:
        """Embed the neighbourhoods of all queries.

        Parameters
        ----------
        input_geom : Tensor, (n, input_dim)
            The points, of which some are neighbours.
        latent_queries : Tensor, (m, input_dim)
        graph : Graph
            Graph from points to queries.
        n_items : int
            Items of a batch, each with equally many queries, in order: features are normalised
            within an item.

        Returns
        -------
        Tensor, (m, output_dim)
        """
        graph = Graph.of(graph, input_geom.device)
        if self.method == "statistical":
            return self._of_moments(input_geom, latent_queries, graph, n_items)
        offset = input_geom.index_select(0, graph.src) - latent_queries.index_select(0, graph.dst)
        with full_precision(offset.device):
            on_edges = self.pointnet_mlp(offset)
        pooled = functional.agg_simple(None, on_edges, graph=graph, aggregation=self.pooling)
        return torch.where(graph.in_degree[:, None] > 0, self.fc(pooled), 0.0)

    def _of_moments(self, points: Tensor, queries: Tensor, graph: Graph, n_items: int) -> Tensor:
        found = neighborhood_moments(points, graph, queries)
        count = found.count.to(found.mean.dtype)
        columns = [torch.stack([count, found.mean, found.variance], dim=1)]
        features = torch.cat([*columns, found.centroid, found.eigenvalues], dim=1)
        items = features.unflatten(0, (n_items, -1))
        centred = items - items.mean(dim=1, keepdim=True)
        # the root has no derivative for features that are all the same
        m = items.shape[1]
        square = centred.square().sum(dim=1, keepdim=True) / max(m - 1, 1)
        varies = square >= _LEAST_SPREAD**2
        spread = torch.where(varies, square, 1.0).sqrt()
        return self.mlp((centred / spread).flatten(0, 1))
