# SPDX-License-Identifier: MIT
"""Darcy samples: the random field, the solver, the cache, files of users, graphs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")

from gnograd.cli import darcy_data, darcy_problem
from gnograd.cli.darcy import regular_steps
from gnograd.cli.darcy_data import DarcyData, DataError
from gnograd.cli.darcy_graphs import SYMMETRIES, DarcyGraphs


def square(grid: int) -> tuple[np.ndarray, np.ndarray]:
    line = np.linspace(0.0, 1.0, grid)
    return np.meshgrid(line, line, indexing="ij")


# ---- random field ----


def test_field_has_the_variance_of_its_covariance() -> None:
    k2 = np.arange(darcy_problem.MODES) ** 2
    eigenvalues = (np.pi**2 * (k2[:, None] + k2) + 9.0) ** -2.0
    expected = eigenvalues.sum() - eigenvalues[0, 0]
    grid = darcy_problem.MODES + 1
    weight = np.ones(grid)
    weight[[0, -1]] = 0.5  # trapezoidal rule
    weight = np.outer(weight, weight) / (grid - 1) ** 2
    square_means = [
        np.sum(weight * darcy_problem.gaussian_field(np.random.default_rng(s), grid) ** 2)
        for s in range(400)
    ]
    error = np.std(square_means) / np.sqrt(len(square_means))
    assert abs(np.mean(square_means) - expected) < 4 * error
    assert error < 0.1 * expected


def test_field_is_the_cosine_series() -> None:
    grid = 17
    field = darcy_problem.gaussian_field(np.random.default_rng(5), grid)
    normal = np.random.default_rng(5).standard_normal((darcy_problem.MODES, darcy_problem.MODES))
    x, y = square(grid)
    series = np.zeros((grid, grid))
    for k in range(grid - 1):
        for m in range(grid - 1):
            if k + m > 0:
                scale = np.sqrt(2.0) ** ((k > 0) + (m > 0))
                deviation = scale / (np.pi**2 * (k * k + m * m) + 9.0)
                mode = np.cos(np.pi * k * x) * np.cos(np.pi * m * y)
                series += normal[k, m] * deviation * mode
    np.testing.assert_allclose(field, series, atol=1e-12)


def test_same_seed_is_same_field_on_every_grid() -> None:
    fine = darcy_problem.coefficient(np.random.default_rng(1), 241)
    coarse = darcy_problem.coefficient(np.random.default_rng(1), 121)
    assert set(np.unique(fine)) == {3.0, 12.0}
    assert np.mean(fine[::2, ::2] != coarse) < 0.01


# ---- solver ----


def test_constant_coefficient_gives_the_torsion_function() -> None:
    u = darcy_problem.solve(np.full((161, 161), 3.0))
    x, y = square(161)
    exact = 0.5 * x * (1.0 - x)
    for k in range(1, 200, 2):
        wave = k * np.pi
        decay = (np.exp(-wave * y) + np.exp(-wave * (1.0 - y))) / (1.0 + np.exp(-wave))
        exact -= 4.0 / wave**3 * decay * np.sin(wave * x)
    np.testing.assert_allclose(u, exact / 3.0, atol=2e-6)


@pytest.mark.parametrize("grid", [33, 65])
def test_manufactured_solution_converges_with_order_two(grid: int) -> None:
    def error(grid: int) -> float:
        x, y = square(grid)
        a = 2.0 + np.sin(3.0 * x) * np.cos(2.0 * y)
        a_x = 3.0 * np.cos(3.0 * x) * np.cos(2.0 * y)
        a_y = -2.0 * np.sin(3.0 * x) * np.sin(2.0 * y)
        u = np.sin(np.pi * x) * np.sin(2.0 * np.pi * y)
        u_x = np.pi * np.cos(np.pi * x) * np.sin(2.0 * np.pi * y)
        u_y = 2.0 * np.pi * np.sin(np.pi * x) * np.cos(2.0 * np.pi * y)
        f = 5.0 * np.pi**2 * a * u - a_x * u_x - a_y * u_y
        return float(np.abs(darcy_problem.solve(a, f) - u).max())

    assert error(2 * grid - 1) == pytest.approx(error(grid) / 4.0, rel=0.05)


def test_solution_turns_with_its_coefficient() -> None:
    a = darcy_problem.coefficient(np.random.default_rng(2), 31)
    u = darcy_problem.solve(a)
    np.testing.assert_allclose(darcy_problem.solve(a[::-1]), u[::-1], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(darcy_problem.solve(a.T), u.T, rtol=1e-7, atol=1e-12)


def test_solutions_agree_across_resolutions() -> None:
    coarse, fine = (
        darcy_problem.solve(darcy_problem.coefficient(np.random.default_rng(3), grid))
        for grid in (121, 241)
    )
    difference = np.linalg.norm(fine[::2, ::2] - coarse) / np.linalg.norm(coarse)
    assert difference < 0.01


# ---- generated data ----


def test_generated_data_is_cached_and_prefix_stable(tmp_path: Path) -> None:
    def generate(train: int) -> DarcyData:
        return darcy_data.generate(train, 2, 17, 0, tmp_path)

    small, again, large = generate(3), generate(3), generate(5)
    assert len(list(tmp_path.iterdir())) == 2
    for name in ("coefficient", "solution"):
        first, second, third = (getattr(data, name) for data in (small, again, large))
        assert first.dtype == np.float32
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first[:3], third[:3])
        np.testing.assert_array_equal(first[3:], third[5:])


def test_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    made = darcy_data.generate(2, 1, 17, 0, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:500])
    again = darcy_data.generate(2, 1, 17, 0, tmp_path)
    np.testing.assert_array_equal(again.solution, made.solution)
    assert list(tmp_path.iterdir()) == [path]


def test_cache_of_other_samples_is_made_anew(tmp_path: Path) -> None:
    made = darcy_data.generate(2, 1, 17, 0, tmp_path)
    (path,) = tmp_path.iterdir()
    np.savez(path, coefficient=made.coefficient[:1], solution=made.solution[:1])
    assert len(darcy_data.generate(2, 1, 17, 0, tmp_path)) == 3


def test_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = darcy_data.generate(2, 1, 17, 0, tmp_path)
    for directory, reason in ((tmp_path / "file" / "x", "Not a directory"), (None, "no home")):
        said: list[str] = []
        data = darcy_data.generate(2, 1, 17, 0, directory, warn=said.append)
        np.testing.assert_array_equal(data.solution, made.solution)
        assert len(said) == 1 and reason in said[0]


# ---- files of users ----

good = np.random.default_rng(0).random((3, 9, 9))


def with_nan(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array[1, 2, 3] = np.nan
    return array


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"solution": good}, r"'coefficient' is missing \(the file has: solution\)"),
        ({"coefficient": good}, "'solution' is missing"),
        ({"coefficient": good, "solution": good[:2]}, r"'solution' has shape \(2, 9, 9\)"),
        ({"coefficient": good[0], "solution": good[0]}, r"'coefficient' must have shape"),
        ({"coefficient": good, "solution": good[:, :8]}, r"'solution' must have shape"),
        ({"coefficient": good[:, :4, :4], "solution": good}, "grid >= 8"),
        ({"coefficient": good[:0], "solution": good[:0]}, "'coefficient' holds no sample"),
        ({"coefficient": good.astype(int), "solution": good}, "'coefficient' must be real"),
        ({"coefficient": good, "solution": good + 0j}, "'solution' must be real.*complex128"),
        ({"coefficient": good.astype(object), "solution": good}, "'coefficient' .* Python objects"),
        ({"coefficient": with_nan(good), "solution": good}, r"'coefficient' .* \(1, 2, 3\)"),
        ({"coefficient": good, "solution": 1e40 * good}, "'solution' is not finite"),
        ({"coefficient": good, "solution": 0 * good}, "'solution' is zero in sample 0"),
    ],
)
def test_bad_data_is_refused_by_name(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=message) as refused:
        darcy_data.load(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("write", [None, lambda p: p.write_text("no"), lambda p: p.touch()])
def test_unreadable_file_is_refused(tmp_path: Path, write: Callable[[Path], object]) -> None:
    path = tmp_path / "data.npz"
    if write:
        write(path)
    with pytest.raises(DataError, match="cannot be read"):
        darcy_data.load(path)


def test_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", good)
    with pytest.raises(DataError, match="holds one array"):
        darcy_data.load(tmp_path / "data.npy")


# ---- graphs ----


@pytest.fixture(scope="module")
def graphs() -> DarcyGraphs:
    a = np.stack([darcy_problem.coefficient(np.random.default_rng(k), 17) for k in range(4)])
    u = np.stack([darcy_problem.solve(sample) for sample in a])
    data = DarcyData(a.astype(np.float32), u.astype(np.float32))
    return DarcyGraphs(data, train=3, radius=0.3, symmetric=True)


def test_boundary_is_exact(graphs: DarcyGraphs) -> None:
    for edge in (graphs.std[0], graphs.std[:, -1], graphs.mean[-1], graphs.mean[:, 0]):
        assert not edge.any()
    assert (graphs.std[1:-1, 1:-1] > 0).all()


def test_batch_has_no_edges_between_samples(graphs: DarcyGraphs) -> None:
    nodes = graphs.random_nodes(np.random.default_rng(0), 3, 50)
    batch = graphs.batch([0, 2, 3], nodes)
    assert batch.nodes.shape[0] == batch.truth.shape[0] == 150
    assert (batch.graph.src // 50 == batch.graph.dst // 50).all()
    np.testing.assert_array_equal(
        batch.truth.reshape(3, 50)[1], graphs.data.solution[2].ravel()[nodes[1]]
    )
    one = graphs.batch([2], nodes[1:2])
    middle = batch.graph.dst // 50 == 1
    np.testing.assert_array_equal(one.graph.src, batch.graph.src[middle] - 50)
    np.testing.assert_array_equal(one.edges, batch.edges[middle])


@pytest.mark.parametrize("symmetry", range(8))
def test_symmetry_is_that_of_the_turned_sample(graphs: DarcyGraphs, symmetry: int) -> None:
    grid = graphs.data.grid
    nodes = np.arange(grid * grid)[None]
    matrix = SYMMETRIES[symmetry].astype(int)
    place = np.stack(np.divmod(nodes[0], grid), axis=1) - grid // 2
    to = place @ matrix + grid // 2
    moved = to[:, 0] * grid + to[:, 1]
    turned = np.empty((2, 1, grid * grid), np.float32)
    turned[0, 0, moved] = graphs.data.coefficient[3].ravel()
    turned[1, 0, moved] = graphs.data.solution[3].ravel()
    other = DarcyGraphs(
        DarcyData(
            *(
                np.concatenate([array[:3], new.reshape(1, grid, grid)])
                for array, new in zip(
                    (graphs.data.coefficient, graphs.data.solution), turned, strict=True
                )
            )
        ),
        train=3,
        radius=graphs.radius,
        symmetric=True,
    )
    ours = graphs.batch([3], nodes, symmetries=[symmetry])
    theirs = other.batch([3], moved[None])
    for name in ("nodes", "edges", "truth", "mean", "std"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=2e-5)


def test_regular_nodes_span_the_square(graphs: DarcyGraphs) -> None:
    nodes = graphs.regular_nodes(4)
    i, j = np.divmod(nodes, graphs.data.grid)
    assert set(i) == set(j) == {0, 4, 8, 12, 16}


@pytest.mark.parametrize("grid", [8, 16, 17, 32, 33, 64, 85, 121, 211, 256, 421])
def test_regular_grids_are_even_and_span_the_square(grid: int) -> None:
    *_, finest = steps = regular_steps(grid)
    assert all((grid - 1) % step == 0 for step in steps)
    assert steps == sorted(steps, reverse=True)
    assert 5 <= (grid - 1) // finest + 1 <= 64


def test_grid_of_a_prime_number_of_cells_is_thinned() -> None:
    assert regular_steps(128) == [2]
    assert regular_steps(121) == [4, 2]
    assert regular_steps(16) == [3, 1]
