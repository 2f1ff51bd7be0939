# SPDX-License-Identifier: MIT
"""neuraloperator's graph neural operator layers, on the operators of gnograd.

The layers take the arguments of neuraloperator's layers of the same names, and hold parameters of
the same names and shapes, so that a ``state_dict`` loads as it is.
``docs/howto/neuraloperator.md`` says what differs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from gnograd.torch.integral_transform import (
    Activation,
    IntegralTransform,
    LinearChannelMLP,
    Neighbors,
)
from gnograd.torch.neighbors import NeighborSearch
from gnograd.torch.searches import Pointer

__all__ = ["GNOBlock", "IntegralTransform", "LinearChannelMLP", "SinusoidalEmbedding"]


class SinusoidalEmbedding(nn.Module):
    """Sines and cosines of every coordinate at geometric frequencies.

    Parameters
    ----------
    in_channels : int
        Coordinates of a point.
    num_frequencies : int
    embedding_type : {"transformer", "nerf"}
        Frequencies ``max_positions**(-2 k / num_frequencies)`` [1]_, or ``pi 2**k`` [2]_.
    max_positions : int

    References
    ----------
    .. [1] Vaswani et al., Attention Is All You Need, arXiv:1706.03762, 2017.
    .. [2] Mildenhall et al., NeRF: Representing Scenes as Neural Radiance Fields for View
       Synthesis, arXiv:2003.08934, 2020.
    """

    def __init__(
        self,
        in_channels: int,
        num_frequencies: int,
        embedding_type: str = "transformer",
        max_positions: int = 10000,
    ) -> None:
        super().__init__()
        if embedding_type not in ("transformer", "nerf"):
            raise ValueError(
                f"SinusoidalEmbedding: embedding_type is {embedding_type!r}, "
                "needs one of 'transformer', 'nerf'"
            )
        self.in_channels, self.num_frequencies = in_channels, num_frequencies
        self.embedding_type, self.max_positions = embedding_type, max_positions

    @property
    def out_channels(self) -> int:
        """Width of the embedding."""
        return 2 * self.num_frequencies * self.in_channels

    def forward(self, x: Tensor) -> Tensor:
        """Embed ``x (..., in_channels)``.

        Returns
        -------
        Tensor, (..., out_channels)
            A sine and a cosine for every frequency, frequencies one after the other for every
            coordinate.
        """
        k = torch.arange(self.num_frequencies, dtype=x.dtype, device=x.device)
        if self.embedding_type == "nerf":
            frequency = torch.pi * 2**k
        else:
            frequency = (1 / self.max_positions) ** (k / self.num_frequencies * 2)
        phase = x[..., None] * frequency
        return torch.stack([phase.sin(), phase.cos()], dim=-1).flatten(-3)


class GNOBlock(nn.Module):
    """Neighbour search, positional embedding and `IntegralTransform` in one layer.

    Parameters
    ----------
    in_channels : int
        Channels of the integrated function, for the nonlinear transforms.
    out_channels : int
        Channels of the kernel; for "linear" and "nonlinear" those of the function too.
    coord_dim : int
        Coordinates of a point.
    radius : float
        Radius of the neighbourhoods.
    transform_type, weighting_fn, reduction
        As in `IntegralTransform`; the weighting function gets squared distances.
    pos_embedding_type : {"transformer", "nerf"} or None
        As in `SinusoidalEmbedding`; None: the kernel network gets the coordinates themselves.
    pos_embedding_channels : int
        Number of frequencies of a coordinate.
    pos_embedding_max_positions : int
    channel_mlp_layers : sequence of int
        Widths of the hidden layers of the kernel network; those of input and output are added if
        they are missing.
    channel_mlp_non_linearity : callable
    channel_mlp : Module, optional
        Kernel network in place of one with these widths. Its ``in_channels`` and
        ``out_channels`` are checked, if it has them.
    use_torch_scatter_reduce, use_open3d_neighbor_search : bool
        Without effect.

    Examples
    --------
    >>> import torch
    >>> from gnograd.torch import GNOBlock
    >>> block = GNOBlock(in_channels=3, out_channels=3, coord_dim=2, radius=0.2)
    >>> block(torch.rand(100, 2), torch.rand(40, 2), torch.rand(5, 100, 3)).shape
    torch.Size([5, 40, 3])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        coord_dim: int,
        radius: float,
        transform_type: str = "linear",
        weighting_fn: Activation | None = None,
        reduction: str = "sum",
        pos_embedding_type: str | None = "transformer",
        pos_embedding_channels: int = 32,
        pos_embedding_max_positions: int = 10000,
        channel_mlp_layers: Sequence[int] = (128, 256, 128),
        channel_mlp_non_linearity: Activation = gelu,
        channel_mlp: nn.Module | None = None,
        use_torch_scatter_reduce: bool = True,
        use_open3d_neighbor_search: bool = True,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.coord_dim, self.radius = coord_dim, radius
        self.pos_embedding_type = pos_embedding_type
        self.pos_embedding = (
            None
            if pos_embedding_type is None
            else SinusoidalEmbedding(
                coord_dim, pos_embedding_channels, pos_embedding_type, pos_embedding_max_positions
            )
        )
        self.neighbor_search = NeighborSearch(return_norm=weighting_fn is not None)
        width = coord_dim if self.pos_embedding is None else self.pos_embedding.out_channels
        kernel_in = 2 * width
        if transform_type in ("nonlinear", "nonlinear_kernelonly"):
            kernel_in += in_channels
        if channel_mlp is None:
            layers = list(channel_mlp_layers)
            if layers[:1] != [kernel_in]:
                layers.insert(0, kernel_in)
            if layers[-1] != out_channels:
                layers.append(out_channels)
            channel_mlp = LinearChannelMLP(layers, channel_mlp_non_linearity)
        for name, needed in (("in_channels", kernel_in), ("out_channels", out_channels)):
            given = getattr(channel_mlp, name, needed)
            if given != needed:
                raise ValueError(f"GNOBlock: channel_mlp has {name} {given}, needs {needed}")
        self.integral_transform = IntegralTransform(
            channel_mlp,
            transform_type=transform_type,
            weighting_fn=weighting_fn,
            reduction=reduction,
        )

    def forward(
        self,
        y: Tensor,
        x: Tensor,
        f_y: Tensor | None = None,
        *,
        neighbors: Neighbors | None = None,
        y_ptr: Pointer = None,
        x_ptr: Pointer = None,
    ) -> Tensor:
        """Apply the layer.

        Parameters
        ----------
        y : Tensor, (n, coord_dim)
            Points that are integrated over.
        x : Tensor, (m, coord_dim)
            Points at which the integral is wanted.
        f_y : Tensor, (n, channels) or (batch, n, channels), optional
            Function on the points of `y`.
        neighbors : dict or Graph, optional
            As in `IntegralTransform.forward`; searched for when left out.
        y_ptr, x_ptr : sequence of int, (batch + 1,), optional
            First point of every item, for a batch of geometries one after the other in `y` and
            `x`; `f_y` is then (n, channels).

        Returns
        -------
        Tensor, (m, out_channels) or (batch, m, out_channels)
        """
        if neighbors is None:
            neighbors = self.neighbor_search(y, x, self.radius, data_ptr=y_ptr, queries_ptr=x_ptr)
        if self.pos_embedding is not None:
            y, x = self.pos_embedding(y), self.pos_embedding(x)
        return self.integral_transform(y, neighbors, x, f_y)
