# SPDX-License-Identifier: MIT
"""Compression of keys and values, `gnograd.compress`, with the arguments of torch_npu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnograd.compat.ascend.arguments import Arguments
from gnograd.compat.ascend.pages import rows_of_tokens
from gnograd.faces.operator import Array
from gnograd.operators.nsa import compressed_offsets

__all__ = ["npu_nsa_compress", "npu_nsa_compress_grad", "npu_nsa_compress_infer"]


def npu_nsa_compress(
    input: Array,
    weight: Array,
    compress_block_size: int,
    compress_stride: int,
    *,
    actual_seq_len: Sequence[int],
) -> Array:
    """Weighted sums of overlapping blocks of tokens.

    Parameters
    ----------
    input : array, (T, N, D)
        Tokens of all sequences.
    weight : array, (compress_block_size, N)
        Weights in the dtype of `input`.
    compress_block_size, compress_stride : int
        Tokens of a block, and from one block to the next: multiples of 16, the first not smaller.
    actual_seq_len : sequence of int
        Cumulative lengths of the sequences; the last is T.

    Returns
    -------
    array, (T_cmp, N, D)
        Compressed tokens of the full blocks of every sequence.

    Raises
    ------
    NullPointerError, InvalidParameterError
        Codes 161001 and 161002.

    Examples
    --------
    >>> import numpy as np
    >>> from gnograd.compat import ascend
    >>> x, w = np.ones((48, 1, 2), np.float32), np.ones((32, 1), np.float32)
    >>> ascend.npu_nsa_compress(x, w, 32, 16, actual_seq_len=[48])[:, 0, 0]
    array([32., 32.], dtype=float32)
    """
    given = Arguments("npu_nsa_compress", input)
    inputs, static = _arguments(
        given, input, weight, compress_block_size, compress_stride, actual_seq_len
    )
    return given.library.apply("compress", inputs, **static)


def npu_nsa_compress_grad(
    grad: Array,
    input: Array,
    weight: Array,
    compress_block_size: int,
    compress_stride: int,
    *,
    actual_seq_len: Sequence[int],
) -> tuple[Array, Array]:
    """Gradients of ``sum(npu_nsa_compress(input, weight, ...) * grad)``.

    Parameters
    ----------
    grad : array, (T_cmp, N, D)
        Cotangent, in the dtype of `input`. All other parameters are those of `npu_nsa_compress`.

    Returns
    -------
    input_grad, weight_grad : array, (T, N, D), (compress_block_size, N)
    """
    given = Arguments("npu_nsa_compress_grad", input)
    inputs, static = _arguments(
        given, input, weight, compress_block_size, compress_stride, actual_seq_len
    )
    given.sizes["T_cmp"] = static["n_compressed"]
    cotangent = given.array("grad", grad, "T_cmp N D")
    input_grad, weight_grad = given.library.gradients("compress", cotangent, inputs, **static)
    return input_grad, weight_grad


def npu_nsa_compress_infer(
    input: Array,
    weight: Array,
    slot_mapping: Array,
    compress_block_size: int,
    compress_stride: int,
    page_block_size: int,
    *,
    block_table: Array | None = None,
    actual_seq_len: Sequence[int],
    cache: Array,
) -> Array:
    """Compress the last block of every sequence that has just filled one, into a cache.

    Parameters
    ----------
    input : array, (n_pages, page_block_size, N, D), or (T, N, D) without `block_table`
        Tokens in pages, or of all sequences in order.
    weight : array, (compress_block_size, N)
    slot_mapping : array of int32, (n_sequences,)
        Row of the cache that the sequence's block goes to.
    compress_block_size, compress_stride : int
        As for `npu_nsa_compress`.
    page_block_size : int
        Tokens in a page; not read without `block_table`.
    block_table : array of int32, (n_sequences, n), optional
        Pages of every sequence.
    actual_seq_len : sequence of int
        Length of every sequence, not cumulative. It has filled a block if it is
        ``compress_block_size + c * compress_stride`` for a c from 0.
    cache : array, (n_slots, N, D)
        Cache that is written to.

    Returns
    -------
    array
        `cache`.
    """
    given = Arguments("npu_nsa_compress_infer", input)
    library = given.library
    lengths = given.lengths("actual_seq_len", actual_seq_len)
    block, stride = _block_and_stride(given, compress_block_size, compress_stride)
    if block_table is None:
        tokens = given.array("input", input, "T N D")
        if lengths.sum() > tokens.shape[0]:
            given.refuse("actual_seq_len gives more tokens than input has")
        rows = np.arange(lengths.sum())
    else:
        page = given.number("page_block_size", page_block_size)
        given.sizes["page_block_size"] = page
        tokens = given.array("input", input, "n_pages page_block_size N D")
        n_pages = tokens.shape[0]
        tokens = tokens.reshape(n_pages * page, *tokens.shape[2:])
        rows = rows_of_tokens(given, block_table, lengths, n_pages, page)
    given.sizes["compress_block_size"] = block
    w = given.array("weight", weight, "compress_block_size N")
    kept = given.array("cache", cache, "n_slots N D")
    given.sizes["n_sequences"] = len(lengths)
    slots = given.integers("slot_mapping", slot_mapping, "n_sequences")
    full = (lengths >= block) & ((lengths - block) % stride == 0)
    if not full.any():
        return cache
    slots = slots[full]
    if slots.min() < 0 or slots.max() >= kept.shape[0]:
        given.refuse(f"slot_mapping names a slot that is not one of {kept.shape[0]}")
    last = np.cumsum(lengths)[full, None] - block + np.arange(block)
    stretches = tokens[library.place(rows[last].ravel(), tokens)]
    # one block a sequence, so that none overlap
    compressed = library.apply("compress", [stretches, w], block=block, stride=block)
    kept[library.place(slots, kept)] = compressed
    return cache


def _arguments(
    given: Arguments, input: Any, weight: Any, block: int, stride: int, ends: Sequence[int]
) -> tuple[list[Array], dict[str, Any]]:
    """Inputs and static arguments of `gnograd.compress`."""
    x = given.array("input", input, "T N D")
    block, stride = _block_and_stride(given, block, stride)
    given.sizes["compress_block_size"] = block
    w = given.array("weight", weight, "compress_block_size N")
    cu = given.borders("actual_seq_len", ends, x.shape[0])
    n_compressed = int(compressed_offsets(cu, block, stride)[-1])
    static = {"block": block, "stride": stride, "n_compressed": n_compressed}
    return [x, w], {**static, "cu": given.library.place(cu, x)}


def _block_and_stride(given: Arguments, block: int, stride: int) -> tuple[int, int]:
    block = given.number("compress_block_size", block, multiple_of=16)
    stride = given.number("compress_stride", stride, multiple_of=16)
    if block < stride:
        given.refuse(f"compress_block_size is {block}, needs compress_stride or more")
    return block, stride
