# SPDX-License-Identifier: MIT
"""``pylibcugraphops.torch.autograd``: operators on tensors, with the interface up to 23.02.

They take the graphs of `make_fg_csr` and related functions, or those of
`gnograd.compat.pylibcugraphops.pytorch`.
"""

from __future__ import annotations

from torch import Tensor

from gnograd.compat.pylibcugraphops.pytorch import operators
from gnograd.compat.pylibcugraphops.pytorch.operators import (
    AnyCsc,
    Features,
    agg_concat_n2n,
    agg_hg_basis_n2n_post,
)

__all__ = ["agg_concat_n2n", "agg_hg_basis_n2n_post", "mha_gat_n2n"]


def mha_gat_n2n(
    feat: Features,
    attn_weights: Tensor,
    graph: AnyCsc,
    num_heads: int = 1,
    activation: str = "LeakyReLU",
    negative_slope: float = 0.2,
    add_own_node: bool = False,
    concat_heads: bool = True,
    edge_feat: Tensor | None = None,
) -> Tensor:
    """Graph attention, as `gnograd.compat.pylibcugraphops.pytorch.operators.mha_gat_n2n`.

    Parameters
    ----------
    add_own_node : bool
        Must be false: add self-loops to the graph instead.
    """
    if add_own_node:
        raise ValueError("mha_gat_n2n: add_own_node is True, needs False and a graph of self-loops")
    return operators.mha_gat_n2n(
        feat, attn_weights, graph, num_heads, activation, negative_slope, concat_heads, edge_feat
    )
