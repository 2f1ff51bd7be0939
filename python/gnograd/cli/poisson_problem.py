# SPDX-License-Identifier: MIT
"""A nonlinear Poisson equation on random star-shaped domains, and its finite-element solution.

::

    div((1 + u^2/10) grad u) = f   where phi > 0,      u = 0 where phi = 0,
    phi(x) = 1 - |x|^2 exp(-2 W(x)),      W(x) = Re sum_(k=2..5) c_k (z / sqrt(1/4 + |z|^2))^k

with ``z = x_1 + i x_2``: on the boundary ``log |x| = W(x)``. On a ray from the origin W changes so
slowly that phi falls, as long as ``sum |c_k| < 2``: the domain is star-shaped. phi is smooth.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import linalg

Array = npt.NDArray[Any]

WAVES = np.arange(2, 6)
"""Powers k in W."""
DEFORMATION = 0.25
"""Standard deviation of c_k times k."""
STRONGEST = 0.6
"""Largest sum of the ``|c_k|``."""
CORE = 0.25
"""Square of the distance from the origin below which W fades out."""
BOUNDARY_STEPS = 6

SOURCE = 15.0
"""Standard deviation of f."""
CORRELATION = 0.6
"""Length over which f changes."""
SOURCE_WAVES = 32

NEWTON_STEPS = 30
TOLERANCE = 1e-10
"""Relative residual at which Newton's method stops."""


@dataclass(frozen=True)
class Problem:
    """A domain and a right-hand side."""

    shape: Array
    """``c_k``, complex, (4,)"""
    waves: Array
    """Wave vectors of f, (SOURCE_WAVES, 2)"""
    phases: Array
    """Phases of f, (SOURCE_WAVES,)"""

    def level_set(self, points: Array) -> tuple[Array, Array, Array]:
        """Return phi, its gradient and its Laplacian at some points.

        Parameters
        ----------
        points : ndarray, (n, 2)

        Returns
        -------
        phi : ndarray, (n,)
        gradient : ndarray, (n, 2)
        laplacian : ndarray, (n,)
        """
        z = (points[:, 0] + 1j * points[:, 1])[:, None]
        square = np.abs(z) ** 2
        # h_k = c_k z^k is harmonic; times p_k, a function of |z|^2, it is a term of W
        h = self.shape * z**WAVES
        far = CORE + square
        p = far ** (-WAVES / 2)
        dp = -WAVES / 2 * p / far
        ddp = -(WAVES / 2 + 1) * dp / far
        w = (h * p).real.sum(axis=1)
        slope = self.shape * WAVES * z ** (WAVES - 1)
        dw = (np.conj(slope) * p + 2.0 * h.real * dp * z).sum(axis=1)
        ddw = (h.real * 4.0 * ((WAVES + 1) * dp + square * ddp)).sum(axis=1)
        z, square = z[:, 0], square[:, 0]
        factor = np.exp(-2.0 * w)
        outward = (np.conj(z) * dw).real
        gradient = -2.0 * factor * (z - square * dw)
        laplacian = factor * (8.0 * outward + square * (2.0 * ddw - 4.0 * np.abs(dw) ** 2) - 4.0)
        return 1.0 - square * factor, np.stack([gradient.real, gradient.imag], axis=1), laplacian

    def radius(self, angles: Array) -> Array:
        """Distance from the origin to the boundary in some directions."""
        direction = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        log_radius = np.zeros(len(angles))
        # Newton's method for log |x| - W(x) = log(1 - phi) / 2, whose slope is 0.7 to 1.3
        for _ in range(BOUNDARY_STEPS):
            points = np.exp(log_radius)[:, None] * direction
            phi, gradient, _ = self.level_set(points)
            slope = (points * gradient).sum(axis=1)
            log_radius += np.log1p(-phi) * (1.0 - phi) / slope
        return np.exp(log_radius)

    def from_disk(self, disk: Array) -> tuple[Array, Array]:
        """Points of the domain for points of the unit disk, moved along their rays.

        Returns
        -------
        points : ndarray, (n, 2)
        area : ndarray, (n,)
            Factor by which areas grow.
        """
        radius = self.radius(np.arctan2(disk[:, 1], disk[:, 0]))
        return disk * radius[:, None], radius**2

    def source(self, points: Array) -> Array:
        """Return f at some points, (n,)."""
        waves = np.cos(points @ self.waves.T + self.phases)
        values: Array = SOURCE * math.sqrt(2.0 / SOURCE_WAVES) * waves.sum(axis=1)
        return values


def draw(rng: np.random.Generator) -> Problem:
    """Draw a domain, and a right-hand side with squared-exponential correlations."""
    normal = rng.standard_normal(WAVES.size) + 1j * rng.standard_normal(WAVES.size)
    shape = DEFORMATION * normal / WAVES
    return Problem(
        shape=shape * min(1.0, STRONGEST / np.abs(shape).sum()),
        waves=rng.standard_normal((SOURCE_WAVES, 2)) / CORRELATION,
        phases=rng.uniform(0.0, 2.0 * np.pi, SOURCE_WAVES),
    )


@dataclass(frozen=True)
class Mesh:
    """Linear triangles between rings of nodes in the unit disk, moved into the domain."""

    points: Array
    """Nodes, (n_nodes, 2); the last ring is the boundary."""
    triangles: Array
    """Nodes of the triangles, (n_triangles, 3)."""
    n_inner: int
    """Number of nodes that are not on the boundary; they come first."""

    def gradients(self) -> tuple[Array, Array]:
        """Gradients of the hat functions, (n_triangles, 3, 2), and areas, (n_triangles,)."""
        corners = self.points[self.triangles]
        # opposite side, turned by a right angle
        side = np.roll(corners, -2, axis=1) - np.roll(corners, -1, axis=1)
        area = 0.5 * (side[:, 0, 0] * side[:, 1, 1] - side[:, 0, 1] * side[:, 1, 0])
        turned = np.stack([-side[..., 1], side[..., 0]], axis=-1)
        return turned / (2.0 * area[:, None, None]), area

    def weights(self) -> Array:
        """Integrals of the hat functions, (n_nodes,): a quadrature rule."""
        _, area = self.gradients()
        return np.bincount(
            self.triangles.ravel(), np.repeat(area / 3.0, 3), minlength=len(self.points)
        )


def mesh(problem: Problem, rings: int) -> Mesh:
    """Mesh of a domain with a node in the origin and 6, 12, 18, .. nodes in the rings around."""
    disk, triangles = _disk(rings)
    points, _ = problem.from_disk(disk)
    return Mesh(points, triangles, len(points) - 6 * rings)


def solve(mesh: Mesh, source: Array) -> Array:
    """P1 finite-element solution by Newton's method.

    Parameters
    ----------
    mesh : Mesh
    source : ndarray, (n_nodes,)
        f at the nodes.

    Returns
    -------
    ndarray, (n_nodes,)

    Raises
    ------
    RuntimeError
        Newton's method does not converge.
    """
    gradients, area = mesh.gradients()
    triangles, n = mesh.triangles, mesh.n_inner
    rows = np.repeat(triangles, 3, axis=1).ravel()
    columns = np.tile(triangles, (1, 3)).ravel()
    inner = (rows < n) & (columns < n)
    stiffness = np.einsum("tia,tja,t->tij", gradients, gradients, area)
    load = -_scatter(mesh, np.einsum("ij,tj,t->ti", _MASS, source[triangles], area))[:n]
    u = np.zeros(len(mesh.points))
    for _ in range(NEWTON_STEPS):
        # the coefficient at the centroid
        mean = u[triangles].mean(axis=1)
        coefficient, slope = 1.0 + mean**2 / 10.0, mean / 5.0
        flow = np.einsum("tij,tj->ti", stiffness, u[triangles])
        residual = _scatter(mesh, coefficient[:, None] * flow)[:n] - load
        if np.linalg.norm(residual) <= TOLERANCE * np.linalg.norm(load):
            return u
        local = coefficient[:, None, None] * stiffness + (slope[:, None] * flow / 3.0)[..., None]
        matrix = sparse.csc_array((local.ravel()[inner], (rows[inner], columns[inner])), (n, n))
        u[:n] -= linalg.spsolve(matrix, residual)
    raise RuntimeError("poisson: Newton's method does not converge")


_MASS = (np.ones((3, 3)) + np.eye(3)) / 12.0
"""Integrals of products of two hat functions of a triangle with area 1."""


def _scatter(mesh: Mesh, local: Array) -> Array:
    """Sum contributions of triangles, (n_triangles, 3), at the nodes."""
    return np.bincount(mesh.triangles.ravel(), local.ravel(), minlength=len(mesh.points))


@lru_cache(maxsize=4)
def _disk(rings: int) -> tuple[Array, Array]:
    """Nodes and triangles, counter-clockwise, of the unit disk."""
    points = [np.zeros((1, 2))]
    triangles = []
    for ring in range(1, rings + 1):
        angles = 2.0 * np.pi * np.arange(6 * ring) / (6 * ring)
        points.append(ring / rings * np.stack([np.cos(angles), np.sin(angles)], axis=1))
        outer, inner = 1 + 3 * ring * (ring - 1), 1 + 3 * (ring - 1) * (ring - 2)
        if ring == 1:
            inner = 0
        n_outer, n_inner = 6 * ring, max(6 * (ring - 1), 1)
        for sector in range(6):
            for k in range(ring):
                a = sector * ring + k
                b = sector * (ring - 1) + k
                corner = inner + b % n_inner
                triangles.append((corner, outer + a, outer + (a + 1) % n_outer))
                if k < ring - 1:
                    after = inner + (b + 1) % n_inner
                    triangles.append((corner, outer + (a + 1) % n_outer, after))
    return np.concatenate(points), np.array(triangles)
