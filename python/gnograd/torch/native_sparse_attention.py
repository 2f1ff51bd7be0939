# SPDX-License-Identifier: MIT
"""Native sparse attention: a layer for sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.eager import not_compiled
from gnograd.torch.sparse_branches import SparseBranches, checked_borders
from gnograd.torch.token_layout import (
    Compression,
    TokenLayout,
    equal_items,
    packed_items,
    padded_items,
)

__all__ = ["KeyValueCache", "NativeSparseAttention"]

_NAME = "NativeSparseAttention"

Borders = Tensor | Sequence[int] | None
Pair = tuple[Tensor, Tensor]
Rotary = Callable[[Tensor, Tensor], Tensor]


class KeyValueCache(NamedTuple):
    """Keys and values of the tokens so far, each ``(batch, tokens, kv_heads, head_dim)``.

    `window` has the last tokens that a next token can see, `waiting` the last ones that future
    compressed tokens will contain.
    """

    length: int
    selected: Pair
    window: Pair
    compressed: Pair
    waiting: Pair


class NativeSparseAttention(SparseBranches):
    """Attention of a sequence to compressed tokens, selected blocks and a sliding window.

    ``out = sum_c sigmoid(g_c) o out_c`` over the three branches. Compressed tokens are learned
    weighted sums of `compress_block_size` tokens; the selected blocks are those whose compressed
    tokens get most attention, summed over the query heads that share a key/value head.

    Parameters
    ----------
    dim : int
        Width of the input and the output.
    num_heads, num_kv_heads : int
        Query heads, and key/value heads (as many when left out), which divide them.
    head_dim : int, optional
        ``dim // num_heads`` when left out.
    compress_block_size, compress_stride : int
        Tokens behind a compressed one, and from one to the next.
    selection_block_size, num_selected_blocks : int
        Tokens in a block, and blocks that a query sees.
    window_size : int
        Tokens that the window reaches back, the query's own among them.
    first_blocks, local_blocks : int
        Blocks at the start, and up to the own one, that are always among the selected.
    causal : bool
        Let a token see no later one. If false, the window is the query's stretch of `window_size`
        tokens.
    query_block_size : int
        Consecutive tokens that share a selection.
    bias : bool
        Give the projections biases.
    rotary : callable, optional
        ``rotary(x, positions)`` encodes the positions ``(T,)`` of tokens in their sequences in
        ``x (T, heads, head_dim)``. It is applied to the queries, to the keys of selected blocks and
        of the window, and to the keys of compressed tokens, which are made of keys without it: at
        the position of the last token that they stand for. Without it, positions are not encoded:
        add an encoding to `x`.

    Raises
    ------
    ValueError
        Head counts that do not divide, sequences that do not begin at multiples of
        `query_block_size`.

    References
    ----------
    Yuan et al., Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse Attention,
    arXiv:2502.11089, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import NativeSparseAttention
    >>> layer = NativeSparseAttention(
    ...     32, 4, 2, compress_block_size=8, compress_stride=4, selection_block_size=8,
    ...     num_selected_blocks=4, window_size=16)
    >>> x = torch.randn(2, 100, 32)
    >>> layer(x).shape
    torch.Size([2, 100, 32])

    The second item has 60 tokens:

    >>> ignored = torch.arange(100) >= torch.tensor([[100], [60]])
    >>> layer(x, key_padding_mask=ignored)[1, 60:].abs().max().item()
    0.0

    Token by token, after a prompt of 90:

    >>> y, cache = layer.step(x[:, :90])
    >>> y, cache = layer.step(x[:, 90:91], cache)
    >>> torch.allclose(y, layer(x[:, :91])[:, 90:], atol=1e-5)
    True
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        compress_block_size: int = 32,
        compress_stride: int = 16,
        selection_block_size: int = 64,
        num_selected_blocks: int = 16,
        window_size: int = 512,
        first_blocks: int = 1,
        local_blocks: int = 2,
        causal: bool = True,
        query_block_size: int = 1,
        bias: bool = False,
        rotary: Rotary | None = None,
    ) -> None:
        super().__init__(dim, num_heads, num_kv_heads, head_dim, bias)
        self.compress_k, self.compress_v = (
            nn.Parameter(
                torch.full((compress_block_size, self.num_kv_heads), 1 / compress_block_size)
            )
            for _ in range(2)
        )
        self.compress_block_size, self.compress_stride = compress_block_size, compress_stride
        self.compression = Compression(compress_block_size, compress_stride)
        self.selection_block_size = selection_block_size
        self.num_selected_blocks = num_selected_blocks
        self.window_size, self.causal = window_size, causal
        self.first_blocks, self.local_blocks = first_blocks, local_blocks
        self.query_block_size = query_block_size
        self.rotary = rotary

    def forward(
        self,
        x: Tensor,
        cu_seqlens: Borders = None,
        *,
        context: Tensor | None = None,
        context_cu_seqlens: Borders = None,
        key_padding_mask: Tensor | None = None,
        q_offset: int = 0,
    ) -> Tensor:
        """Attend.

        Parameters
        ----------
        x : Tensor, (T, dim) or (batch, T, dim)
            Tokens; or a nested tensor of the layout ``torch.jagged``, (batch, lengths, dim).
        cu_seqlens : Tensor of int64 or sequence of int, (n_sequences + 1,), optional
            First token of every sequence packed in ``x (T, dim)``, and the end; one sequence when
            left out. `torch.compile` breaks its graph here, and at nested tensors; for a batch it
            does not, with or without a mask.
        context : Tensor, (Tk, dim) or (batch, Tk, dim), optional
            Tokens to attend to, of another length; those of `x` when left out.
        context_cu_seqlens : Tensor of int64 or sequence of int, optional
            Borders of the context, as `cu_seqlens`.
        key_padding_mask : Tensor of bool, (batch, T), optional
            True for a token of the batch, or of its context, that is to be ignored, as in
            `torch.nn.MultiheadAttention`: the result is that of the other tokens alone, wherever
            such tokens are. For such tokens of `x` itself it is 0.
        q_offset : int
            Position of the first query among the keys, of every sequence.

        Returns
        -------
        Tensor
            In the shape of `x`.
        """
        if x.is_nested:
            return self._nested(x, context, cu_seqlens, key_padding_mask, q_offset)
        if context is not None and context.ndim != x.ndim:
            raise ValueError(
                f"{_NAME}: context has shape {tuple(context.shape)}, needs {x.ndim} axes as x"
            )
        if x.ndim == 3:
            if cu_seqlens is not None or context_cu_seqlens is not None:
                raise ValueError(f"{_NAME}: cu_seqlens: a batch (batch, T, dim) is not packed")
            return self._batch(x, context, key_padding_mask, q_offset)
        if key_padding_mask is not None:
            raise ValueError(f"{_NAME}: key_padding_mask is for a batch (batch, T, dim)")
        n_k = (x if context is None else context).shape[0]
        if cu_seqlens is None and context_cu_seqlens is None:
            layout = equal_items(1, x.shape[0], n_k, self.compression, x.device)
        elif cu_seqlens is None or (context is None) != (context_cu_seqlens is None):
            raise ValueError(
                f"{_NAME}: cu_seqlens and context_cu_seqlens: x and context are both packed"
            )
        else:
            layout = self._packed(x, cu_seqlens, n_k, context_cu_seqlens)
        return self._attend(x, context, layout, q_offset)

    def step(self, x: Tensor, cache: KeyValueCache | None = None) -> tuple[Tensor, KeyValueCache]:
        """Attend with the next tokens of sequences, with the earlier ones in a cache.

        The results of successive steps, joined, equal that of `forward` for all tokens.

        Parameters
        ----------
        x : Tensor, (batch, t, dim)
            The next tokens: a prompt, or one token of every sequence.
        cache : KeyValueCache, optional
            Result of the step before; None at the start.

        Returns
        -------
        out : Tensor, (batch, t, dim)
        cache : KeyValueCache
            Cache for the next step. It grows with the sequences; the old one is unchanged.

        Raises
        ------
        ValueError
            The layer is not causal, or tokens share selections: earlier tokens then depend on later
            ones.
        """
        if not self.causal or self.query_block_size != 1:
            raise ValueError(
                f"{_NAME}: step needs causal=True and query_block_size=1, the layer has "
                f"{self.causal} and {self.query_block_size}"
            )
        if x.ndim != 3 or x.is_nested:
            raise ValueError(f"{_NAME}: step: x has shape {tuple(x.shape)}, needs (batch, t, dim)")
        batch, t = x.shape[:2]
        flat = x.flatten(0, 1)
        q, keys, values = self.project(flat)
        if cache is None:
            none = keys[0].unflatten(0, (batch, t))[:, :0]
            cache = KeyValueCache(0, *[(none, values[0].unflatten(0, (batch, t))[:, :0])] * 4)
        past, length = cache.length, cache.length + t
        layout = equal_items(batch, t, length, self.compression, x.device)
        positions = layout.q_positions + past
        q, keys[1], keys[2] = (self._rotated(y, positions) for y in (q, keys[1], keys[2]))

        def extended(before: Pair, k: Tensor, v: Tensor) -> Pair:
            new_k, new_v = (y.unflatten(0, (batch, -1)) for y in (k, v))
            return torch.cat([before[0], new_k], dim=1), torch.cat([before[1], new_v], dim=1)

        selected = extended(cache.selected, keys[1], values[1])
        window = extended(cache.window, keys[2], values[2])
        waiting = extended(cache.waiting, keys[0], values[0])
        # first token of the next compressed one, which may be beyond the tokens so far
        start = cache.compressed[0].shape[1] * self.compression.stride
        waiting = _behind(waiting, start - (length - waiting[0].shape[1]))
        n = waiting[0].shape[1]
        of_new = equal_items(batch, n, n, self.compression, x.device)
        k_c, v_c = (
            self._compress(y.flatten(0, 1), w, of_new)
            for y, w in zip(waiting, (self.compress_k, self.compress_v), strict=True)
        )
        k_c = self._rotated(k_c, of_new.c_positions + start)
        compressed = extended(cache.compressed, k_c, v_c)
        start = compressed[0].shape[1] * self.compression.stride
        in_window = window[0].shape[1]
        out = self._branches(
            flat,
            q,
            _flat(compressed),
            _flat(selected),
            _flat(window),
            layout,
            past,
            equal_items(batch, t, in_window, self.compression, x.device).cu_k,
            in_window - t,
        )
        window = _behind(window, in_window - (self.window_size - 1))
        waiting = _behind(waiting, start - (length - n))
        return out.view_as(x), KeyValueCache(length, selected, window, compressed, waiting)

    def _nested(
        self,
        x: Tensor,
        context: Tensor | None,
        cu_seqlens: Borders,
        key_padding_mask: Tensor | None,
        q_offset: int,
    ) -> Tensor:
        """Attention of items of any lengths in a nested tensor."""
        if cu_seqlens is not None or key_padding_mask is not None:
            raise ValueError(
                f"{_NAME}: cu_seqlens and key_padding_mask: a nested tensor knows its lengths"
            )
        packed = _of_nested("x", x)
        others: dict[str, Any] = {}
        if context is not None:
            others = dict(
                zip(("context", "context_cu_seqlens"), _of_nested("context", context), strict=True)
            )
        out = self.forward(*packed, q_offset=q_offset, **others)
        return torch.nested.nested_tensor_from_jagged(out, packed[1])

    def _batch(
        self, x: Tensor, context: Tensor | None, mask: Tensor | None, q_offset: int
    ) -> Tensor:
        """Attention of a batch ``(batch, T, dim)``."""
        batch, n_q = x.shape[:2]
        keys = x if context is None else context
        n_k = keys.shape[1]
        if keys.shape[0] != batch:
            raise ValueError(f"{_NAME}: context has a batch of {keys.shape[0]}, x one of {batch}")
        if batch > 1 and n_q % self.query_block_size:
            raise ValueError(
                f"{_NAME}: x has items of {n_q} tokens, needs multiples of "
                f"{self.query_block_size}, the tokens that share a selection"
            )
        if mask is None:
            layout = equal_items(batch, n_q, n_k, self.compression, x.device)
            of_keys = None if context is None else context.flatten(0, 1)
            return self._attend(x.flatten(0, 1), of_keys, layout, q_offset).view_as(x)
        if mask.dtype != torch.bool or tuple(mask.shape) != (batch, n_k):
            raise ValueError(
                f"{_NAME}: key_padding_mask is of {mask.dtype} and shape {tuple(mask.shape)}, "
                f"needs torch.bool and {(batch, n_k)}"
            )
        # valid tokens come first, in their order; the others are set to 0
        order = mask.to(torch.uint8).argsort(dim=1, stable=True)
        keys = torch.take_along_dim(keys.masked_fill(mask[..., None], 0), order[..., None], dim=1)
        lengths = n_k - mask.sum(dim=1)
        of_q = lengths if context is None else torch.full_like(lengths, n_q)
        layout = padded_items(of_q, lengths, n_q, n_k, self.query_block_size, self.compression)
        if context is not None:
            out = self._attend(x.flatten(0, 1), keys.flatten(0, 1), layout, q_offset)
            return out.view_as(x)
        out = self._attend(keys.flatten(0, 1), None, layout, q_offset).view_as(x)
        out = torch.take_along_dim(out, order.argsort(dim=1)[..., None], dim=1)
        return out.masked_fill(mask[..., None], 0)

    @not_compiled
    def _packed(self, x: Tensor, cu_q: Borders, n_k: int, cu_k: Borders) -> TokenLayout:
        """Layout of sequences of any lengths."""
        q = checked_borders(cu_q, x.shape[0], f"{_NAME}: cu_seqlens", self.query_block_size)  # type: ignore[arg-type]
        k = q if cu_k is None else checked_borders(cu_k, n_k, f"{_NAME}: context_cu_seqlens")
        if k.shape[0] != q.shape[0]:
            raise ValueError(
                f"{_NAME}: context_cu_seqlens has {k.shape[0] - 1} sequences, "
                f"needs {q.shape[0] - 1} as cu_seqlens"
            )
        return packed_items(q, k, self.compression, x.device)

    def _attend(
        self, x: Tensor, context: Tensor | None, layout: TokenLayout, q_offset: int
    ) -> Tensor:
        """Attention of tokens ``(T, dim)``."""
        q, (k_c, k_s, k_w), (v_c, v_s, v_w) = self.project(x, context)
        q = self._rotated(q, layout.q_positions + q_offset)
        k_s, k_w = (self._rotated(k, layout.k_positions) for k in (k_s, k_w))
        k_c = self._rotated(self._compress(k_c, self.compress_k, layout), layout.c_positions)
        v_c = self._compress(v_c, self.compress_v, layout)
        return self._branches(
            x, q, (k_c, v_c), (k_s, v_s), (k_w, v_w), layout, q_offset, layout.cu_k, q_offset
        )

    def _branches(
        self,
        x: Tensor,
        q: Tensor,
        compressed: Pair,
        selected: Pair,
        window: Pair,
        layout: TokenLayout,
        q_offset: int,
        cu_window: Tensor | None,
        window_offset: int,
    ) -> Tensor:
        """The three attentions to keys and values, and their sum."""
        causal: dict[str, Any] = {"causal": self.causal, "q_offset": q_offset}
        step: dict[str, Any] = {
            "block": self.compression.block, "stride": self.compression.stride
        }  # fmt: skip
        coarse, lse = functional.compressed_attention(
            q, compressed[0], compressed[1], cu_q=layout.cu_q, cu_k=layout.cu_c, **step, **causal
        )
        k_c, lse = compressed[0].detach(), lse.detach()
        if layout.c_rows is not None:
            k_c = torch.cat([k_c, k_c.new_zeros(1, *k_c.shape[1:])])[layout.c_rows]
        if layout.idle is not None:
            lse = lse.masked_fill(layout.idle[:, None], torch.inf)
        blocks = functional.select_blocks(
            q.detach(),
            k_c,
            lse,
            block_size=self.selection_block_size,
            n_blocks=self.num_selected_blocks,
            n_keys=selected[0].shape[0],
            cu_q=layout.cu_q,
            cu_k=layout.cu_select,
            query_block=self.query_block_size,
            first_blocks=self.first_blocks,
            local_blocks=self.local_blocks,
            **step,
            **causal,
        )
        fine = functional.selected_attention(
            q,
            selected[0],
            selected[1],
            block_index=blocks,
            block_size=self.selection_block_size,
            cu_q=layout.cu_q,
            cu_k=layout.cu_k,
            query_block=self.query_block_size,
            **causal,
        )
        near = functional.window_attention(
            q,
            window[0],
            window[1],
            window=self.window_size,
            causal=self.causal,
            q_offset=window_offset,
            cu_q=layout.cu_q,
            cu_k=cu_window,
        )
        return self.combine(x, [coarse, fine, near])

    def _compress(self, x: Tensor, w: Tensor, layout: TokenLayout) -> Tensor:
        return functional.compress(
            x,
            w,
            block=self.compression.block,
            stride=self.compression.stride,
            cu=layout.cu_compress,
            n_compressed=layout.n_compressed,
        )

    def _rotated(self, x: Tensor, positions: Tensor) -> Tensor:
        return x if self.rotary is None else self.rotary(x, positions)


def _behind(pair: Pair, n: int) -> Pair:
    """Drop the first n tokens, if n is positive."""
    first = max(n, 0)
    return pair[0][:, first:], pair[1][:, first:]


def _flat(pair: Pair) -> Pair:
    return pair[0].flatten(0, 1), pair[1].flatten(0, 1)


def _of_nested(name: str, x: Any) -> Pair:
    """Tokens of all items of a nested tensor, and borders of the items."""
    if not x.is_nested or x.layout != torch.jagged or x.ndim != 3:
        raise ValueError(
            f"{_NAME}: {name} is no nested tensor (batch, lengths, dim) of the layout torch.jagged"
        )
    if x.lengths() is not None:
        raise ValueError(f"{_NAME}: {name} is a nested tensor with holes, needs none")
    return x.values(), x.offsets()
