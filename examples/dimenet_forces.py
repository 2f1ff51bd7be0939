# SPDX-License-Identifier: MIT
"""DimeNet++ learns energies and forces of small molecules.

The molecules are those of hydrogen, carbon, nitrogen and oxygen in the G2 set (ase), with all
atoms moved at random. Their energies and forces come from a classical potential (`potential`:
Morse bonds and an angular term), so that nothing is downloaded and everybody gets the same data.
The network sees atomic numbers and positions alone, and is tested on molecules it never saw.

Forces are minus the gradient of the energy by the positions, and they are part of the loss: every
step differentiates twice.

    pip install ".[examples]"
    python examples/dimenet_forces.py [--epochs 60] [--device cpu] [--out dimenet_forces.png]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import torch
from ase.collections import g2
from ase.data import covalent_radii
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

import gnograd as gg
from gnograd.torch import DimeNetPlusPlus

ELEMENTS = {"H": 1, "C": 6, "N": 7, "O": 8}
CUTOFF = 4.5  # angstrom, of the potential and of the network
MOVE = 0.1  # angstrom, standard deviation of every coordinate


# ---- molecules and their energies ----


def potential(z: np.ndarray, pos: Tensor) -> Tensor:
    """Energies (eV) of several geometries ``pos (geometries, atoms, 3)`` of one molecule.

    Pairs have a Morse potential around the sum of their covalent radii. Two bonds at one atom
    want its angle: ``(c - c_0)^2`` of the cosine, for pairs as far as they are bonds.
    """
    depth, steepness, stiffness, width = 4.0, 1.8, 2.0, 0.35  # eV, 1/A, eV, A
    others = ~torch.eye(len(z), dtype=torch.bool)
    radius = torch.from_numpy(covalent_radii[z])
    ideal = torch.tensor([{7: -0.29, 8: -0.25}.get(int(number), -1 / 3) for number in z])

    vector = pos[:, None] - pos[:, :, None]  # from atom j to atom i
    length = torch.where(others, vector.square().sum(dim=-1), 1.0).sqrt()
    stretch = length - (radius + radius[:, None])
    smooth = torch.where(others & (length < CUTOFF), 1 + torch.cos(torch.pi / CUTOFF * length), 0.0)
    morse = (1 - torch.exp(-steepness * stretch)).square() - 1
    pairs = depth / 4 * (smooth * morse).sum(dim=(1, 2))

    bond = others * torch.exp(-((stretch / width) ** 2))
    unit = vector / length[..., None]
    cosine = torch.einsum("gjic,gjkc->gjik", unit, unit)
    bend = (cosine - ideal[:, None, None]).square() * bond[..., None] * bond[..., None, :]
    return pairs + stiffness / 2 * (others * bend).sum(dim=(1, 2, 3))


@dataclass
class Geometry:
    """Atoms somewhere, their edges, and what is to be learned."""

    z: np.ndarray  # (atoms,)
    pos: np.ndarray  # (atoms, 3)
    src: np.ndarray  # (edges,)
    dst: np.ndarray  # (edges,)
    energy: float  # eV
    forces: np.ndarray  # (atoms, 3), eV/angstrom


def geometries(name: str, count: int, rng: np.random.Generator) -> list[Geometry]:
    """A molecule of the G2 set with its atoms moved, `count` times."""
    atoms = g2[name]
    moved = atoms.positions + MOVE * rng.normal(size=(count, len(atoms), 3))
    pos = torch.from_numpy(moved).requires_grad_()
    energies = potential(atoms.numbers, pos)
    forces = -torch.autograd.grad(energies.sum(), pos)[0].numpy()
    result = []
    for points, energy, force in zip(moved, energies.tolist(), forces, strict=True):
        graph = gg.Graph.radius(points, CUTOFF, include_self=False)
        result.append(Geometry(atoms.numbers, points, graph.src, graph.dst, energy, force))
    return result


def data(count: int, rng: np.random.Generator) -> tuple[list[Geometry], list[Geometry]]:
    """Geometries for training and, of one molecule in five, for testing."""
    names = [
        name
        for name in g2.names
        if len(g2[name]) > 2 and set(g2[name].get_chemical_symbols()) <= set(ELEMENTS)
    ]
    rng.shuffle(names)
    sets = names[len(names) // 5 :], names[: len(names) // 5]
    train, test = ([g for name in part for g in geometries(name, count, rng)] for part in sets)
    return train, test


@dataclass
class Batch:
    """Several geometries side by side: one graph without edges between them."""

    z: Tensor
    pos: Tensor
    graph: gg.Graph
    molecule: Tensor
    energy: Tensor
    forces: Tensor


def collate(several: list[Geometry], device: str) -> Batch:
    """Put geometries side by side."""
    sizes = [len(g.z) for g in several]
    first = np.cumsum([0, *sizes])
    src, dst = (
        np.concatenate([getattr(g, end) + k for g, k in zip(several, first, strict=False)])
        for end in ("src", "dst")
    )

    def tensor(values) -> Tensor:
        return torch.tensor(np.asarray(values), dtype=torch.float32, device=device)

    return Batch(
        torch.tensor(np.concatenate([g.z for g in several]), device=device),
        tensor(np.concatenate([g.pos for g in several])),
        gg.Graph.from_edges(src, dst, first[-1], first[-1]),
        torch.tensor(np.repeat(np.arange(len(several)), sizes), device=device),
        tensor([g.energy for g in several]),
        tensor(np.concatenate([g.forces for g in several])),
    )


# ---- network and training ----


class Energy(torch.nn.Module):
    """A part for every atom of an element, and what DimeNet++ says of how they lie."""

    def __init__(self, train: list[Geometry]) -> None:
        super().__init__()
        self.network = DimeNetPlusPlus(
            64, 1, 2, 32, 8, 64, num_spherical=7, num_radial=6, cutoff=CUTOFF, num_output_layers=2
        )
        # least squares, and the size of the forces: training begins with neither far off
        kinds = list(ELEMENTS.values())
        counts = np.array([[np.sum(g.z == kind) for kind in kinds] for g in train])
        fit = np.linalg.lstsq(counts, np.array([g.energy for g in train]), rcond=None)[0]
        parts = np.zeros(95)
        parts[kinds] = fit
        self.register_buffer("parts", torch.tensor(parts, dtype=torch.float32))
        self.scale = float(np.std(np.concatenate([g.forces for g in train])))

    def forward(self, batch: Batch, create_graph: bool) -> tuple[Tensor, Tensor]:
        """Energies (eV) and forces (eV/angstrom)."""
        pos = batch.pos.requires_grad_()
        lie = self.network(batch.z, pos, batch.graph, batch.molecule)[:, 0]
        energy = torch.zeros_like(lie).index_add(0, batch.molecule, self.parts[batch.z])
        energy = energy + self.scale * lie
        (gradient,) = torch.autograd.grad(energy.sum(), pos, create_graph=create_graph)
        return energy, -gradient


def train(model: Energy, geometries: list[Geometry], arguments: argparse.Namespace) -> None:
    """Minimise the errors of energies and forces."""
    rng = np.random.default_rng(arguments.seed)
    n_batches = -(-len(geometries) // arguments.batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, arguments.rate, total_steps=arguments.epochs * n_batches, pct_start=0.1
    )
    console = Console()
    bar = Progress(
        TextColumn("epoch {task.completed}/{task.total}"), BarColumn(), TimeRemainingColumn(),
        console=console, disable=not console.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("train", total=arguments.epochs)
        for epoch in range(1, arguments.epochs + 1):
            order = rng.permutation(len(geometries))
            sums = np.zeros(2)
            for rows in np.array_split(order, n_batches):
                batch = collate([geometries[k] for k in rows], arguments.device)
                energy, forces = model(batch, create_graph=True)
                to_energy = (energy - batch.energy).square().mean()
                to_forces = (forces - batch.forces).square().mean()
                optimizer.zero_grad()
                (0.1 * to_energy + to_forces).backward()
                optimizer.step()
                schedule.step()
                sums += float(to_energy.detach()), float(to_forces.detach())
            bar.advance(task)
            if epoch % max(1, arguments.epochs // 10) == 0 or epoch == 1:
                rms = np.sqrt(sums / n_batches)
                console.print(
                    f"epoch {epoch:3d}: rms error of the energy {rms[0]:.3f} eV, "
                    f"of the forces {rms[1]:.3f} eV/A"
                )


# ---- results ----


def predict(model: Energy, several: list[Geometry], device: str) -> dict[str, np.ndarray]:
    """Atoms, energies and forces, each as it is and as predicted."""
    parts = [
        (batch, *model(batch, create_graph=False))
        for batch in (collate(several[k : k + 50], device) for k in range(0, len(several), 50))
    ]
    columns = {
        "energy": [batch.energy for batch, _, _ in parts],
        "energy predicted": [energy for _, energy, _ in parts],
        "forces": [batch.forces.flatten() for batch, _, _ in parts],
        "forces predicted": [forces.flatten() for _, _, forces in parts],
    }
    result = {name: torch.cat(list_).detach().cpu().numpy() for name, list_ in columns.items()}
    return result | {"atoms": np.array([len(g.z) for g in several])}


def errors(result: dict[str, np.ndarray]) -> tuple[float, float]:
    """Mean absolute errors: meV an atom, meV/angstrom."""
    energy = (result["energy predicted"] - result["energy"]) / result["atoms"]
    forces = result["forces predicted"] - result["forces"]
    return 1e3 * float(np.abs(energy).mean()), 1e3 * float(np.abs(forces).mean())


def parity(results: dict[str, dict[str, np.ndarray]], path: str) -> None:
    """Draw predictions over truths."""
    figure = Figure(figsize=(9.5, 4.8), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, name, unit in zip(panels, ("energy", "forces"), ("eV/atom", "eV/Å"), strict=True):
        for label, result in results.items():
            divide = result["atoms"] if name == "energy" else 1
            truth, prediction = result[name] / divide, result[f"{name} predicted"] / divide
            panel.scatter(truth, prediction, s=6, alpha=0.5, linewidths=0, label=label)
        ends = [min(panel.get_xlim()[0], panel.get_ylim()[0])]
        ends.append(max(panel.get_xlim()[1], panel.get_ylim()[1]))
        panel.plot(ends, ends, color="0.4", linewidth=0.8, zorder=0)
        panel.set(xlim=ends, ylim=ends, aspect="equal", title=name)
        panel.set(xlabel=f"classical potential ({unit})", ylabel=f"DimeNet++ ({unit})")
    panels[0].legend(frameon=False, markerscale=2)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=20, help="geometries a step")
    parser.add_argument("--geometries", type=int, default=20, help="of every molecule")
    parser.add_argument("--rate", type=float, default=3e-3, help="largest learning rate")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="dimenet_forces.png", help="parity plot")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    train_set, test_set = data(arguments.geometries, np.random.default_rng(arguments.seed))
    print(f"{len(train_set)} geometries to train on, {len(test_set)} of other molecules to test")
    model = Energy(train_set).to(arguments.device)
    train(model, train_set, arguments)

    results = {
        "training": predict(model, train_set, arguments.device),
        "other molecules": predict(model, test_set, arguments.device),
    }
    spread = np.abs(results["other molecules"]["forces"]).mean()
    for label, result in results.items():
        energy, forces = errors(result)
        print(f"{label}: mean absolute error {energy:.1f} meV/atom, {forces:.0f} meV/angstrom")
    print(f"(mean absolute force {1e3 * spread:.0f} meV/angstrom)")
    parity(results, arguments.out)
    print(arguments.out)


if __name__ == "__main__":
    main()
