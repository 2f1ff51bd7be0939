# SPDX-License-Identifier: MIT
"""Native sparse attention: selected blocks of keys, compressed keys, windows and balls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnograd.operator import Array, Signature, operator

__all__ = ["compressed_attention", "selected_attention", "window_attention"]

DUPLICATES = {"ignore": 0, "error": 1, "count": 2}


def _attention(static: Mapping[str, Any], arguments: str, outputs: str = "out") -> Signature:
    """Signature of the three branches; `arguments` are those that come after the sizes."""
    shapes = {"out": "Tq Hq Dv", "lse": "Tq Hq"}
    scale = "Dk**-0.5" if static["scale"] is None else "scale"
    sequences = "1" if static["cu_q"] is None else "n_sequences"
    arguments = arguments.replace("scale", scale).replace("n_sequences", sequences)
    return Signature(
        inputs={"q": "Tq Hq Dk", "k": "Tk Hk Dk", "v": "Tk Hk Dv"},
        outputs={name: shapes[name] for name in outputs.split()},
        arguments=f"Tq Tk Hq Hk Dk Dv {arguments}",
        saved=shapes,
        arrays={"cu_q": "int64 n_sequences+1 or None", "cu_k": "int64 n_sequences+1 or None"},
    )


def _selected(static: Mapping[str, Any]) -> Signature:
    if static["query_block"] < 1:
        raise ValueError(
            f"selected_attention: query_block is {static['query_block']}, needs at least 1"
        )
    signature = _attention(
        static,
        "n n_sequences block_index cu_q cu_k block_size scale causal q_offset query_block "
        "duplicates",
    )
    return signature._replace(
        inputs={**signature.inputs, "slot_gate": "Tq Hk n or None"},
        arrays={"block_index": "int32 (Tq+query_block-1)//query_block Hk n", **signature.arrays},
    )


def _window(static: Mapping[str, Any]) -> Signature:
    window = "0" if static["window"] is None else "window"
    return _attention(static, f"n_sequences cu_q cu_k {window} scale causal q_offset")


@operator(_selected, choices={"duplicates": DUPLICATES})
def selected_attention(
    q: Array,
    k: Array,
    v: Array,
    slot_gate: Array | None = None,
    *,
    block_index: Array,
    block_size: int,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
    query_block: int = 1,
    duplicates: str = "ignore",
) -> Array:
    """Attention of every query to the blocks of keys that were selected for it.

    The keys of a sequence are cut into blocks of `block_size`; the last may be ragged. With
    ``x = scale * q . k`` over the keys of the selected blocks, ``out`` is ``softmax(x) @ v``. A
    gate multiplies ``exp(x)`` in the blocks of its slot before normalisation, which gives the
    selection a gradient. Query head h belongs to key/value head ``h // (Hq // Hk)``.

    Parameters
    ----------
    q : array, (Tq, Hq, Dk)
        Queries; Hq is a multiple of Hk.
    k, v : array, (Tk, Hk, Dk), (Tk, Hk, Dv)
        Keys and values; Dk and Dv up to 256.
    slot_gate : array, (Tq, Hk, n), optional
        Gates, not negative.
    block_index : array of int32, (ceil(Tq / query_block), Hk, n)
        Numbers of the selected blocks in their sequence; -1 is an empty slot.
    block_size : int
        Keys in a block, 1 to 256.
    scale : float, optional
        ``1 / sqrt(Dk)`` when left out.
    causal : bool
        Show the query at position s of its sequence only the keys up to position s + q_offset.
    q_offset : int
        Of the queries' positions against the keys'.
    cu_q, cu_k : array of int64, (n_sequences + 1,), optional
        First token of every packed sequence, and the end; one sequence when left out.
    query_block : int
        Consecutive queries that share a row of `block_index`.
    duplicates : {"ignore", "error", "count"}
        A block named twice for a query counts once, is refused, or counts twice. Of those that
        count once, the first slot's gate counts.

    Returns
    -------
    out : array, (Tq, Hq, Dv)
        0 for a query that sees no key. The log-sum-exp ``lse``, (Tq, Hq), is kept beside it:
        ``out, (_, lse) = selected_attention.forward(..., return_saved=True)``.

    Raises
    ------
    IndexError
        A block that the sequence does not have.

    Notes
    -----
    Peak temporary memory: ``Tq Hk n`` integers for the inverted lists, and a few panels of
    ``(64 + block_size) (Dk + Dv + block_size)`` numbers a thread; besides, ``Tq Hq`` numbers in
    `vjp`, ``Tq Hq Dv`` in `jvp` and twice that in `hvp`. Keys and values that no query selected
    have gradients of exactly 0.

    References
    ----------
    Yuan et al., Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse
    Attention, arXiv:2502.11089, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (rng.normal(size=(10, 2, 8)) for _ in range(3))
    >>> blocks = rng.integers(0, 3, (10, 2, 2), np.int32)
    >>> out = gg.selected_attention(q, k, v, block_index=blocks, block_size=4)
    >>> out.shape
    (10, 2, 8)
    >>> everything = np.broadcast_to(np.arange(3, dtype=np.int32), (10, 2, 3))
    >>> out = gg.selected_attention(q, k, v, block_index=everything, block_size=4)
    >>> x = np.einsum("qhd,khd->qhk", q, k) / np.sqrt(8)
    >>> p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    >>> np.allclose(out, np.einsum("qhk,khd->qhd", p, v))
    True
    """


@operator(
    lambda static: _attention(
        static, "n_sequences cu_q cu_k block stride scale causal q_offset", "out lse"
    )
)
def compressed_attention(  # type: ignore[empty-body]
    q: Array,
    k: Array,
    v: Array,
    *,
    block: int,
    stride: int,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
) -> tuple[Array, Array]:
    """Attention of every query to the compressed tokens of its sequence.

    Parameters
    ----------
    q : array, (Tq, Hq, Dk)
        Queries; Hq is a multiple of Hk.
    k, v : array, (Tc, Hk, Dk), (Tc, Hk, Dv)
        Compressed keys and values, as `compress` makes them.
    block, stride : int
        Tokens behind a compressed one, and from one to the next: compressed token c stands for
        the tokens ``c * stride .. c * stride + block - 1``.
    scale : float, optional
        ``1 / sqrt(Dk)`` when left out.
    causal : bool
        Show the query at position s only the compressed tokens whose last token is at most at
        position s + q_offset.
    q_offset : int
        Of the queries' positions against the keys'.
    cu_q, cu_k : array of int64, (n_sequences + 1,), optional
        First query and first compressed token of every packed sequence, and the end; one sequence
        when left out. For `cu_k` see `compressed_offsets`.

    Returns
    -------
    out : array, (Tq, Hq, Dv)
        0 for a query that sees nothing.
    lse : array, (Tq, Hq)
        Logarithm of the sum of ``exp(scale * q . k)``; -inf where nothing is visible.

    See Also
    --------
    select_blocks : what `lse` is for.
    """


@operator(_window)
def window_attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    window: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
) -> Array:
    """Attention of every query to its neighbourhood: a sliding window, or a ball.

    Parameters
    ----------
    q : array, (Tq, Hq, Dk)
        Queries; Hq is a multiple of Hk.
    k, v : array, (Tk, Hk, Dk), (Tk, Hk, Dv)
        Keys and values.
    window : int, optional
        Causal: the query at position s sees the keys at ``s + q_offset - window + 1 ..
        s + q_offset``. Otherwise every sequence is cut into balls of `window` tokens, and a query
        sees the keys of its ball. No limit when left out: balls of varying sizes are then given
        as sequences.
    scale : float, optional
        ``1 / sqrt(Dk)`` when left out.
    causal : bool
        A sliding window instead of balls.
    q_offset : int
        Of the queries' positions against the keys'; causal only.
    cu_q, cu_k : array of int64, (n_sequences + 1,), optional
        First token of every packed sequence, and the end; one sequence when left out.

    Returns
    -------
    out : array, (Tq, Hq, Dv)
        0 for a query that sees no key. The log-sum-exp ``lse``, (Tq, Hq), is kept beside it.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 10, 2, 8))
    >>> out = gg.window_attention(q, k, v, window=1, causal=True)
    >>> np.allclose(out, v)
    True
    """
