# SPDX-License-Identifier: MIT
"""DimeNet++ around `radial_basis` and `agg_edge_to_edge`.

The modules hold the parameters of PyG's ``torch_geometric.nn.models.dimenet`` under the same
names, so that its ``state_dict`` loads as it is. Triplets appear nowhere: where PyG's blocks take
arrays over triplets, these take edge vectors and a graph.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn

from gnograd.torch import functional
from gnograd.torch.eager import in_transform, not_compiled
from gnograd.torch.edges import ends_of, used_rows
from gnograd.torch.graph import AnyGraph, Graph

__all__ = ["DimeNetPlusPlus", "InteractionPPBlock"]

Function: TypeAlias = Callable[[Tensor], Tensor]
Activation: TypeAlias = "str | Function"


class InteractionPPBlock(nn.Module):
    """Interaction block of DimeNet++ [1]_; PyG's ``InteractionPPBlock``.

    Parameters
    ----------
    hidden_channels : int
        Features of an edge.
    int_emb_size : int
        Features of an edge in the sum over triplets, at most 512.
    basis_emb_size : int
        Width between the two layers of the bases, at most 64.
    num_spherical, num_radial : int
        Degrees and radial functions of the spherical basis, at most 10 and 16.
    num_before_skip, num_after_skip : int
        Residual layers before and after the skip connection.
    act : str or callable
        Activation: the name of one of `torch.nn`, in any case, or "swish", which is SiLU.
    exclude : {"reverse_edge", "same_node", "none"}
        Triplets to leave out, as in `gnograd.agg_edge_to_edge`. PyG's rule is "same_node"; it
        differs from the default in periodic cells alone.

    References
    ----------
    .. [1] Gasteiger, Giri, Margraf, Günnemann, Fast and Uncertainty-Aware Directional Message
       Passing for Non-Equilibrium Molecules, arXiv:2011.14115, 2020.
    """

    def __init__(
        self,
        hidden_channels: int,
        int_emb_size: int,
        basis_emb_size: int,
        num_spherical: int,
        num_radial: int,
        num_before_skip: int,
        num_after_skip: int,
        act: Activation = "swish",
        exclude: str = "reverse_edge",
    ) -> None:
        super().__init__()
        act = _function(act)
        self.num_spherical, self.num_radial = num_spherical, num_radial
        self.act, self.exclude = act, exclude
        self.lin_rbf1 = nn.Linear(num_radial, basis_emb_size, bias=False)
        self.lin_rbf2 = nn.Linear(basis_emb_size, hidden_channels, bias=False)
        self.lin_sbf1 = nn.Linear(num_spherical * num_radial, basis_emb_size, bias=False)
        self.lin_sbf2 = nn.Linear(basis_emb_size, int_emb_size, bias=False)
        self.lin_kj = nn.Linear(hidden_channels, hidden_channels)
        self.lin_ji = nn.Linear(hidden_channels, hidden_channels)
        self.lin_down = nn.Linear(hidden_channels, int_emb_size, bias=False)
        self.lin_up = nn.Linear(int_emb_size, hidden_channels, bias=False)
        self.layers_before_skip = _residual_layers(num_before_skip, hidden_channels, act)
        self.lin = nn.Linear(hidden_channels, hidden_channels)
        self.layers_after_skip = _residual_layers(num_after_skip, hidden_channels, act)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new parameters, as PyG does."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                _reset(module)

    def forward(
        self, x: Tensor, rbf: Tensor, sbf: Tensor, vector: Tensor, graph: AnyGraph
    ) -> Tensor:
        """Apply the block.

        Parameters
        ----------
        x : Tensor, (n_edges, hidden_channels)
        rbf : Tensor, (n_edges, num_radial)
        sbf : Tensor, (n_edges, num_spherical * num_radial)
            Radial part of the spherical basis; with `rbf` from `radial_basis`.
        vector : Tensor, (n_edges, 3)
            Vectors from the start of every edge to its end.
        graph : Graph

        Returns
        -------
        Tensor, (n_edges, hidden_channels)
        """
        x_ji = self.act(self.lin_ji(x))
        x_kj = self.act(self.lin_kj(x)) * self.lin_rbf2(self.lin_rbf1(rbf))
        x_kj = functional.agg_edge_to_edge(
            vector,
            sbf,
            self.act(self.lin_down(x_kj)),
            torch.cat([self.lin_sbf1.weight.T, self.lin_sbf2.weight]),
            graph=graph,
            n_spherical=self.num_spherical,
            n_radial=self.num_radial,
            exclude=self.exclude,
        )
        h = x_ji + self.act(self.lin_up(x_kj))
        h = self.act(self.lin(self.layers_before_skip(h))) + x
        out: Tensor = self.layers_after_skip(h)
        return out


class DimeNetPlusPlus(nn.Module):
    """DimeNet++ [1]_ from atoms to a number, or several, a molecule; PyG's ``DimeNetPlusPlus``.

    Parameters
    ----------
    hidden_channels : int
        Features of an edge.
    out_channels : int
        Numbers to predict; 1 for an energy.
    num_blocks : int
        Interaction blocks.
    int_emb_size, basis_emb_size : int
        As in `InteractionPPBlock`.
    out_emb_channels : int
        Features of an atom in the output blocks.
    num_spherical, num_radial : int
        As in `InteractionPPBlock`.
    cutoff : float
        Largest length of an edge, in the unit of the positions.
    max_num_neighbors : int
        Largest number of edges that end at an atom, the shortest ones, where the model searches for
        them. If others are left out it warns: energies change and become discontinuous.
    envelope_exponent : int
        Order of the envelope that brings edges smoothly to 0 at the cutoff.
    num_before_skip, num_after_skip : int
        As in `InteractionPPBlock`.
    num_output_layers : int
        Layers of an output block.
    act : str or callable
        Activation, as in `InteractionPPBlock`. Forces need a smooth one.
    output_initializer : {"zeros", "glorot_orthogonal"}
        Initializer of the last layer of the output blocks.
    exclude : {"reverse_edge", "same_node", "none"}
        As in `InteractionPPBlock`.

    References
    ----------
    .. [1] Gasteiger, Giri, Margraf, Günnemann, Fast and Uncertainty-Aware Directional Message
       Passing for Non-Equilibrium Molecules, arXiv:2011.14115, 2020.

    Examples
    --------
    >>> import gnograd as gg
    >>> import gnograd.torch, torch
    >>> model = gnograd.torch.DimeNetPlusPlus(
    ...     32, 1, 2, 16, 8, 32, 7, 6, output_initializer="glorot_orthogonal"
    ... )
    >>> pos = torch.tensor([[0.0, 0, 0], [0.76, 0.59, 0], [-0.76, 0.59, 0]], requires_grad=True)
    >>> graph = gg.Graph.radius(pos.detach().numpy(), 5.0, include_self=False)
    >>> energy = model(torch.tensor([8, 1, 1]), pos, graph)
    >>> energy.shape
    torch.Size([1])
    >>> forces = -torch.autograd.grad(energy.sum(), pos, create_graph=True)[0]
    >>> forces.square().sum().backward()       # a loss with forces in it
    >>> model.emb.emb.weight.grad.shape
    torch.Size([95, 32])
    """

    def __init__(
        self,
        hidden_channels: int,
        out_channels: int,
        num_blocks: int,
        int_emb_size: int,
        basis_emb_size: int,
        out_emb_channels: int,
        num_spherical: int,
        num_radial: int,
        cutoff: float = 5.0,
        max_num_neighbors: int = 32,
        envelope_exponent: int = 5,
        num_before_skip: int = 1,
        num_after_skip: int = 2,
        num_output_layers: int = 3,
        act: Activation = "swish",
        output_initializer: str = "zeros",
        exclude: str = "reverse_edge",
    ) -> None:
        super().__init__()
        if output_initializer not in ("zeros", "glorot_orthogonal"):
            raise ValueError(
                f"DimeNetPlusPlus: output_initializer is {output_initializer!r}, "
                "needs 'zeros' or 'glorot_orthogonal'"
            )
        act = _function(act)
        self.num_spherical, self.cutoff = num_spherical, cutoff
        self.num_blocks, self.max_num_neighbors = num_blocks, max_num_neighbors
        self.envelope_exponent = envelope_exponent
        self.rbf = _Frequencies(num_radial)
        self.emb = _EmbeddingBlock(num_radial, hidden_channels, act)
        self.output_blocks = nn.ModuleList(
            _OutputPPBlock(
                num_radial, hidden_channels, out_emb_channels, out_channels, num_output_layers,
                act, output_initializer,
            )
            for _ in range(num_blocks + 1)
        )  # fmt: skip
        self.interaction_blocks = nn.ModuleList(
            InteractionPPBlock(
                hidden_channels, int_emb_size, basis_emb_size, num_spherical, num_radial,
                num_before_skip, num_after_skip, act, exclude,
            )
            for _ in range(num_blocks)
        )  # fmt: skip

    def reset_parameters(self) -> None:
        """Draw new parameters, as PyG does."""
        for module in (self.rbf, self.emb, *self.output_blocks, *self.interaction_blocks):
            module.reset_parameters()

    def forward(
        self,
        z: Tensor,
        pos: Tensor,
        graph: AnyGraph | Tensor | None = None,
        batch: Tensor | None = None,
        offset: Tensor | None = None,
    ) -> Tensor:
        """Predict, by ``model(z, pos, graph, batch)`` or, as PyG has it, ``model(z, pos, batch)``.

        Parameters
        ----------
        z : Tensor of int64, (n_atoms,)
            Atomic numbers, at most 94.
        pos : Tensor, (n_atoms, 3)
            Positions.
        graph : Graph, optional
            Edges between atoms up to `cutoff` apart, both ways; longer ones contribute nothing.
            When left out, every call searches for them. PyG's `batch` may stand here.
        batch : Tensor of int64, (n_atoms,), optional
            Molecule of every atom; ascending, where no graph is given.
        offset : Tensor, (n_edges, 3), optional
            Shift from an atom to its image at the end of an edge, in a periodic cell.

        Returns
        -------
        Tensor, (n_molecules, out_channels), or (out_channels,) without `batch`
        """
        if isinstance(graph, Tensor):
            if batch is not None:
                raise TypeError("DimeNetPlusPlus: graph is of type Tensor, needs a gnograd.Graph")
            batch, graph = graph, None
        if graph is None:
            if offset is not None:
                raise TypeError("DimeNetPlusPlus: offset belongs to the edges of a graph: give it")
            graph = _neighbors(pos, self.cutoff, batch, self.max_num_neighbors)
        src, dst = ends_of(graph, z.device)
        vector = pos.index_select(0, dst) - pos.index_select(0, src)
        if offset is not None:
            vector = vector + offset
        # rows of no edge have length 0, where the norm has no derivative
        vector = torch.where(used_rows(graph, z.device)[:, None], vector, 1.0)
        vector = _apart(vector)
        length = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
        rbf, sbf = functional.radial_basis(
            length / self.cutoff,
            self.rbf.freq,
            n_spherical=self.num_spherical,
            exponent=self.envelope_exponent,
        )
        x = self.emb(z, rbf, dst, src)
        out = self.output_blocks[0](x, rbf, graph)
        for interact, read in zip(self.interaction_blocks, self.output_blocks[1:], strict=True):
            x = interact(x, rbf, sbf, vector, graph)
            out = out + read(x, rbf, graph)
        if batch is None:
            return out.sum(dim=0)
        return out.new_zeros(int(batch.max()) + 1, out.shape[1]).index_add(0, batch, out)


@not_compiled
def _neighbors(pos: Tensor, cutoff: float, batch: Tensor | None, most: int) -> Graph:
    """Graph of the atoms of a molecule up to `cutoff` apart, with `most` edges to an atom."""
    if (batch is not None and batch.shape != pos.shape[:1]) or _descends(batch):
        raise ValueError(
            "DimeNetPlusPlus: batch needs the molecule of every atom, in ascending order"
        )
    within = partial(Graph.radius, pos, cutoff, include_self=False, batch=batch)
    graph = within(max_neighbors=most)
    if not in_transform() and graph.n_dst and int(graph.in_degree.max()) >= most:
        left_out = within().n_edges - graph.n_edges
        if left_out:
            warnings.warn(
                f"DimeNetPlusPlus: {left_out} edges shorter than cutoff={cutoff} are left "
                f"out, of atoms with more than max_num_neighbors={most}",
                stacklevel=4,
            )
    return graph


def _descends(batch: Tensor | None) -> bool:
    """True if ids decrease; false also in transforms, where the search checks them."""
    return batch is not None and not in_transform() and bool((batch.diff() < 0).any())


def _apart(vector: Tensor) -> Tensor:
    """Vectors of edges, set to 0 where they are so short that forces would overflow."""
    shortest = torch.finfo(vector.dtype).tiny ** (1 / 3)
    coincide = vector.detach().abs().amax(dim=1, keepdim=True) < shortest
    return vector.masked_fill(coincide, 0)


class _Frequencies(nn.Module):
    """Frequencies of the radial basis."""

    def __init__(self, num_radial: int) -> None:
        super().__init__()
        self.freq = nn.Parameter(torch.empty(num_radial))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.freq.copy_(math.pi * torch.arange(1, len(self.freq) + 1))


class _EmbeddingBlock(nn.Module):
    """Features of an edge from the kinds of its two atoms and its length."""

    def __init__(self, num_radial: int, hidden_channels: int, act: Function) -> None:
        super().__init__()
        self.act = act
        self.emb = nn.Embedding(95, hidden_channels)
        self.lin_rbf = nn.Linear(num_radial, hidden_channels)
        self.lin = nn.Linear(3 * hidden_channels, hidden_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.emb.weight, -math.sqrt(3), math.sqrt(3))
        self.lin_rbf.reset_parameters()
        self.lin.reset_parameters()

    def forward(self, z: Tensor, rbf: Tensor, dst: Tensor, src: Tensor) -> Tensor:
        atom = self.emb(z)
        rbf = self.act(self.lin_rbf(rbf))
        return self.act(
            self.lin(torch.cat([atom.index_select(0, dst), atom.index_select(0, src), rbf], dim=-1))
        )


class _OutputPPBlock(nn.Module):
    """Outputs of an atom from the edges that end there."""

    def __init__(
        self,
        num_radial: int,
        hidden_channels: int,
        out_emb_channels: int,
        out_channels: int,
        num_layers: int,
        act: Function,
        output_initializer: str,
    ) -> None:
        super().__init__()
        self.act, self.output_initializer = act, output_initializer
        self.lin_rbf = nn.Linear(num_radial, hidden_channels, bias=False)
        self.lin_up = nn.Linear(hidden_channels, out_emb_channels, bias=False)
        self.lins = nn.ModuleList(
            nn.Linear(out_emb_channels, out_emb_channels) for _ in range(num_layers)
        )
        self.lin = nn.Linear(out_emb_channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.lin_rbf, self.lin_up, *self.lins, self.lin):
            _reset(layer)
        if self.output_initializer == "zeros":
            nn.init.zeros_(self.lin.weight)

    def forward(self, x: Tensor, rbf: Tensor, graph: Graph) -> Tensor:
        message = self.lin_rbf(rbf) * x
        x = self.lin_up(functional.agg_simple(None, message, graph=graph))
        for layer in self.lins:
            x = self.act(layer(x))
        return self.lin(x)


class _ResidualLayer(nn.Module):
    def __init__(self, hidden_channels: int, act: Function) -> None:
        super().__init__()
        self.act = act
        self.lin1 = nn.Linear(hidden_channels, hidden_channels)
        self.lin2 = nn.Linear(hidden_channels, hidden_channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.act(self.lin2(self.act(self.lin1(x))))


def _residual_layers(number: int, hidden_channels: int, act: Function) -> nn.Sequential:
    return nn.Sequential(*(_ResidualLayer(hidden_channels, act) for _ in range(number)))


def _function(act: Activation) -> Function:
    """Activation by name."""
    if callable(act):
        return act

    def plain(name: str) -> str:
        return name.lower().translate(dict.fromkeys(map(ord, "-_ ")))

    names = {plain(name): name for name in nn.modules.activation.__all__}
    wanted = {"swish": "silu"}.get(plain(act), plain(act))
    if wanted not in names:
        raise ValueError(f"act is {act!r}, which torch.nn has not as an activation")
    found: Function = getattr(nn, names[wanted])()
    return found


def _reset(layer: nn.Linear) -> None:
    """Orthogonal rows of the size that Glorot's rule gives, no bias."""
    weight = layer.weight
    nn.init.orthogonal_(weight)
    with torch.no_grad():
        weight *= (2.0 / (sum(weight.shape) * weight.var())).sqrt()
        if layer.bias is not None:
            layer.bias.zero_()
