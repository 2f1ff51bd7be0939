# SPDX-License-Identifier: MIT
"""A graph neural operator learns what wind does to heat, on one mesh over many processes.

The mesh is a triangulated square whose nodes are moved about at random. Every process makes some
rows of it, by their numbers; coordinate bisection cuts the square into compact parts, and nodes
move to their owners. So no process ever holds the whole mesh, and none could: with --limit-memory
an allocation beyond that many megabytes of address space fails.

The operator has to find the temperature that wind and diffusion leave of a sum of waves. It is
trained on the whole mesh at once: halos travel in every layer, there and back, and the gradients of
the weights are summed over the processes. Losses are the same for any number of them, up to
rounding.

    pip install ".[examples]" mpi4py mpich
    mpiexec -n 4 python examples/distributed_mesh.py [--nodes 4000000] [--steps 30]
        [--limit-memory 1500] [--out distributed_mesh.png]
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from dataclasses import dataclass

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # whose threads reserve memory

import numpy as np
from matplotlib.figure import Figure

import gnograd as gg
import gnograd.autodiff as ad

CHANNELS, HIDDEN, LAYERS = 8, 16, 2
RATE = 0.02
WAVES = 24
PIXELS = 400
CORNER = 0.2
SIDES = {"owner": 1.0, "start": CORNER, "change": CORNER, "learned": CORNER}
"""Sides of the parts of the unit square that pictures show, from its lower left corner."""


@dataclass
class Mesh:
    """Part of the mesh that a process has, in the order of its rows."""

    graph: gg.DistributedGraph
    positions: np.ndarray  # (n_own, 2), in the unit square
    offsets: np.ndarray  # (n_edges, 2), from destination to source in units of the mesh's width


# ---- the mesh ----


def make_mesh(n: int, comm: gg.distributed.Communicator) -> Mesh:
    """Triangulated square of n x n nodes, cut into compact parts."""
    rows = np.arange(n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size)
    number = (rows[:, None] * n + np.arange(n)).ravel()
    x = position(number, n)
    owner = gg.distributed.partition(x, comm.size, comm=comm)
    (owned,) = gg.distributed.redistribute(comm, owner, number)
    offsets, sources = neighbours(owned, n)
    graph = gg.DistributedGraph.from_local(offsets, sources, owned, comm)
    x = position(graph.owned, n)
    local = graph.local
    of_rows = position(np.concatenate([graph.owned, graph.halo_ids]), n)
    between = (of_rows[local.src] - x[local.dst]) * n
    return Mesh(graph, x, between.astype(np.float32))


def position(number: np.ndarray, n: int) -> np.ndarray:
    """Coordinates of nodes, which follow from their numbers alone."""
    # two random numbers of a node, by the finaliser of SplitMix64
    z = (2 * number[:, None] + np.arange(1, 3)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    random = ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
    lattice = np.stack([number % n, number // n], axis=1)
    return (lattice + 0.35 + 0.3 * random) / n


def neighbours(number: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets, and numbers of the sources: the ends of a triangle's edges, and the node itself."""
    steps = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, -1)])
    column = (number % n)[:, None] + steps[:, 0]
    row = (number // n)[:, None] + steps[:, 1]
    inside = (column >= 0) & (column < n) & (row >= 0) & (row < n)
    offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(inside, axis=1))])
    return offsets, (row * n + column)[inside]


# ---- what is to be learned ----


def temperatures(x: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Values at the start, and after the wind has crossed one width of the mesh: (n_own, 1)."""
    rng = np.random.default_rng(0)
    # waves as long as the square, down to twelve widths of the mesh or 1/100 of the square
    wave = rng.uniform(-1, 1, (WAVES, 2)) * min(n / 12, 100)
    amplitude, phase = rng.normal(size=WAVES) / np.sqrt(WAVES), rng.uniform(0, 2 * np.pi, WAVES)
    wind, diffusion = np.array([0.8, 0.6]) / n, 0.2 / n**2
    start, end = np.zeros((2, len(x)))
    for k, a, p in zip(2 * np.pi * wave, amplitude, phase, strict=True):
        at = x @ k + p
        start += a * np.cos(at)
        end += a * np.exp(-diffusion * (k @ k)) * np.cos(at - k @ wind)
    return start[:, None].astype(np.float32), end[:, None].astype(np.float32)


class Operator:
    """Lift, layers of a graph neural operator with a shortcut each, projection; on a tape."""

    def __init__(self, tape: ad.Tape) -> None:
        rng = np.random.default_rng(1)

        def weights(*shape: int, scale: float = 1.0) -> ad.Array:
            spread = scale / np.sqrt(shape[0])
            return tape.parameter((spread * rng.normal(size=shape)).astype(np.float32))

        self.lift = weights(1, CHANNELS)
        self.layers = [
            (
                weights(2, HIDDEN),
                weights(HIDDEN),
                weights(HIDDEN, CHANNELS, CHANNELS, scale=0.3),
                weights(CHANNELS, CHANNELS, scale=0.3),
            )
            for _ in range(LAYERS)
        ]
        self.project = weights(CHANNELS, 1, scale=0.1)
        self.parameters = [self.lift, *(w for layer in self.layers for w in layer), self.project]

    def __call__(self, start: ad.Array, mesh: Mesh) -> ad.Array:
        """Change of the temperature, in units of what it is on average."""
        h = start @ self.lift
        for k, layer in enumerate(self.layers):
            change = ad.gno(
                h, mesh.offsets, *layer, graph=mesh.graph, activation="gelu", reduction="mean"
            )
            h = h + (ad.gelu(change) if k + 1 < LAYERS else change)
        return h @ self.project


def train(mesh: Mesh, n: int, steps: int, say) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Temperatures at the start and at the end, and what the operator makes of the start."""
    graph, tape = mesh.graph, ad.Tape("float32")
    start, end = temperatures(mesh.positions, n)
    unit = graph.norm(end - start) / n
    change = (end - start) / unit
    operator = Operator(tape)
    optimizer = ad.Adam(operator.parameters, lr=RATE)
    for step in range(steps):
        begun = time.perf_counter()
        optimizer.lr = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        with tape.step():
            difference = operator(tape.constant(start), mesh) - change
            loss = graph.sum(ad.sum(difference * difference)) / float(n * n)
            loss.backward()
            value = loss.item()
        graph.sum_gradients(optimizer)
        optimizer.step()
        say(f"step {step + 1:3d}  loss {value:.6f}  {time.perf_counter() - begun:.1f} s")
    with tape.step():
        found = start + unit * operator(tape.constant(start), mesh).value
    return start, end, found


# ---- the picture ----


def raster(mesh: Mesh, values: np.ndarray, n: int, side: float) -> np.ndarray:
    """Means of nodes' values by pixel of a corner, over all processes; nobody has all nodes."""
    pixels = min(PIXELS, max(int(n * side) // 2, 1))
    inside = (mesh.positions < side).all(axis=1)
    pixel = (mesh.positions[inside] * (pixels / side)).astype(int)
    where = pixel[:, 1] * pixels + pixel[:, 0]
    sums = np.bincount(where, values.ravel()[inside], pixels**2)
    counts = np.bincount(where, minlength=pixels**2)
    both = mesh.graph.sum(np.stack([sums, counts.astype(float)]))
    with np.errstate(invalid="ignore"):
        return (both[0] / both[1]).reshape(pixels, pixels)


def draw(images: dict[str, np.ndarray], size: int, path: str) -> None:
    """The parts, and of a corner the temperature, how it changes, and what was learned of that."""
    figure = Figure(figsize=(11, 9.6), layout="constrained")
    axes = figure.subplots(2, 2).ravel()
    change = np.nanmax(np.abs(images["change"]))
    styles = {
        f"owner, {size} processes": dict(cmap="tab20", vmin=-0.5, vmax=19.5),
        "temperature at the start": dict(cmap="inferno"),
        "change, exact": dict(cmap="RdBu_r", vmin=-change, vmax=change),
        "change, learned": dict(cmap="RdBu_r", vmin=-change, vmax=change),
    }
    for ax, (title, style), (name, image) in zip(axes, styles.items(), images.items(), strict=True):
        shown = ax.imshow(
            image,
            origin="lower",
            extent=(0, SIDES[name], 0, SIDES[name]),
            interpolation="nearest",
            **style,
        )
        ax.set_title(title)
        if not title.startswith("owner"):
            figure.colorbar(shown, ax=ax, shrink=0.85)
    figure.savefig(path, dpi=110)


# ---- the program ----


def main() -> None:
    """Make the mesh, train, and draw what was learned."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=4_000_000, help="of the mesh, about")
    parser.add_argument("--steps", type=int, default=30, help="of training")
    parser.add_argument("--limit-memory", type=int, metavar="MB", help="of every process")
    parser.add_argument("--out", default="distributed_mesh.png", help="file for the picture")
    given = parser.parse_args()
    if given.limit_memory:
        limit = given.limit_memory * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    comm = gg.distributed.communicator()
    gg.set_num_threads(max((os.cpu_count() or 1) // comm.size, 1))

    def say(text: str) -> None:
        if comm.rank == 0:
            print(text, flush=True)

    n = max(round(given.nodes**0.5), 4)
    begun = time.perf_counter()
    mesh = make_mesh(n, comm)
    graph = mesh.graph
    rows = comm.all_gather(np.array([graph.n_own, graph.n_halo, len(graph.neighbours)]))
    say(
        f"{n * n} nodes on {comm.size} processes in {time.perf_counter() - begun:.1f} s: "
        f"{rows[:, 0].min()} to {rows[:, 0].max()} own nodes, at most {rows[:, 1].max()} of others "
        f"from {rows[:, 2].max()} neighbours"
    )
    start, end, found = train(mesh, n, given.steps, say)
    error = graph.norm(found - end) / graph.norm(end - start)
    say(f"relative error of the change: {error:.4f}")
    used = comm.all_gather(np.array([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
    say(f"memory: at most {used.max() / 1024:.0f} MB a process")
    values = {
        "owner": np.full(graph.n_own, comm.rank % 20),
        "start": start,
        "change": end - start,
        "learned": found - start,
    }
    images = {name: raster(mesh, each, n, SIDES[name]) for name, each in values.items()}
    if comm.rank == 0:
        draw(images, comm.size, given.out)
        print(f"picture: {given.out}")


if __name__ == "__main__":
    main()
