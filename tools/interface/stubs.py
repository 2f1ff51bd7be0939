# SPDX-License-Identifier: MIT
"""Write the types of the operators in PyTorch, JAX and on the tape.

Their functions are made when the modules are imported: these are the stubs of gnograd.torch and
gnograd.jax (functional.pyi), and of gnograd.autodiff (operators.pyi).

usage: stubs.py FOLDER     into the package in this folder, or a folder laid out like it
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import c
from declarations import Operator, read_operators

IMPORTS = {
    "Sequence": "collections.abc", "Any": "typing", "ArrayLike": "numpy.typing",
    "NDArray": "numpy.typing",
}  # fmt: skip
"""Modules of the names that annotations have in every front."""


class Front(NamedTuple):
    """A package whose operators take arrays of its own, and the stub for it."""

    stub: str
    imports: Mapping[str, str]
    """Modules of its names."""
    operand: str
    """Type of inputs."""
    array: str
    """Type of results."""
    static: str
    """Type of static arrays."""
    graph: str
    """Type of graphs."""
    with_functions: bool
    """True if it has functions without derivatives, too."""


FRONTS = (
    Front(
        "torch/functional.pyi",
        {
            "Tensor": "torch",
            "GraphInParts": "gnograd.graphs.in_parts",
            "AnyGraph": "gnograd.torch.graph",
        },
        "Tensor", "Tensor", "Tensor", "AnyGraph | GraphInParts", True,
    ),
    Front(
        "jax/functional.pyi",
        {
            "Array": "jax",
            "DistributedGraph": "gnograd.jax.distributed",
            "AnyGraph": "gnograd.jax.graph",
        },
        "Array", "Array", "Array", "AnyGraph | DistributedGraph", True,
    ),
    Front(
        "autodiff/operators.pyi",
        {
            "Array": "gnograd.autodiff.arrays",
            "Operand": "gnograd.autodiff.arrays",
            "GraphLike": "gnograd.graphs.graph",
        },
        "Operand", "Array", "NDArray[Any]", "GraphLike", False,
    ),
)  # fmt: skip


def declare(op: Operator, front: Front) -> str:
    """The function of an operator: on one line, or with an argument a line."""
    taken = op.syntax.args
    defaults = [None] * (len(taken.args) - len(taken.defaults)) + taken.defaults
    inputs = [
        _argument(a, d, front.operand, front) for a, d in zip(taken.args, defaults, strict=True)
    ]
    static = [
        _argument(a, d, front.static, front)
        for a, d in zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
    ]
    arguments = [*inputs, *(["*"] if static else []), *static]
    result = _annotation(op.syntax.returns, front.array, front)
    line = f"def {op.name}({', '.join(arguments)}) -> {result}: ..."
    if len(line) <= c.WIDTH:
        return line
    listed = "".join(f"    {argument},\n" for argument in arguments)
    return f"def {op.name}(\n{listed}) -> {result}: ..."


def _argument(argument: ast.arg, default: ast.expr | None, array: str, front: Front) -> str:
    """An argument with its type and default."""
    text = f"{argument.arg}: {_annotation(argument.annotation, array, front)}"
    return text if default is None else f"{text} = {ast.unparse(default)}".replace("'", '"')


def _annotation(annotation: ast.expr | None, array: str, front: Front) -> str:
    """An annotation with other arrays and graphs."""
    assert annotation is not None
    others = {"Array": array, "GraphLike": front.graph}
    return re.sub(r"\w+", lambda word: others.get(word[0], word[0]), ast.unparse(annotation))


def text_of(front: Front, operators: list[Operator]) -> str:
    """A stub file."""
    named = sorted(
        (op for op in operators if op.differentiable or front.with_functions), key=lambda o: o.name
    )
    names = "".join(f'    "{op.name}",\n' for op in named)
    functions = "\n".join(declare(op, front) for op in named)
    used: dict[str, list[str]] = {}
    for module, name in sorted((m, n) for n, m in (IMPORTS | front.imports).items()):
        if re.search(rf"\b{name}\b", functions):
            used.setdefault(module, []).append(name)
    imports = "".join(f"from {module} import {', '.join(used[module])}\n" for module in used)
    return (
        "# SPDX-License-Identifier: MIT\n# Written by tools/interface/stubs.py.\n"
        f"{imports}\n__all__ = [\n{names}]\n\n{functions}\n"
    )


def main(folder: str) -> None:
    """Write the stubs."""
    operators = read_operators()
    for front in FRONTS:
        c.write(Path(folder) / front.stub, text_of(front, operators))


if __name__ == "__main__":
    main(*sys.argv[1:])
