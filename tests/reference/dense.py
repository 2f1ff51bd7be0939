# SPDX-License-Identifier: MIT
"""Dense attention and its adjoint by their formulas: a query and head at a time. Complex-safe."""

import numpy as np

from reference.nsa import sequences


def weights(q, k, bias, temperature, cu_q, cu_k, scale):
    """For every query and head: their numbers, key/value head, keys, and the weights of these."""
    group = q.shape[1] // k.shape[1]
    scale = 1 / np.sqrt(q.shape[2]) if scale is None else scale
    pairs = zip(sequences(cu_q, len(q)), sequences(cu_k, len(k)), strict=True)
    for (first_q, end_q), (first_k, end_k) in pairs:
        if first_k == end_k:
            continue
        keys = slice(first_k, end_k)
        for t in range(first_q, end_q):
            for h in range(q.shape[1]):
                g = h // group
                x = scale * (k[keys, g] @ q[t, h])
                if bias is not None:
                    x = x + bias[keys, g]
                if temperature is not None:
                    x = x / temperature[t % len(temperature), h]
                e = np.exp(x - np.max(np.real(x)))
                yield t, h, g, keys, e / e.sum()


def attention(q, k, v, bias=None, temperature=None, *, cu_q=None, cu_k=None, scale=None):
    given = [x for x in (q, k, v, bias, temperature) if x is not None]
    out = np.zeros((*q.shape[:2], v.shape[2]), np.result_type(*given))
    for t, h, g, keys, w in weights(q, k, bias, temperature, cu_q, cu_k, scale):
        out[t, h] = w @ v[keys, g]
    return out


def attention_pool(q, k, c, bias=None, temperature=None, *, cu_q=None, cu_k=None, scale=None):
    given = [x for x in (q, k, c, bias, temperature) if x is not None]
    pooled = np.zeros((*k.shape[:2], c.shape[2]), np.result_type(*given))
    for t, h, g, keys, w in weights(q, k, bias, temperature, cu_q, cu_k, scale):
        pooled[keys, g] += np.outer(w, c[t, h])
    return pooled


def faces(
    q, k, v, bias, temperature, g, tangents, *, cu_q=None, cu_k=None, scale=None
):  # fmt: skip
    """Value, its tangent, gradients and their tangents, by rows, in the inputs' precision.

    `tangents` are those of q, k, v, bias, temperature and of the cotangent g.
    """
    group = q.shape[1] // k.shape[1]
    one = q.dtype.type(1)
    scale = q.dtype.type(1 / np.sqrt(q.shape[2]) if scale is None else scale)
    dq, dk, dv, dbias, dtemperature, dg = tangents
    out, t_out = (np.zeros((*q.shape[:2], v.shape[2]), q.dtype) for _ in range(2))
    inputs = (q, k, v, bias, temperature)
    gradients = [None if x is None else np.zeros_like(x) for x in inputs]
    seconds = [None if x is None else np.zeros_like(x) for x in inputs]
    pairs = list(zip(sequences(cu_q, len(q)), sequences(cu_k, len(k)), strict=True))
    for t, h in np.ndindex(q.shape[:2]):
        (keys,) = (slice(*b) for a, b in pairs if a[0] <= t < a[1])
        if keys.start == keys.stop:
            continue
        n = h // group
        K, V, dK, dV = k[keys, n], v[keys, n], dk[keys, n], dv[keys, n]
        b = db = q.dtype.type(0)
        a, da = one, q.dtype.type(0)
        if bias is not None:
            b, db = bias[keys, n], dbias[keys, n]
        if temperature is not None:
            tau = temperature[t % len(temperature), h]
            a, da = one / tau, -dtemperature[t % len(temperature), h] / tau**2
        y = scale * (K @ q[t, h]) + b
        x = a * y
        X = a * (scale * (K @ dq[t, h] + dK @ q[t, h]) + db) + da * y
        top = x.max()
        P = np.exp(x - (top + np.log(np.exp(x - top).sum())))
        dP, ddP = V @ g[t, h], V @ dg[t, h] + dV @ g[t, h]
        dotP = P * (X - P @ X)
        D, dD = P @ dP, dotP @ dP + P @ ddP
        dS = P * (dP - D)
        ddS = dotP * (dP - D) + P * (ddP - dD)
        out[t, h], t_out[t, h] = P @ V, dotP @ V + P @ dV
        gradients[0][t, h] = a * scale * (dS @ K)
        seconds[0][t, h] = scale * (a * (ddS @ K + dS @ dK) + da * (dS @ K))
        gradients[1][keys, n] += a * scale * np.outer(dS, q[t, h])
        seconds[1][keys, n] += scale * (
            a * (np.outer(ddS, q[t, h]) + np.outer(dS, dq[t, h])) + da * np.outer(dS, q[t, h])
        )
        gradients[2][keys, n] += np.outer(P, g[t, h])
        seconds[2][keys, n] += np.outer(dotP, g[t, h]) + np.outer(P, dg[t, h])
        if bias is not None:
            gradients[3][keys, n] += a * dS
            seconds[3][keys, n] += a * ddS + da * dS
        if temperature is not None:
            row = t % len(temperature)
            gradients[4][row, h] -= a * (dS @ x)
            seconds[4][row, h] -= a * (ddS @ x + dS @ X) + da * (dS @ x)
    return [out, t_out, gradients, seconds]
