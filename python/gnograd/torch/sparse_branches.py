# SPDX-License-Identifier: MIT
"""Base of sparse attention layers: three gated branches, and borders of sequences.

The layers add three attentions, each weighted by a gate: to compressed tokens, which sees all
coarsely; to the blocks whose compressed tokens got most attention, at full resolution; and to the
neighbourhood. Their cost grows linearly with the number of tokens, apart from the compressed one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnograd.torch.arrays import integers, is_integral
from gnograd.torch.eager import not_compiled

__all__ = ["SparseBranches", "borders_of", "checked_borders"]


class SparseBranches(nn.Module):
    """Projections and gates of up to three branches."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_kv_heads: int | None,
        head_dim: int | None,
        bias: bool,
        n_branches: int = 3,
        shared_kv: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if min(dim, num_heads, kv_heads) < 1 or num_heads % kv_heads:
            raise ValueError(
                f"{name}: dim {dim} and heads {num_heads}, {kv_heads} must be positive, and "
                "num_heads a multiple of num_kv_heads"
            )
        if head_dim is None and dim % num_heads:
            raise ValueError(
                f"{name}: num_heads {num_heads} does not divide dim {dim}: give head_dim"
            )
        self.dim, self.num_heads, self.num_kv_heads = dim, num_heads, kv_heads
        self.head_dim = dim // num_heads if head_dim is None else head_dim
        self.to_q = nn.Linear(dim, num_heads * self.head_dim, bias=bias)
        # every branch has keys and values of its own, as in the paper, if they are not shared
        self.n_branches, self.n_kv = n_branches, 1 if shared_kv else n_branches
        self.to_kv = nn.Linear(dim, self.n_kv * 2 * kv_heads * self.head_dim, bias=bias)
        if n_branches > 1:
            self.to_gate = nn.Linear(dim, n_branches * num_heads)
        self.to_out = nn.Linear(num_heads * self.head_dim, dim, bias=bias)

    def project(
        self, x: Tensor, context: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Queries ``(T, heads, head_dim)`` of x; keys and values of the context by branches."""
        q = self.to_q(x).view(x.shape[0], self.num_heads, self.head_dim)
        context = x if context is None else context
        return q, *self.keys_and_values(context)

    def keys_and_values(self, context: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Keys and values ``(T, kv_heads, head_dim)`` of the branches."""
        kv = self.to_kv(context)
        kv = kv.view(context.shape[0], self.n_kv, 2, self.num_kv_heads, self.head_dim)
        keys, values = (list(a.unbind(dim=1)) for a in kv.unbind(dim=2))
        times = self.n_branches // self.n_kv
        return keys * times, values * times

    def combine(self, x: Tensor, branches: list[Tensor]) -> Tensor:
        """Gated sum of the branches ``(T, heads, head_dim)``."""
        gates = torch.sigmoid(self.to_gate(x)).view(x.shape[0], len(branches), self.num_heads, 1)
        return self.merge_heads((gates * torch.stack(branches, dim=1)).sum(dim=1))

    def merge_heads(self, out: Tensor) -> Tensor:
        """Project heads ``(T, heads, head_dim)`` to the output."""
        merged: Tensor = self.to_out(out.reshape(out.shape[0], self.num_heads * self.head_dim))
        return merged


def borders_of(sizes: Tensor) -> Tensor:
    """First item of every sequence, and the end: running sums of sizes after a 0."""
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


@not_compiled
def checked_borders(
    cu_seqlens: Tensor | Sequence[int], n: int, name: str, multiple: int = 1
) -> Tensor:
    """Check borders (first item of every sequence, and the end) and copy them to the host."""
    given = cu_seqlens if isinstance(cu_seqlens, Tensor) else torch.tensor(cu_seqlens, device="cpu")
    cu = given.cpu()
    if not is_integral(cu) or cu.dim() != 1 or len(cu) < 1:
        raise ValueError(
            f"{name} is of {cu.dtype} and shape {tuple(cu.shape)}, "
            "needs integers and (n_sequences + 1,)"
        )
    cu = integers(cu, torch.int64)
    if cu[0] != 0 or cu[-1] != n or (cu.diff() < 0).any():
        raise ValueError(f"{name} is {cu.tolist()}, needs to ascend from 0 to {n}")
    if (cu[:-1] % multiple).any():
        raise ValueError(
            f"{name}: sequences must begin at multiples of {multiple}, "
            "the tokens that share a selection"
        )
    return cu
