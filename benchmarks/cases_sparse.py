# SPDX-License-Identifier: MIT
"""Cases of sparse attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from case import MANY, Call, add, normal

import gnograd as gg

TOKENS = 65536


def selection(tokens: int, heads: int, causal: bool, rng: np.random.Generator) -> Any:
    """16 blocks of 64, where it is causal the own one and earlier ones."""
    choose = getattr(rng, "choose", None)  # see `normal`
    if choose and tokens * heads >= MANY // 64:
        return choose(tokens, heads, causal)
    return np.concatenate([_selection(tokens, causal, rng) for _ in range(heads)], axis=1)


def _selection(tokens: int, causal: bool, rng: np.random.Generator) -> np.ndarray:
    n = tokens // 64
    score = rng.random((tokens, 1, n), np.float32)
    if causal:
        own = np.arange(tokens)[:, None, None] // 64
        score = np.where(np.arange(n) > own, -1, np.where(np.arange(n) == own, 2, score))
    slots = min(16, n)
    chosen = np.argpartition(-score, slots - 1, axis=2)[..., :slots].astype(np.int32)
    return np.where(np.take_along_axis(score, chosen, 2) < 0, -1, chosen).astype(np.int32)


def visits(tokens: int, causal: bool = True) -> float:
    """Blocks that all queries select; the first blocks of a sequence have less to choose from."""
    if not causal:
        return tokens * 16.0
    own = np.arange(tokens // 64) + 1
    return 64.0 * np.minimum(own, 16).sum()


def selected(
    name: str,
    group: int,
    kv_heads: int,
    d_k: int,
    d_v: int,
    dtype: str,
    causal: bool,
    tokens: int,
    small: int,
    usual: bool = True,
) -> None:
    """`kv_heads` of `group` query heads each; the small case has one of them, on all tokens."""

    def make(n: int, rng: np.random.Generator) -> Call:
        heads = kv_heads if n == tokens else 1
        index = selection(n, heads, causal, rng)
        shapes = (group * heads, d_k), (heads, d_k), (heads, d_v)
        inputs = tuple(normal(rng, n, *shape, dtype=dtype) for shape in shapes)
        static = {"block_index": index, "block_size": 64, "causal": causal}
        return gg.selected_attention, inputs, static

    def heads_of(n: int) -> int:
        return kv_heads if n == tokens else 1

    pairs = visits(tokens, causal) * 64 * group * kv_heads
    if causal:  # without what is hidden of the own block
        pairs -= tokens * 63 / 2 * group * kv_heads
    words = f"{tokens // 1024}k tokens, {group * kv_heads} heads of {kv_heads}, {d_k}/{d_v}, "
    add(
        name,
        make,
        words + "16 blocks of 64" + ", causal" * causal + f", {dtype}",
        full=tokens,
        small=small,
        work=lambda n: heads_of(n) * visits(n, causal),
        arrays=lambda n: float(heads_of(n) * n),
        type="tf32" if dtype == "float32" else "bf16",
        usual=usual,
        useful={"forward": 2 * pairs * (d_k + d_v), "vjp": 2 * pairs * (3 * d_k + 2 * d_v)},
    )


selected("nsa", 16, 4, 128, 128, "bfloat16", True, TOKENS, 1024)
selected("nsa_f32", 16, 4, 128, 128, "float32", True, TOKENS, 512, usual=False)
selected("nsa_192", 16, 4, 192, 128, "bfloat16", True, TOKENS, 1024, usual=False)
selected("nsa_mha", 1, 16, 64, 64, "bfloat16", False, TOKENS, 2048)
selected("nsa_mha_f32", 1, 16, 64, 64, "float32", False, TOKENS, 2048, usual=False)
selected("nsa_points", 1, 8, 32, 32, "bfloat16", False, TOKENS, 2048)
selected("nsa_points_f32", 1, 8, 32, 32, "float32", False, TOKENS, 2048)


def _group(n: int) -> tuple[int, int]:
    """Heads of queries and of keys: in the small case those of one of four groups."""
    return (64, 4) if n == TOKENS else (16, 1)


def _offset(n: int) -> int:
    """First position of n queries in the middle, which see as many keys as the average one."""
    return (TOKENS - n) // 2


def _compressed(n: int, rng: np.random.Generator) -> Call:
    heads, kv_heads = _group(n)
    # no keys that nobody sees: the gradients to keys are in every small case, and once in the full
    keys = (_offset(n) + n) // 16 - 1
    inputs = (
        normal(rng, n, heads, 128, dtype="bfloat16"),
        *(normal(rng, keys, kv_heads, 128, dtype="bfloat16") for _ in range(2)),
    )
    static = {"block": 32, "stride": 16, "causal": True, "q_offset": _offset(n)}
    return gg.compressed_attention, inputs, static


def _select(n: int, rng: np.random.Generator, dtype: str = "bfloat16") -> Call:
    heads, kv_heads = _group(n)
    inputs = (
        normal(rng, n, heads, 128, dtype=dtype),
        normal(rng, TOKENS // 16 - 1, kv_heads, 128, dtype=dtype),
        np.full((n, heads), 8, np.float32),
    )
    static = {
        "block": 32,
        "stride": 16,
        "block_size": 64,
        "n_blocks": 16,
        "n_keys": TOKENS,
        "causal": True,
        "q_offset": _offset(n),
        "first_blocks": 1,
        "local_blocks": 2,
    }
    return gg.select_blocks, inputs, static


_pairs = TOKENS * (TOKENS / 16 - 1) / 2 * 64
_WORDS = "64k tokens, 64 heads of 4, 128"
add(
    "compressed",
    _compressed,
    _WORDS + "/128, blocks of 32 at every 16th, causal, bfloat16",
    full=TOKENS,
    small=256,
    work=lambda n: float(n * _group(n)[1]),
    useful={"forward": 512 * _pairs, "vjp": 1280 * _pairs},
    type="bf16",
)
for _name, _dtype, _type in (
    ("select_blocks", "bfloat16", "bf16"),
    ("select_blocks_f32", "float32", "tf32"),
):
    add(
        _name,
        partial(_select, dtype=_dtype),
        f"{_WORDS}, 16 blocks of 64 by the compressed keys, causal, {_dtype}",
        full=TOKENS,
        small=64,
        work=lambda n: float(n * _group(n)[1]),
        # 16 rows of queries, and all compressed keys
        arrays=lambda n: float((16 * n + TOKENS // 16) * _group(n)[1]),
        useful={"forward": 256 * _pairs},
        type=_type,
        faces=("forward",),
        usual=_type == "bf16",
    )


def _window(n: int, rng: np.random.Generator) -> Call:
    heads, kv_heads = _group(n)
    before = 0 if n == TOKENS else 512
    inputs = (
        normal(rng, n, heads, 128, dtype="bfloat16"),
        *(normal(rng, n + before, kv_heads, 128, dtype="bfloat16") for _ in range(2)),
    )
    return gg.window_attention, inputs, {"window": 512, "causal": True, "q_offset": before}


_pairs = TOKENS * 512.0 * 64
add(
    "window",
    _window,
    _WORDS + "/128, window 512, causal, bfloat16",
    full=TOKENS,
    small=256,
    work=lambda n: float(n * _group(n)[1]),
    type="bf16",
    useful={"forward": 512 * _pairs, "vjp": 1280 * _pairs},
)


def _compress(n: int, rng: np.random.Generator) -> Call:
    _, heads = _group(n)
    inputs = normal(rng, n, heads, 128, dtype="bfloat16"), normal(rng, 32, heads, dtype="bfloat16")
    return gg.compress, inputs, {"block": 32, "stride": 16}


add(
    "compress",
    _compress,
    "64k tokens, 4 heads, 128, blocks of 32 at every 16th, bfloat16",
    full=TOKENS,
    small=4096,
    work=lambda n: float(n * _group(n)[1]),
    useful={"forward": 2.0 * TOKENS * 512 * 17 / 16, "vjp": 2.0 * TOKENS * 512 * 33 / 16},
)
