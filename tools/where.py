# SPDX-License-Identifier: MIT
"""Print where an operator is: its declaration, formula, oracle, kernels and tests.

usage: where.py [OPERATOR ...]     all of them if none is named

An operator X of family F is declared in `python/gnograd/operators/F.py`, its oracle is
`tests/reference/F.py:X`, and its cases are in `tests/table.py`, for all laws of operators. Its own
tests are in `tests/operators/test_F.py`, in `test_X.py` if X has a file of its own, or in
`test_F_*.py`. Fortran has laws of all operators, and tests of what they do not say of some. A dash
stands for a missing place.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools" / "interface"))
from declarations import Operator, read_operators  # noqa: E402
from kernels import kernel_file  # noqa: E402

Place = tuple[Path, int]


def find(pattern: str, *globs: str) -> Place | None:
    """First line that matches a pattern, in the files of some globs."""
    for glob in globs:
        for path in sorted(ROOT.glob(glob)):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if re.search(pattern, line):
                    return path.relative_to(ROOT), number
    return None


def places(op: Operator) -> dict[str, Place | None]:
    """Place of an operator in every layer."""
    camel = "".join(word.capitalize() for word in op.name.split("_"))
    tests = f"test_{op.family}", f"test_{op.name}", f"test_{op.family}_*"
    return {
        "declaration": find(rf"^def {op.name}\(", f"python/gnograd/operators/{op.family}.py"),
        "formula": find(rf"^{op.name} =", "docs/reference/formulas.toml"),
        "oracle": find(rf"^def {op.name}\(", f"tests/reference/{op.family}.py"),
        "kernel": find(r"^module gnograd", str(kernel_file(op).relative_to(ROOT))),
        "CUDA": find(rf"^(struct|using) {camel}\b", "cuda/*/*.cu", "cuda/*/*.cuh"),
        "cases": find(rf"^def {op.family}\(", "tests/table.py"),
        "tests": find(rf"\b{op.name}\b", *(f"tests/operators/{name}.py" for name in tests)),
        "Fortran tests": find(rf"\b{op.name}_(operator|forward)\b", "tests/fortran/test_*.f90")
        or find("^module test_laws", "tests/fortran/test_laws.f90"),
    }


def main(names: list[str]) -> None:
    """Print a block an operator."""
    operators = {op.name: op for op in read_operators()}
    unknown = [name for name in names if name not in operators]
    if unknown:
        sys.exit(f"there is no operator {', '.join(unknown)}: one of {', '.join(operators)}")
    for name in names or operators:
        print(name)
        for layer, place in places(operators[name]).items():
            print(f"  {layer:14}", f"{place[0]}:{place[1]}" if place else "-")


if __name__ == "__main__":
    main(sys.argv[1:])
