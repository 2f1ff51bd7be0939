# SPDX-License-Identifier: MIT
"""Imports between modules run one way only, by the layers of docs/design.md."""

from __future__ import annotations

import ast
from pathlib import Path

import gnograd

ROOT = Path(gnograd.__file__).parent


def modules() -> dict[str, Path]:
    """All modules of the package by name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: set[str]) -> set[str]:
    """Modules of the package that one imports anywhere, also inside of functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (below & known) or {str(node.module)}
            # some names may be modules, and others not
            if below - known:
                names.add(str(node.module))
    # importlib.import_module("gnograd.backends.cuda")
    names |= {
        node.args[0].value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "import_module"
        and isinstance(node.args[0], ast.Constant)
    }
    return names & known


def imports() -> dict[str, set[str]]:
    """Imports of every module, without the package itself, which gathers names for users."""
    known = modules()
    return {name: imported(path, set(known)) - {name, "gnograd"} for name, path in known.items()}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """A way from a module back to itself, empty if there is none."""
    done: set[str] = set()

    def search(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph[name]):
            found = search(other, [*way, name])
            if found:
                return found
        done.add(name)
        return []

    for name in graph:
        found = search(name, [])
        if found:
            return found
    return []


def test_circles_are_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_circles():
    assert circle(imports()) == []


FLOORS = (
    "notation", "openmp", "backends", "runtime", "neighbors", "graphs", "faces", "operators",
    "distributed", "autodiff", "weights", "data", "torch", "jax", "models", "loading", "compat",
    "cli",
)  # fmt: skip
"""Packages and modules of gnograd from the ground up."""


def floor(name: str) -> int:
    """Number of the floor that a module belongs to."""
    return FLOORS.index(name.split(".")[1])


def test_imports_go_down():
    graph = {name: others for name, others in imports().items() if name.count(".")}
    up = {
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in others
        if name != "gnograd.__main__" and floor(other) > floor(name)
    }
    assert not up


def test_modules_at_the_top_are_public():
    """All else has a floor of its own."""
    assert {path.stem for path in ROOT.glob("*.py")} == {
        "__init__", "__main__", "loading", "openmp", "runtime", "weights"
    }  # fmt: skip
