# SPDX-License-Identifier: MIT
"""Native sparse attention: selected blocks of keys, compressed keys, windows and balls.

One file, as for every family of operators: most of it is their documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnograd.faces.operator import function, operator
from gnograd.notation.declaration import Array
from gnograd.notation.static import AT_LEAST_0, AT_LEAST_1, Limits, exact_integers, integer, shown

__all__ = [
    "compress",
    "compressed_attention",
    "compressed_offsets",
    "select_blocks",
    "selected_attention",
    "window_attention",
]

DUPLICATES = {"ignore": 0, "error": 1, "count": 2}
_OFFSET, _WINDOW = Limits(endless=True), Limits(1, endless=True)
_INPUTS = {"q": "Tq Hq Dk", "k": "Tk Hk Dk", "v": "Tk Hk Dv"}
_OUTPUTS = {"out": "Tq Hq Dv", "lse": "real Tq Hq"}
_SEQUENCES = {"cu_q": "int64 n_sequences+1 or None", "cu_k": "int64 n_sequences+1 or None"}
_BIAS = {
    "positions_q": "real Tq d or None",
    "positions_k": "real Tk d or None",
    "slope": "real Hq or None",
}
_DEFAULTS = {"n_sequences": "1", "scale": "max(Dk,1)**-0.5"}
"""Defaults: one sequence, and ``Dk**-0.5`` as scale. Kernels refuse keys without features."""
_COMPRESSED = {"block": AT_LEAST_1, "stride": AT_LEAST_1}
_FAULTS = (
    (IndexError, "block_index names a block that the sequence of query {} does not have"),
    (ValueError, "block_index names a block twice for query {}"),
)


@operator(
    inputs={**_INPUTS, "slot_gate": "Tq Hk n or None"},
    outputs={"out": "Tq Hq Dv"},
    arguments="Tq Tk Hq Hk Dk Dv n n_sequences block_index cu_q cu_k block_size scale causal "
    "q_offset query_block duplicates",
    saved=_OUTPUTS,
    arrays={"block_index": "int32 (Tq+query_block-1)//query_block Hk n", **_SEQUENCES},
    defaults_from_sizes=_DEFAULTS,
    not_negative=("slot_gate",),
    faults={"duplicates=error": _FAULTS},
    choices={"duplicates": DUPLICATES},
    limits={"block_size": Limits(1, 256), "q_offset": _OFFSET, "query_block": _WINDOW},
)
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
        Gates, not negative. On a GPU and on a tape, where this is not looked for, a negative one
        is 0 to the value, and derivatives have no meaning.
    block_index : array of int32, (ceil(Tq / query_block), Hk, n)
        Numbers of the selected blocks in their sequence; -1 is an empty slot.
    block_size : int
        Keys in a block, 1 to 256.
    scale : float, optional
        ``1 / sqrt(Dk)`` when left out.
    causal : bool
        Show the query at position s of its sequence only the keys up to position s + q_offset.
    q_offset : int
        Offset of the queries' positions against the keys'.
    cu_q, cu_k : array of int64, (n_sequences + 1,), optional
        First token of every packed sequence, and the end; one sequence when left out.
    query_block : int
        Consecutive queries that share a row of `block_index`; more than there are is all.
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
        A block that the sequence does not have. On a GPU this is an empty slot, for the host would
        have to wait to find it; only ``duplicates="error"`` has the selection checked there too.

    Notes
    -----
    Cost: with N the visible keys of all queries and heads, at most ``Tq Hq n block_size``,
    ``2 N (Dk + Dv)`` operations and N exponentials forward, ``2 N (3 Dk + 2 Dv)`` in `vjp`, which
    computes the scores again.

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
    inputs=_INPUTS,
    outputs=_OUTPUTS,
    arguments="Tq Tk Hq Hk Dk Dv n_sequences cu_q cu_k block stride scale causal q_offset",
    saved=_OUTPUTS,
    optional_in_c=("lse",),
    arrays=_SEQUENCES,
    defaults_from_sizes=_DEFAULTS,
    limits={**_COMPRESSED, "q_offset": _OFFSET},
)
def compressed_attention(
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
        Offset of the queries' positions against the keys'.
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

    Notes
    -----
    Cost: with N the visible compressed tokens of all queries and heads, at most ``Tq Hq Tc``,
    ``2 N (Dk + Dv)`` operations and N exponentials forward, ``2 N (3 Dk + 2 Dv)`` in `vjp`. Memory
    is that of `selected_attention`, without lists.
    """


@operator(
    inputs={**_INPUTS, **_BIAS},
    outputs={"out": "Tq Hq Dv"},
    arguments="Tq Tk Hq Hk Dk Dv d n_sequences cu_q cu_k window scale causal q_offset",
    saved=_OUTPUTS,
    arrays=_SEQUENCES,
    defaults_from_sizes={**_DEFAULTS, "window": "0"},
    all_or_none=_BIAS,
    limits={"window": _WINDOW, "q_offset": _OFFSET},
)
def window_attention(
    q: Array,
    k: Array,
    v: Array,
    positions_q: Array | None = None,
    positions_k: Array | None = None,
    slope: Array | None = None,
    *,
    window: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
) -> Array:
    """Attention of every query to its neighbourhood: a sliding window, or a ball.

    The logits may have a bias that is linear in the distance of the points that query and key
    stand for, ``x = scale * q . k + slope * |positions_q - positions_k|``.

    Parameters
    ----------
    q : array, (Tq, Hq, Dk)
        Queries; Hq is a multiple of Hk.
    k, v : array, (Tk, Hk, Dk), (Tk, Hk, Dv)
        Keys and values.
    positions_q, positions_k : array, (Tq, d), (Tk, d), optional
        Positions of queries and keys, 1 to 8 coordinates. The distance of points that coincide has
        derivatives of 0. Float32 where the queries are in half precision.
    slope : array, (Hq,), optional
        Slope of the bias for every query head, in the dtype of the positions. All three are given,
        or none.
    window : int, optional
        Causal: the query at position s sees the keys at ``s + q_offset - window + 1 ..
        s + q_offset``. Otherwise every sequence is cut into balls of `window` tokens, and a query
        sees the keys of its ball. No limit when left out, nor when larger than all sequences:
        balls of varying sizes are then given as sequences.
    scale : float, optional
        ``1 / sqrt(Dk)`` when left out.
    causal : bool
        A sliding window instead of balls.
    q_offset : int
        Offset of the queries' positions against the keys'; causal only.
    cu_q, cu_k : array of int64, (n_sequences + 1,), optional
        First token of every packed sequence, and the end; one sequence when left out.

    Returns
    -------
    out : array, (Tq, Hq, Dv)
        0 for a query that sees no key. The log-sum-exp ``lse``, (Tq, Hq), is kept beside it.

    Notes
    -----
    Cost: with N the visible keys of all queries and heads, at most ``Tq Hq window``,
    ``2 N (Dk + Dv)`` operations and N exponentials forward, ``2 N (3 Dk + 2 Dv)`` in `vjp`; the
    bias adds some ``3 d N``.

    Distances are computed where they are used. Only gradients of the bias take memory of their own:
    ``d Hk (Tq + Tk) + Hq Tq`` numbers.

    References
    ----------
    Zhdanov et al., Erwin: A Tree-based Hierarchical Transformer for Large-scale Physical Systems,
    arXiv:2502.17019, 2025, for the bias.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = rng.normal(size=(3, 10, 2, 8))
    >>> out = gg.window_attention(q, k, v, window=1, causal=True)
    >>> np.allclose(out, v)
    True

    In balls of 5 points, each sees the nearer ones of its ball better:

    >>> x, slope = rng.normal(size=(10, 3)), np.array([-1.0, -2.0])
    >>> gg.window_attention(q, k, v, x, x, slope, window=5).shape
    (10, 2, 8)
    """


def _compressed(static: Mapping[str, Any]) -> dict[str, int]:
    """Number of compressed tokens: given, or counted in each sequence."""
    n = static["n_compressed"]
    if n is None and static["cu"] is not None:
        cu = _borders(static["cu"])
        n = int(compressed_offsets(cu, static["block"], static["stride"])[-1])
    return {} if n is None else {"Tc": n}


@operator(
    inputs={"x": "T Hk D", "w": "block Hk"},
    outputs={"out": "Tc Hk D"},
    arguments="T Hk D n_sequences cu block stride Tc",
    bilinear="always",
    arrays={"cu": "int64 n_sequences+1 or None"},
    defaults_from_sizes={"n_sequences": "1", "Tc": "max(0,(T-block+stride)//stride)"},
    sizes=_compressed,
    limits={**_COMPRESSED, "n_compressed": AT_LEAST_0},
)
def compress(
    x: Array,
    w: Array,
    *,
    block: int,
    stride: int,
    cu: Array | None = None,
    n_compressed: int | None = None,
) -> Array:
    """Weighted sums of overlapping stretches of a sequence: compressed keys or values.

    ``out[c, h] = sum(w[i, h] * x[c * stride + i, h] for i in range(block))`` for every c with
    ``c * stride + block <= T``; the tail of a sequence that fills no block is dropped.

    Parameters
    ----------
    x : array, (T, Hk, D)
        Keys or values.
    w : array, (block, Hk)
        Weights of the tokens in a block.
    block, stride : int
        Tokens behind a compressed one, and from one to the next.
    cu : array of int64, (n_sequences + 1,), optional
        First token of every packed sequence, and the end; one sequence when left out.
    n_compressed : int, optional
        Compressed tokens of all sequences. Counted when left out, for which the values of `cu`
        are read: under `torch.compile` they are not known.

    Returns
    -------
    out : array, (Tc, Hk, D)
        ``Tc = (T - block) // stride + 1``, 0 if ``T < block``, summed over the sequences; where
        those begin says `compressed_offsets`.

    Notes
    -----
    Cost: ``2 Tc block Hk D`` operations forward, twice that in `vjp`.

    Temporary memory is at most 64 times the size of `w`, for its gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> x = np.arange(7.0).reshape(7, 1, 1)
    >>> gg.compress(x, np.full((4, 1), 0.25), block=4, stride=2)[:, 0, 0]
    array([1.5, 3.5])
    """


def compressed_offsets(cu: ArrayLike, block: int, stride: int) -> NDArray[np.int64]:
    """First compressed token of every sequence, and the end: `cu_k` of `compressed_attention`.

    Parameters
    ----------
    cu : array of int, (n_sequences + 1,)
        First token of every sequence, and the end.
    block, stride : int
        As for `compress`.

    Returns
    -------
    offsets : array of int64, (n_sequences + 1,)

    Examples
    --------
    >>> import gnograd as gg
    >>> gg.compressed_offsets([0, 7, 10, 18], block=4, stride=2)
    array([0, 2, 2, 5])
    """
    block = integer("compressed_offsets: block", block, AT_LEAST_1)
    stride = integer("compressed_offsets: stride", stride, AT_LEAST_1)
    borders = np.asarray(cu)
    if borders.ndim != 1 or borders.dtype.kind not in "iu":
        raise TypeError(
            f"compressed_offsets: cu is {shown(borders)} of {borders.dtype}, needs integers along "
            "one axis"
        )
    borders = exact_integers("compressed_offsets: cu", borders, np.int64)
    lengths = np.diff(borders)
    counts = np.where(lengths >= block, (lengths - block) // stride + 1, 0)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _tokens(static: Mapping[str, Any]) -> dict[str, int]:
    """Number of tokens before compression: given, or the end of the last sequence."""
    if static["n_keys"] is not None:
        return {"Tk": static["n_keys"]}
    return {} if static["cu_k"] is None else {"Tk": int(_borders(static["cu_k"])[-1])}


def _borders(cu: Array) -> NDArray[Any]:
    """Borders of sequences; any valid ones for input that later checks refuse."""
    borders = np.asarray(cu)
    fits = borders.ndim == 1 and borders.size > 0 and borders.dtype.kind in "iu"
    return borders if fits else np.zeros(1, np.int64)


@function(
    inputs={"q": "Tq Hq Dk", "k": "Tc Hk Dk", "lse": "real Tq Hq or None"},
    outputs={"block_index": "int32 (Tq+query_block-1)//query_block Hk n_blocks"},
    arguments="Tq Tc Tk Hq Hk Dk n_blocks n_sequences cu_q cu_k block stride block_size scale "
    "causal q_offset query_block first_blocks local_blocks exclude_own keep",
    arrays=_SEQUENCES,
    defaults_from_sizes={**_DEFAULTS, "Tk": "Tq", "keep": "0"},
    sizes=_tokens,
    limits={
        **_COMPRESSED,
        "block_size": AT_LEAST_1,
        "n_blocks": AT_LEAST_0,
        "n_keys": AT_LEAST_0,
        "q_offset": _OFFSET,
        "query_block": _WINDOW,
        "first_blocks": AT_LEAST_0,
        "local_blocks": AT_LEAST_0,
        "keep": _WINDOW,
    },
)
def select_blocks(
    q: Array,
    k: Array,
    lse: Array | None = None,
    *,
    block: int,
    stride: int,
    block_size: int,
    n_blocks: int,
    n_keys: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    q_offset: int = 0,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
    query_block: int = 1,
    first_blocks: int = 0,
    local_blocks: int = 0,
    exclude_own: bool = False,
    keep: int | None = None,
) -> Array:
    """Choose the blocks that `selected_attention` shall see, by attention to compressed tokens.

    The score of a block is the attention that the compressed tokens get, each times the number of
    tokens that it shares with the block, summed over the heads that share a key/value head and
    over the queries that share a selection. Not differentiable.

    With `keep`, blocks are the leaves of a binary tree, as those of points in the order of a ball
    tree are: ball b of level l is the blocks from ``b * 2**l`` up to ``(b + 1) * 2**l``. From the
    first level with at most `keep` balls downwards, the children of the balls that were kept are
    scored, and the best `keep` of them are kept; the blocks are chosen from those at the end. The
    key of a ball is the mean of the compressed keys, each as often as it shares tokens with the
    ball, and its score is the attention that this key gets, times the number of these tokens. Where
    a sequence has at most `keep` blocks, and with `lse`, this is the selection among all.

    Parameters
    ----------
    q : array, (Tq, Hq, Dk)
        Queries; Hq is a multiple of Hk.
    k : array, (Tc, Hk, Dk)
        Compressed keys, as `compress` makes them; those behind the last sequence's are not looked
        at.
    lse : array, (Tq, Hq), optional
        From `compressed_attention` of `q` and `k`, with the same `block`, `stride`, `scale`,
        `causal` and `q_offset`. With `keep` it may be left out, for it costs as much as the
        selection among all blocks: the scores of a query and head are then divided by their sum
        over the candidates of a level.
    block, stride : int
        Tokens behind a compressed key, and from one to the next.
    block_size : int
        Tokens in a block to select.
    n_blocks : int
        Number of blocks to select.
    n_keys : int, optional
        Tokens that were compressed; the last of `cu_k`, or else as many as queries, when left out.
    scale : float, optional
        ``1 / sqrt(Dk)`` when left out.
    causal : bool
        Leave out blocks that begin after position s + q_offset.
    q_offset : int
        Offset of the queries' positions against the keys': the own block of the query at position s
        is that of token s + q_offset.
    cu_q, cu_k : array of int64, (n_sequences + 1,), optional
        First query, and first token before compression, of every packed sequence, and the end; one
        sequence when left out.
    query_block : int
        Consecutive queries that share a selection; all their blocks are own blocks. Sequences
        begin at multiples of it.
    first_blocks, local_blocks : int
        Numbers of blocks at the start of the sequence, and up to the own block, that are always
        selected.
    exclude_own : bool
        Never select the own block, nor another query's that shares the selection.
    keep : int, optional
        Balls that are kept at every level; all blocks are candidates when left out, or when there
        are no more. On the CPU only, and not causal.

    Returns
    -------
    block_index : array of int32, (ceil(Tq / query_block), Hk, n_blocks)
        Blocks that are always selected, then by score, the lower number first among equals; -1
        where no block is left, with `keep` among the candidates: at least `keep` blocks, if there
        are so many that may be selected.

    Notes
    -----
    Cost: ``2 Tq Hq Tc Dk`` operations and ``Tq Hq Tc`` exponentials. No array of queries times
    keys.

    With `keep`, a query and head meet at most ``2 keep`` keys a level, and as many times
    ``(block_size + block) / stride`` at the end, in place of all Tc. Temporary memory is then a
    mean for every two blocks and key/value head, and these keys for every thread.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 64, 2, 8))
    >>> w = np.full((8, 2), 1 / 8)
    >>> compressed = {"block": 8, "stride": 4, "causal": True}
    >>> k_c, v_c = (gg.compress(x, w, block=8, stride=4) for x in (k, v))
    >>> out, lse = gg.compressed_attention(q, k_c, v_c, **compressed)
    >>> blocks = gg.select_blocks(
    ...     q, k_c, lse, block_size=16, n_blocks=2, local_blocks=1, **compressed)
    >>> blocks[[0, 63], 0, 0]
    array([0, 3], dtype=int32)
    >>> out = gg.selected_attention(q, k, v, block_index=blocks, block_size=16, causal=True)

    Down the tree of balls of 4 points, without the attention of all queries to all keys:

    >>> k_c = gg.compress(k, np.full((4, 2), 1 / 4), block=4, stride=4)
    >>> gg.select_blocks(
    ...     q, k_c, block=4, stride=4, block_size=4, n_blocks=2, query_block=4, keep=4).shape
    (16, 2, 2)
    """
