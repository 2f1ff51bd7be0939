# SPDX-License-Identifier: MIT
"""Selected attention with the arguments of aclnnNsaSelectedAttention and its gradient."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from gnograd.compat.ascend.call import KEYS, OUT, QUERIES, SOFTMAX, VALUES, Call
from gnograd.compat.ascend.library import is_tensor
from gnograd.faces.operator import Array

__all__ = ["nsa_selected_attention", "nsa_selected_attention_grad"]


def nsa_selected_attention(
    query: Array,
    key: Array,
    value: Array,
    topk_indices: Array,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    *,
    actual_seq_qlen: Sequence[int],
    actual_seq_kvlen: Sequence[int],
    sparse_mode: int = 0,
    input_layout: str = "TND",
    atten_mask: None = None,
) -> tuple[Array, Array, Array]:
    """Attention of every query to its selected blocks, with the statistics of its softmax.

    Parameters
    ----------
    query : array, (T_q, N_q, D_k)
        Queries of all sequences; N_q is a multiple of N_kv, at most 32 times N_kv and 128.
    key, value : array, (T_kv, N_kv, D_k), (T_kv, N_kv, D_v)
        Keys and values, D_v <= D_k <= 256.
    topk_indices : array of int32, (T_q, N_kv, select_block_count)
        Blocks of the query's sequence; one named twice counts twice. On a GPU a number that the
        sequence does not have is ignored, since the host would have to wait to find it.
    scale_value : float
        Factor of the logits.
    head_num : int
        N_q.
    select_block_size : int
        Keys in a block: 16, 32, ..., 128.
    select_block_count : int
        Blocks of a query, 1 to 128, with less than 8192 keys.
    actual_seq_qlen, actual_seq_kvlen : sequence of int
        Cumulative lengths of the sequences, without the leading 0. Those of keys are multiples of
        `select_block_size` and at least ``select_block_count * select_block_size``.
    sparse_mode : {0, 2}
        No mask, or causal: the query at position s sees the keys up to position s.
    input_layout : {"TND"}
        Order of the axes.
    atten_mask : None
        Not supported; a causal mask is computed.

    Returns
    -------
    attention_out : array, (T_q, N_q, D_v)
        Attention in the dtype of `query`.
    softmax_max, softmax_sum : array, (T_q, N_q, 8)
        Largest logit, and sum of ``exp(logit - largest)``, each 8 times; float32, or float64 for
        float64 inputs.

    Raises
    ------
    NullPointerError
        Code 161001.
    InvalidParameterError
        Code 161002.

    Examples
    --------
    >>> import numpy as np
    >>> from gnograd.compat import ascend
    >>> q = np.ones((2, 2, 4), np.float32)
    >>> k = v = np.ones((32, 1, 4), np.float32)
    >>> out, largest, total = ascend.nsa_selected_attention(
    ...     q, k, v, np.array([[[0]], [[1]]], np.int32), scale_value=0.5, head_num=2,
    ...     select_block_size=16, select_block_count=1, actual_seq_qlen=[2], actual_seq_kvlen=[32])
    >>> float(out[0, 0, 0]), float(largest[0, 0, 0]), float(total[0, 0, 0])
    (1.0, 2.0, 16.0)
    """
    static: dict[str, Any] = {
        "scale_value": scale_value, "head_num": head_num, "select_block_size": select_block_size,
        "select_block_count": select_block_count, "actual_seq_qlen": actual_seq_qlen,
        "actual_seq_kvlen": actual_seq_kvlen, "sparse_mode": sparse_mode,
        "input_layout": input_layout, "atten_mask": atten_mask,
    }  # fmt: skip
    if is_tensor(query):
        from gnograd.compat.ascend.tensors import with_gradients

        given = query, key, value, topk_indices
        out, largest, total = with_gradients(
            functools.partial(_forward, **static), functools.partial(_of_saved, **static), given
        )
        return out, largest, total
    return _forward(query, key, value, topk_indices, **static)


def nsa_selected_attention_grad(
    query: Array,
    key: Array,
    value: Array,
    attention_out: Array,
    attention_out_grad: Array,
    softmax_max: Array,
    softmax_sum: Array,
    topk_indices: Array,
    scale_value: float,
    head_num: int,
    selected_block_size: int,
    selected_block_count: int,
    *,
    actual_seq_qlen: Sequence[int],
    actual_seq_kvlen: Sequence[int],
    atten_mask: None = None,
    input_layout: str = "TND",
    sparse_mode: int = 0,
) -> tuple[Array, Array, Array]:
    """Gradients of ``sum(attention_out * attention_out_grad)``.

    Parameters
    ----------
    query, key, value, topk_indices : array
        Arguments of `nsa_selected_attention`, like all parameters that are not named here.
    attention_out : array, (T_q, N_q, D_v)
        From `nsa_selected_attention`, with `softmax_max` and `softmax_sum`, (T_q, N_q, 8).
    attention_out_grad : array, (T_q, N_q, D_v)
        Cotangent, in the dtype of `query`.
    selected_block_size, selected_block_count : int
        `select_block_size` and `select_block_count` under the names of this operator.

    Returns
    -------
    dq, dk, dv : array
        Gradients in the shapes and the dtype of `query`, `key` and `value`.

    Raises
    ------
    NullPointerError
        Code 161001.
    InvalidParameterError
        Code 161002.
    """
    arrays = (
        query, key, value, attention_out, attention_out_grad, softmax_max, softmax_sum,
        topk_indices,
    )  # fmt: skip
    static: dict[str, Any] = {
        "scale_value": scale_value, "head_num": head_num,
        "selected_block_size": selected_block_size, "selected_block_count": selected_block_count,
        "actual_seq_qlen": actual_seq_qlen, "actual_seq_kvlen": actual_seq_kvlen,
        "atten_mask": atten_mask, "input_layout": input_layout, "sparse_mode": sparse_mode,
    }  # fmt: skip
    if is_tensor(query):
        from gnograd.compat.ascend.tensors import of_tensors

        dq, dk, dv = (x.to(query.dtype) for x in of_tensors(_backward, *arrays, **static))
        return dq, dk, dv
    return _backward(*arrays, **static)


# ---- the functions of arrays ----

Ends = Sequence[int]


def _forward(
    query: Array,
    key: Array,
    value: Array,
    topk_indices: Array,
    *,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    actual_seq_qlen: Ends,
    actual_seq_kvlen: Ends,
    sparse_mode: int,
    input_layout: str,
    atten_mask: None,
) -> tuple[Array, Array, Array]:
    call = Call("nsa_selected_attention")
    scale, heads, size, count, mode = call.static(
        scale_value=scale_value, head_num=head_num, select_block_size=select_block_size,
        select_block_count=select_block_count, sparse_mode=sparse_mode,
    )  # fmt: skip
    q, k, v = call.inputs(query, key, value)
    topk = call.topk(topk_indices)
    ends = call.ends(actual_seq_qlen, actual_seq_kvlen)
    layout = call.layout(input_layout)
    call.refuse_mask(atten_mask)
    out, largest, total = (call.empty(spec) for spec in (OUT, SOFTMAX, SOFTMAX))
    call.run(
        (q, k, v, topk, None, *ends, scale, heads, size, count, layout, mode, out, largest, total),
        "forward",
        (topk, *ends, scale, size, count, mode, q, k, v, out, largest, total),
    )  # fmt: skip
    return call.as_given(out), largest, total


def _backward(
    query: Array,
    key: Array,
    value: Array,
    attention_out: Array,
    attention_out_grad: Array,
    softmax_max: Array,
    softmax_sum: Array,
    topk_indices: Array,
    *,
    scale_value: float,
    head_num: int,
    selected_block_size: int,
    selected_block_count: int,
    actual_seq_qlen: Ends,
    actual_seq_kvlen: Ends,
    atten_mask: None,
    input_layout: str,
    sparse_mode: int,
) -> tuple[Array, Array, Array]:
    call = Call("nsa_selected_attention_grad")
    scale, heads, size, count, mode = call.static(
        scale_value=scale_value, head_num=head_num, selected_block_size=selected_block_size,
        selected_block_count=selected_block_count, sparse_mode=sparse_mode,
    )  # fmt: skip
    q, k, v = call.inputs(query, key, value)
    out = call.array("attention_out", attention_out, OUT)
    cotangent = call.array("attention_out_grad", attention_out_grad, OUT)
    largest = call.array("softmax_max", softmax_max, SOFTMAX)
    total = call.array("softmax_sum", softmax_sum, SOFTMAX)
    topk = call.topk(topk_indices)
    ends = call.ends(actual_seq_qlen, actual_seq_kvlen)
    layout = call.layout(input_layout)
    call.refuse_mask(atten_mask)
    gradients = [call.empty(spec) for spec in (QUERIES, KEYS, VALUES)]
    call.run(
        (q, k, v, out, cotangent, largest, total, topk, *ends, None, scale, size, count, heads,
         layout, mode, *gradients),
        "vjp",
        (topk, *ends, scale, size, count, mode, cotangent, q, k, v, out, largest, total,
         *gradients),
    )  # fmt: skip
    dq, dk, dv = map(call.as_given, gradients)
    return dq, dk, dv


def _of_saved(
    query: Array,
    key: Array,
    value: Array,
    topk_indices: Array,
    attention_out: Array,
    softmax_max: Array,
    softmax_sum: Array,
    cotangent: Array,
    *,
    select_block_size: int,
    select_block_count: int,
    **static: Any,
) -> tuple[Array, Array, Array]:
    """Gradients, from the results of `_forward` that autograd saves."""
    return _backward(
        query, key, value, attention_out, cotangent, softmax_max, softmax_sum, topk_indices,
        selected_block_size=select_block_size, selected_block_count=select_block_count, **static,
    )  # fmt: skip
