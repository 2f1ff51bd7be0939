# SPDX-License-Identifier: MIT
"""Write gnograd.h: fortran/include/gnograd.h.in with the declarations of the operators.

usage: header.py TARGET
"""

from __future__ import annotations

import sys
from pathlib import Path

import c
from declarations import Operator, read_operators

TEMPLATE = Path(__file__).resolve().parents[2] / "fortran" / "include" / "gnograd.h.in"
REALS = {"r32": "float", "r64": "double"}


def declare(op: Operator) -> str:
    """All functions of an operator. Arrays are explained where they come first."""
    functions, explained = [], set[str]()
    for kind, real in REALS.items():
        for face in op.faces:
            parameters = [
                (text, "" if text in explained else comment)
                for text, comment in c.before_arrays(op, "gnograd_graph")
            ]
            for _, array in op.operands(face):
                text = c.pointer(array, real, real)
                parameters.append((text, "" if array.name in explained else c.shape(array)))
                explained.add(array.name)
            explained |= {text for text, _ in parameters}
            functions.append(c.function(f"int gnograd_{op.name}_{face}_{kind}", parameters))
    return "\n".join(filter(None, [c.unread(op, "cpu"), *functions]))


def declare_on_tape(op: Operator) -> str:
    """The operation on a tape."""
    parameters = [("gnograd_tape *tape", "")]
    for name, parameter in zip(op.arguments, c.before_arrays(op, "gnograd_graph"), strict=True):
        if name in op.on_tape:
            parameters.append(parameter)
    parameters += [(f"int64_t {array.name}", "") for array in op.inputs]
    others = [array.name for array in op.outputs[1:]]
    if others:
        parameters.append(("int64_t *others", f"[{len(others)}] {', '.join(others)}"))
    return c.function(f"int64_t gnograd_array_{op.name}", parameters)


def main(target: str) -> None:
    """Write the header."""
    operators = read_operators()
    sections = {op.name: declare(op) for op in operators}
    sections["tape"] = "\n".join(declare_on_tape(op) for op in operators if op.differentiable)
    c.write(Path(target), c.fill(TEMPLATE, sections))


if __name__ == "__main__":
    main(*sys.argv[1:])
