# SPDX-License-Identifier: MIT
"""Scaled dot-product attention with the arguments of PyTorch's, differentiable twice."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gnograd.torch import functional

__all__ = ["scaled_dot_product_attention"]

_NAME = "scaled_dot_product_attention"


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention with the arguments of `torch.nn.functional.scaled_dot_product_attention`.

    Unlike PyTorch's it has second derivatives and `torch.func.jvp` on every device, without an
    array of queries times keys: `attention` is what computes it.

    Parameters
    ----------
    query : Tensor, (..., Hq, L, E) or (L, E)
        Queries. Both contiguous tensors and transposed views of (..., L, Hq, E) are taken as they
        are; others are copied.
    key, value : Tensor, (..., Hk, S, E), (..., Hk, S, Ev)
        Keys and values; leading axes and heads may be 1 where those of `query` are not, and the
        reverse.
    attn_mask : Tensor, (..., Hq or 1, 1, S), optional
        Key padding mask: True for the keys that are seen, or numbers that are added to their
        logits. One that differs by query is refused.
    dropout_p : float
        Must be 0.
    is_causal : bool
        Query i sees the keys up to i. `window_attention` computes it; there is no `attn_mask`.
    scale : float, optional
        ``1 / sqrt(E)`` when left out.
    enable_gqa : bool
        Allow fewer heads of keys and values than of queries. Where the numbers of heads of keys
        and values differ, or the mask differs by query heads that share a key, keys and values are
        copied for every query head.

    Returns
    -------
    Tensor, (..., Hq, L, Ev)
        0 for a query that sees no key.

    Raises
    ------
    NotImplementedError
        A mask that differs by query, dropout.
    ValueError
        Shapes that do not fit; a mask and `is_causal`.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import scaled_dot_product_attention
    >>> q, k, v = torch.randn(3, 2, 4, 100, 8, dtype=torch.float64)
    >>> out = scaled_dot_product_attention(q, k, v)
    >>> torch.allclose(out, torch.nn.functional.scaled_dot_product_attention(q, k, v))
    True

    The Laplacian of a network with attention, which PyTorch's refuses:

    >>> x = torch.randn(1, 1, 5, 2, dtype=torch.float64, requires_grad=True)
    >>> out = scaled_dot_product_attention(x, x, x).sum()
    >>> (slope,) = torch.autograd.grad(out, x, create_graph=True)
    >>> torch.autograd.grad(slope.square().sum(), x)[0].shape
    torch.Size([1, 1, 5, 2])
    """
    if dropout_p:
        raise NotImplementedError(f"{_NAME}: dropout_p is {dropout_p}, needs 0")
    if is_causal and attn_mask is not None:
        raise ValueError(f"{_NAME}: is_causal is True and attn_mask given, needs one of them")
    one_matrix = query.ndim == key.ndim == value.ndim == 2
    if min(query.ndim, key.ndim, value.ndim) == 2:
        query, key, value = (x[None] if x.ndim == 2 else x for x in (query, key, value))
    query, key, value = _with_heads(query, key, value, enable_gqa)
    leading = query.shape[:-3]
    equal = leading == key.shape[:-3] == value.shape[:-3]
    if not equal:
        leading = torch.broadcast_shapes(leading, key.shape[:-3], value.shape[:-3])
    n_q_heads, n_q = query.shape[-3:-1]
    n_k = key.shape[-2]
    mask = None if attn_mask is None else _padding(attn_mask, (*leading, n_q_heads, n_q, n_k))
    if mask is not None and mask.shape[-2] not in (1, key.shape[-3]):  # keys of every query head
        key, value = (_repeated(x, n_q_heads) for x in (key, value))
    if not equal:
        query, key, value = (x.expand(*leading, *x.shape[-3:]) for x in (query, key, value))
    n_heads = key.shape[-3]
    if mask is not None and mask.is_floating_point():
        mask = mask.to(query.dtype)
    elif mask is not None:
        mask = query.new_zeros(mask.shape).masked_fill(~mask, -torch.inf)
    n = math.prod(leading)  # torch.Size.numel() would make sizes constants of torch.export
    grouped = is_causal and n_heads != n_q_heads  # queries of several heads have other places
    by_token = grouped or _prefers_tokens(query, key, value)
    by_token = by_token and (mask is None or mask.shape[-2] == 1)
    if by_token:
        q, k, v = (x.transpose(-3, -2).flatten(0, -3) for x in (query, key, value))
        bias = None
        if mask is not None:  # the same for all heads
            bias = mask.expand(*leading, n_heads, n_k).transpose(-2, -1).flatten(0, -2)
    else:  # a sequence for every head of keys, with the queries of all heads that share it
        n *= n_heads
        q, k, v = (x.flatten(0, -2).unsqueeze(1) for x in (query, key, value))
        n_q *= n_q_heads // max(n_heads, 1)
        bias = None
        if mask is not None:
            bias = mask.expand(*leading, n_heads, n_k).flatten().unsqueeze(1)
    cu_q = cu_k = None
    if n != 1:
        item = torch.arange(n + 1, device=query.device)
        cu_q, cu_k = item * n_q, item * n_k
    settings: dict[str, Any] = {"cu_q": cu_q, "cu_k": cu_k, "scale": scale}
    if is_causal:
        out = functional.window_attention(q, k, v, causal=True, **settings)
    else:
        out = functional.attention(q, k, v, bias, **settings)
    if by_token:
        shape = *leading, query.shape[-2], n_q_heads, value.shape[-1]
        out = out.reshape(shape).transpose(-3, -2)
    else:
        out = out.reshape(*query.shape[:-1], value.shape[-1])
    return out[0] if one_matrix else out


def _with_heads(
    query: Tensor, key: Tensor, value: Tensor, grouped: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values whose heads fit: those of keys and values divide those of queries.

    Raises
    ------
    ValueError
        Shapes that do not fit.
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim < 3:
            raise ValueError(f"{_NAME}: {name} has shape {tuple(x.shape)}, needs (..., H, T, D)")
    if key.shape[-2] != value.shape[-2] or query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"{_NAME}: query, key and value have shapes {tuple(query.shape)}, {tuple(key.shape)} "
            f"and {tuple(value.shape)}, need (..., Hq, L, E), (..., Hk, S, E) and (..., Hk, S, Ev)"
        )
    heads = n_q, n_k, n_v = [x.shape[-3] for x in (query, key, value)]
    most = n_q if grouped else max(heads)
    if min(heads) < 1 or (grouped and (n_q % n_k or n_q % n_v)):
        raise ValueError(
            f"{_NAME}: query, key and value have {n_q}, {n_k} and {n_v} heads, needs a multiple of "
            "the others' for query"
        )
    if not grouped and any(n not in (1, most) for n in heads):
        raise ValueError(
            f"{_NAME}: query, key and value have {n_q}, {n_k} and {n_v} heads, needs as many, or "
            "enable_gqa=True"
        )
    if n_q != most:
        query = query.expand(*query.shape[:-3], most, *query.shape[-2:])
    if n_k != n_v:
        key, value = (_repeated(x, most) for x in (key, value))
    return query, key, value


def _repeated(x: Tensor, heads: int) -> Tensor:
    """Keys or values of every query head."""
    return x.repeat_interleave(heads // x.shape[-3], dim=-3)


def _padding(mask: Tensor, full: tuple[int, ...]) -> Tensor:
    """Mask of keys, (..., heads or 1, S), from one that fits (..., heads, L, S)."""
    if not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise TypeError(f"{_NAME}: attn_mask is {mask.dtype}, needs bool or floating point")
    if not 2 <= mask.ndim <= len(full) or any(
        m not in (1, f) for m, f in zip(reversed(mask.shape), reversed(full), strict=False)
    ):
        raise ValueError(f"{_NAME}: attn_mask has shape {tuple(mask.shape)}, needs {full}")
    if full[-2] == 0 and mask.shape[-2] == 0:  # no queries
        mask = mask.new_ones(*mask.shape[:-2], 1, mask.shape[-1])
    if mask.shape[-2] > 1 and mask.stride(-2) == 0:  # expanded
        mask = mask[..., :1, :]
    if mask.shape[-2] > 1:
        raise NotImplementedError(
            f"{_NAME}: attn_mask has shape {tuple(mask.shape)} and may differ by query, needs a "
            "mask of keys, (..., 1, S)"
        )
    while mask.ndim < len(full):
        mask = mask[None]
    return mask[..., 0, :].expand(*mask.shape[:-2], full[-1])


def _prefers_tokens(*arrays: Tensor) -> bool:
    """True if fewer numbers are copied with tokens before heads than with heads before tokens."""

    def copied(turned: bool) -> int:
        views = (x.transpose(-3, -2) if turned else x for x in arrays)
        return sum(0 if x.is_contiguous() else x.numel() for x in views)

    return copied(True) < copied(False)
