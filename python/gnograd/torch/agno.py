# SPDX-License-Identifier: MIT
"""GAOT's attentional graph neural operator, on the operators of gnograd."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, normalize

from gnograd.torch import functional
from gnograd.torch.arrays import full_precision
from gnograd.torch.graph import Graph
from gnograd.torch.integral_transform import Activation, IntegralTransform, Neighbors

__all__ = ["AGNO"]

ATTENTION_TYPES = ("cosine", "dot_product")

_ATTENTION_CHANNELS = 64


class AGNO(IntegralTransform):
    """Integral of a function against a learned kernel, with attention over neighbours [1]_.

    With neighbours ``j`` of the query ``x_i`` and ``k`` the kernel network the value at ``x_i`` is
    the sum of ``alpha k f_j``, with ``k`` and ``f`` as `IntegralTransform` has them by
    `transform_type`. ``alpha`` is the softmax over the neighbours of scores of the first
    `coord_dim` coordinates: their cosine, or ``query(x_i) . key(y_j) / 8`` with linear layers to 64
    channels. Without attention it is the mean of ``k f_j``.

    Parameters
    ----------
    channel_mlp, channel_mlp_layers, channel_mlp_non_linearity, transform_type
        As for `IntegralTransform`.
    use_attn : bool, optional
    attention_type : {"cosine", "dot_product"}
    coord_dim : int, optional
        Number of coordinates that scores depend on; needed with attention.
    use_torch_scatter : bool
        Without effect.

    See Also
    --------
    MAGNOEncoder, MAGNODecoder : with several radii, and embeddings of the geometry.
    gnograd.edge_softmax : weights from scores.

    Notes
    -----
    Arguments and parameters are those of GAOT's ``AGNO``, so that a ``state_dict`` loads as it is.
    Weights of the points multiply those of the attention, which are not normalised again.

    The scores are bilinear in the coordinates, and what all neighbours of a query have in common
    leaves the softmax as it is: those of ``dot_product`` are made of as many numbers an edge as
    there are coordinates, where 64 would be more. Of an edge nothing is kept but its weight, and
    what `IntegralTransform` keeps.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import AGNO, neighbor_search
    >>> y, x = torch.rand(200, 2), torch.rand(50, 2)
    >>> layer = AGNO(channel_mlp_layers=[4, 64, 64, 64, 16], use_attn=True, coord_dim=2)
    >>> layer(y, neighbor_search(y, x, radius=0.2), x, f_y=torch.rand(8, 200, 16)).shape
    torch.Size([8, 50, 16])

    References
    ----------
    .. [1] Wen et al., Geometry Aware Operator Transformer as an Efficient and Accurate Neural
       Surrogate for PDEs on Arbitrary Domains, arXiv:2505.18781, 2025.
    """

    _theirs = "GAOT"

    def __init__(
        self,
        channel_mlp: nn.Module | None = None,
        channel_mlp_layers: Sequence[int] | None = None,
        channel_mlp_non_linearity: Activation = gelu,
        transform_type: str = "linear",
        use_attn: bool | None = None,
        attention_type: str = "cosine",
        coord_dim: int | None = None,
        use_torch_scatter: bool = True,
    ) -> None:
        super().__init__(
            channel_mlp,
            channel_mlp_layers,
            channel_mlp_non_linearity,
            transform_type,
            reduction="sum" if use_attn else "mean",
        )
        self.use_attn, self.attention_type, self.coord_dim = use_attn, attention_type, coord_dim
        if not use_attn:
            return
        if coord_dim is None:
            raise ValueError("AGNO: needs coord_dim with use_attn")
        if attention_type not in ATTENTION_TYPES:
            raise ValueError(
                f"AGNO: attention_type is {attention_type!r}, needs one of 'cosine', 'dot_product'"
            )
        if attention_type == "dot_product":
            self.query_proj = nn.Linear(coord_dim, _ATTENTION_CHANNELS)
            self.key_proj = nn.Linear(coord_dim, _ATTENTION_CHANNELS)

    def _edge_weight(
        self, neighbors: Neighbors, weights: Tensor | None, graph: Graph, y: Tensor, x: Tensor
    ) -> Tensor | None:
        """Product of the weights of attention, edges and points."""
        weight = super()._edge_weight(neighbors, weights, graph, y, x)
        d = self.coord_dim
        if not self.use_attn or d is None:
            return weight
        if min(y.shape[1], x.shape[1]) < d:
            raise ValueError(
                f"AGNO: y and x have {y.shape[1]} and {x.shape[1]} coordinates, need coord_dim={d}"
            )
        with full_precision(x.device):
            query, key = self._score_factors(x[:, :d], y[:, :d])
        index = graph.arrays.indices.long()
        score = (query.index_select(0, graph.dst) * key.index_select(0, index)).sum(1, keepdim=True)
        alpha = functional.edge_softmax(score, graph=graph).squeeze(1)
        return alpha if weight is None else alpha * weight

    def _score_factors(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Factors of queries and keys whose products are scores, up to a constant a query."""
        if self.attention_type == "cosine":
            return normalize(x, dim=1), normalize(y, dim=1)
        scale = _ATTENTION_CHANNELS**-0.5
        d = x.shape[1]
        if d >= _ATTENTION_CHANNELS:
            return self.query_proj(x) * scale, self.key_proj(y)
        # query(x) . key(y) is [x, 1] A [y, 1], and the last column of A does not depend on the key
        of_query, of_key = (
            torch.cat([layer.weight, layer.bias[:, None]], dim=1)
            for layer in (self.query_proj, self.key_proj)
        )
        form = (of_query.t() @ of_key * scale)[:, :d]
        return torch.addmm(form[d], x, form[:d]), y
