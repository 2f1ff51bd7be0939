# SPDX-License-Identifier: MIT
"""Write the types of the operators in PyTorch, JAX and on the tape.

Their functions are made when the modules are imported: these are the stubs of gnograd.torch and
gnograd.jax (functional.pyi), and of gnograd.autodiff (operators.pyi).

usage: stubs.py [--check]
"""

from __future__ import annotations

import ast
import copy
import subprocess
import sys
from typing import NamedTuple

from declarations import PACKAGE, Operator, read_operators


class Front(NamedTuple):
    """A package whose operators take arrays of its own, and the stub for it."""

    stub: str
    imports: str
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
    Front("torch/functional.pyi",
          "from torch import Tensor\n\nfrom gnograd.graphs.in_parts import GraphInParts\n"
          "from gnograd.torch.graph import AnyGraph",
          "Tensor", "Tensor", "Tensor", "AnyGraph | GraphInParts", True),
    Front("jax/functional.pyi", "from jax import Array\n\n"
          "from gnograd.jax.distributed import DistributedGraph\n"
          "from gnograd.jax.graph import AnyGraph",
          "Array", "Array", "Array", "AnyGraph | DistributedGraph", True),
    Front("autodiff/operators.pyi",
          "from numpy.typing import NDArray\n\nfrom gnograd.autodiff.arrays import Array, Operand\n"
          "from gnograd.graphs.graph import GraphLike",
          "Operand", "Array", "NDArray[Any]", "GraphLike", False),
)  # fmt: skip


def declare(op: Operator, front: Front) -> str:
    """The function of an operator."""
    arguments = copy.deepcopy(op.syntax.args)
    for argument in [*arguments.args, *arguments.kwonlyargs]:
        array = front.operand if argument in arguments.args else front.static
        argument.annotation = _with(argument.annotation, array, front.graph)
    result = ast.unparse(_with(op.syntax.returns, front.array))
    return f"def {op.name}({ast.unparse(arguments)}) -> {result}: ..."


def _with(annotation: ast.expr | None, array: str, graph: str = "GraphLike") -> ast.expr:
    """An annotation with other arrays and graphs."""
    assert annotation is not None
    text = ast.unparse(annotation).replace("GraphLike", graph)
    text = text.replace("ArrayLike", "@").replace("Array", array)
    return ast.parse(text.replace("@", "ArrayLike"), mode="eval").body


def text_of(front: Front, operators: list[Operator]) -> str:
    """A stub file."""
    named = sorted(
        (op for op in operators if op.differentiable or front.with_functions), key=lambda o: o.name
    )
    names = "".join(f'    "{op.name}",\n' for op in named)
    functions = "\n".join(declare(op, front) for op in named)
    imports = "from collections.abc import Sequence\nfrom typing import Any\n\n"
    if "ArrayLike" in functions:
        imports += "from numpy.typing import ArrayLike\n"
    source = f"# SPDX-License-Identifier: MIT\n{imports}{front.imports}\n\n"
    source += f"__all__ = [\n{names}]\n\n{functions}\n"
    for command in (["check", "-q", "--fix", "--select=I,F401"], ["format", "-q"]):
        ruff = [
            sys.executable,
            "-m",
            "ruff",
            *command,
            "--stdin-filename",
            str(PACKAGE / front.stub),
            "-",
        ]
        source = subprocess.run(
            ruff, input=source, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    return source


def main(check: bool) -> None:
    """Write the stubs, or say that one is stale."""
    operators = read_operators()
    for front in FRONTS:
        path, text = PACKAGE / front.stub, text_of(front, operators)
        if path.exists() and path.read_text() == text:
            continue
        if check:
            raise SystemExit(f"{front.stub} is stale: run python tools/interface/stubs.py")
        path.write_text(text)


if __name__ == "__main__":
    main("--check" in sys.argv)
