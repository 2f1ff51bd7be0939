# SPDX-License-Identifier: MIT
"""Irregular graphs that every operator must survive, and where the time of all tests went."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

import gnograd as gg


@dataclass(frozen=True)
class Edges:
    """Edges ``src[e] -> dst[e]`` in the order of the edge arrays, and the graph made of them."""

    src: np.ndarray
    dst: np.ndarray
    n_src: int
    n_dst: int

    @property
    def graph(self) -> gg.Graph:
        return gg.Graph.from_edges(self.src, self.dst, self.n_src, self.n_dst)

    @property
    def n_edges(self) -> int:
        return len(self.src)


def power_law(n: int, n_edges: int, seed: int = 0) -> Edges:
    """Few destinations with very many edges, many with few or none; edges in no order."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, n + 1)
    dst = rng.choice(n, n_edges, p=weight / weight.sum())
    return Edges(rng.integers(0, n, n_edges), dst, n, n)


def edges(pairs: list[tuple[int, int]], n_src: int, n_dst: int) -> Edges:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return Edges(table[:, 0], table[:, 1], n_src, n_dst)


GRAPHS = {
    "power law": power_law(12, 40),
    "isolated nodes": edges([(1, 1), (3, 1), (1, 4)], 6, 6),
    "self-loops": edges([(i, i) for i in range(5)] + [(0, 1), (4, 1)], 5, 5),
    "repeated edges": edges([(0, 1), (0, 1), (0, 1), (2, 0), (2, 0)], 3, 3),
    "bipartite": edges([(6, 0), (0, 2), (5, 0), (3, 1), (1, 0), (3, 2)], 7, 3),
    "star": edges([(i, 0) for i in range(9)], 9, 2),
    "no edges": edges([], 4, 3),
    "one node": edges([(0, 0)], 1, 1),
    "no nodes": edges([], 0, 0),
    "no destinations": edges([], 3, 0),
}


@pytest.fixture(params=GRAPHS.values(), ids=GRAPHS.keys())
def any_graph(request: pytest.FixtureRequest) -> Edges:
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def threads():
    """Set the number of threads; put back at the end."""
    yield gg.set_num_threads
    gg.set_num_threads(0)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slowest-files", type=int, default=0, help="files to list by their time")


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """Seconds of the slowest files, set-up and all."""
    n = config.getoption("--slowest-files")
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.location[0]] += report.duration
    if n and seconds:
        listed = ", ".join(f"{name} {t:.0f}" for name, t in seconds.most_common(n))
        terminalreporter.write_line(f"{sum(seconds.values()):.0f} s; slowest files: {listed}")
