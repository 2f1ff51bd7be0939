# SPDX-License-Identifier: MIT
"""Headers and stubs are what the operators' declarations and their templates make of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gnograd as gg

ROOT = Path(__file__).resolve().parents[1]
INTERFACE = ROOT / "tools" / "interface"
FAMILY = """
@operator(
    inputs={"x": "n_src D", "y": "n_dst D"}, outputs={"out": "n_edges"}, arguments="graph D scale"
)
def dot(x: Array, y: Array, *, graph: GraphLike, scale: float = 1.0) -> Array:
    ...
"""


@pytest.mark.parametrize(
    "command",
    [
        ["header.py", "--check"],
        ["cuda.py", "header", "--check"],
        ["cuda.py", "fortran", "--check"],
        ["stubs.py", "--check"],
    ],
)
def test_what_is_written_is_current(command: list[str]) -> None:
    """Written files are current; otherwise the message says what to run."""
    if command[0] == "stubs.py":
        pytest.importorskip("ruff", reason="stubs are written as ruff formats them")
    script = [sys.executable, str(INTERFACE / command[0]), *command[1:]]
    run = subprocess.run(script, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_fortran_programs_find_every_operator() -> None:
    """The module gnograd names what programs may use of the tape."""
    named = set(re.findall(r"\w+", (ROOT / "fortran" / "gnograd.f90").read_text()))
    assert {n for n in gg.__all__ if isinstance(getattr(gg, n), gg.Operator)} <= named


@pytest.mark.parametrize(
    ("text", "other", "message"),
    [
        ("*, graph", "graph", "dot takes x, y, graph, scale before the *, but has inputs x, y"),
        ("scale: float", "scale", "dot: scale has no type"),
        ("1.0", "ONE", "dot: the default of scale is ONE, needs a literal"),
        ("float", "complex", "dot: scale is of no type that static arguments have"),
        ("float = 1.0", "str", "dot: scale is a str, which needs choices"),
        ("D scale", "D", "dot: scale is not among the arguments"),
        ("graph D", "graph", "dot: D, in a shape, is not among the arguments"),
        ("graph D", "graph D m", "dot: m, among the arguments, is no static argument"),
        (" D", " K", "dot: K needs another name in C and Fortran"),
        ('outputs={"out": "n_edges"}, ', "", "dot is declared without outputs"),
    ],
)
def test_a_declaration_that_cannot_be_meant(text, other, message, tmp_path, monkeypatch) -> None:
    """A wrong declaration is refused by its name, not by a compiler in what was made of it."""
    monkeypatch.syspath_prepend(INTERFACE)
    from declarations import read_operators

    family = tmp_path / "operators" / "edges.py"
    family.parent.mkdir()
    family.write_text(FAMILY)
    assert read_operators(tmp_path)[0].name == "dot"
    family.write_text(FAMILY.replace(text, other))
    with pytest.raises(ValueError, match=re.escape(f"edges.py: {message}")):
        read_operators(tmp_path)


@pytest.mark.parametrize("line", ["", "@dor@"])
def test_a_header_without_an_operator(line, tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(INTERFACE)
    import c

    template = tmp_path / "some.h.in"
    template.write_text(f"/* text */\n{line}\n")
    with pytest.raises(SystemExit, match=r"some.h.in: @do[rt]@"):
        c.fill(template, tmp_path / "some.h", {"dot": "int dot();"}, check=False)
