# SPDX-License-Identifier: MIT
"""MeshGraphNet, MAGNO and GNO learn diffusion on unstructured meshes, side by side.

A plate with round holes conducts heat unevenly. Its rim is kept cold and the holes are insulated;
from a random temperature at the start the networks say what is left of it some time later. Meshes,
holes, conductivities and temperatures are drawn at random; scikit-fem assembles linear finite
elements, and small implicit steps solve them. The networks are tested on plates that they never
saw. Each is as large as makes its step of training take about the same time.

- MeshGraphNet passes messages along the edges of the mesh, one edge a step.
- MAGNO integrates over neighbourhoods of two radii, from the mesh to a lattice of tokens, on which
  a transformer works, and back.
- GNO integrates over neighbourhoods on the mesh itself.

    pip install ".[examples]"
    python examples/mesh_diffusion.py [--epochs 40] [--networks mesh magno gno]
        [--out mesh_diffusion.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import skfem
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from scipy.sparse.linalg import splu
from scipy.spatial import Delaunay
from skfem.helpers import dot, grad
from torch import Tensor, nn

import gnograd.torch as gt

TIME = 4e-3  # in units of side^2 over mean conductivity
STEPS = 20  # time steps of the solver
INTERIOR, RIM, HOLE = 0, 1, 2


# ---- plates ----


@dataclass
class Plate:
    """A mesh, and the temperature on it at the start and at the end."""

    positions: np.ndarray  # (N, 2), in the unit square
    triangles: np.ndarray  # (T, 3)
    kind: np.ndarray  # (N,) INTERIOR, RIM or HOLE
    conductivity: np.ndarray  # (N,)
    start: np.ndarray  # (N,)
    end: np.ndarray  # (N,)

    @property
    def edge_index(self) -> np.ndarray:
        """Edges of the mesh in both directions, (2, n_edges)."""
        sides = self.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        sides = np.unique(np.sort(sides, axis=1), axis=0)
        return np.concatenate([sides, sides[:, ::-1]]).T


def random_field(rng: np.random.Generator, positions: np.ndarray, n_waves: int) -> np.ndarray:
    """A smooth field of deviation 1: a sum of waves in random directions."""
    waves = rng.normal(scale=6.0, size=(n_waves, 2))
    phases = rng.uniform(0, 2 * np.pi, n_waves)
    return np.cos(positions @ waves.T + phases).sum(axis=1) * np.sqrt(2 / n_waves)


def draw_mesh(rng: np.random.Generator, n_side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, triangles and kinds of points of a plate with one to three holes."""
    n_holes = rng.integers(1, 4)
    centers = rng.uniform(0.2, 0.8, (n_holes, 2))
    radii = rng.uniform(0.07, 0.13, n_holes)
    step = 1 / n_side
    ticks = np.linspace(0, 1, n_side + 1)
    points = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    on_rim = (np.isclose(points, 0) | np.isclose(points, 1)).any(axis=1)
    points[~on_rim] += rng.uniform(-0.3 * step, 0.3 * step, ((~on_rim).sum(), 2))

    def depth(at: np.ndarray) -> np.ndarray:
        """Distance to the nearest hole, negative inside."""
        return (np.linalg.norm(at[:, None] - centers, axis=2) - radii).min(axis=1)

    around = []
    for center, radius in zip(centers, radii, strict=True):
        angle = 2 * np.pi * np.arange(n := round(2 * np.pi * radius / step)) / n
        around.append(center + radius * np.column_stack([np.cos(angle), np.sin(angle)]))
    circles = np.concatenate(around)
    circles = circles[depth(circles) > -1e-9]  # holes may meet
    keep = depth(points) > 0.5 * step
    positions = np.concatenate([points[keep], circles])
    kind = np.concatenate([np.where(on_rim[keep], RIM, INTERIOR), np.full(len(circles), HOLE)])
    triangles = Delaunay(positions).simplices
    triangles = triangles[depth(positions[triangles].mean(axis=1)) > 0]
    used, triangles = np.unique(triangles, return_inverse=True)
    return positions[used], triangles.reshape(-1, 3), kind[used]


@skfem.BilinearForm
def flux(u, v, w):
    """``k grad u . grad v``."""
    return w["k"] * dot(grad(u), grad(v))


@skfem.BilinearForm
def mass(u, v, _):
    """``u v``."""
    return u * v


def draw_plate(rng: np.random.Generator, n_side: int) -> Plate:
    """A plate of about n_side^2 points: ``du/dt = div(k grad u)``, by implicit steps."""
    positions, triangles, kind = draw_mesh(rng, n_side)
    conductivity = np.exp(0.7 * random_field(rng, positions, 8))
    rim = kind == RIM
    start = np.where(rim, 0, 1 + random_field(rng, positions, 16))
    basis = skfem.Basis(skfem.MeshTri(positions.T.copy(), triangles.T.copy()), skfem.ElementTriP1())
    matrix = mass.assemble(basis).tocsc()
    stiffness = flux.assemble(basis, k=basis.interpolate(conductivity)).tocsc()
    free = np.flatnonzero(~rim)
    step = TIME / STEPS
    solve = splu((matrix + step * stiffness)[free][:, free].tocsc()).solve
    end = start.copy()
    for _ in range(STEPS):
        end[free] = solve(matrix[free] @ end)
    return Plate(positions, triangles, kind, conductivity, start, end)


@dataclass
class Sample:
    """Inputs that networks get of a plate, and the temperature that they should predict."""

    positions: Tensor  # (N, 2)
    inputs: Tensor  # (N, 5): kinds, logarithm of the conductivity, temperature at the start
    end: Tensor  # (N,)
    edge_index: Tensor  # (2, n_edges)

    @classmethod
    def of(cls, plate: Plate) -> Sample:
        """Convert a plate to tensors of float32."""
        kinds = [plate.kind == k for k in (INTERIOR, RIM, HOLE)]
        inputs = np.column_stack([*kinds, np.log(plate.conductivity), plate.start])
        return cls(
            torch.tensor(plate.positions, dtype=torch.float32),
            torch.tensor(inputs, dtype=torch.float32),
            torch.tensor(plate.end, dtype=torch.float32),
            torch.from_numpy(plate.edge_index.copy()),
        )

    @property
    def start(self) -> Tensor:
        """Temperature at the start, (N,)."""
        return self.inputs[:, -1]

    def error(self, prediction: Tensor) -> Tensor:
        """L2 error relative to the norm of what is to be said."""
        return (prediction - self.end).norm() / self.end.norm()


# ---- networks: what they add to the temperature at the start ----


class OnMesh(nn.Module):
    """MeshGraphNet along the edges of the mesh."""

    title = "MeshGraphNet"

    def __init__(self) -> None:
        super().__init__()
        width = 32
        self.model = gt.MeshGraphNet(
            input_dim_nodes=5, input_dim_edges=3, output_dim=1, processor_size=8,
            mlp_activation_fn="silu", hidden_dim_processor=width, hidden_dim_node_encoder=width,
            hidden_dim_edge_encoder=width, hidden_dim_node_decoder=width,
            num_layers_node_processor=1, num_layers_edge_processor=1,
        )  # fmt: skip

    def forward(self, sample: Sample) -> Tensor:
        """Predicted change of the temperature since the start, (N,)."""
        src, dst = sample.edge_index
        along = 30 * (sample.positions[src] - sample.positions[dst])  # some 1
        edges = torch.cat([along, along.norm(dim=1, keepdim=True)], dim=1)
        return self.model(sample.inputs, edges, sample.edge_index)[:, 0]


class Transformer(nn.Module):
    """Layers of attention between tokens that know their places."""

    def __init__(self, tokens: Tensor, width: int, n_layers: int = 2) -> None:
        super().__init__()
        self.place = nn.Linear(4, width)
        angles = torch.pi * tokens
        self.register_buffer("waves", torch.cat([angles.sin(), angles.cos()], dim=1))
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to (batch, n_tokens, width)."""
        return self.layers(x + self.place(self.waves))


class OnTokens(nn.Module):
    """MAGNO, from the points to a lattice of tokens, and back."""

    title = "MAGNO"

    def __init__(self, n_side: int = 14, width: int = 32) -> None:
        super().__init__()
        ticks = (torch.arange(n_side) + 0.5) / n_side
        tokens = torch.cartesian_prod(ticks, ticks)
        self.register_buffer("tokens", tokens)
        config = gt.MAGNOConfig(
            radius=0.07, scales=[1.0, 2.0], hidden_size=width, mlp_layers=2, lifting_channels=width
        )
        self.model = gt.MAGNO(5, 1, config, Transformer(tokens, width))

    def forward(self, sample: Sample) -> Tensor:
        """Predicted change of the temperature since the start, (N,)."""
        return self.model(self.tokens, sample.positions, sample.inputs[None])[0, :, 0]


class OnNeighborhoods(nn.Module):
    """Layers of the graph neural operator over neighbourhoods of the points."""

    title = "GNO"

    def __init__(self, radius: float = 0.12, width: int = 48, n_layers: int = 4) -> None:
        super().__init__()
        self.radius = radius
        self.lift = nn.Sequential(nn.Linear(7, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(
            gt.GNO(width, width, coord_dim=3, hidden_channels=32, kernel="diagonal")
            for _ in range(n_layers)
        )
        self.local = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width)) for _ in range(n_layers)
        )
        self.read = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, sample: Sample) -> Tensor:
        """Predicted change of the temperature since the start, (N,)."""
        graph = gt.Graph.radius(sample.positions, self.radius)
        along = (sample.positions[graph.src] - sample.positions[graph.dst]) / self.radius
        coords = torch.cat([along, along.square().sum(dim=1, keepdim=True)], dim=1)
        x = self.lift(torch.cat([sample.inputs, sample.positions], dim=1))
        for integral, local in zip(self.layers, self.local, strict=True):
            x = x + nn.functional.silu(integral(x, coords, graph) + local(x))
        return self.read(x)[:, 0]


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "mesh": OnMesh,
    "magno": OnTokens,
    "gno": OnNeighborhoods,
}


# ---- training ----


def test_error(network: nn.Module, samples: Sequence[Sample]) -> float:
    """Mean over the samples."""
    with torch.no_grad():
        return float(np.mean([s.error(s.start + network(s)).item() for s in samples]))


def train(
    name: str, samples: list[Sample], unseen: list[Sample], epochs: int, console: Console
) -> nn.Module:
    """Train one network, a plate a step."""
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    network = NETWORKS[name]()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-5)
    n_steps = epochs * len(samples)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=n_steps)
    columns = (
        TextColumn(f"{network.title:>12}"), BarColumn(),
        TextColumn("error {task.fields[loss]:.3f}"), TimeRemainingColumn(),
    )  # fmt: skip
    times = []
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=n_steps, loss=float("nan"))
        for _ in range(epochs):
            total = 0.0
            for k in rng.permutation(len(samples)):
                started = time.perf_counter()
                sample = samples[k]
                optimizer.zero_grad()
                loss = sample.error(sample.start + network(sample))
                loss.backward()
                optimizer.step()
                schedule.step()
                total += loss.item()
                times.append(time.perf_counter() - started)
                progress.advance(task)
            progress.update(task, loss=total / len(samples))
    parameters = sum(p.numel() for p in network.parameters())
    console.print(
        f"{network.title:>12}: relative L2 error {test_error(network, unseen):.4f} on "
        f"{len(unseen)} new plates, {1e3 * np.median(times):.0f} ms a step of training, "
        f"{parameters:,} parameters"
    )
    return network


def draw(plate: Plate, predictions: dict[str, np.ndarray], out: str) -> None:
    """The start, the end, and what every network says of it, with its error."""
    n = len(predictions)
    figure = Figure(figsize=(4 * (n + 1), 7.4), layout="constrained")
    axes = figure.subplots(2, n + 1)
    x, y = plate.positions.T
    low, high = min(plate.start.min(), 0), plate.start.max()
    worst = max(np.abs(p - plate.end).max() for p in predictions.values())

    def show(where, values, title, first, last, colors):
        image = where.tripcolor(
            x, y, plate.triangles, values, shading="gouraud", vmin=first, vmax=last, cmap=colors
        )
        where.set(title=title, aspect="equal", xticks=[], yticks=[])
        return image

    show(axes[0, 0], plate.start, "start", low, high, "inferno")
    axes[0, 0].triplot(x, y, plate.triangles, linewidth=0.2, color="white", alpha=0.5)
    temperature = show(axes[1, 0], plate.end, "end: finite elements", low, high, "inferno")
    for (title, prediction), (upper, lower) in zip(predictions.items(), axes.T[1:], strict=True):
        error = np.abs(prediction - plate.end)
        relative = np.linalg.norm(prediction - plate.end) / np.linalg.norm(plate.end)
        show(upper, prediction, f"end: {title}", low, high, "inferno")
        errors = show(lower, error, f"|error|, {100 * relative:.1f} % in L2", 0, worst, "viridis")
    figure.colorbar(temperature, ax=axes[0, :], shrink=0.8, label="temperature")
    figure.colorbar(errors, ax=axes[1, :], shrink=0.8, label="|error|")
    figure.savefig(out, dpi=110)


def main() -> None:
    """Draw plates, train the networks, compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument(
        "--plates", type=int, default=64, help="in training; a quarter more to test"
    )
    parser.add_argument("--resolution", type=int, default=26, help="points along a side")
    parser.add_argument("--networks", nargs="+", choices=[*NETWORKS], default=[*NETWORKS])
    parser.add_argument("--out", default="mesh_diffusion.png")
    options = parser.parse_args()
    console = Console()

    rng = np.random.default_rng(0)
    n_test = max(options.plates // 4, 1)
    plates = [draw_plate(rng, options.resolution) for _ in range(options.plates + n_test)]
    samples = [Sample.of(plate) for plate in plates]
    unseen, learned = samples[:n_test], samples[n_test:]
    n_points = np.mean([len(plate.positions) for plate in plates])
    n_edges = np.mean([sample.edge_index.shape[1] for sample in samples])
    still = np.mean([sample.error(sample.start).item() for sample in unseen])
    console.print(
        f"{options.plates} plates to learn from, about {n_points:.0f} points and {n_edges:.0f} "
        f"edges each; who says that nothing changes is wrong by {still:.3f}"
    )
    predictions = {}
    for name in options.networks:
        network = train(name, learned, unseen, options.epochs, console)
        with torch.no_grad():
            predictions[network.title] = (unseen[0].start + network(unseen[0])).numpy()
    draw(plates[0], predictions, options.out)
    console.print(f"picture in {options.out}")


if __name__ == "__main__":
    main()
