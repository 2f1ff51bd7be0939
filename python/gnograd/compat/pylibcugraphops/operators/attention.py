# SPDX-License-Identifier: MIT
"""Static arguments of both kinds of graph attention."""

from __future__ import annotations

from gnograd.compat.pylibcugraphops.call import Call
from gnograd.compat.pylibcugraphops.operators.kinds import ActivationKind, mha_params
from gnograd.notation.static import AT_LEAST_1, boolean, integer, number

__all__ = ["SCORES", "static_arguments"]

SCORES = "2 H n_edges"
NO_DROPOUT = 0.0, None


def static_arguments(call: Call) -> tuple[str, tuple[bool, ActivationKind, float, float, None]]:
    """Columns of the output, and the arguments of kernels after the sizes; sets the size H."""
    params = call.get("params")
    if not isinstance(params, mha_params):
        raise TypeError(f"{call.name}: params is of type {type(params).__name__}, needs mha_params")
    call.sizes["H"] = integer(f"{call.name}: num_heads", params.num_heads, AT_LEAST_1)
    concat_heads = boolean(f"{call.name}: concat_heads", params.concat_heads)
    alpha = number(f"{call.name}: alpha", params.alpha)
    value = params.activation
    try:
        kind = ActivationKind[value] if isinstance(value, str) else ActivationKind(value)
    except (KeyError, ValueError):
        names = ", ".join(kind.name for kind in ActivationKind)
        raise ValueError(f"{call.name}: activation is {value!r}, needs one of {names}") from None
    return "H*C" if concat_heads else "C", (concat_heads, kind, alpha, *NO_DROPOUT)
