# SPDX-License-Identifier: MIT
"""Dense attention over points: to all keys of a sequence, of any number, and its adjoint."""

from __future__ import annotations

from gnograd.faces.operator import operator
from gnograd.notation.declaration import Array

__all__ = ["attention", "attention_pool"]

_LOGITS = {"bias": "Tk Hk or None", "temperature": "Tt Hq or None"}
_ARGUMENTS = "Tq Tk Hq Hk Dk Dv Tt n_sequences cu_q cu_k scale"
_SEQUENCES = {"cu_q": "int64 n_sequences+1 or None", "cu_k": "int64 n_sequences+1 or None"}
_DEFAULTS = {"n_sequences": "1", "scale": "max(Dk,1)**-0.5"}


@operator(
    inputs={"q": "Tq Hq Dk", "k": "Tk Hk Dk", "v": "Tk Hk Dv", **_LOGITS},
    outputs={"out": "Tq Hq Dv"},
    arguments=_ARGUMENTS,
    saved={"out": "Tq Hq Dv", "lse": "real Tq Hq"},
    arrays=_SEQUENCES,
    defaults_from_sizes=_DEFAULTS,
)
def attention(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None = None,
    temperature: Array | None = None,
    *,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
    scale: float | None = None,
) -> Array:
    """Attention of every query to all keys of its sequence.

    With ``x[t, h, s] = (scale * q[t, h] . k[s, g] + bias[s, g]) / temperature[t, h]``,
    ``out[t, h] = sum(softmax(x[t, h])[s] * v[s, g])`` over the keys s of the sequence of t, where
    query head h belongs to key/value head ``g = h // (Hq // Hk)``.

    Parameters
    ----------
    q : array, (Tq, Hq, Dk)
        Queries; Hq is a multiple of Hk.
    k, v : array, (Tk, Hk, Dk), (Tk, Hk, Dv)
        Keys and values; Dk and Dv up to 256, with a bias on a GPU Dk up to 254.
    bias : array, (Tk, Hk), optional
        Bias of every key, before division by the temperature. A key with a bias of -infinity is
        not seen, whatever it and its value are.
    temperature : array, (Tq, Hq) or (1, Hq), optional
        Temperature of every query, or one for all; positive. On a GPU, where this is not looked
        for, results of another have no meaning.
    cu_q, cu_k : array of int64, (n_sequences + 1,), optional
        First query and key of every packed sequence, and the end; one sequence when left out.
    scale : float, optional
        ``1 / sqrt(Dk)`` when left out.

    Returns
    -------
    out : array, (Tq, Hq, Dv)
        0 for a query whose sequence has no keys. The log-sum-exp ``lse``, (Tq, Hq), is kept beside
        it: ``out, (_, lse) = attention.forward(..., return_saved=True)``.

    Raises
    ------
    ValueError
        A temperature that is not positive.

    See Also
    --------
    attention_pool : sums over queries with the same weights.
    window_attention : attention to a part of the keys, with a bias of distances.

    Notes
    -----
    Cost: with N pairs of query head and key, ``2 N (Dk + Dv)`` operations and N exponentials
    forward, ``2 N (3 Dk + 2 Dv)`` in `vjp`, which computes the scores again. No array of queries
    times keys. Few queries with many keys (up to 128, more than 512) are repeated for stretches of
    the keys, few keys with many queries in `vjp` and `hvp` for stretches of the queries, so that
    there is work for all threads: at most 32 times 128 tokens more than there are.

    Temporary memory besides: a number a query and head in `vjp` (two with a temperature), and with
    more than 128 keys ``Tq Hq Dv`` numbers in `jvp` and twice that in `hvp`.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 10, 2, 8))
    >>> out = gg.attention(q, k, v)
    >>> x = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(8)
    >>> p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    >>> np.allclose(out, np.einsum("hqk,khd->qhd", p, v))
    True

    Ten points that belong to three slices, whose keys are learned; the temperature is one a head:

    >>> slices, tokens, temperature = k[:3], v[:3], np.array([[0.5, 0.5]])
    >>> gg.attention(q, slices, tokens, None, temperature, scale=1.0).shape
    (10, 2, 8)
    """


@operator(
    inputs={"q": "Tq Hq Dk", "k": "Tk Hk Dk", "c": "Tq Hq Dv", **_LOGITS},
    outputs={"pooled": "Tk Hk Dv"},
    arguments=_ARGUMENTS,
    arrays=_SEQUENCES,
    defaults_from_sizes=_DEFAULTS,
)
def attention_pool(
    q: Array,
    k: Array,
    c: Array,
    bias: Array | None = None,
    temperature: Array | None = None,
    *,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
    scale: float | None = None,
) -> Array:
    """Sums over queries, with the weights by which these attend to a key.

    With the weights w of `attention`, ``pooled[s, g] = sum(w[t, h, s] * c[t, h])`` over the queries
    t of the sequence of s and the heads h of key/value head g. This is the adjoint of `attention`
    by its values: ``<u, attention_pool(q, k, c)> = <c, attention(q, k, u)>``.

    Parameters
    ----------
    q : array, (Tq, Hq, Dk)
        Queries; Hq is a multiple of Hk.
    k : array, (Tk, Hk, Dk)
        Keys; Dk up to 256, with a bias on a GPU up to 254.
    c : array, (Tq, Hq, Dv)
        Contents of the queries; Dv up to 256.
    bias, temperature, cu_q, cu_k, scale
        As for `attention`.

    Returns
    -------
    pooled : array, (Tk, Hk, Dv)
        0 for a key whose sequence has no queries. Of some of the queries it is a partial sum:
        processes that have others add theirs.

    Raises
    ------
    ValueError
        A temperature that is not positive.

    Notes
    -----
    Cost and memory are those of `attention`, with the value in the place of the gradient to `v`:
    ``2 N (Dk + Dv)`` operations forward, N the pairs of query head and key, with more than 128 keys
    ``2 N (2 Dk + Dv)``.

    References
    ----------
    Wu et al., Transolver: A Fast Transformer Solver for PDEs on General Geometries,
    arXiv:2402.02366, 2024, whose slice tokens these sums are.

    Examples
    --------
    >>> import numpy as np
    >>> import gnograd as gg
    >>> q, k, c = np.random.default_rng(0).normal(size=(3, 10, 2, 8))
    >>> u = np.random.default_rng(1).normal(size=(10, 2, 8))
    >>> pooled = gg.attention_pool(q, k, c)
    >>> np.allclose(np.vdot(u, pooled), np.vdot(c, gg.attention(q, k, u)))
    True
    """
