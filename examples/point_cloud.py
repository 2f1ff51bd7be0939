# SPDX-License-Identifier: MIT
"""Ball sparse attention learns heat conduction around airfoils from point clouds.

A body with the shape of a random airfoil (Joukowski) lies in a square. Its temperature and the
temperature along the edges of the square are random; between them heat conduction is steady,
``laplace(u) = 0``, which the example solves with linear finite elements on a triangulation of
random points. A network sees the points, the boundary values where there are any, the distance to
the body, and no mesh; it is tested on bodies and boundary values it never saw. The same network
with full attention is trained beside it.

Few bodies are enough to learn from: the equation is linear, so every sum of solutions around a body
is another one, and the square looks the same after a quarter turn or in a mirror.

    pip install ".[examples]"
    python examples/point_cloud.py [--epochs 60] [--device cpu] [--out point_cloud.png]
        [--attention ball]
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.path import Path
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import splu
from scipy.spatial import Delaunay, cKDTree
from torch import Tensor, nn
from torch.nn import functional as F

from gnograd.torch import BallSparseAttention, ball_tree_order

INTERIOR, EDGE, BODY = 0, 1, 2
WAVES = np.arange(1, 4)  # along the edges of the square
N_MODES = 2 * len(WAVES) + 1  # cosines, sines, and the body


# ---- clouds and their temperatures ----


@dataclass
class Cloud:
    """Points in the order of a ball tree, and temperatures there."""

    positions: np.ndarray  # (N, 2), in [-1, 1]^2
    kind: np.ndarray  # (N,) INTERIOR, EDGE or BODY
    distance: np.ndarray  # (N,) to the body
    modes: np.ndarray  # (N, M): temperature for every mode of the boundary's
    triangles: np.ndarray  # (T, 3)


@dataclass
class Sample:
    """Inputs that a network gets of a cloud, and the temperature that it should predict."""

    inputs: Tensor  # (N, 7): kind of every point, its position, distance, temperature if given
    temperature: Tensor  # (N,)
    interior: Tensor  # (N,) bool

    def error(self, prediction: Tensor) -> Tensor:
        """L2 error in the interior, relative to the temperature's norm."""
        difference = (prediction - self.temperature)[self.interior]
        return difference.norm() / self.temperature[self.interior].norm()


def airfoil(rng: np.random.Generator, n_points: int) -> np.ndarray:
    """Corners of a Joukowski airfoil, turned and moved at random."""
    center = complex(-rng.uniform(0.06, 0.2), rng.uniform(-0.15, 0.15))
    radius = abs(1 - center)  # through 1, which becomes the sharp trailing edge
    circle = center + radius * np.exp(2j * np.pi * np.arange(n_points) / n_points)
    outline = (circle + 1 / circle) * rng.uniform(0.2, 0.28) * np.exp(1j * rng.uniform(-0.6, 0.6))
    outline += complex(*rng.uniform(-0.2, 0.2, 2))
    return np.column_stack([outline.real, outline.imag])


def edge_points(n_side: int) -> np.ndarray:
    """Points all along the edges of the square."""
    t = np.linspace(-1, 1, n_side, endpoint=False)
    ones = np.ones(n_side)
    sides = [(t, -ones), (ones, t), (-t, ones), (-ones, -t)]
    return np.concatenate([np.column_stack(side) for side in sides])


def solve(positions: np.ndarray, triangles: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Linear finite elements for ``laplace(u) = 0``.

    A row of `given` is NaN where the temperatures are not prescribed; a column is a problem.
    """
    corners = positions[triangles]
    opposite = np.roll(corners, -1, axis=1) - np.roll(corners, 1, axis=1)
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
    local = np.einsum("tid,tjd->tij", opposite, opposite) / (4 * area[:, None, None])
    rows, columns = np.repeat(triangles, 3, axis=1), np.tile(triangles, 3)
    shape = (len(positions), len(positions))
    stiffness = coo_matrix((local.ravel(), (rows.ravel(), columns.ravel())), shape).tocsr()
    free = np.isnan(given[:, 0])
    u = np.where(free[:, None], 0, given)
    u[free] = splu(stiffness[free][:, free].tocsc()).solve(-(stiffness @ u)[free])
    return u


def draw_cloud(rng: np.random.Generator, n_side: int) -> Cloud:
    """A cloud of about n_side^2 points."""
    body, edges = airfoil(rng, 3 * n_side), edge_points(n_side)
    outline = Path(body)
    step = 2 / n_side
    ticks = np.linspace(-1 + step, 1 - step, n_side - 1)
    inner = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    inner = inner + rng.uniform(-0.3 * step, 0.3 * step, inner.shape)
    apart = cKDTree(body).query(inner)[0] > 0.4 * step
    inner = inner[apart & ~outline.contains_points(inner)]

    positions = np.concatenate([inner, edges, body])
    kind = np.repeat([INTERIOR, EDGE, BODY], [len(inner), len(edges), len(body)])
    order = ball_tree_order(torch.from_numpy(positions)).numpy()
    positions, kind = positions[order], kind[order]
    triangles = Delaunay(positions).simplices
    triangles = triangles[~outline.contains_points(positions[triangles].mean(axis=1))]

    angle = np.arctan2(positions[:, 1], positions[:, 0])
    phases = WAVES * angle[:, None]
    modes = np.column_stack([np.cos(phases) / WAVES, np.sin(phases) / WAVES, np.zeros(len(kind))])
    modes[kind == BODY] = 2.0 * (np.arange(N_MODES) == N_MODES - 1)
    modes[kind == INTERIOR] = np.nan
    distance = cKDTree(body).query(positions)[0]
    return Cloud(positions, kind, distance, solve(positions, triangles, modes), triangles)


def draw_sample(rng: np.random.Generator, cloud: Cloud, device: str, *, turn: bool) -> Sample:
    """A cloud with random temperatures, and if `turn` turned by quarters and mirrored."""
    temperature = cloud.modes @ rng.normal(size=N_MODES)
    positions = cloud.positions
    if turn:  # neighbours stay neighbours: the order is still a ball tree's
        positions = positions[:, rng.permutation(2)] * rng.choice([-1, 1], 2)
    interior = cloud.kind == INTERIOR
    kinds = [cloud.kind == k for k in (INTERIOR, EDGE, BODY)]
    given = np.where(interior, 0, temperature)
    inputs = np.column_stack([*kinds, positions, cloud.distance, given])
    return Sample(
        torch.tensor(inputs, dtype=torch.float32, device=device),
        torch.tensor(temperature, dtype=torch.float32, device=device),
        torch.tensor(interior, device=device),
    )


# ---- network ----


class FullAttention(nn.Module):
    """Attention of every point to every other, to compare ball sparse attention with."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, positions: Tensor, *, ordered: bool = True) -> Tensor:
        """Stand in for `BallSparseAttention`; positions and order do not matter."""
        qkv = self.to_qkv(x).view(len(x), 3, self.num_heads, -1)
        q, k, v = qkv.permute(1, 2, 0, 3)
        out = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        return self.to_out(out.transpose(0, 1).reshape(x.shape))


class Network(nn.Module):
    """A transformer over the points of a cloud.

    Every layer sees the cloud turned by another angle, so that the borders of its balls are
    elsewhere.
    """

    ANGLES = (0.0, math.pi / 4, math.pi / 8, 3 * math.pi / 8)  # turns of the cloud in the layers
    OCTAVES = 2.0 ** torch.arange(4)  # frequencies of the encoding of positions

    def __init__(self, attention: str, dim: int = 64, num_heads: int = 4) -> None:
        super().__init__()
        encoded = 7 + 4 * len(self.OCTAVES)
        self.embed = nn.Sequential(nn.Linear(encoded, dim), nn.GELU(), nn.Linear(dim, dim))
        self.attend, self.think = nn.ModuleList(), nn.ModuleList()
        for _ in self.ANGLES:
            self.attend.append(
                FullAttention(dim, num_heads)
                if attention == "full"
                else BallSparseAttention(
                    dim, num_heads, ball_size=64, query_group=16, position_dim=2
                )
            )
            self.think.append(
                nn.Sequential(
                    nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
                )
            )
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in self.ANGLES)
        self.read = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        """Temperature of every point, the given one where it is given.

        The equation says nothing of the scale and the zero of temperatures, so the layers see them
        with mean 0 and deviation 1 along the boundary.
        """
        boundary = inputs[:, INTERIOR] == 0
        given = inputs[:, -1]
        spread, mean = torch.std_mean(given[boundary])
        scaled = torch.where(boundary, (given - mean) / spread, 0)
        u = self.layers(torch.column_stack([inputs[:, :-1], scaled]))
        return torch.where(boundary, given, mean + spread * u)

    def layers(self, inputs: Tensor) -> Tensor:
        """Scaled temperature of every point."""
        positions = inputs[:, 3:5]
        phase = (torch.pi / 2 * positions[:, :, None] * self.OCTAVES.to(positions)).flatten(1)
        x = self.embed(torch.cat([inputs, phase.sin(), phase.cos()], dim=1))
        layers = zip(self.norms, self.attend, self.think, self.ANGLES, strict=True)
        for norm, attend, think, angle in layers:
            turn = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            x = x + attend(norm(x), positions @ positions.new_tensor(turn), ordered=angle == 0)
            x = x + think(x)
        return self.read(x)[:, 0]


# ---- training ----


def relative_error(network: Network, test: list[Sample]) -> float:
    """Mean over the samples."""
    with torch.no_grad():
        return float(np.mean([sample.error(network(sample.inputs)).item() for sample in test]))


def train(
    name: str, clouds: list[Cloud], test: list[Sample], epochs: int, console: Console
) -> Network:
    """Train one of the two networks, a cloud a step."""
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    device = test[0].inputs.device
    network = Network(name).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    steps = epochs * len(clouds)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    columns = (
        TextColumn(f"{name:>5} attention"), BarColumn(),
        TextColumn("error {task.fields[loss]:.3f}"), TimeRemainingColumn(),
    )  # fmt: skip
    started = time.perf_counter()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=steps, loss=float("nan"))
        for _ in range(epochs):
            total = 0.0
            for k in rng.permutation(len(clouds)):
                sample = draw_sample(rng, clouds[k], str(device), turn=True)
                optimizer.zero_grad()
                loss = sample.error(network(sample.inputs))
                loss.backward()
                optimizer.step()
                schedule.step()
                total += loss.item()
                progress.advance(task)
            progress.update(task, loss=total / len(clouds))
    seconds = time.perf_counter() - started
    error = relative_error(network, test)
    console.print(
        f"{name:>5} attention: relative L2 error {error:.3f} on {len(test)} new airfoils, "
        f"{seconds:.0f} s of training, {1e3 * seconds / steps:.0f} ms a step"
    )
    return network


def draw(cloud: Cloud, truth: np.ndarray, prediction: np.ndarray, name: str, out: str) -> None:
    """Truth, prediction and error, side by side."""
    figure = Figure(figsize=(13, 4), layout="constrained")
    low, high = truth.min(), truth.max()
    error = np.where(cloud.kind == INTERIOR, np.abs(prediction - truth), 0)
    panels = [("finite elements", truth, low, high, "RdBu_r"),
              (name, prediction, low, high, "RdBu_r"),
              ("|error|", error, 0, error.max(), "magma")]  # fmt: skip
    for axes, (title, values, first, last, colors) in zip(
        figure.subplots(1, 3), panels, strict=True
    ):
        x, y = cloud.positions.T
        image = axes.tripcolor(
            x, y, cloud.triangles, values, shading="gouraud", vmin=first, vmax=last, cmap=colors
        )
        figure.colorbar(image, ax=axes)
        axes.set(title=title, aspect="equal", xticks=[], yticks=[])
    figure.savefig(out, dpi=120)


def main() -> None:
    """Draw clouds, train both networks, compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--clouds", type=int, default=48, help="in training; a sixth more to test")
    parser.add_argument("--resolution", type=int, default=40, help="points along a side")
    parser.add_argument(
        "--attention", nargs="+", choices=["ball", "full"], default=["ball", "full"]
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", default="point_cloud.png")
    options = parser.parse_args()
    console = Console()

    rng = np.random.default_rng(0)
    n_test = max(options.clouds // 6, 1)
    clouds = [draw_cloud(rng, options.resolution) for _ in range(options.clouds + n_test)]
    points = np.mean([len(c.positions) for c in clouds])
    console.print(f"{options.clouds} airfoils to learn from, about {points:.0f} points each")
    learned, unseen = clouds[n_test:], clouds[:n_test]
    test = [draw_sample(rng, cloud, options.device, turn=False) for cloud in unseen]
    networks = {
        name: train(name, learned, test, options.epochs, console) for name in options.attention
    }
    with torch.no_grad():
        name, network = next(iter(networks.items()))
        prediction = network(test[0].inputs).cpu().numpy()
    draw(unseen[0], test[0].temperature.cpu().numpy(), prediction, f"{name} attention", options.out)
    console.print(f"picture in {options.out}")


if __name__ == "__main__":
    main()
