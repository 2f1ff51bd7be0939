# SPDX-License-Identifier: MIT
"""Selected attention with the arguments of torch_npu, in training and in inference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnograd.compat.ascend.arguments import Arguments
from gnograd.compat.ascend.pages import rows_of_tokens
from gnograd.compat.ascend.selected import nsa_selected_attention, nsa_selected_attention_grad
from gnograd.faces.operator import Array
from gnograd.notation.static import number

__all__ = [
    "npu_nsa_select_attention",
    "npu_nsa_select_attention_grad",
    "npu_nsa_select_attention_infer",
]

CAUSAL = 2
"""The ``sparse_mode`` of torch_npu's operators."""


def npu_nsa_select_attention(
    query: Array,
    key: Array,
    value: Array,
    topk_indices: Array,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    *,
    atten_mask: Array | None = None,
    actual_seq_qlen: Sequence[int],
    actual_seq_kvlen: Sequence[int],
) -> tuple[Array, Array, Array]:
    """Causal attention of every query to its selected blocks: `nsa_selected_attention`.

    Parameters
    ----------
    atten_mask : array, optional
        Not read, since torch_npu does not support it: the causal mask is computed from positions.

    All other parameters are those of `nsa_selected_attention`.

    Returns
    -------
    attention_out, softmax_max, softmax_sum : array
        Results; the first is differentiable if it is a tensor.
    """
    return nsa_selected_attention(
        query, key, value, topk_indices, scale_value, head_num, select_block_size,
        select_block_count, actual_seq_qlen=actual_seq_qlen, actual_seq_kvlen=actual_seq_kvlen,
        sparse_mode=CAUSAL,
    )  # fmt: skip


def npu_nsa_select_attention_grad(
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    attention_out: Array,
    softmax_max: Array,
    softmax_sum: Array,
    topk_indices: Array,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    *,
    atten_mask: Array | None = None,
    actual_seq_qlen: Sequence[int],
    actual_seq_kvlen: Sequence[int],
) -> tuple[Array, Array, Array]:
    """Gradients of ``sum(attention_out * grad)``: `nsa_selected_attention_grad`.

    Parameters
    ----------
    grad : array, (T_q, N_q, D_v)
    atten_mask : array, optional
        As for `npu_nsa_select_attention`.

    All other parameters are those of `npu_nsa_select_attention`, and its results.

    Returns
    -------
    query_grad, key_grad, value_grad : array
    """
    return nsa_selected_attention_grad(
        query, key, value, attention_out, grad, softmax_max, softmax_sum, topk_indices, scale_value,
        head_num, select_block_size, select_block_count, actual_seq_qlen=actual_seq_qlen,
        actual_seq_kvlen=actual_seq_kvlen, sparse_mode=CAUSAL,
    )  # fmt: skip


def npu_nsa_select_attention_infer(
    query: Array,
    key: Array,
    value: Array,
    topk_indices: Array,
    scale_value: float,
    head_num: int,
    key_value_head_num: int,
    select_block_size: int,
    select_block_count: int,
    page_block_size: int,
    *,
    layout: str = "BSND",
    atten_mask: None = None,
    block_table: Array,
    actual_seq_qlen: None = None,
    actual_seq_kvlen: Sequence[int],
) -> Array:
    """Attention of the last query of every sequence to its selected blocks in pages.

    Parameters
    ----------
    query : array, (B, 1, N_q, D_k), (B, 1, N_q * D_k) or (B, N_q, D_k)
        Queries in the layouts BSND, BSH and TND.
    key, value : array, (n_pages, page_block_size, N_kv, D), or with N_kv * D as the last axis
    topk_indices : array of int32, (B, N_kv, select_block_count)
        Blocks of every sequence; -1 is an empty place.
    scale_value : float
        Factor of the logits.
    head_num, key_value_head_num : int
        N_q and N_kv.
    select_block_size, select_block_count : int
        Tokens in a block, a multiple of 16 up to 256, and blocks of a sequence.
    page_block_size : int
        Tokens in a page.
    layout : {"BSND", "BSH", "TND"}
    atten_mask, actual_seq_qlen : None
        Not supported.
    block_table : array of int32, (B, n)
        Pages of every sequence.
    actual_seq_kvlen : sequence of int
        Length of every sequence, not cumulative.

    Returns
    -------
    array
        Attention in the layout of `query`, with the features of `value`.
    """
    given = Arguments("npu_nsa_select_attention_infer", query)
    library = given.library
    if atten_mask is not None or actual_seq_qlen is not None:
        given.refuse("atten_mask and actual_seq_qlen are not supported")
    scale = number(f"{given.name}: scale_value", scale_value)
    q, k, v = paged_inputs(
        given, query, key, value, layout, head_num, key_value_head_num, page_block_size
    )
    lengths = given.lengths("actual_seq_kvlen", actual_seq_kvlen)
    batch = q.shape[0]
    if len(lengths) != batch:
        given.refuse(f"actual_seq_kvlen has {len(lengths)} lengths, needs {batch}")
    size = given.number("select_block_size", select_block_size, multiple_of=16)
    given.sizes["select_block_count"] = given.number("select_block_count", select_block_count)
    blocks = given.integers("topk_indices", topk_indices, "B N_kv select_block_count")
    if (blocks >= -(-lengths[:, None, None] // size)).any() or (blocks < -1).any():
        given.refuse("topk_indices names a block that its sequence does not have")
    page = given.sizes["page_block_size"]
    rows = rows_of_tokens(given, block_table, lengths, k.shape[0] // page, page)
    k, v = (x[library.place(rows, x)] for x in (k, v))
    out = library.apply(
        "selected_attention",
        [q, k, v],
        block_index=library.place(blocks.astype(np.int32), q),
        block_size=size,
        scale=scale,
        cu_q=library.place(np.arange(batch + 1), q),
        cu_k=library.place(np.concatenate([[0], np.cumsum(lengths)]), q),
        duplicates="count",
    )
    return as_laid_out(out, layout)


def paged_inputs(
    given: Arguments,
    query: Array,
    key: Array,
    value: Array,
    layout: str,
    head_num: int,
    key_value_head_num: int,
    page_block_size: int,
) -> tuple[Array, Array, Array]:
    """Queries (B, N_q, D_k), and keys and values of all pages, (tokens, N_kv, D)."""
    sizes = given.sizes
    sizes["N_q"], sizes["N_kv"], sizes["page_block_size"] = (
        given.number(label, n)
        for label, n in (
            ("head_num", head_num),
            ("key_value_head_num", key_value_head_num),
            ("page_block_size", page_block_size),
        )
    )
    specs = {"BSND": "B 1 N_q D_k", "BSH": "B 1 N_q*D_k", "TND": "B N_q D_k"}
    if layout not in specs:
        given.refuse(f"layout is {layout!r}, needs one of {', '.join(specs)}")
    q = given.array("query", query, specs[layout])
    q = q.reshape(q.shape[0], sizes["N_q"], -1)
    sizes["D_k"] = q.shape[2]
    cache = []
    for label, array, features in ("key", key, "D_k"), ("value", value, "D_v"):
        flat = getattr(array, "ndim", 0) == 3
        columns = f"N_kv*{features}" if flat else f"N_kv {features}"
        x = given.array(label, array, f"n_pages page_block_size {columns}")
        cache.append(x.reshape(x.shape[0] * x.shape[1], sizes["N_kv"], -1))
    if sizes["N_q"] % sizes["N_kv"]:
        given.refuse("head_num must be a multiple of key_value_head_num")
    return q, cache[0], cache[1]


def as_laid_out(out: Array, layout: str) -> Array:
    """A result (B, N, D) in the layout of the queries."""
    batch, n, features = out.shape
    shapes = {"BSND": (batch, 1, n, features), "BSH": (batch, 1, n * features)}
    return out.reshape(shapes.get(layout, (batch, n, features)))
