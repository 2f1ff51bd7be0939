# SPDX-License-Identifier: MIT
"""Conversion of samples on a grid to graphs of irregular points."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

import gnograd as gg
from gnograd.cli.config import Parallel
from gnograd.cli.darcy_data import DarcyData
from gnograd.cli.processes import ALONE, Processes

Array = npt.NDArray[Any]

SMOOTHING = (1 / 40, 1 / 15, 2 / 15)
"""Standard deviations of the Gaussians that smooth the coefficient, in sides of the square."""

SCALARS = 1 + len(SMOOTHING)
"""Number of scalar features of a point: the coefficient, plain and smoothed."""

NODE_FEATURES = SCALARS + 4
EDGE_FEATURES = 3 + 2 * SCALARS

SYMMETRIES = tuple(
    np.array(matrix, np.float32)
    for sx in (1, -1)
    for sy in (1, -1)
    for matrix in ([[sx, 0], [0, sy]], [[0, sx], [sy, 0]])
)
"""The eight symmetries of the square about its centre."""


@dataclass(frozen=True)
class Batch:
    """Some samples at some points each, as one graph without edges between samples.

    The prediction of a network ``y`` for ``u`` is ``mean + std * y``. Where processes share the
    points, nodes and edges are those of this process, in the order of its graph.
    """

    nodes: Array
    """Coefficient, plain and smoothed; gradient of the least smoothed; position:
    (n_nodes, NODE_FEATURES)."""
    edges: Array
    """Vector from destination to source in radii, its length, and the coefficient, plain and
    smoothed, at both ends: (n_edges, EDGE_FEATURES)."""
    graph: gg.Graph | gg.DistributedGraph
    mean: Array
    """Mean of the solution, (n_nodes, 1)."""
    std: Array
    """Standard deviation of the solution, (n_nodes, 1)."""
    truth: Array
    """Solution, (n_nodes, 1)."""
    points: Array
    """Numbers of the points of the nodes, (n_nodes,), counted through all samples."""
    n_samples: int
    n_points: int
    """Number of points of each sample."""
    of: int
    """Number of samples of the step on all processes."""
    norms: Array
    """L2 norm of the solution at the points of each sample, (n_samples,)."""


class DarcyGraphs:
    """Makes batches from samples, with the normalisation of the training samples.

    The solution is normalised by its mean and standard deviation over the
    training samples, point by point. Where the boundary value is prescribed
    the deviation is zero, and the prediction is exact there whatever the network says.

    Parameters
    ----------
    data : DarcyData
    train : int
        Samples ``0 .. train - 1`` set the normalisation.
    radius : float
        Points closer than this are neighbours.
    symmetric : bool
        True if the problem is invariant under the symmetries of the square. The normalisation then
        is symmetric, too.
    processes : Processes, optional
        Processes; if they share the points of a batch, each gets its part of the graph.
    """

    def __init__(
        self,
        data: DarcyData,
        train: int,
        radius: float,
        symmetric: bool,
        processes: Processes = ALONE,
    ) -> None:
        self.data = data
        self.processes = processes
        self.radius = radius
        self.symmetric = symmetric
        self.mean, self.std = _moments(data.solution[:train], symmetric)
        self.features = _features(data.coefficient)
        _normalise(self.features, train)

    def random_nodes(self, rng: np.random.Generator, samples: int, nodes: int) -> Array:
        """Draw `nodes` different grid points per sample, (samples, nodes)."""
        points = self.data.grid**2
        return np.stack([rng.choice(points, nodes, replace=False) for _ in range(samples)])

    def regular_nodes(self, step: int) -> Array:
        """Every `step`-th point of the grid in both directions, (nodes,)."""
        line = np.arange(0, self.data.grid, step)
        nodes: Array = line[:, None] * self.data.grid + line
        return nodes.ravel()

    def batch(
        self,
        samples: Sequence[int] | Array,
        nodes: Array,
        symmetries: Sequence[int] | Array | None = None,
        of: int | None = None,
    ) -> Batch:
        """Make the graph of some samples.

        Parameters
        ----------
        samples : sequence of int, (n,)
        nodes : ndarray of int, (n, m)
            Grid points of every sample.
        symmetries : sequence of int, (n,), optional
            Numbers of the `SYMMETRIES` to apply to every sample.
        of : int, optional
            Number of samples of the step on all processes, if these are a part of them.
        """
        grid = self.data.grid
        n, m = nodes.shape
        at = (np.asarray(samples, np.int64)[:, None], *np.divmod(nodes, grid))
        features = self.features[at]
        position = np.stack(at[1:], axis=-1).astype(np.float32) / (grid - 1) - 0.5
        if symmetries is not None:
            matrix = np.stack(SYMMETRIES)[np.asarray(symmetries, np.int64)]
            position = position @ matrix
            features[..., SCALARS:] = features[..., SCALARS:] @ matrix
        features, position = features.reshape(n * m, SCALARS + 2), position.reshape(n * m, 2)
        # Samples side by side, further apart than the radius, need one search for neighbours.
        apart = np.repeat(np.arange(n), m) * (2.0 + self.radius)
        graph, points, src, dst = self._graph(position + np.stack([apart, 0 * apart], axis=1))
        step = (position[src] - position[dst]) / self.radius
        scalars = features[:, :SCALARS]
        truth = self.data.solution[at]
        return Batch(
            nodes=np.concatenate([features, 2.0 * position], axis=1)[points],
            edges=np.concatenate(
                [step, np.linalg.norm(step, axis=1)[:, None], scalars[dst], scalars[src]], axis=1
            ),
            graph=graph,
            mean=self.mean[at[1:]].reshape(-1, 1)[points],
            std=self.std[at[1:]].reshape(-1, 1)[points],
            truth=truth.reshape(-1, 1)[points],
            points=points,
            n_samples=n,
            n_points=m,
            of=n if of is None else of,
            norms=np.linalg.norm(truth, axis=1),
        )

    def _graph(self, points: Array) -> tuple[gg.Graph | gg.DistributedGraph, Array, Array, Array]:
        """Graph of points that are neighbours, or this process' part of it.

        Returns
        -------
        graph : Graph or DistributedGraph
        mine : ndarray of int
            Numbers of the points that are its nodes.
        src, dst : ndarray of int
            Numbers of the points at the ends of its edges.
        """
        everyone = np.arange(len(points))
        if self.processes.parallel is not Parallel.GRAPH:
            graph = gg.Graph.radius(points, self.radius)
            return graph, everyone, graph.src, graph.dst
        comm = self.processes.comm
        owner = gg.distributed.partition(points, comm.size)
        part = gg.DistributedGraph.radius(points[owner == comm.rank], self.radius, comm)
        # the distributed graph numbers points process by process
        number = np.argsort(owner, kind="stable")
        mine, around = number[part.owned], number[part.halo_ids]
        near = np.concatenate([mine, around])
        return part, mine, near[part.local.src], mine[part.local.dst]


def _moments(solution: Array, symmetric: bool) -> tuple[Array, Array]:
    """Mean and standard deviation over samples (and symmetries) at every grid point."""
    mean = solution.mean(axis=0, dtype=np.float64)
    square = np.square(solution, dtype=np.float64).mean(axis=0)
    if symmetric:
        mean, square = _symmetrised(mean), _symmetrised(square)
    std = np.sqrt(np.maximum(square - mean**2, 0.0))
    return mean.astype(np.float32), std.astype(np.float32)


def _symmetrised(field: Array) -> Array:
    turned = [np.rot90(field, k) for k in range(4)]
    mean: Array = np.mean([*turned, *(t.T for t in turned)], axis=0)
    return mean


def _features(coefficient: Array) -> Array:
    """Coefficient, plain and smoothed, and a gradient: (n_samples, grid, grid, SCALARS + 2)."""
    cells = coefficient.shape[1] - 1
    features = np.empty((*coefficient.shape, SCALARS + 2), np.float32)
    for feature, a in zip(features, coefficient, strict=True):
        feature[..., 0] = a
        for k, deviation in enumerate(SMOOTHING, start=1):
            feature[..., k] = ndimage.gaussian_filter(a, deviation * cells, mode="nearest")
        feature[..., SCALARS], feature[..., SCALARS + 1] = np.gradient(feature[..., 1])
    return features


def _normalise(features: Array, train: int) -> None:
    """Scale to mean zero and deviation one over the training samples, in place.

    The gradient is only scaled, by one number, so that it stays a vector.
    """
    scalars, gradient = features[..., :SCALARS], features[..., SCALARS:]
    scalars -= scalars[:train].mean(axis=(0, 1, 2), dtype=np.float64).astype(np.float32)
    scalars /= _scale(scalars[:train], (0, 1, 2))
    gradient /= _scale(gradient[:train], None)


def _scale(values: Array, axis: tuple[int, ...] | None) -> Array:
    """Root mean square; 1 where that is 0."""
    rms = np.sqrt(np.square(values, dtype=np.float64).mean(axis=axis))
    return np.where(rms > 0.0, rms, 1.0).astype(np.float32)
