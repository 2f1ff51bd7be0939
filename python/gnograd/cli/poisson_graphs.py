# SPDX-License-Identifier: MIT
"""Conversion of problems to graphs from points where f is known to queries for u."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import gnograd as gg
from gnograd.cli.poisson_problem import SOURCE, Problem

Array = npt.NDArray[Any]

NODE_FEATURES = 8
EDGE_FEATURES = 8
AREA = 6
"""Column of the area in the node features."""

GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))

APART = 10.0
"""Distance between the origins of problems side by side: too far for edges between them."""


@dataclass(frozen=True)
class Task:
    """A problem, and the queries for its solution."""

    problem: Problem
    turn: float
    """Angle by which the points where f is known are turned."""
    queries: Array
    """Points at which the solution is computed, (n, 2)."""
    areas: Array
    """Quadrature weights of the queries, up to a factor, (n,)."""
    truth: Array | None = None
    """Solution at the queries, (n,)."""


@dataclass(frozen=True)
class Batch:
    """Some tasks, as graphs without edges between problems; all arrays are float32."""

    n_samples: int
    """Number of tasks, which all have equally many queries."""
    of: tuple[int, int]
    """Number of tasks of the step on all processes, and number of those with known solutions."""
    nodes: Array
    """f, phi, gradient of phi, position, area of the points where f is known, and f times the
    area: (n_nodes, NODE_FEATURES)."""
    edges: Array
    """Vector from destination to source in radii, its length, f and phi at both ends, and the area
    of the source: (n_edges, EDGE_FEATURES)."""
    graph: gg.Graph
    """Graph between the nodes."""
    positions: Array
    """Positions of the nodes, in reaches, (n_nodes, 2)."""
    queries: Array
    """Positions of the queries, in reaches, (n_queries, 2)."""
    neighbours: gg.Graph
    """Graph from nodes to queries."""
    weights: Array
    """Mollifier of edges to queries times the area of the node, (n_neighbours,)."""
    weight_derivatives: Array
    """Gradient and Laplacian of the weights by the query, in reaches, (n_neighbours, 3)."""
    phi: Array
    """phi at the queries, (n_queries, 1)."""
    phi_gradient: Array
    """Gradient of phi at the queries, (n_queries, 2)."""
    phi_laplacian: Array
    """Laplacian of phi at the queries, (n_queries, 1)."""
    source: Array
    """f at the queries, (n_queries, 1)."""
    areas: Array
    """Quadrature weights of the queries, (n_samples, n)."""
    truth: Array | None
    """Solution at the queries of the last tasks, for which it is known, (n_known, n)."""


def disk_points(n: int, turn: float, rng: np.random.Generator | None = None) -> Array:
    """Points of equal areas of the unit disk on Fermat's spiral, (n, 2).

    Parameters
    ----------
    n : int
    turn : float
        Angle by which the points are turned.
    rng : numpy.random.Generator, optional
        Generator that moves each point at random within its ring.
    """
    k = np.arange(n)
    angle = k * GOLDEN_ANGLE + turn
    radius = np.sqrt((k + (0.5 if rng is None else rng.random(n))) / n)
    points: Array = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points


def mollifier(offset: Array) -> tuple[Array, Array]:
    """``(1 - |d|^2)^3``, which fades out at distance 1, and its gradient and Laplacian.

    Parameters
    ----------
    offset : ndarray, (n, 2)

    Returns
    -------
    value : ndarray, (n, 1)
    derivatives : ndarray, (n, 3)
    """
    inside = 1.0 - np.square(offset).sum(axis=1, keepdims=True)
    gradient = -6.0 * offset * inside**2
    laplacian = 12.0 * inside * (2.0 - 3.0 * inside)
    return inside**3, np.concatenate([gradient, laplacian], axis=1)


class PoissonGraphs:
    """Makes batches from tasks.

    Parameters
    ----------
    nodes : int
        Points of a problem where f is known.
    radius : float
        Distance up to which these are neighbours.
    reach : float
        Distance up to which they are neighbours of queries.
    """

    def __init__(self, nodes: int, radius: float, reach: float) -> None:
        self.nodes, self.radius, self.reach = nodes, radius, reach

    def batch(self, tasks: Sequence[Task], of: tuple[int, int] | None = None) -> Batch:
        """Make the graphs of some tasks; those with `truth` come last.

        `of` becomes that of the batch, if these tasks are only a part of a step.
        """
        reach = self.reach
        y, nodes = self._nodes(tasks)
        x = np.concatenate([task.queries for task in tasks])
        phi, slope, laplacian = _joined(task.problem.level_set(task.queries) for task in tasks)
        # one search for all problems, side by side
        beside = _beside(y, len(tasks))
        graph = gg.Graph.radius(beside, self.radius)
        neighbours = gg.Graph.radius(beside, reach, _beside(x, len(tasks)))
        weight, derivatives = mollifier((x[neighbours.dst] - y[neighbours.src]) / reach)
        area = nodes[neighbours.src, AREA, None] / (self.nodes * reach**2)
        known = [task.truth for task in tasks if task.truth is not None]
        return Batch(
            n_samples=len(tasks),
            of=of or (len(tasks), len(known)),
            nodes=_float32(nodes),
            edges=_float32(self._edges(y, nodes, graph)),
            graph=graph,
            positions=_float32(y / reach),
            queries=_float32(x / reach),
            neighbours=neighbours,
            weights=_float32((weight * area)[:, 0]),
            weight_derivatives=_float32(derivatives * area),
            phi=_float32(phi[:, None]),
            phi_gradient=_float32(slope),
            phi_laplacian=_float32(laplacian[:, None]),
            source=_float32(
                np.concatenate([task.problem.source(task.queries) for task in tasks])[:, None]
            ),
            areas=_float32(np.stack([task.areas for task in tasks])),
            truth=_float32(np.stack(known)) if known else None,
        )

    def _nodes(self, tasks: Sequence[Task]) -> tuple[Array, Array]:
        """Positions and features of the nodes."""
        positions, features = [], []
        for task in tasks:
            points, area = task.problem.from_disk(disk_points(self.nodes, task.turn))
            phi, slope, _ = task.problem.level_set(points)
            f = task.problem.source(points) / SOURCE
            positions.append(points)
            features.append(np.column_stack([f, phi, slope, points, area, f * area]))
        return np.concatenate(positions), np.concatenate(features)

    def _edges(self, y: Array, nodes: Array, graph: gg.Graph) -> Array:
        src, dst = graph.src, graph.dst
        step = (y[src] - y[dst]) / self.radius
        return np.column_stack(
            [step, np.linalg.norm(step, axis=1), nodes[dst, :2], nodes[src, :2], nodes[src, AREA]]
        )


def _beside(points: Array, n: int) -> Array:
    """Move the points of n problems apart, so that no edges join problems."""
    shift = np.repeat(APART * np.arange(n), len(points) // n)
    moved: Array = points + np.stack([shift, np.zeros_like(shift)], axis=1)
    return moved


def _joined(parts: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def _float32(values: Array) -> Array:
    return np.ascontiguousarray(values, np.float32)
