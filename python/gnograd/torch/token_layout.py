# SPDX-License-Identifier: MIT
"""Positions of the sequences of a batch in the packed tokens of sparse attention.

A batch is packed row by row. The padding of an item becomes a sequence of its own, whose queries
only see its own keys: all sizes are then those of the batch, and the host reads no tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnograd.torch.sparse_branches import borders_of

__all__ = ["Compression", "TokenLayout", "equal_items", "packed_items", "padded_items"]


@dataclass(frozen=True)
class Compression:
    """Tokens in a compressed one, and from one to the next."""

    block: int
    stride: int

    def count(self, n: int) -> int:
        """Number of compressed tokens of n tokens."""
        return (n - self.block) // self.stride + 1 if n >= self.block else 0

    def counts(self, n: Tensor) -> Tensor:
        """Number of compressed tokens of sequences of n tokens."""
        full = torch.div(n - self.block, self.stride, rounding_mode="floor") + 1
        return torch.where(n >= self.block, full, 0)


@dataclass
class TokenLayout:
    """Borders of sequences of queries, keys and compressed tokens; None is one sequence.

    Positions count within sequences, for rotary embeddings.
    """

    q_positions: Tensor
    k_positions: Tensor
    c_positions: Tensor
    """Positions of the last tokens in compressed ones."""
    cu_q: Tensor | None = None
    cu_k: Tensor | None = None
    cu_compress: Tensor | None = None
    """Borders by which keys are compressed."""
    n_compressed: int | None = None
    cu_c: Tensor | None = None
    """Borders of compressed tokens."""
    cu_select: Tensor | None = None
    """Borders of keys by which blocks are selected."""
    c_rows: Tensor | None = None
    """Rows of the compressed tokens by which blocks are selected; None for all, in order."""
    idle: Tensor | None = None
    """Mask of the queries that are padding, whose attention does not count."""


def _within(cu: Tensor, n: int) -> Tensor:
    """Position of each of n items in its sequence."""
    item = torch.arange(n, device=cu.device)
    return item - cu[torch.bucketize(item, cu[1:], right=True)]


def _ends(compression: Compression, positions: Tensor) -> Tensor:
    """Position of the last token in every compressed one."""
    return positions * compression.stride + compression.block - 1


def equal_items(
    batch: int, n_q: int, n_k: int, compression: Compression, device: torch.device
) -> TokenLayout:
    """Layout of items of one length."""

    def positions(n: int) -> Tensor:
        return torch.arange(n, device=device).repeat(batch)

    n_c = compression.count(n_k)
    layout = TokenLayout(positions(n_q), positions(n_k), _ends(compression, positions(n_c)))
    if batch == 1:
        return layout
    item = torch.arange(batch + 1, dtype=torch.int64, device=device)
    layout.cu_q, layout.cu_k, layout.cu_c = item * n_q, item * n_k, item * n_c
    layout.cu_compress = layout.cu_select = layout.cu_k
    layout.n_compressed = batch * n_c
    return layout


def packed_items(
    cu_q: Tensor, cu_k: Tensor, compression: Compression, device: torch.device
) -> TokenLayout:
    """Layout of items of any lengths, with borders on the host."""
    cu_c = borders_of(compression.counts(cu_k.diff()))
    n_q, n_k, n_c = (int(cu[-1]) for cu in (cu_q, cu_k, cu_c))
    cu_q, cu_k, cu_c = (cu.to(device) for cu in (cu_q, cu_k, cu_c))
    return TokenLayout(
        q_positions=_within(cu_q, n_q),
        k_positions=_within(cu_k, n_k),
        c_positions=_ends(compression, _within(cu_c, n_c)),
        cu_q=cu_q,
        cu_k=cu_k,
        cu_compress=cu_k,
        n_compressed=n_c,
        cu_c=cu_c,
        cu_select=cu_k,
    )


def padded_items(
    lengths_q: Tensor, lengths_k: Tensor, n_q: int, n_k: int, shared: int, compression: Compression
) -> TokenLayout:
    """Layout of items with valid tokens at the start and padding at the end.

    Parameters
    ----------
    lengths_q, lengths_k : Tensor of int64, (batch,)
        Number of valid tokens of every item.
    n_q, n_k : int
        Tokens of an item with its padding.
    shared : int
        Queries that share a selection. Padding fills up the last group; it does not count.
    compression : Compression
    """
    batch, device = len(lengths_k), lengths_k.device
    item = torch.arange(batch, device=device)
    n_c = compression.count(n_k)
    counts = compression.counts(lengths_k)
    layout = equal_items(batch, n_q, n_k, compression, device)
    layout.cu_compress, layout.n_compressed = (
        torch.arange(batch + 1, device=device) * n_k,
        batch * n_c,
    )

    def borders(first: Tensor, n: int) -> Tensor:
        """Borders of valid tokens and of padding, item by item, and of an empty last sequence."""
        inner = torch.stack([item * n + first, item * n + n], dim=1).flatten()
        return torch.cat([inner.new_zeros(1), inner, inner[-1:]])

    shared_q = torch.div(lengths_q + shared - 1, shared, rounding_mode="floor") * shared
    layout.cu_q = borders(shared_q.clamp(max=n_q), n_q)
    layout.cu_k = borders(lengths_k, n_k)
    layout.cu_c = borders(counts, n_c)
    # Blocks are selected by contiguous keys, and padding has none. The remaining keys of the batch
    # come last, as a sequence without queries.
    cu_select = borders_of(torch.stack([lengths_k, lengths_k * 0], dim=1).flatten())
    layout.cu_select = torch.cat([cu_select, cu_select.new_full((1,), batch * n_k)])
    first = borders_of(counts)
    room = compression.count(batch * n_k) + batch + 1
    place = torch.arange(room, device=device)
    of = torch.bucketize(place, first[1:], right=True).clamp(max=batch - 1)
    # the row after all compressed tokens is zero
    layout.c_rows = torch.where(place < first[-1], of * n_c + place - first[of], batch * n_c)
    layout.idle = (layout.q_positions.view(batch, n_q) >= lengths_q[:, None]).flatten()
    return layout
