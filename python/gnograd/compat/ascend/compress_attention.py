# SPDX-License-Identifier: MIT
"""Attention to compressed tokens, and selection of blocks, with the arguments of torch_npu.

The output is that of gnograd's attention. Ascend's selection differs from that of
`gnograd.select_blocks`: the score of a block counts compressed tokens one later than those that
overlap it, and a query that sees nothing attends to hidden tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gnograd
from gnograd.compat.ascend.arguments import Arguments
from gnograd.compat.ascend.library import Library
from gnograd.compat.ascend.pages import rows_of_tokens
from gnograd.compat.ascend.select_attention import as_laid_out, paged_inputs
from gnograd.faces.operator import Array
from gnograd.notation.static import number

__all__ = ["npu_nsa_compress_attention", "npu_nsa_compress_attention_infer"]

HIDDEN = 40000.0
"""Number that a mask subtracts from logits in Ascend's operators."""
FORCED = 23333.0
"""The score of a block that a mask selects."""
TILE = 1 << 22
"""Largest number of logits that are computed together."""


def npu_nsa_compress_attention(
    query: Array,
    key: Array,
    value: Array,
    scale_value: float,
    head_num: int,
    compress_block_size: int,
    compress_stride: int,
    select_block_size: int,
    select_block_count: int,
    *,
    topk_mask: Array | None = None,
    atten_mask: Array | None = None,
    actual_seq_qlen: Sequence[int],
    actual_cmp_seq_kvlen: Sequence[int],
    actual_sel_seq_kvlen: Sequence[int],
) -> tuple[Array, Array, Array, Array]:
    """Attention of every query to the compressed tokens, and the blocks that it selects.

    Parameters
    ----------
    query : array, (T_q, N_q, D_k)
        Queries of all sequences.
    key, value : array, (T_cmp, N_kv, D_k), (T_cmp, N_kv, D_v)
        Compressed keys and values, D_v <= D_k; N_q is a multiple of N_kv.
    scale_value : float
        Factor of the logits.
    head_num : int
        N_q.
    compress_block_size, compress_stride, select_block_size : int
        Tokens behind a compressed one, from one to the next, and in a block that is selected:
        multiples of 16; the stride divides the other two.
    select_block_count : int
        Blocks of a query, at most those that its sequence has.
    topk_mask : array, (S_q, S_sel), optional
        Nonzero where a block is always selected; a sequence uses its first rows and columns.
    atten_mask : array, (S_q, S_cmp), optional
        Nonzero where a compressed token is hidden from a query. A query from which all are hidden
        sees all.
    actual_seq_qlen, actual_cmp_seq_kvlen, actual_sel_seq_kvlen : sequence of int
        Cumulative numbers of queries, of compressed tokens and of blocks.

    Returns
    -------
    attention_out : array, (T_q, N_q, D_v)
        Attention, differentiable if it is a tensor.
    topk_indices : array of int32, (T_q, N_kv, select_block_count)
        Blocks of the query's sequence, those with the highest score first.
    softmax_max, softmax_sum : array, (T_q, N_q, 8)
        Statistics of the softmax, as in `nsa_selected_attention`.

    Raises
    ------
    NullPointerError, InvalidParameterError
        Codes 161001 and 161002.

    Notes
    -----
    With ``m = select_block_size / compress_stride`` and ``n = compress_block_size /
    compress_stride`` the score of block b is the sum over i < m and j < n of the weight of
    compressed token ``m (b + 1) - i - j``, over the query heads of a key head.
    """
    given = Arguments("npu_nsa_compress_attention", query)
    scale = number(f"{given.name}: scale_value", scale_value)
    given.sizes["N_q"] = given.number("head_num", head_num)
    q = given.array("query", query, "T_q N_q D_k")
    k = given.array("key", key, "T_cmp N_kv D_k")
    v = given.array("value", value, "T_cmp N_kv D_v")
    if given.sizes["N_q"] % given.sizes["N_kv"]:
        given.refuse("head_num must be a multiple of the number of heads of key")
    if v.shape[2] > k.shape[2]:
        given.refuse("value must not have more features than key")
    blocks = _blocks(
        given, compress_block_size, compress_stride, select_block_size, select_block_count
    )
    cu_q = given.borders("actual_seq_qlen", actual_seq_qlen, q.shape[0])
    cu_k = given.borders("actual_cmp_seq_kvlen", actual_cmp_seq_kvlen, k.shape[0])
    cu_s = given.borders("actual_sel_seq_kvlen", actual_sel_seq_kvlen)
    if not len(cu_q) == len(cu_k) == len(cu_s):
        given.refuse("actual_seq_qlen, actual_cmp_seq_kvlen and actual_sel_seq_kvlen have "
                     "different lengths")  # fmt: skip
    if np.diff(cu_s).min() < blocks.wanted:
        given.refuse("select_block_count is more than the blocks of a sequence")
    longest = [int(np.diff(cu).max()) for cu in (cu_q, cu_k, cu_s)]
    hidden = given.mask("atten_mask", atten_mask, longest[0], longest[1])
    forced = given.mask("topk_mask", topk_mask, longest[0], longest[2])
    found = []
    for s in range(len(cu_q) - 1):
        n_q, n_k, n_s = (int(cu[s + 1] - cu[s]) for cu in (cu_q, cu_k, cu_s))
        found.append(
            _selection(
                given.library,
                q[cu_q[s] : cu_q[s + 1]],
                k[cu_k[s] : cu_k[s + 1]],
                scale,
                blocks,
                n_s,
                None if hidden is None else hidden[:n_q, :n_k],
                None if forced is None else forced[:n_q, :n_s],
            )
        )
    topk, largest, total = (given.library.cat(parts, 0) for parts in zip(*found, strict=True))
    out = _attention(given.library, q, k, v, scale, cu_q, cu_k, hidden)
    return out, topk, largest, total


def npu_nsa_compress_attention_infer(
    query: Array,
    key: Array,
    value: Array,
    scale_value: float,
    head_num: int,
    key_value_head_num: int,
    select_block_size: int,
    select_block_count: int,
    page_block_size: int,
    compress_block_size: int,
    compress_stride: int,
    *,
    layout: str = "TND",
    atten_mask: None = None,
    block_table: Array,
    topk_mask: None = None,
    actual_seq_qlen: None = None,
    actual_cmp_seq_kvlen: Sequence[int],
    actual_sel_seq_kvlen: None = None,
) -> tuple[Array, Array]:
    """`npu_nsa_compress_attention` of the last query of every sequence, with tokens in pages.

    Parameters
    ----------
    query : array, (B, N_q, D_k) or (B, 1, N_q, D_k)
        Queries in the layouts TND and BSND.
    key, value : array, (n_pages, page_block_size, N_kv * D), or with N_kv, D as the last axes
    head_num, key_value_head_num : int
        N_q and N_kv.
    page_block_size : int
        Compressed tokens in a page.
    layout : {"TND", "BSND"}
    atten_mask, topk_mask, actual_seq_qlen, actual_sel_seq_kvlen : None
        Not supported. The first block and the last two are always selected.
    block_table : array of int32, (B, n)
        Pages of every sequence.
    actual_cmp_seq_kvlen : sequence of int
        Compressed tokens of every sequence, not cumulative.

    All other parameters are those of `npu_nsa_compress_attention`.

    Returns
    -------
    attention_out : array, (B, N_q, D_v) or (B, 1, N_q, D_v)
    topk_indices : array of int32, (B, N_kv, select_block_count) or (B, 1, N_kv, select_block_count)
        The blocks that are always selected come first.
    """
    given = Arguments("npu_nsa_compress_attention_infer", query)
    library = given.library
    absent = atten_mask, topk_mask, actual_seq_qlen, actual_sel_seq_kvlen
    if any(x is not None for x in absent):
        given.refuse("atten_mask, topk_mask, actual_seq_qlen and actual_sel_seq_kvlen are not "
                     "supported")  # fmt: skip
    if layout not in ("TND", "BSND"):
        given.refuse(f"layout is {layout!r}, needs one of TND, BSND")
    scale = number(f"{given.name}: scale_value", scale_value)
    blocks = _blocks(
        given, compress_block_size, compress_stride, select_block_size, select_block_count
    )
    q, k, v = paged_inputs(
        given, query, key, value, layout, head_num, key_value_head_num, page_block_size
    )
    lengths = given.lengths("actual_cmp_seq_kvlen", actual_cmp_seq_kvlen)
    batch = q.shape[0]
    if len(lengths) != batch:
        given.refuse(f"actual_cmp_seq_kvlen has {len(lengths)} lengths, needs {batch}")
    page = given.sizes["page_block_size"]
    rows = rows_of_tokens(given, block_table, lengths, k.shape[0] // page, page)
    k, v = (x[library.place(rows, x)] for x in (k, v))
    cu_k = np.concatenate([[0], np.cumsum(lengths)])
    found = []
    for s in range(batch):
        n_tokens = (int(lengths[s]) - 1) * blocks.stride + blocks.compressed
        n_blocks = -(-n_tokens // blocks.selected) if lengths[s] else 0
        if n_blocks < blocks.wanted:
            given.refuse("select_block_count is more than the blocks of a sequence")
        always = np.zeros((1, n_blocks), bool)
        always[0, [0, -2, -1] if n_blocks > 1 else [0]] = True
        found.append(
            _selection(
                library, q[s : s + 1], k[cu_k[s] : cu_k[s + 1]], scale, blocks, n_blocks, None,
                always,
            )[0]
        )  # fmt: skip
    out = _attention(library, q, k, v, scale, np.arange(batch + 1), cu_k, None)
    return as_laid_out(out, layout), as_laid_out(library.cat(found, 0), layout)


class _Blocks(NamedTuple):
    """Sizes in tokens, and number of blocks that a query selects."""

    compressed: int
    stride: int
    selected: int
    wanted: int


def _blocks(given: Arguments, compressed: int, stride: int, selected: int, count: int) -> _Blocks:
    sizes = _Blocks(
        given.number("compress_block_size", compressed, multiple_of=16),
        given.number("compress_stride", stride, multiple_of=16),
        given.number("select_block_size", selected, multiple_of=16),
        given.number("select_block_count", count),
    )
    if sizes.compressed % sizes.stride or sizes.selected % sizes.stride:
        given.refuse("compress_stride must divide compress_block_size and select_block_size")
    if sizes.selected < sizes.compressed:
        given.refuse("select_block_size must not be less than compress_block_size")
    return sizes


def _attention(
    library: Library,
    q: Array,
    k: Array,
    v: Array,
    scale: float,
    cu_q: NDArray[np.int64],
    cu_k: NDArray[np.int64],
    hidden: NDArray[np.bool_] | None,
) -> Array:
    """Attention of the queries of every sequence to its compressed tokens."""
    if hidden is None:
        borders = {"cu_q": library.place(cu_q, q), "cu_k": library.place(cu_k, q)}
        out, _ = library.apply(
            "compressed_attention", [q, k, v], block=1, stride=1, scale=scale, **borders
        )
        return out
    # a mask is a graph from tokens to the queries that see them
    sources, destinations = [], []
    for s in range(len(cu_q) - 1):
        seen = _seen(hidden[: cu_q[s + 1] - cu_q[s], : cu_k[s + 1] - cu_k[s]])
        rows, columns = np.nonzero(seen)
        sources.append(columns + cu_k[s])
        destinations.append(rows + cu_q[s])
    graph = gnograd.Graph.from_edges(
        np.concatenate(sources), np.concatenate(destinations), k.shape[0], q.shape[0]
    )
    n_q, width = q.shape[1:]
    heads = library.place(np.arange(n_q) // (n_q // k.shape[1]), q)
    k, v = k[:, heads], v[:, heads]
    features = v.shape[2]
    if features < width:  # attention on graphs has values as wide as keys
        v = library.cat([v, 0 * k[:, :, features:]], 2)
    flat = [x.reshape(x.shape[0], n_q * width) for x in (scale * q, k, v)]
    out = library.apply("mha_simple", flat, graph=graph, num_heads=n_q, norm_by_dim=False)
    return out.reshape(q.shape)[:, :, :features]


def _seen(hidden: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the tokens that every query sees; one from which all are hidden sees all."""
    return ~hidden | hidden.all(1, keepdims=True)


def _selection(
    library: Library,
    q: Array,
    k: Array,
    scale: float,
    blocks: _Blocks,
    n_blocks: int,
    hidden: NDArray[np.bool_] | None,
    forced: NDArray[np.bool_] | None,
) -> tuple[Array, Array, Array]:
    """Selected blocks of the queries of one sequence; maxima and sums of their softmax."""
    xp = library.xp
    q, k = (x.detach() if hasattr(x, "detach") else x for x in (q, k))
    wide = "float64" if library.dtype(q) == "float64" else "float32"
    q, k = library.cast(q, wide), library.cast(k, wide)
    n_rows, n_q, _ = q.shape
    n_k = k.shape[1]
    step = max(TILE // max(n_q * k.shape[0], 1), 1)
    parts = []
    for first in range(0, n_rows, step):
        rows = slice(first, min(first + step, n_rows))
        tile = q[rows].reshape(rows.stop - first, n_k, n_q // n_k, -1)
        logits = scale * xp.einsum("tngd,snd->tngs", tile, k)
        shift: Any = 0.0
        if hidden is not None:
            seen = library.place(_seen(hidden[rows]), q)
            blind = library.place(np.asarray(hidden[rows].all(1)), q)
            logits = xp.where(seen[:, None, None], logits, -np.inf)
            shift = HIDDEN * library.cast(blind, wide)[:, None, None]
        if k.shape[0]:
            largest = xp.amax(logits, -1)
            weights = xp.exp(logits - largest[..., None])
            total = weights.sum(-1)
            weights = weights / total[..., None]
        else:  # no block of tokens is full yet
            weights, total = logits, logits.sum(-1)
            largest = total - np.inf
        scores = _scores(library, weights.sum(2), blocks, n_blocks)
        if forced is not None:
            always = library.place(forced[rows], q)
            scores = xp.where(always[:, None], FORCED, scores)
        topk = library.cast(library.descending(scores)[..., : blocks.wanted], "int32")
        parts.append((topk, _eightfold(library, largest - shift), _eightfold(library, total)))
    if not parts:
        topk = library.place(np.zeros((0, n_k, blocks.wanted), np.int32), q)
        softmax = library.place(np.zeros((0, n_q, 8), wide), q)
        return topk, softmax, softmax
    topk, largest, total = (library.cat(some, 0) for some in zip(*parts, strict=True))
    return topk, largest, total


def _scores(library: Library, weights: Array, blocks: _Blocks, n_blocks: int) -> Array:
    """Scores of blocks, from the weights of compressed tokens."""
    m, n = blocks.selected // blocks.stride, blocks.compressed // blocks.stride
    # zeros before and after the tokens
    before, tokens = n - 1, weights.shape[-1]
    behind = max(m * n_blocks + 1 - tokens, 0)
    head, tail = (
        library.place(np.zeros((*weights.shape[:-1], width), library.dtype(weights)), weights)
        for width in (before, behind)
    )
    padded = library.cat([head, weights, tail], -1)
    scores: Array = 0
    for j in range(m + n - 1):
        times = min(j + 1, m, n, m + n - 1 - j)
        start = before + m - j
        scores = scores + times * padded[..., start : start + m * (n_blocks - 1) + 1 : m]
    return scores


def _eightfold(library: Library, values: Array) -> Array:
    """Numbers of (queries, key heads, their query heads) as (queries, heads, 8)."""
    return library.cat([values.reshape(values.shape[0], -1, 1)] * 8, -1)
