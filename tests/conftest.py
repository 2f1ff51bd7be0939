# SPDX-License-Identifier: MIT
"""Irregular graphs that every operator must survive, and where the time of all tests went."""

import gc
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

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
    "power law": power_law(10, 28),
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


def pairs(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test by several arguments: a table in which any two of their values meet."""
    values = {name: list(each) for name, each in axes.items()}
    every = list(product(*(range(len(each)) for each in values.values())))
    met = {number: set(combinations(enumerate(number), 2)) for number in every}
    left, chosen = set().union(*met.values()), []
    while left:
        chosen.append(max(every, key=lambda number: len(met[number] & left)))
        left -= met[chosen[-1]]
    return pytest.mark.parametrize(
        list(values),
        [
            [each[k] for each, k in zip(values.values(), number, strict=True)]
            for number in sorted(chosen)
        ],
        ids=lambda value: getattr(value, "__name__", str(value)),
    )


def few(values: Iterable[Any], *chosen: str) -> list[Any]:
    """Values for a parametrized test, of which all that are not chosen, by name, are exhaustive."""
    named = {str(value): value for value in values}
    assert named.keys() >= set(chosen), f"there is no {set(chosen) - named.keys()}"
    return [
        value if name in chosen else pytest.param(value, marks=pytest.mark.exhaustive)
        for name, value in named.items()
    ]


def graphs_of(number: int) -> dict[str, list[str]]:
    """Graphs for the case of this number: those that it always meets, and all others.

    Cases that follow one another are of one operator. Three of them meet all graphs, and each of
    them the first.
    """
    some = [name for k, name in enumerate(GRAPHS) if k == 0 or (k + number) % 3 == 0]
    return {"some graphs": some, "other graphs": [name for name in GRAPHS if name not in some]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test that takes `any_graph` one of several graphs; the rest are exhaustive."""
    if "any_graph" in metafunc.fixturenames:
        some, others = graphs_of(0)
        metafunc.parametrize(
            "any_graph", [some, pytest.param(others, marks=pytest.mark.exhaustive)]
        )


def pytest_collection_finish() -> None:
    """Leave the tests themselves to no garbage collection: each would take half a second."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a test that takes `any_graph` with one graph after the other, each as if alone."""
    names = pyfuncitem._fixtureinfo.argnames
    if "any_graph" not in names:
        return None
    own = {name: k for name, k in pyfuncitem.callspec.indices.items() if name != "any_graph"}
    for graph in graphs_of(sum(own.values()))[pyfuncitem.funcargs["any_graph"]]:
        arguments = {name: pyfuncitem.funcargs[name] for name in names}
        arguments["any_graph"] = GRAPHS[graph]
        if "rng" in arguments:
            arguments["rng"] = new_rng()
        try:
            pyfuncitem.obj(**arguments)
        except BaseException:
            print(f"on the graph '{graph}'")
            raise
    return True


def new_rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def rng() -> np.random.Generator:
    return new_rng()


@pytest.fixture
def graph() -> gg.Graph:
    """Graph of the call of every operator."""
    import calls

    return calls.graph()


@pytest.fixture(autouse=True)
def fresh_compiler():
    """Let PyTorch forget what it compiled: what broke a graph is run as Python ever after."""
    yield
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()


@pytest.fixture
def threads():
    """Set the number of threads; put back at the end."""
    yield gg.set_num_threads
    gg.set_num_threads(0)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slowest-files", type=int, default=0, help="files to list by their time")
    parser.addoption(
        "--passed", type=Path, help="file of tests to leave out; those that pass are added to it"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another run has seen pass."""
    file = config.getoption("--passed")
    if file and file.exists():
        passed = set(file.read_text().splitlines())
        left_out = [item for item in items if item.nodeid in passed]
        items[:] = [item for item in items if item.nodeid not in passed]
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """Seconds of the slowest files, set-up and all; adds to the file of passed tests."""
    if file := config.getoption("--passed"):
        with file.open("a") as f:
            f.writelines(
                f"{report.nodeid}\n" for report in terminalreporter.stats.get("passed", [])
            )
    n = config.getoption("--slowest-files")
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.location[0]] += report.duration
    if n and seconds:
        listed = ", ".join(f"{name} {t:.0f}" for name, t in seconds.most_common(n))
        terminalreporter.write_line(f"{sum(seconds.values()):.0f} s; slowest files: {listed}")
