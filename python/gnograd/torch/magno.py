# SPDX-License-Identifier: MIT
"""GAOT's multiscale attentional graph neural operator, on the operators of gnograd.

The modules take the configuration of GAOT's modules of the same names, and hold parameters of the
same names and shapes, so that a ``state_dict`` loads as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gnograd.torch.agno import AGNO
from gnograd.torch.arrays import full_precision
from gnograd.torch.geometric_embedding import GeometricEmbedding, node_pos_encode
from gnograd.torch.graph import Graph
from gnograd.torch.integral_transform import Neighbors, as_graph

__all__ = ["MAGNO", "MAGNOConfig", "MAGNODecoder", "MAGNOEncoder"]

Scales: TypeAlias = "Sequence[Neighbors] | Sequence[Sequence[Neighbors]]"
"""Neighbours by radius; if every item has its own points, such a sequence for each."""

_FREQUENCIES = 4


@dataclass
class MAGNOConfig:
    """Configuration of `MAGNOEncoder` and `MAGNODecoder`; GAOT's ``MAGNOConfig``.

    Fields that choose between libraries are without effect, and so is `neighbor_strategy`, as in
    GAOT.
    """

    coord_dim: int = 2
    """Coordinates of a point."""
    radius: float = 0.033
    """Radius of the neighbourhoods of scale 1."""
    hidden_size: int = 64
    """Width of the hidden layers of kernel networks."""
    mlp_layers: int = 3
    """Number of hidden layers of kernel networks."""
    lifting_channels: int = 32
    """Channels of the function on the latent points."""
    scales: list[float] = field(default_factory=lambda: [1.0])
    """Factors of the radius; the results for all of them are averaged."""
    use_scale_weights: bool = False
    """Average with weights that a network computes from the positions."""
    use_attention: bool = True
    attention_type: str = "cosine"
    """Scores of the attention, as for `AGNO`."""
    use_geoembed: bool = True
    """Add embeddings of the neighbourhoods by `GeometricEmbedding`."""
    embedding_method: str = "statistical"
    pooling: str = "max"
    """Pooling, as for `GeometricEmbedding`."""
    transform_type: str = "linear"
    """Integrand, as for `AGNO`."""
    sampling_strategy: str | None = None
    """Random choice of edges in training: keep a "ratio" of them, or at most so many a point
    ("max_neighbors")."""
    max_neighbors: int | None = None
    sample_ratio: float | None = None
    node_embedding: bool = False
    """Give kernels and scores sines and cosines of the positions."""
    neighbor_search_method: str = "auto"
    use_torch_scatter: bool = True
    neighbor_strategy: str = "radius"
    precompute_edges: bool = False
    """Set this if neighbours are always given."""

    def __post_init__(self) -> None:
        if self.sampling_strategy not in (None, "ratio", "max_neighbors"):
            raise ValueError(
                f"MAGNOConfig: sampling_strategy is {self.sampling_strategy!r}, "
                "needs one of 'ratio', 'max_neighbors' or None"
            )
        if self.sampling_strategy == "ratio" and not 0 < (self.sample_ratio or 0) <= 1:
            raise ValueError(f"MAGNOConfig: sample_ratio is {self.sample_ratio}, needs (0, 1]")
        if self.sampling_strategy == "max_neighbors" and not (self.max_neighbors or 0) > 0:
            raise ValueError(f"MAGNOConfig: max_neighbors is {self.max_neighbors}, needs 1 or more")


class _Pointwise(nn.Module):
    """A linear layer of channels, with the parameters of a convolution of length 1."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.fcs = nn.ModuleList([nn.Conv1d(in_channels, out_channels, 1)])

    def forward(self, x: Tensor) -> Tensor:
        """Apply to the last axis of x."""
        layer: Any = self.fcs[0]
        return linear(x, layer.weight.squeeze(2), layer.bias)


class _MultiscaleTransform(nn.Module):
    """Base of encoder and decoder: `AGNO` over several radii."""

    def __init__(self, kernel_in: int, channels: int, config: Any) -> None:
        super().__init__()
        self.config = config
        coordinates = config.coord_dim * (2 * _FREQUENCIES if config.node_embedding else 1)
        layers = [2 * coordinates, *[config.hidden_size] * config.mlp_layers, channels]
        if config.transform_type in ("nonlinear", "nonlinear_kernelonly"):
            layers[0] += kernel_in
        self.agno = AGNO(
            channel_mlp_layers=layers,
            transform_type=config.transform_type,
            use_attn=config.use_attention,
            attention_type=config.attention_type,
            coord_dim=coordinates,
        )
        self._coordinates = coordinates

    def _add_geometry(self, channels: int) -> None:
        """Add the embedding of the geometry and the weights of the scales, last as in GAOT."""
        config = self.config
        if config.use_geoembed:
            self.geoembed = GeometricEmbedding(
                config.coord_dim, channels, config.embedding_method, config.pooling
            )
            self.recovery = _Pointwise(2 * channels, channels)
        if config.use_scale_weights:
            width = config.hidden_size // 4
            self.scale_weighting = nn.Sequential(
                nn.Linear(self._coordinates, width), nn.ReLU(),
                nn.Linear(width, len(config.scales)),
            )  # fmt: skip

    def neighbors(
        self, sources: Tensor, queries: Tensor, items: Sequence[Any] = (None, None)
    ) -> list[Graph]:
        """Neighbours of the queries among the sources, a graph a radius.

        Parameters
        ----------
        sources, queries : Tensor, (n, coord_dim), (m, coord_dim)
        items : pair of sequences of int, optional
            First source, and first query, of every item of a batch, and their numbers at the end.

        Returns
        -------
        list of Graph
            One graph a radius, to be passed in every call for points that do not move.
        """
        radii = [self.config.radius * scale for scale in self.config.scales]
        return [
            Graph.radius(sources, r, queries, source_items=items[0], destination_items=items[1])
            for r in radii
        ]

    def _transform(
        self, sources: Tensor, f: Tensor, queries: Tensor, given: Scales | None
    ) -> Tensor:
        """From functions (batch, n, channels) on the sources to (batch, m, channels)."""
        name = type(self).__name__
        of_items = sources.dim() == 3 or queries.dim() == 3
        for points in (sources, queries):
            if points.shape[-1] != self.config.coord_dim:
                raise ValueError(
                    f"{name}: positions have shape {tuple(points.shape)}, "
                    f"need coord_dim={self.config.coord_dim} columns"
                )
            if points.dim() == 3 and len(points) != len(f):
                raise ValueError(
                    f"{name}: positions are of {len(points)} items, but the function of {len(f)}"
                )
        if f.dim() != 3 or f.shape[1] != sources.shape[-2]:
            raise ValueError(
                f"{name}: the function has shape {tuple(f.shape)}, needs "
                f"(batch, {sources.shape[-2]}, channels)"
            )
        if given is None and self.config.precompute_edges:
            raise ValueError(f"{name}: needs neighbours with precompute_edges")
        batch, m = len(f), queries.shape[-2]
        first = queries[0] if queries.dim() == 3 else queries
        if not of_items:
            found: Any = self.neighbors(sources, queries) if given is None else given
            parts = [self._at_scale(sources, f, queries, graph, 1) for graph in found]
        else:  # one graph of all items
            sources, queries = (
                points if points.dim() == 3 else points.expand(batch, -1, -1)
                for points in (sources, queries)
            )
            found = self._of_items(sources, queries, given)
            rows = sources.flatten(0, 1), f.flatten(0, 1), queries.flatten(0, 1)
            parts = [self._at_scale(*rows, graph, batch).view(batch, m, -1) for graph in found]
        if len(parts) == 1:
            return parts[0]
        if not self.config.use_scale_weights:
            return torch.stack(parts).mean(dim=0)
        with full_precision(first.device):
            weights = self.scale_weighting(self._encode(first)).softmax(dim=-1)
        return sum(weights[:, k, None] * part for k, part in enumerate(parts))

    def _of_items(self, sources: Tensor, queries: Tensor, given: Scales | None) -> list[Any]:
        """Neighbours of all items in one graph, for every radius."""
        batch, sizes = len(sources), (sources.shape[1], queries.shape[1])
        if given is None:
            items = [[n * item for item in range(batch + 1)] for n in sizes]
            return self.neighbors(sources.flatten(0, 1), queries.flatten(0, 1), items)
        by_item: Any = given
        if len(by_item) != batch:
            raise ValueError(
                f"{type(self).__name__}: neighbours are of {len(by_item)} items, "
                f"but the positions of {batch}"
            )
        return [
            Graph.batch([as_graph(neighbors, *sizes, sources.device) for neighbors in of_items])
            for of_items in zip(*by_item, strict=True)
        ]

    def _at_scale(
        self, sources: Tensor, f: Tensor, queries: Tensor, neighbors: Neighbors, n_items: int
    ) -> Tensor:
        """The transform for one radius, for items in one graph or functions on the same points."""
        sizes = sources.shape[0], queries.shape[0]
        graph = self._sampled(as_graph(neighbors, *sizes, sources.device))
        out = self.agno(self._encode(sources), graph, self._encode(queries), f)
        if not self.config.use_geoembed:
            return out
        shapes = self.geoembed(sources, queries, graph, n_items)
        return self.recovery(torch.cat([out, shapes.expand_as(out)], dim=-1))

    def _encode(self, points: Tensor) -> Tensor:
        return node_pos_encode(points, _FREQUENCIES) if self.config.node_embedding else points

    def _sampled(self, graph: Graph) -> Graph:
        """The graph without the edges that are left out at random in training."""
        strategy = self.config.sampling_strategy if self.training else None
        if strategy is None:
            return graph
        n_edges = int(graph.offsets[-1])
        chance = torch.rand(n_edges, device=graph.device)
        rows = torch.arange(graph.n_dst, device=graph.device).repeat_interleave(graph.in_degree)
        if strategy == "ratio":
            keep = chance < self.config.sample_ratio
        else:  # the first ones of every row in a random order
            order = torch.argsort(chance)
            order = order[torch.argsort(rows[order], stable=True)]
            rank = torch.empty_like(order)
            rank[order] = torch.arange(n_edges, device=graph.device)
            keep = rank - graph.offsets[rows] < self.config.max_neighbors
        degree = torch.bincount(rows[keep], minlength=graph.n_dst)
        offsets = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
        return Graph.from_csc(offsets, graph.indices[:n_edges][keep], graph.n_src)


class MAGNOEncoder(_MultiscaleTransform):
    """From a function on points to one on latent points [1]_.

    The function is lifted to `out_channels`, and integrated by `AGNO` over neighbourhoods of
    several radii; what a neighbourhood looks like is added to what comes out (`GeometricEmbedding`,
    and a linear layer of both), and the radii are averaged.

    Parameters
    ----------
    in_channels, out_channels : int
    config : MAGNOConfig
        Configuration, or any object with its fields, such as GAOT's.

    Notes
    -----
    Neighbours are found anew on every call, unless they are given: `neighbors` finds them once for
    points that stay. Edges that are left out at random (``sampling_strategy``) break a compiled
    program there. With ``node_embedding``, weights of the scales are made of the embedded
    positions, as their first layer is for these; GAOT gives it the positions and fails.

    References
    ----------
    .. [1] Wen et al., Geometry Aware Operator Transformer as an Efficient and Accurate Neural
       Surrogate for PDEs on Arbitrary Domains, arXiv:2505.18781, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import MAGNOConfig, MAGNOEncoder
    >>> encoder = MAGNOEncoder(3, 32, MAGNOConfig(radius=0.2, scales=[1.0, 2.0]))
    >>> x, latent = torch.rand(200, 2), torch.rand(64, 2)
    >>> encoder(x, torch.rand(8, 200, 3), latent).shape
    torch.Size([8, 64, 32])
    """

    def __init__(self, in_channels: int, out_channels: int, config: Any) -> None:
        super().__init__(in_channels, out_channels, config)
        self.lifting = _Pointwise(in_channels, out_channels)
        self._add_geometry(out_channels)

    def forward(
        self,
        x_coord: Tensor,
        pndata: Tensor,
        latent_tokens_coord: Tensor,
        encoder_nbrs: Scales | None = None,
    ) -> Tensor:
        """Encode functions.

        Parameters
        ----------
        x_coord : Tensor, (n, coord_dim) or (batch, n, coord_dim)
            Points, the same for all items, or of every item.
        pndata : Tensor, (batch, n, in_channels)
        latent_tokens_coord : Tensor, (m, coord_dim)
        encoder_nbrs : sequence, optional
            Neighbours of the latent points for every scale, as graphs or dictionaries as of
            `neighbor_search`; for points of every item, such a sequence for each.

        Returns
        -------
        Tensor, (batch, m, out_channels)

        Raises
        ------
        ValueError
            Sizes that do not fit each other.
        """
        return self._transform(x_coord, self.lifting(pndata), latent_tokens_coord, encoder_nbrs)


class MAGNODecoder(_MultiscaleTransform):
    """From a function on latent points to one on any points [1]_.

    As `MAGNOEncoder`, with the channels of the latent function until the end, and a linear layer to
    `out_channels` there.

    Parameters
    ----------
    in_channels, out_channels : int
    config : MAGNOConfig
        Configuration, or any object with its fields, such as GAOT's.

    References
    ----------
    .. [1] Wen et al., Geometry Aware Operator Transformer as an Efficient and Accurate Neural
       Surrogate for PDEs on Arbitrary Domains, arXiv:2505.18781, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import MAGNOConfig, MAGNODecoder
    >>> decoder = MAGNODecoder(32, 1, MAGNOConfig(radius=0.2))
    >>> latent, x = torch.rand(64, 2), torch.rand(200, 2)
    >>> decoder(latent, torch.rand(8, 64, 32), x).shape
    torch.Size([8, 200, 1])
    """

    def __init__(self, in_channels: int, out_channels: int, config: Any) -> None:
        super().__init__(in_channels, in_channels, config)
        self.projection = _Pointwise(in_channels, out_channels)
        self._add_geometry(in_channels)

    def forward(
        self,
        latent_tokens_coord: Tensor,
        rndata: Tensor,
        query_coord: Tensor,
        decoder_nbrs: Scales | None = None,
    ) -> Tensor:
        """Decode functions.

        Parameters
        ----------
        latent_tokens_coord : Tensor, (m, coord_dim)
        rndata : Tensor, (batch, m, in_channels)
        query_coord : Tensor, (n, coord_dim) or (batch, n, coord_dim)
            Points at which values are wanted, the same for all items, or of every item. Weights of
            the scales are made of the first item's.
        decoder_nbrs : sequence, optional
            Neighbours of these points, as `MAGNOEncoder.forward` takes them.

        Returns
        -------
        Tensor, (batch, n, out_channels)
        """
        out = self._transform(latent_tokens_coord, rndata, query_coord, decoder_nbrs)
        return self.projection(out)


class MAGNO(nn.Module):
    """`MAGNOEncoder` and `MAGNODecoder` around a network on the latent points.

    Parameters
    ----------
    in_channels, out_channels : int
    config : MAGNOConfig
        Configuration, or any object with its fields; ``lifting_channels`` are those of the latent
        function.
    processor : Module, optional
        From (batch, m, channels) to the same shape: a transformer, a network on a grid; left out,
        the latent function is decoded as it is.

    Notes
    -----
    Parameters have the names of GAOT's model: its ``encoder.`` and ``decoder.`` load as they are
    (``load_state_dict(..., strict=False)`` with another `processor`).

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import MAGNO, MAGNOConfig
    >>> model = MAGNO(3, 1, MAGNOConfig(radius=0.3), processor=torch.nn.Linear(32, 32))
    >>> x, latent = torch.rand(200, 2), torch.rand(64, 2)
    >>> model(latent, x, torch.rand(8, 200, 3)).shape
    torch.Size([8, 200, 1])
    """

    def __init__(
        self, in_channels: int, out_channels: int, config: Any, processor: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.encoder = MAGNOEncoder(in_channels, config.lifting_channels, config)
        self.processor = nn.Identity() if processor is None else processor
        self.decoder = MAGNODecoder(config.lifting_channels, out_channels, config)

    def forward(
        self,
        latent_tokens_coord: Tensor,
        xcoord: Tensor,
        pndata: Tensor,
        query_coord: Tensor | None = None,
        encoder_nbrs: Scales | None = None,
        decoder_nbrs: Scales | None = None,
    ) -> Tensor:
        """Apply encoder, processor and decoder.

        Parameters
        ----------
        latent_tokens_coord : Tensor, (m, coord_dim)
        xcoord, pndata, encoder_nbrs
            As for `MAGNOEncoder.forward`.
        query_coord : Tensor, optional
            Points at which values are wanted; `xcoord` when left out.
        decoder_nbrs : sequence, optional
            As for `MAGNODecoder.forward`.

        Returns
        -------
        Tensor, (batch, n_queries, out_channels)
        """
        latent = self.encoder(xcoord, pndata, latent_tokens_coord, encoder_nbrs)
        queries = xcoord if query_coord is None else query_coord
        return self.decoder(latent_tokens_coord, self.processor(latent), queries, decoder_nbrs)
