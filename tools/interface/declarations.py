# SPDX-License-Identifier: MIT
"""The operators that python/gnograd declares, in the form that the writers of C and Fortran need.

The declarations are read as text: neither the package nor NumPy is imported, so that this works
before anything is built. Constants that a module defines before its functions (shapes, choices,
limits) are evaluated; the functions' signatures are taken from the syntax tree.

usage: declarations.py     print the families
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "gnograd"
sys.path.append(str(PACKAGE / "notation"))
from declaration import (  # noqa: E402  (which needs nothing but Python)
    FACES,
    NOTHING,
    Declaration,
    names_in,
    parse,
)

C_NAMES = {
    "C": "n_channels", "Ce": "n_edge_channels", "D": "n_features", "Dd": "n_dst_features",
    "De": "n_edge_features", "Dk": "d_k", "Do": "n_own_features", "Ds": "n_src_features",
    "Dv": "d_v", "F_d": "f_d", "F_e": "f_e", "F_in": "f_in", "F_out": "f_out", "F_s": "f_s",
    "H": "n_hidden", "Hk": "n_heads", "Hq": "n_query_heads", "T": "n_tokens", "Tc": "n_compressed",
    "Tk": "n_keys", "Tq": "n_queries", "Tt": "n_temperatures", "n": "n_slots",
    "n_blocks": "n_slots", "num_heads": "n_heads",
}  # fmt: skip
"""Sizes by other names than in Python: C and Fortran use words, the latter without upper case."""

BATCH = "n_batch"
"""All leading axes together, which Python's shapes have as ``*``."""


@dataclass(frozen=True)
class Static:
    """A static argument."""

    name: str
    """Name in Python, and of the kernels' argument."""
    c_name: str
    kind: str
    """Kind: integer, integers, code (of a choice), logical, number, graph, or array."""
    default: Any
    """Default value; `...` where there is none."""
    codes: Mapping[str, int] = field(default_factory=dict)
    optional: bool = False
    """True if it may be None."""
    limits: tuple[int | None, int | None] = (None, None)
    """Smallest and largest value; None where there is no limit."""


@dataclass(frozen=True)
class Array:
    """An array that crosses the interface."""

    name: str
    dims: tuple[str, ...]
    """Extents in C's order, expressions of sizes by their C names."""
    dtype: str
    """Name of its type: real (that of the inputs), int32, int64; wide: real, never 16 bits."""
    optional: bool
    """True if it may be null."""
    written: bool
    otherwise: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Extents under conditions, as ``"kernel=diagonal"``."""
    unless: tuple[str, ...] = ()
    """Conditions under which it is not saved; "" is always."""

    @property
    def names(self) -> set[str]:
        """The sizes in its extents."""
        return {name for dim in self.dims for name in names_in(dim)}

    @property
    def batched(self) -> bool:
        """True if its first extent stands for any number of leading axes."""
        return self.dims[:1] == (BATCH,)


@dataclass(frozen=True)
class Operator:
    """One operator, or function without derivatives."""

    name: str
    family: str
    summary: str
    arguments: tuple[str, ...]
    """Graph, sizes and static arguments before the arrays: their names in C."""
    statics: Mapping[str, Static]
    """Static arguments among `arguments`, by their names in C."""
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    saved: tuple[Array, ...]
    """Arrays that forward writes and vjp reads, outputs among them."""
    arrays: tuple[Array, ...]
    """Static arrays."""
    defaults_from_sizes: Mapping[str, str]
    """Values in place of arguments that are left out, by their names in C."""
    renamed: Mapping[str, Mapping[str, str]]
    """Replacements of sizes, by the condition under which they hold and by names in C."""
    differentiable: bool
    on_tape: tuple[str, ...]
    """Names in `arguments` that the C function of the operation on the tape takes."""
    positional: tuple[str, ...]
    """Inputs that have no default, in Fortran's names."""
    declaration: Declaration
    syntax: ast.FunctionDef
    """Declaration in Python: a function without a body."""

    @property
    def has_graph(self) -> bool:
        """True if it works on a graph."""
        return "graph" in self.arguments

    @property
    def faces(self) -> tuple[str, ...]:
        """Names of its faces."""
        return tuple(FACES) if self.differentiable else ("forward",)

    @property
    def sizes_from_arrays(self) -> list[str]:
        """Static arguments that are extents of inputs, which the tape reads off them."""
        return [name for name in self.statics if name not in self.on_tape]

    @property
    def lists(self) -> list[Array]:
        """Static lists of integers as arrays; their length is the argument before them."""
        return [
            Array(name, (before,), "int64", False, False)
            for before, name in pairwise(self.arguments)
            if name in self.statics and self.statics[name].kind == "integers"
        ]

    @property
    def own_saved(self) -> list[Array]:
        """Saved arrays that are not outputs."""
        outputs = {array.name for array in self.outputs}
        return [array for array in self.saved if array.name not in outputs]

    def operands(self, face: str) -> list[tuple[str, Array]]:
        """The arrays of a face with their groups, in the order of its arguments."""
        arrays = {a.name: a for a in [*self.inputs, *self.saved, *self.outputs]}
        several = len(self.outputs) > 1
        forms = {
            "cotangents": "c_{}" if several else "cotangent", "tangents": "t_{}",
            "gradients": "grad_{}", "outputs": "t_{}" if face == "jvp" else "{}", "saved": "{}",
        }  # fmt: skip
        needed = {"outputs", *(() if several else ("cotangents",))}
        written = {"outputs", "gradients", *(("saved",) if face == "forward" else ())}
        found = []
        for group, name in self.declaration.operands(face):
            array = arrays[name.lower()]
            if group != "inputs":
                array = replace(
                    array,
                    name=forms[group].format(array.name),
                    optional=group not in needed,
                    written=group in written,
                )
            found.append((group, array))
        return found


def families(package: Path = PACKAGE) -> list[str]:
    """The modules that declare operators."""
    modules = sorted((package / "operators").glob("*.py"))
    return [module.stem for module in modules if "\n@operator(" in module.read_text()]


def read_operators(package: Path = PACKAGE) -> list[Operator]:
    """All operators in the order of the families and their modules."""
    return [op for family in families(package) for op in _read_family(package, family)]


def _read_family(package: Path, family: str) -> list[Operator]:
    operators: list[Operator] = []

    def declared(differentiable: bool) -> Callable[..., Any]:
        def with_shapes(**shapes: Any) -> Callable[[Any], Any]:
            return lambda node: operators.append(_operator(family, node, shapes, differentiable))

        return with_shapes

    decorators = {"operator": declared(True), "function": declared(False)}
    _evaluate(package, f"operators.{family}", decorators)
    return operators


def _evaluate(package: Path, module: str, decorators: Mapping[str, Any]) -> dict[str, Any]:
    """Run the constants of a module, and give its declared functions to their decorators."""

    def limits(least: int | None = None, most: int | None = None, **_: Any) -> tuple[Any, Any]:
        """Take smallest and largest value."""
        return least, most

    names: dict[str, Any] = {
        "Limits": limits, "AT_LEAST_0": (0, None), "AT_LEAST_1": (1, None), "ParamSpec": str,
        "TypeVar": str, **decorators,
    }  # fmt: skip
    tree = ast.parse((package / f"{module.replace('.', '/')}.py").read_text())
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(origin)) if origin.startswith("gnograd."):
                constants = [a.name for a in node.names if a.name.isupper() and a.name not in names]
                if constants:
                    there = _evaluate(package, origin.removeprefix("gnograd."), {})
                    names |= {name: there[name] for name in constants}
            case ast.Assign() | ast.AnnAssign():
                exec(compile(ast.Module([node], []), module, "exec"), names)
            case ast.ClassDef(name=name):
                names[name] = None
            case ast.FunctionDef(decorator_list=[]):
                names[node.name] = None
            case ast.FunctionDef(decorator_list=[ast.Call(func=ast.Name(id=decorator)) as call]):
                if decorator in decorators:
                    code = compile(ast.Expression(call), module, "eval")
                    eval(code, names)(node)
    return names


def _operator(
    family: str, node: ast.FunctionDef, shapes: Mapping[str, Any], differentiable: bool
) -> Operator:
    _check_function(family, node, shapes)
    when: Mapping[str, Mapping[str, str]] = shapes.get("when", {})
    arrays: Mapping[str, str] = shapes.get("arrays", {})
    choices: Mapping[str, Mapping[str, int]] = shapes.get("choices", {})
    statics = _statics(node, arrays, choices, shapes.get("limits", {}))
    optional = _maybe_none(node)
    words = shapes["arguments"].split()
    lists = [name for name, static in statics.items() if static.kind == "integers"]
    sizes = [word for word in words if word not in statics]
    declaration = Declaration(
        **{k: v for k, v in shapes.items() if k not in ("choices", "limits", "kind")}
    )

    def array(name: str, spec: str, written: bool = False) -> Array:
        parsed, dims = parse(spec), _extents(spec)
        otherwise, unless = {}, [""] if name in declaration.saved_only_in_c else []
        for condition, changes in when.items():
            sizes = {word: new for word, new in changes.items() if word in words}
            changed = changes.get(name, spec)
            if changed == "None" and name not in shapes["outputs"]:
                unless.append(condition)
                continue
            changed = NOTHING if changed == "None" else changed
            renamed = " ".join(sizes.get(word, word) for word in changed.split())
            other = _extents(renamed)
            if other != dims:
                otherwise[condition] = other
        dtype = {"": "real", "real": "wide"}.get(parsed.dtype, parsed.dtype)
        return Array(name.lower(), dims, dtype, parsed.optional, written, otherwise, tuple(unless))

    op = Operator(
        name=node.name,
        family=family,
        summary=(ast.get_docstring(node) or "").partition("\n")[0],
        arguments=tuple(map(c_name, words)),
        statics={c_name(name): static for name, static in statics.items() if name in words},
        inputs=tuple(
            replace(array(name, spec), optional=optional[name])
            for name, spec in shapes["inputs"].items()
        ),
        outputs=tuple(array(name, spec, True) for name, spec in shapes["outputs"].items()),
        saved=tuple(array(name, spec) for name, spec in shapes.get("saved", {}).items()),
        arrays=tuple(array(name, spec) for name, spec in arrays.items()),
        defaults_from_sizes={
            c_name(n): in_c(e) for n, e in declaration.defaults_from_sizes.items()
        },
        renamed={
            condition: {c_name(word): in_c(changes[word]) for word in changes if word in sizes}
            for condition, changes in when.items()
        },
        differentiable=differentiable,
        declaration=declaration,
        syntax=node,
        on_tape=tuple(map(c_name, declaration.words_on_tape(statics, lists))),
        positional=tuple(
            a.arg.lower() for a in node.args.args[: len(node.args.args) - len(node.args.defaults)]
        ),
    )
    _check_sizes(op, shapes)
    return op


def _check_function(family: str, node: ast.FunctionDef, shapes: Mapping[str, Any]) -> None:
    """Refuse a function that does not fit to its decorator, or that C could not take."""
    where = f"{family}.py: {node.name}"
    for name in ("inputs", "outputs", "arguments"):
        if name not in shapes:
            raise ValueError(f"{where} is declared without {name}")
    inputs = [argument.arg for argument in node.args.args]
    if inputs != list(shapes["inputs"]):
        raise ValueError(
            f"{where} takes {', '.join(inputs)} before the *, but has inputs "
            f"{', '.join(shapes['inputs'])}"
        )
    for argument in [*node.args.args, *node.args.kwonlyargs]:
        if argument.annotation is None:
            raise ValueError(f"{where}: {argument.arg} has no type")
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        try:
            _ = default and ast.literal_eval(default)
        except ValueError:
            written = ast.unparse(default)  # type: ignore[arg-type]
            raise ValueError(
                f"{where}: the default of {argument.arg} is {written}, needs a literal"
            ) from None


def _check_sizes(op: Operator, shapes: Mapping[str, Any]) -> None:
    """Refuse static arguments and sizes that kernels would not get."""
    where = f"{op.family}.py: {op.name}"
    for static in op.statics.values():
        if static.kind == "code" and not static.codes:
            raise ValueError(f"{where}: {static.name} is a str, which needs choices")
        if not static.kind:
            raise ValueError(
                f"{where}: {static.name} is of no type that static arguments have: int, float, "
                "bool, Sequence[int], str of choices, Graph, or an array"
            )
    words = {*op.arguments}
    if "kind" not in shapes:  # which may put others in their place
        for argument in op.syntax.args.kwonlyargs:
            if c_name(argument.arg) not in words:
                raise ValueError(f"{where}: {argument.arg} is not among the arguments")
    arrays = [*op.inputs, *op.outputs, *op.saved, *op.arrays]
    in_shapes = {name for array in arrays for name in array.names}
    for name in sorted(in_shapes | words):
        if name != name.lower():
            raise ValueError(
                f"{where}: {name} needs another name in C and Fortran, in C_NAMES of "
                "tools/interface/declarations.py"
            )
    if "sizes" in shapes:  # which may compute any
        return
    in_shapes |= {name for array in op.lists for name in array.names}
    for name in op.arguments:
        if name not in op.statics and name not in in_shapes:
            raise ValueError(
                f"{where}: {name}, among the arguments, is no static argument nor in any shape"
            )
    of_graph = {"n_src", "n_dst", "n_edges"} if op.has_graph else set()
    for name in sorted(in_shapes - words - of_graph):
        declared = next((size for size, other in C_NAMES.items() if other == name), name)
        raise ValueError(f"{where}: {declared}, in a shape, is not among the arguments")


def _statics(
    node: ast.FunctionDef,
    arrays: Mapping[str, str],
    choices: Mapping[str, Mapping[str, int]],
    limits: Mapping[str, tuple[int | None, int | None]],
) -> dict[str, Static]:
    kinds = {
        "int": "integer", "float": "number", "bool": "logical", "str": "code",
        "Sequence[int]": "integers", "GraphLike": "graph",
    }  # fmt: skip
    statics = {}
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        annotation = ast.unparse(argument.annotation)  # type: ignore[arg-type]
        plain = annotation.removesuffix(" | None")
        kind = "array" if argument.arg in arrays else kinds.get(plain, "")
        value = ... if default is None else ast.literal_eval(default)
        statics[argument.arg] = Static(
            argument.arg, c_name(argument.arg), kind, value, choices.get(argument.arg, {}),
            plain != annotation, limits.get(argument.arg, (None, None)),
        )  # fmt: skip
    return statics


def _maybe_none(node: ast.FunctionDef) -> dict[str, bool]:
    """Inputs that may be left out in some form of the operator."""
    return {a.arg: ast.unparse(a.annotation).endswith("None") for a in node.args.args}  # type: ignore[arg-type]


def _extents(spec: str) -> tuple[str, ...]:
    """Extents of a shape by their C names."""
    parsed = parse(spec)
    return (*[BATCH] * parsed.leading, *map(in_c, parsed.dims))


def c_name(size: str) -> str:
    """A size, or a static argument, in C and Fortran."""
    return C_NAMES.get(size, size)


def in_c(expression: str) -> str:
    """An expression of sizes with the names of C."""
    return re.sub(r"[A-Za-z_]\w*", lambda match: c_name(match[0]), expression)


if __name__ == "__main__":
    print(*families())
