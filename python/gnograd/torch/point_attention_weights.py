# SPDX-License-Identifier: MIT
"""State dicts of Erwin, MSPT and BSA in the names and shapes of `PointAttention`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from gnograd.torch.sparse_branches import SparseBranches

__all__ = ["rename_weights"]


def rename_weights(
    module: SparseBranches, state: MutableMapping[str, Any], prefix: str, *_arguments: Any
) -> None:
    """Rename and reorder the entries of another package in place.

    What has no place in it keeps its name, under which `load_state_dict` reports it.
    """
    own = dict(module.named_parameters())
    heads = module.num_heads
    of_bsa = tuple(f"{prefix}{name}." for name in ("out_proj", "position_proj", "gated_attention"))
    is_bsa = any(key.startswith(of_bsa) for key in state)
    for kind in ("weight", "bias"):
        both, gates = f"{prefix}qkv.{kind}", f"{prefix}gated_attention.to_strategy.0.{kind}"
        if _has_rows(state, both, 3 * heads) and not is_bsa:
            # heads, features, and queries, keys, values
            state[both] = state[both].unflatten(0, (heads, -1, 3)).movedim(2, 0).flatten(0, 2)
        elif f"{prefix}attn.in_proj_{kind}" in state:
            both = f"{prefix}attn.in_proj_{kind}"
        if _has_rows(state, both, 3) and f"to_q.{kind}" in own:
            rows = state.pop(both)
            n = rows.shape[0] // 3
            state[f"{prefix}to_q.{kind}"], state[f"{prefix}to_kv.{kind}"] = rows[:n], rows[n:]
        if _has_rows(state, gates, 3) and module.n_branches == 3:
            # heads, and balls, tokens, selected blocks
            rows = state.pop(gates).unflatten(0, (-1, 3))
            state[f"{prefix}to_gate.{kind}"] = rows[:, [1, 2, 0]].transpose(0, 1).flatten(0, 1)
        for theirs, ours in _NAMES:
            if f"{prefix}{theirs}.{kind}" in state and f"{ours}.{kind}" in own:
                state[f"{prefix}{ours}.{kind}"] = state.pop(f"{prefix}{theirs}.{kind}")


_NAMES = (
    ("proj", "to_out"), ("attn.out_proj", "to_out"), ("out_proj", "to_out"),
    ("pe_proj", "position"), ("position_proj", "position"),
    *((f"{x}_compress_mlp.{k}", f"compress_{x}.{k}") for x in "qkv" for k in (0, 2)),
)  # fmt: skip
"""Names of linear maps in other state dicts, and here."""


def _has_rows(state: MutableMapping[str, Any], name: str, multiple: int) -> bool:
    """Whether there is a tensor of the name, with rows that divide into so many parts."""
    return name in state and state[name].ndim > 0 and state[name].shape[0] % multiple == 0
