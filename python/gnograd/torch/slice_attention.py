# SPDX-License-Identifier: MIT
"""Slice attention: points are weighed to few slices, which attend to each other."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gnograd.torch import functional
from gnograd.torch.arrays import integers, need_positive
from gnograd.torch.dropout import gumbel_noise
from gnograd.torch.sparse_branches import checked_borders

__all__ = ["SliceAttention", "equal_borders", "items_of"]

_TILE = 2**20
"""Weights with noise that are there at a time."""


class SliceAttention(nn.Module):
    """Physics attention of Transolver, without an array of points times slices.

    Every point and head has weights over `slice_num` slices, ``softmax((x W + b) / temperature)``
    of its projected features. A slice's token is the mean of the points' features by these weights;
    the tokens of a head attend to each other, and every point gets their sum by its weights.

    Parameters
    ----------
    dim : int
        Width of the input and the output.
    heads : int
        Heads.
    dim_head : int
        Width of a head.
    slice_num : int
        Slices, which all heads have.
    plus : bool
        Transolver++: one projection, and a temperature of every point and head from its features,
        at least 0.01.
    dropout : float
        Probability that a number of the output is dropped in training.
    eps : float
        Added to the sum of a slice's weights: 0.01 in PhysicsNeMo, 1e-5 in Transolver.
    temperature_range : (float, float), optional
        Limits of the temperature; None for Transolver's, which has none. Of no effect with `plus`.
    gumbel : bool, optional
        Add Gumbel noise to the logits. Left out: in training with `plus`. PhysicsNeMo draws it in
        evaluation as well.

    Raises
    ------
    ValueError
        A size of 0 or less.

    See Also
    --------
    attention, attention_pool : what it is made of.

    Notes
    -----
    Loads the state dicts of PhysicsNeMo's ``PhysicsAttentionIrregularMesh`` (without Transformer
    Engine) and of Transolver's ``Physics_Attention_Irregular_Mesh``.

    Noise is ``-log(-log(u + 1e-8) + 1e-8)``, where u is ``2**-53`` times the first 53 bits of
    number ``(row * heads + head) * slice_num + slice`` of the sequence that SplitMix64 makes of a
    seed, as for the dropout of `mha_gat`; a call takes its seed from PyTorch's generator of the
    device. Weights with noise are made for some points at a time, and again in the backward pass;
    none are kept.

    References
    ----------
    Wu et al., Transolver: A Fast Transformer Solver for PDEs on General Geometries,
    arXiv:2402.02366, 2024.
    Luo et al., Transolver++: An Accurate Neural Solver for PDEs on Million-Scale Geometries,
    arXiv:2502.02414, 2025.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import SliceAttention
    >>> layer = SliceAttention(32, heads=4, dim_head=8, slice_num=16)
    >>> layer(torch.randn(2, 100, 32)).shape
    torch.Size([2, 100, 32])
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        dim_head: int = 64,
        slice_num: int = 64,
        plus: bool = False,
        *,
        dropout: float = 0.0,
        eps: float = 1e-2,
        temperature_range: tuple[float, float] | None = (0.5, 5.0),
        gumbel: bool | None = None,
    ) -> None:
        super().__init__()
        sizes = {"dim": dim, "heads": heads, "dim_head": dim_head, "slice_num": slice_num}
        need_positive(type(self).__name__, **sizes)
        self.dim, self.heads, self.dim_head, self.slice_num = dim, heads, dim_head, slice_num
        self.plus, self.eps, self.temperature_range = plus, eps, temperature_range
        self.gumbel = gumbel
        inner = heads * dim_head
        # in PhysicsNeMo's order, which states of optimisers have
        self.temperature = nn.Parameter(torch.full((1, 1, heads, 1), 0.5))
        if plus:
            self.proj_temperature = nn.Sequential(
                nn.Linear(dim_head, slice_num), nn.GELU(), nn.Linear(slice_num, 1), nn.GELU()
            )
        self.in_project_slice = nn.Linear(dim_head, slice_num)
        nn.init.orthogonal_(self.in_project_slice.weight)
        self.qkv_project = nn.Linear(dim_head, 3 * dim_head, bias=False)
        self.out_linear = nn.Linear(inner, dim)
        self.in_project_x = nn.Linear(dim, inner)
        if not plus:
            self.in_project_fx = nn.Linear(dim, inner)
        self.out_dropout = nn.Dropout(dropout)
        self.register_load_state_dict_pre_hook(_rename)

    def forward(self, x: Tensor, cu_seqlens: Tensor | Sequence[int] | None = None) -> Tensor:
        """Attend.

        Parameters
        ----------
        x : Tensor, (B, N, dim) or (N, dim)
            Features of the points.
        cu_seqlens : Tensor of int64 or sequence of int, (n_clouds + 1,), optional
            First point of every cloud packed in ``x (N, dim)``, and the end; one cloud when left
            out. `torch.compile` breaks its graph here for a sequence, and for noise.

        Returns
        -------
        Tensor, in the shape of `x`

        Raises
        ------
        ValueError
            A shape or borders that do not fit.
        """
        return self._through_slices(x, cu_seqlens, self._among_slices)

    def total(self, pooled: Tensor) -> Tensor:
        """Add what slices got from points elsewhere; here there are none.

        A process that has some of the points of every cloud overrides this by the sum over the
        processes, ``shared(comm, sum(comm, pooled))`` of `gnograd.distributed`.

        Parameters
        ----------
        pooled : Tensor, (n_clouds slice_num, heads, dim_head + 1)
            Weighted sums of features, and sums of weights.

        Returns
        -------
        Tensor, in the shape of `pooled`
        """
        return pooled

    def _through_slices(
        self,
        x: Tensor,
        cu_seqlens: Tensor | Sequence[int] | None,
        attend: Callable[[Tensor, Tensor | None], Tensor],
    ) -> Tensor:
        """Pool points to tokens, let these attend, and give them back to the points.

        `attend` takes the tokens (B slices, heads, dim_head) and their borders, None for one item.
        """
        name = type(self).__name__
        batch = items_of(name, x, self.dim)
        gumbel = self.plus and self.training if self.gumbel is None else self.gumbel
        if cu_seqlens is None:
            sizes = [x.shape[-2]] * batch
            cu_x = equal_borders(batch, x.shape[-2], x.device)
        else:
            if x.ndim != 2:
                raise ValueError(
                    f"{name}: x has shape {tuple(x.shape)}, cu_seqlens needs (N, {self.dim})"
                )
            if torch.compiler.is_compiling() and isinstance(cu_seqlens, Tensor) and not gumbel:
                borders, sizes = integers(cu_seqlens, torch.int64), []  # operators check them
            else:
                borders = checked_borders(cu_seqlens, len(x), f"{name}: cu_seqlens")
                sizes = borders.diff().tolist()
            batch = borders.shape[0] - 1
            cu_x = None if len(sizes) == 1 else borders.to(x.device)
        logits_of = self._heads(self.in_project_x(x))
        content = logits_of if self.plus else self._heads(self.in_project_fx(x))
        content = torch.cat([content, content.new_ones(*content.shape[:-1], 1)], dim=-1)
        temperature = self._temperature(logits_of)
        cu_s = None if cu_x is None else _equal_borders(batch, self.slice_num, x.device)
        if gumbel:
            noisy = _Noise(self, logits_of, temperature, sizes)
            pooled = noisy.pool(content)
        else:
            keys = self.in_project_slice.weight[:, None].expand(-1, self.heads, -1)
            bias = self.in_project_slice.bias[:, None].expand(-1, self.heads)
            if cu_x is not None:
                keys, bias = keys.repeat(batch, 1, 1), bias.repeat(batch, 1)
            logits: dict[str, Any] = {"cu_q": cu_x, "cu_k": cu_s, "scale": 1.0}
            pooled = torch.cat(
                [  # operators take up to 256 features
                    functional.attention_pool(logits_of, keys, part, bias, temperature, **logits)
                    for part in content.split(256, dim=-1)
                ],
                dim=-1,
            )
        pooled = self.total(pooled)
        tokens = attend(pooled[..., :-1] / (pooled[..., -1:] + self.eps), cu_s)
        if gumbel:
            out = noisy.spread(tokens)
        else:
            out = functional.attention(logits_of, keys, tokens, bias, temperature, **logits)
        out = self.out_linear(out.reshape(*x.shape[:-1], self.heads * self.dim_head))
        return self.out_dropout(out)

    def _among_slices(self, tokens: Tensor, cu: Tensor | None) -> Tensor:
        """Attention of every item's tokens to each other."""
        q, k, v = self.qkv_project(tokens).chunk(3, dim=-1)
        return functional.attention(q, k, v, cu_q=cu, cu_k=cu)

    def _heads(self, x: Tensor) -> Tensor:
        """Rows of all items by head, (B N, heads, dim_head)."""
        return x.reshape(-1, self.heads, self.dim_head)

    def _temperature(self, x: Tensor) -> Tensor:
        """Temperature of heads (1, heads), or of points and heads (B N, heads)."""
        temperature = self.temperature.reshape(1, self.heads)
        if self.plus:
            return (temperature + self.proj_temperature(x).squeeze(-1)).clamp(min=0.01)
        if self.temperature_range is not None:
            temperature = temperature.clamp(*self.temperature_range)
        return temperature


class _Noise:
    """Sums with weights whose logits have Gumbel noise, of some points at a time."""

    def __init__(
        self, layer: SliceAttention, x: Tensor, temperature: Tensor, sizes: Sequence[int]
    ) -> None:
        self.layer, self.x, self.temperature = layer, x, temperature
        self.seed = torch.randint(2**63 - 1, (1,), device=x.device)
        rows = max(_TILE // max(layer.heads * layer.slice_num, 1), 1)
        self.tiles: list[list[slice]] = []
        first = 0
        for size in sizes:
            # an empty item has an empty tile, through which derivatives run
            ends = range(first, first + max(size, 1), rows)
            self.tiles.append([slice(a, min(a + rows, first + size)) for a in ends])
            first += size

    def pool(self, content: Tensor) -> Tensor:
        """Sums of contents (B N, heads, D) over the points of every item, (B slices, heads, D)."""

        def one(content: Tensor, *parts: Any) -> Tensor:
            return torch.einsum("nhs,nhd->shd", self._weights(*parts), content)

        none = content.new_zeros(self.layer.slice_num, *content.shape[1:])
        items = [
            sum((self._called(one, content[tile], tile) for tile in tiles), none)
            for tiles in self.tiles
        ]
        return torch.cat(items or [content[:0]])

    def spread(self, tokens: Tensor) -> Tensor:
        """Sums of tokens (B slices, heads, D) for every point, (B N, heads, D)."""

        def one(tokens: Tensor, *parts: Any) -> Tensor:
            return torch.einsum("nhs,shd->nhd", self._weights(*parts), tokens)

        items = zip(self.tiles, tokens.split([self.layer.slice_num] * len(self.tiles)), strict=True)
        rows = [self._called(one, mine, tile) for tiles, mine in items for tile in tiles]
        return torch.cat(rows or [tokens[:0]])

    def _called(self, one: Callable[..., Tensor], array: Tensor, tile: slice) -> Tensor:
        """Call for a tile, whose weights are made again in the backward pass if there are more."""
        heat = self.temperature[tile] if len(self.temperature) > 1 else self.temperature
        parts = array, self.x[tile], heat, tile.start
        # torch.func's transforms take no checkpoints
        if tile.stop - tile.start == len(self.x) or torch._C._are_functorch_transforms_active():
            return one(*parts)
        out: Tensor = checkpoint(one, *parts, use_reentrant=False, preserve_rng_state=False)
        return out

    def _weights(self, x: Tensor, temperature: Tensor, first: int) -> Tensor:
        """Weights of some points, (n, heads, slices), the first of them by number."""
        logits = self.layer.in_project_slice(x)
        place = first * self.layer.heads * self.layer.slice_num
        dtype = torch.promote_types(logits.dtype, torch.float32)
        noise = gumbel_noise(self.seed, place, logits.numel(), dtype).view_as(logits)
        return torch.softmax((logits + noise) / temperature[..., None], dim=-1).to(x.dtype)


def items_of(name: str, x: Tensor, dim: int) -> int:
    """Items in the features of points, (B, N, dim) or (N, dim), for a layer of this name.

    Raises
    ------
    ValueError
        Another shape.
    """
    if x.ndim not in (2, 3) or x.shape[-1] != dim:
        raise ValueError(f"{name}: x has shape {tuple(x.shape)}, needs (B, N, {dim}) or (N, {dim})")
    return x.shape[0] if x.ndim == 3 else 1


def equal_borders(batch: int, n: int, device: torch.device) -> Tensor | None:
    """Borders of items of n rows; None for one item."""
    return None if batch == 1 else _equal_borders(batch, n, device)


def _equal_borders(batch: int, n: int, device: torch.device) -> Tensor:
    return torch.arange(batch + 1, device=device) * n


def _rename(
    module: nn.Module, state: MutableMapping[str, Any], prefix: str, *_arguments: Any
) -> None:
    """Bring a state dict of Transolver into the names and shapes of PhysicsNeMo's."""
    parts = [f"{prefix}to_{name}.weight" for name in "qkv"]
    if all(name in state for name in parts):
        state[f"{prefix}qkv_project.weight"] = torch.cat([state.pop(name) for name in parts])
    for name in ("weight", "bias"):
        if f"{prefix}to_out.0.{name}" in state:
            state[f"{prefix}out_linear.{name}"] = state.pop(f"{prefix}to_out.0.{name}")
    temperature = state.get(f"{prefix}temperature")
    own = module.temperature
    if isinstance(temperature, Tensor) and temperature.numel() == own.numel():  # type: ignore[operator]
        state[f"{prefix}temperature"] = temperature.reshape(own.shape)  # type: ignore[arg-type]
