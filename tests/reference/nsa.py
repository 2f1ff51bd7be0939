# SPDX-License-Identifier: MIT
"""Native sparse attention by its formulas: one query, one head at a time. Complex-safe."""

from itertools import pairwise

import numpy as np


def sequences(cu, n):
    """(first, end) of every sequence."""
    return [(0, n)] if cu is None else list(pairwise(cu))


def distances(x, points):
    """Distances from a point to others; 0 where they coincide, with derivative 0."""
    squares = np.sum((x - points) ** 2, axis=1)
    apart = np.real(squares) > 0
    return np.where(apart, np.sqrt(np.where(apart, squares, 1)), 0)


def attend(q, k, v, slot_gate, visible, scale=None, bias=None):
    """`visible(t, hk)` gives the keys that query t sees, and their slots."""
    n_queries, n_query_heads, d_k = q.shape
    group = n_query_heads // k.shape[1]
    scale = 1 / np.sqrt(d_k) if scale is None else scale
    others = [x for x in (slot_gate, *(bias or ())) if x is not None]
    dtype = np.result_type(q, k, v, *others)
    out = np.zeros((n_queries, n_query_heads, v.shape[2]), dtype)
    lse = np.full((n_queries, n_query_heads), -np.inf, dtype)
    for t in range(n_queries):
        for h in range(n_query_heads):
            hk = h // group
            keys, slots = visible(t, hk)
            gates = np.ones(len(keys), dtype) if slot_gate is None else slot_gate[t, hk, slots]
            if not np.any(np.real(gates) > 0):
                continue
            x = dtype.type(scale) * (k[keys, hk] @ q[t, h])
            if bias is not None:
                positions_q, positions_k, slope = bias
                x = x + slope[h] * distances(positions_q[t], positions_k[keys])
            top = np.max(np.real(x))
            e = gates * np.exp(x - top)
            out[t, h] = (e / e.sum()) @ v[keys, hk]
            lse[t, h] = top + np.log(e.sum())
    return out, lse


def faces(q, k, v, slot_gate, visible, scale, bias=None, *, cotangent, tangents):
    """Result, its tangent, gradients and their tangents, by rows, in the inputs' precision."""
    group = q.shape[1] // k.shape[1]
    scale = q.dtype.type(1 / np.sqrt(q.shape[2]) if scale is None else scale)
    out, lse = attend(q, k, v, slot_gate, visible, scale, bias)
    out_tangent = np.zeros_like(out)
    inputs = (q, k, v, *(bias or (slot_gate,)))
    gradients = [None if x is None else np.zeros_like(x) for x in inputs]
    seconds = [None if x is None else np.zeros_like(x) for x in inputs]
    for t, h in np.ndindex(q.shape[:2]):
        hk = h // group
        keys, slots = visible(t, hk)
        if lse[t, h] == -np.inf:
            continue
        row, g, drow = q[t, h], cotangent[t, h], tangents[0][t, h]
        (K, V), (dK, dV) = ((x[keys, hk] for x in pair) for pair in ((k, v), tangents[1:3]))
        w, dw = q.dtype.type(1), q.dtype.type(0)
        if slot_gate is not None:
            w, dw = slot_gate[t, hk, slots], tangents[3][t, hk, slots]
        x, X = scale * (K @ row), scale * (K @ drow + dK @ row)
        if bias is not None:
            points, dpoints, slope, dslope = bias[1], tangents[4], bias[2][h], tangents[5][h]
            r, dr = bias[0][t] - points[keys], tangents[3][t] - dpoints[keys]
            length = distances(bias[0][t], points[keys])
            inverse = np.where(length > 0, 1 / np.where(length > 0, length, 1), 0)
            u = r * inverse[:, None]
            dlength = np.sum(u * dr, axis=1)
            du = (dr - u * dlength[:, None]) * inverse[:, None]
            x, X = x + slope * length, X + (dslope * length + slope * dlength)
        E = np.exp(x - lse[t, h])
        P = w * E
        D, dP = g @ out[t, h], V @ g
        dS = P * (dP - D)
        rho = np.sum(P * X + E * dw)
        dotP = P * X + E * dw - P * rho
        out_tangent[t, h] = dotP @ V + P @ dV
        dotD, dotdP = g @ out_tangent[t, h], dV @ g
        dotdS = dotP * (dP - D) + P * (dotdP - dotD)
        gradients[0][t, h] = scale * (dS @ K)
        seconds[0][t, h] = scale * (dotdS @ K + dS @ dK)
        np.add.at(gradients[1], (keys, hk), scale * np.outer(dS, row))
        np.add.at(seconds[1], (keys, hk), scale * (np.outer(dotdS, row) + np.outer(dS, drow)))
        np.add.at(gradients[2], (keys, hk), np.outer(P, g))
        np.add.at(seconds[2], (keys, hk), np.outer(dotP, g))
        if bias is not None:
            pull = slope * dS[:, None] * u
            second = (dslope * dS + slope * dotdS)[:, None] * u + slope * dS[:, None] * du
            for found, y, s in (
                (gradients, pull, dS * length), (seconds, second, dotdS * length + dS * dlength)
            ):  # fmt: skip
                found[3][t] += y.sum(axis=0)
                np.add.at(found[4], keys, -y)
                found[5][h] += s.sum()
        if slot_gate is not None:
            np.add.at(gradients[3], (t, hk, slots), E * (dP - D))
            dotE = E * (X - rho)
            np.add.at(seconds[3], (t, hk, slots), dotE * (dP - D) + E * (dotdP - dotD))
    return [out, out_tangent, *gradients, *seconds]


def selected_attention(
    q, k, v, slot_gate=None, *, block_index, block_size, scale=None, causal=False, q_offset=0,
    cu_q=None, cu_k=None, query_block=1, duplicates="ignore", evaluate=attend,
):  # fmt: skip
    bounds_q, bounds_k = sequences(cu_q, len(q)), sequences(cu_k, len(k))

    def visible(t, hk):
        (s,) = (s for s, (first, end) in enumerate(bounds_q) if first <= t < end)
        keys, slots, named = [], [], set()
        for slot, block in enumerate(block_index[t // query_block, hk]):
            if block < 0 or (block in named and duplicates == "ignore"):
                continue
            named.add(block)
            first, end = bounds_k[s]
            start = first + block * block_size
            for key in range(start, min(start + block_size, end)):
                if not causal or key - first <= t - bounds_q[s][0] + q_offset:
                    keys.append(key)
                    slots.append(slot)
        return np.array(keys, int), np.array(slots, int)

    return evaluate(q, k, v, slot_gate, visible, scale)


def by_position(q, k, v, sees, scale, cu_q, cu_k, evaluate, bias=None):
    """Attention where position s sees the keys at the positions p with sees(s, p)."""
    bounds_q, bounds_k = sequences(cu_q, len(q)), sequences(cu_k, len(k))

    def visible(t, _):
        (s,) = (s for s, (first, end) in enumerate(bounds_q) if first <= t < end)
        first, end = bounds_k[s]
        keys = [key for key in range(first, end) if sees(t - bounds_q[s][0], key - first)]
        return np.array(keys, int), np.zeros(len(keys), int)

    return evaluate(q, k, v, None, visible, scale, bias)


def compressed_attention(
    q, k, v, *, block, stride, scale=None, causal=False, q_offset=0, cu_q=None, cu_k=None,
    evaluate=attend,
):  # fmt: skip
    def sees(s, c):
        return not causal or c * stride + block - 1 <= s + q_offset

    return by_position(q, k, v, sees, scale, cu_q, cu_k, evaluate)


def window_attention(
    q, k, v, positions_q=None, positions_k=None, slope=None, *, window=None, scale=None,
    causal=False, q_offset=0, cu_q=None, cu_k=None, evaluate=attend,
):  # fmt: skip
    def sees(s, p):
        if causal:
            return p <= s + q_offset and (window is None or p > s + q_offset - window)
        return window is None or s // window == p // window

    bias = None if slope is None else (positions_q, positions_k, slope)
    return by_position(q, k, v, sees, scale, cu_q, cu_k, evaluate, bias)


def compressed_tokens(length, block, stride):
    """First tokens of the stretches of a sequence that are compressed."""
    return range(0, length - block + 1, stride)


def compress(x, w, *, block, stride, cu=None):
    rows = [
        sum(w[i][:, None] * x[first + start + i] for i in range(block))
        for first, end in sequences(cu, len(x))
        for start in compressed_tokens(end - first, block, stride)
    ]
    return np.array(rows).reshape(-1, *x.shape[1:])


def select_blocks(
    q, k, lse=None, *, block, stride, block_size, n_blocks, n_keys=None, scale=None, causal=False,
    q_offset=0, cu_q=None, cu_k=None, query_block=1, first_blocks=0, local_blocks=0,
    exclude_own=False, keep=None,
):  # fmt: skip
    """Scores of all blocks, one selection at a time, then the best; lse comes from here.

    With `keep`, down the tree; lse as it is given, or sums over the candidates of a level.
    """
    if keep is not None:
        return select_blocks_down_the_tree(
            q, k, lse, keep, n_keys or len(q), cu_q, cu_k, scale, query_block, n_blocks,
            (block, stride, block_size, q_offset, first_blocks, local_blocks, exclude_own),
        )  # fmt: skip
    n_heads, group = k.shape[1], q.shape[1] // k.shape[1]
    scale = 1 / np.sqrt(q.shape[2]) if scale is None else scale
    bounds_q, bounds_k = sequences(cu_q, len(q)), sequences(cu_k, n_keys or len(q))
    chosen = np.full((-(-len(q) // query_block), n_heads, n_blocks), -1)
    first_compressed = 0
    for (q_first, q_end), (k_first, k_end) in zip(bounds_q, bounds_k, strict=True):
        starts = compressed_tokens(k_end - k_first, block, stride)
        blocks = range(-(-(k_end - k_first) // block_size))
        for first in range(q_first, q_end, query_block):
            queries = range(first, min(first + query_block, q_end))
            positions = [t - q_first + q_offset for t in queries]
            own = range(positions[0] // block_size, positions[-1] // block_size + 1)
            for h in range(n_heads):
                score = np.zeros(len(blocks))
                for t, position in zip(queries, positions, strict=True):
                    seen = [
                        c for c, start in enumerate(starts)
                        if not causal or start + block - 1 <= position
                    ]  # fmt: skip
                    for g in range(h * group, (h + 1) * group):
                        x = [scale * (k[first_compressed + c, h] @ q[t, g]) for c in seen]
                        p = np.exp(x - np.max(x)) if x else np.zeros(0)
                        for c, share in zip(seen, p / p.sum(), strict=True):
                            for b in blocks:
                                tokens = range(b * block_size, (b + 1) * block_size)
                                stretch = range(starts[c], starts[c] + block)
                                shared = min(tokens.stop, stretch.stop) - max(tokens[0], stretch[0])
                                score[b] += max(shared, 0) * share
                order = []
                for b in blocks:
                    near = local_blocks > 0 and own[0] - local_blocks < b <= own[-1]
                    always = near or b < first_blocks
                    hidden = causal and b * block_size > positions[-1]
                    if not hidden and not (exclude_own and b in own):
                        order.append((not always, 0 if always else -score[b], b))
                best = [b for *_, b in sorted(order)][:n_blocks]
                chosen[first // query_block, h, : len(best)] = best
        first_compressed += len(starts)
    return chosen


def select_blocks_down_the_tree(
    q, k, lse, keep, n_keys, cu_q, cu_k, scale, query_block, n_blocks, static
):
    """Blocks by scores of tokens, each ball's from the tokens themselves."""
    block, stride, block_size, q_offset, first_blocks, local_blocks, exclude_own = static
    n_heads, group = k.shape[1], q.shape[1] // k.shape[1]
    scale = 1 / np.sqrt(q.shape[2]) if scale is None else scale
    chosen = np.full((-(-len(q) // query_block), n_heads, n_blocks), -1)
    done = 0
    for (q_first, q_end), (k_first, k_end) in zip(
        sequences(cu_q, len(q)), sequences(cu_k, n_keys), strict=True
    ):
        starts = np.array(compressed_tokens(k_end - k_first, block, stride), int)
        keys, n = k[done : done + len(starts)], -(-(k_end - k_first) // block_size)
        done += len(starts)

        def overlap(b, level, starts=starts):
            low, high = b * 2**level * block_size, (b + 1) * 2**level * block_size
            return np.clip(np.minimum(starts + block, high) - np.maximum(starts, low), 0, None)

        for first in range(q_first, q_end, query_block):
            queries = range(first, min(first + query_block, q_end))
            at = [t - q_first + q_offset for t in queries]
            own = range(at[0] // block_size, at[-1] // block_size + 1)
            near = range(own[0] - local_blocks + 1, own[-1] + 1) if local_blocks else range(0)
            hidden_own = own if exclude_own else range(0)
            always = [
                b for b in range(n) if (b < first_blocks or b in near) and b not in hidden_own
            ]
            for h in range(n_heads):

                def scores(balls, level, queries=queries, h=h, keys=keys, overlap=overlap):
                    total = np.zeros(len(balls))
                    for t in queries:
                        for g in range(h * group, (h + 1) * group):
                            logs = np.full(len(balls), -np.inf)
                            for i, b in enumerate(balls):
                                o = overlap(b, level)
                                if not o.any():
                                    continue
                                if level:
                                    x = scale * (q[t, g] @ (o @ keys[:, h])) / o.sum()
                                    logs[i] = np.log(o.sum()) + x
                                else:
                                    x = (scale * keys[:, h] @ q[t, g])[o > 0]
                                    logs[i] = x.max() + np.log(o[o > 0] @ np.exp(x - x.max()))
                            if lse is not None:
                                total += np.exp(logs - lse[t, g]) if lse[t, g] > -np.inf else 0
                            elif np.isfinite(logs).any():
                                e = np.exp(logs - logs.max())
                                total += e / e.sum()
                    return total

                level = 0
                while -(-n // 2**level) > keep:
                    level += 1
                balls = list(range(-(-n // 2**level)))
                while True:
                    hidden = [
                        exclude_own
                        and all(c in own for c in range(b << level, min((b + 1) << level, n)))
                        for b in balls
                    ]
                    balls = [b for b, h_ in zip(balls, hidden, strict=True) if not h_]
                    if level == 0:
                        balls = [b for b in balls if b not in always]
                    s = scores(balls, level)
                    order = sorted(range(len(balls)), key=lambda i: (-s[i], balls[i]))
                    if level == 0:
                        best = (always + [balls[i] for i in order])[:n_blocks]
                        chosen[first // query_block, h, : len(best)] = best
                        break
                    kept = sorted(balls[i] for i in order[:keep])
                    level -= 1
                    balls = [c for b in kept for c in (2 * b, 2 * b + 1) if c < -(-n // 2**level)]
    return chosen
