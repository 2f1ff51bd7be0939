# SPDX-License-Identifier: MIT
"""Keys and values in pages: rows of the cache by token."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd.compat.ascend.arguments import Arguments

__all__ = ["rows_of_tokens"]


def rows_of_tokens(
    given: Arguments, block_table: Any, lengths: NDArray[np.int64], n_pages: int, page: int
) -> NDArray[np.int64]:
    """Rows of the tokens of all sequences in a cache of (n_pages * page) rows.

    Parameters
    ----------
    given : Arguments
        Arguments of the call, for its messages.
    block_table : array of integers, (n_sequences, n)
        Pages of every sequence, in the order of its tokens.
    lengths : array, (n_sequences,)
        Tokens of every sequence.
    n_pages, page : int
        Number of pages, and of tokens in a page.
    """
    given.sizes["B"] = len(lengths)
    table = given.integers("block_table", block_table, "B n")
    sequences = np.repeat(np.arange(len(lengths)), lengths)
    tokens = np.arange(len(sequences)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    if tokens.size and tokens.max() >= table.shape[1] * page:
        given.refuse(f"block_table has {table.shape[1]} pages, too few for {lengths.max()} tokens")
    pages = table[sequences, tokens // page]
    if pages.size and (pages.min() < 0 or pages.max() >= n_pages):
        given.refuse(f"block_table names a page that is not one of {n_pages}")
    return pages * page + tokens % page
