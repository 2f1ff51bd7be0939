# SPDX-License-Identifier: MIT
"""The module that Fortran programs use: its names, and where each is defined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from operators import joined, operators, table, title

ROOT = Path(__file__).resolve().parents[2]
OPERATORS = {op.name for op in operators()}
USE = re.compile(r"^\s*use (gnograd_\w+)(?:, only: (.*))?$", re.M)


def pages() -> Iterator[tuple[str, str]]:
    """Path in the reference, without suffix, and content."""
    sources = {name: path for path in (ROOT / "fortran").rglob("*") for name in defined(path)}
    parts = [
        title("Fortran: ``module gnograd``"),
        "A program says ``use gnograd, only: ...``; every name below is public there. Comments in "
        "the sources have a line for each argument, with its shape.\n",
    ]
    if (ROOT / "docs/ford.md").exists():
        parts.append(
            "`Every module, type and procedure <../../fortran/index.html>`__, with all arguments, "
            "has a page by FORD.\n"
        )
    rows = []
    for module, names in USE.findall(joined((ROOT / "fortran/gnograd.f90").read_text())):
        # operators on the tape are written from their declarations when the library is built
        path = sources.get(module, ROOT / "fortran/autodiff/operators.fypp")
        what = (
            about(path) if module in sources else "Operators on the tape, from their declarations."
        )
        # whatever the module itself makes public, where nothing is chosen
        text = ", ".join(map(shown, split(names))) if names else "all public names"
        rows.append([f"{what} :repo:`{path.relative_to(ROOT)}`", text])
    parts.append(table(["module", "names"], rows, "45 55"))
    yield "fortran", "\n".join(parts)


def defined(path: Path) -> list[str]:
    """Modules in a file."""
    if path.suffix not in (".f90", ".fypp") or "fpm_src" in path.parts:
        return []
    return re.findall(r"^module (gnograd_\w+)\s*$", path.read_text(), re.M)


def split(names: str) -> list[str]:
    """Names of a list, of which operators have parentheses."""
    return [name.strip() for name in names.split(",")]


def shown(name: str) -> str:
    """A name; if it is an operator, with a link to its page."""
    return f":py:obj:`{name} <gnograd.{name}>`" if name in OPERATORS else f"``{name}``"


def about(path: Path) -> str:
    """First sentence of the comment before the module in a file."""
    found = re.search(r"^!> (.*(?:\n!> .*)*)", path.read_text(), re.M)
    text = found[1].replace("\n!> ", " ") if found else path.stem
    sentence = re.split(r"(?<=[.:])\s", text)[0].rstrip(".:") + "."
    return re.sub(r"([*_`|\\])", r"\\\1", sentence)
