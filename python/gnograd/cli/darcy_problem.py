# SPDX-License-Identifier: MIT
"""Darcy flow on the unit square: random coefficients and their solutions.

The problem is the usual benchmark of the neural-operator literature [1]_::

    -div(a grad u) = 1   on (0, 1)^2,      u = 0 on the boundary,
    a = 12 where psi > 0, 3 elsewhere,     psi ~ N(0, (-Lap + 9)^-2)

with homogeneous Neumann conditions in the covariance of ``psi``.

References
----------
.. [1] Z. Li et al., "Neural Operator: Graph Kernel Network for Partial
       Differential Equations", arXiv:2003.03485.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import fft, sparse

HIGH, LOW = 12.0, 3.0
MODES = 128
"""Cosine modes per direction in ``psi``; a coarser grid keeps those it can carry."""

TOLERANCE = 1e-10
"""Relative residual at which the solver stops."""
MOST_ITERATIONS = 1000

Array = npt.NDArray[Any]


def gaussian_field(rng: np.random.Generator, grid: int) -> Array:
    """Sample ``psi ~ N(0, (-Lap + 9)^-2)`` on the nodes of a grid.

    The Karhunen-Loeve series in the orthonormal cosines
    ``c_0 = 1, c_k = sqrt(2) cos(pi k x)``, without the constant mode, is
    summed by a cosine transform of the first kind. The random numbers drawn do not depend on
    `grid`: one seed is one continuous field, whatever the resolution.

    Parameters
    ----------
    rng : numpy.random.Generator
    grid : int
        Nodes per side, boundary included.

    Returns
    -------
    ndarray, shape (grid, grid)
        ``psi[i, j]`` at ``(i, j) / (grid - 1)``.
    """
    modes = min(MODES, grid - 1)
    normal = rng.standard_normal((MODES, MODES))[:modes, :modes]
    k = np.arange(modes)
    # The transform counts every cosine but the constant twice.
    weight = np.where(k == 0, 1.0, np.sqrt(0.5))
    amplitude = np.outer(weight, weight) / (np.pi**2 * (k[:, None] ** 2 + k**2) + 9.0)
    amplitude[0, 0] = 0.0
    series = np.zeros((grid, grid))
    series[:modes, :modes] = amplitude * normal
    field: Array = fft.dctn(series, type=1)
    return field


def coefficient(rng: np.random.Generator, grid: int) -> Array:
    """Sample the two-valued coefficient ``a`` on a grid, shape ``(grid, grid)``."""
    return np.where(gaussian_field(rng, grid) > 0.0, HIGH, LOW)


@lru_cache(maxsize=4)
def _differences(grid: int) -> tuple[sparse.csr_array, Array]:
    """Difference of every pair of neighbours, and the eigenvalues of its normal matrix.

    Rows are the faces between neighbouring nodes (those along the first axis,
    then those along the second), columns the interior nodes.
    """
    n = grid - 2
    step = sparse.diags_array([np.ones(n), -np.ones(n)], offsets=[0, -1], shape=(n + 1, n))
    eye = sparse.eye_array(n)
    difference = sparse.vstack([sparse.kron(step, eye), sparse.kron(eye, step)], format="csr")
    one_sided = 2.0 - 2.0 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1))
    return difference, one_sided[:, None] + one_sided


def solve(a: Array, f: float | Array = 1.0) -> Array:
    """Solve ``-div(a grad u) = f`` with ``u = 0`` on the boundary.

    Five-point finite differences; the coefficient of the face between two
    nodes is the harmonic mean of theirs, which keeps the flux continuous where
    ``a`` jumps. The symmetric system is solved by conjugate gradients
    preconditioned with the Laplacian (a sine transform), so the number of
    iterations is bounded by ``max(a) / min(a)`` whatever the resolution.

    Parameters
    ----------
    a : ndarray, shape (grid, grid)
        Positive coefficient at the nodes, boundary included.
    f : float or ndarray, shape (grid, grid)
        Right-hand side at the nodes.

    Returns
    -------
    ndarray, shape (grid, grid)
        ``u`` at the nodes.
    """
    grid = a.shape[0]
    n = grid - 2
    difference, eigenvalues = _differences(grid)
    # harmonic means
    along_x = 2.0 / (1.0 / a[:-1, 1:-1] + 1.0 / a[1:, 1:-1])
    along_y = 2.0 / (1.0 / a[1:-1, :-1] + 1.0 / a[1:-1, 1:])
    faces = np.concatenate([along_x, along_y], axis=None)
    matrix = difference.T @ sparse.diags_array(faces) @ difference
    interior = np.broadcast_to(f, a.shape)[1:-1, 1:-1].ravel() / (grid - 1) ** 2

    def laplace_solve(residual: Array) -> Array:
        modes = fft.dstn(residual.reshape(n, n), type=1, norm="ortho") / eigenvalues
        correction: Array = fft.dstn(modes, type=1, norm="ortho")
        return correction.ravel()

    u = np.zeros((grid, grid))
    u[1:-1, 1:-1] = _conjugate_gradients(matrix, laplace_solve, interior).reshape(n, n)
    return u


def _conjugate_gradients(
    matrix: sparse.csr_array, preconditioner: Callable[[Array], Array], b: Array
) -> Array:
    """Solve ``matrix @ x = b`` to a relative residual of `TOLERANCE`.

    SciPy's solver takes dot products from a BLAS with threads, which for vectors this short is up
    to thirty times slower when other programs share the cores.
    """
    x, residual = np.zeros_like(b), b.copy()
    direction: Array = np.zeros_like(b)
    goal = TOLERANCE**2 * _dot(b, b)
    before = 1.0
    for _ in range(MOST_ITERATIONS):
        if _dot(residual, residual) <= goal:
            return x
        step = preconditioner(residual)
        product = _dot(residual, step)
        direction = step + (product / before) * direction
        image = matrix @ direction
        length = product / _dot(direction, image)
        x += length * direction
        residual -= length * image
        before = product
    raise ArithmeticError(f"conjugate gradients did not converge in {MOST_ITERATIONS} iterations")


def _dot(a: Array, b: Array) -> float:
    return float((a * b).sum())
