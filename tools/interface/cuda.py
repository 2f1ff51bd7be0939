# SPDX-License-Identifier: MIT
"""The C interface of the CUDA kernels, from the operators' declarations.

usage: cuda.py header TARGET                gnograd_cuda.h
       cuda.py fortran TARGET               gnograd_cuda.f90, the header in Fortran
       cuda.py records TARGET               what kernels of declared operators get
       cuda.py entries SOURCE.cu TARGET     the C functions of the operators of a source
       cuda.py prototypes TARGET            all of them as text, for gnograd_cuda_prototypes

cuda/gnograd_cuda.h.in has the rest of the header, and the types of each operator: a line
``@operator f32 f64@`` stands for all functions of an operator. Where Python declares none, a block
has their parameters in C: the sizes, then each face with its groups of arrays. A source defines the
operators whose class template it has: agg_weighted is AggWeighted (cuda/device/call.cuh describes
the form).
"""

from __future__ import annotations

import itertools
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import c
from declarations import Array, Operator, read_operators

TEMPLATE = Path(__file__).resolve().parents[2] / "cuda" / "gnograd_cuda.h.in"
TYPES = {
    "f32": "float", "f64": "double", "f16": "__half", "bf16": "__nv_bfloat16", "i32": "int32_t",
    "i64": "int64_t",
}  # fmt: skip
BLOCK = r"^@(\w+) [^@\n]+\n(.*?)^@$"
CALL = (("void *workspace", ""), ("size_t workspace_bytes", ""), ("void *stream", ""))

Parameter = tuple[str, str]
"""A parameter of C and a comment."""


@dataclass(frozen=True)
class Face:
    """A face of an operator: the member function, and its arguments as the class groups them."""

    name: str
    groups: tuple[tuple[Parameter, ...], ...]


@dataclass(frozen=True)
class Class:
    """An operator as its class template has it."""

    name: str
    sizes: tuple[Parameter, ...]
    faces: tuple[Face, ...]
    declared: Operator | None = None

    @property
    def template(self) -> str:
        """Name of the class template."""
        return "".join(word.capitalize() for word in self.name.split("_"))


def declared(op: Operator) -> Class:
    """The class of a declared operator."""
    faces = []
    for face in op.faces:
        # results are one group: of forward the outputs, and what it saves
        groups = itertools.groupby(op.operands(face), lambda item: item[1].written or item[0])
        parameters = tuple(tuple(_array(array) for _, array in group) for _, group in groups)
        faces.append(Face(face, parameters))
    before = tuple(c.before_arrays(op, "gnograd_cuda_graph"))
    return Class(op.name, before, tuple(faces), op)


def _array(array: Array) -> Parameter:
    real = "real " if array.dtype == "wide" else ""
    return c.pointer(array, "void", "void"), real + c.shape(array)


def undeclared() -> list[Class]:
    """Functions that Python calls but does not declare as operators."""
    comments: list[str] = []

    def hide(comment: re.Match[str]) -> str:
        comments.append(comment[1])
        return f"#{len(comments) - 1}"

    def parameters(text: str) -> tuple[Parameter, ...]:
        items = [" ".join(item.split()).partition("#") for item in text.split(",")]
        return tuple((item, comments[int(number)] if number else "") for item, _, number in items)

    found = []
    for name, block in re.findall(BLOCK, TEMPLATE.read_text(), re.MULTILINE | re.DOTALL):
        sizes, functions = re.sub(r" /\* (.*?) \*/", hide, block).split(";", 1)
        faces = [
            Face(face, tuple(map(parameters, groups.split(";"))))
            for face, groups in re.findall(r"(\w+)\((.*?)\);", functions, re.DOTALL)
        ]
        found.append(Class(name, parameters(sizes), tuple(faces)))
    return found


def template() -> str:
    """The template of the header, with a line for each operator."""
    flags = re.MULTILINE | re.DOTALL
    return re.sub(
        BLOCK, lambda found: found[0].partition("\n")[0] + "@", TEMPLATE.read_text(), flags=flags
    )


def classes() -> dict[str, Class]:
    """All operators by their names."""
    found = [*map(declared, read_operators()), *undeclared()]
    return {operator.name: operator for operator in found}


def types_of() -> dict[str, list[str]]:
    """The types of every operator in the header."""
    lines = re.findall(r"^@(\w+) (.*)@$", template(), re.MULTILINE)
    return {name: types.split() for name, types in lines}


def functions(operator: Class, type_: str) -> Iterable[tuple[Face, bool, str, list[Parameter]]]:
    """C functions for a type: face, True if it only counts bytes, name and parameters."""
    for face in operator.faces:
        stem = f"gnograd_cuda_{operator.name}_{face.name}"
        arrays = [parameter for group in face.groups for parameter in group]
        yield face, True, f"{stem}_workspace_bytes_{type_}", [*operator.sizes]
        yield face, False, f"{stem}_{type_}", [*operator.sizes, *arrays, *CALL]


def declare(operator: Class, types: Sequence[str]) -> str:
    """All functions of an operator. Arrays are explained where they come first."""
    unread = operator.declared and c.unread(operator.declared, "cuda")
    lines, explained = [unread] if unread else [], set[str]()
    for type_ in types:
        for _, counts, name, parameters in functions(operator, type_):
            commented = [
                (text, "" if name_of(text) in explained or counts else comment)
                for text, comment in parameters
            ]
            result = "size_t" if counts else "int"
            lines.append(c.function(f"GNOGRAD_CUDA_API {result} {name}", commented))
            if not counts:
                explained |= {name_of(text) for text, _ in parameters}
    return "\n".join(lines)


def name_of(parameter: str) -> str:
    """The name in a parameter of C."""
    return parameter.split()[-1].lstrip("*")


GROUPS = {
    "Inputs": ("forward", ("inputs",)),
    "Outputs": ("forward", ("outputs", "saved")),
    "Cotangents": ("vjp", ("cotangents",)),
    "Saved": ("vjp", ("saved",)),
    "Gradients": ("vjp", ("gradients",)),
}
"""Records of arrays: a face that has all of them, and their groups there."""


def record(op: Operator) -> str:
    """The static arguments of an operator, and its arrays, as its class template gets them."""
    lines = [f"struct {declared(op).template}Records {{"]
    for parameter, comment in c.before_arrays(op, "gnograd_cuda_graph"):
        lines.append(f"  {parameter};" + (f"  // {comment}" if comment else ""))
    for name, (face, groups) in GROUPS.items():
        arrays = _of(op, face, groups) if face in op.faces else []
        if not arrays:
            continue
        inputs = name == "Inputs"
        lines += ["", f"  template <class T{', class S' * inputs}>", f"  struct {name} {{"]
        for member, array in arrays:
            type_ = {**c.INTEGERS, "real": "T", "wide": "real<T>"}[array.dtype]
            const = "" if array.written else "const "
            text = (
                f"Input<{type_}, S> {member}" if inputs else f"{const}{type_}* {member} = nullptr"
            )
            lines.append(f"    {text};  // {c.shape(array)}")
        lines.append("  };")
    return "\n".join([*lines, "};"])


def _of(op: Operator, face: str, groups: Sequence[str]) -> list[tuple[str, Array]]:
    """The arrays of a face that are in some groups, by their names in the declaration."""
    names = [(group, name.lower()) for group, name in op.declaration.operands(face)]
    pairs = zip(names, op.operands(face), strict=True)
    return [(name, array) for (group, name), (_, array) in pairs if group in groups]


def records() -> str:
    """The records of all declared operators."""
    found = [record(op) for op in read_operators()]
    head = "// Written by tools/interface/cuda.py from the declarations of operators.\n"
    return "\n\n".join([f"{head}#pragma once\nnamespace gnograd {{", *found, "}\n"])


def define(operator: Class, type_: str) -> str:
    """The functions of an operator for a type: each calls a member of its class."""
    sizes = [name_of(text) for text, _ in operator.sizes]
    start, end = ("{", "}") if operator.declared is None else ("{{", "}}")
    lines = []
    for face, counts, name, parameters in functions(operator, type_):
        head, run = ("size_t", "count_workspace(") if counts else ("int", "run_face(")
        run += "" if counts else "workspace, workspace_bytes, stream, "
        if operator.declared is None:
            member, arguments = _call(face, counts)
        else:
            member, arguments = _call_declared(operator.declared, face.name, type_, counts)
        lines.append(_wrap(f"{head} {name}(", [text for text, _ in parameters], ") {"))
        lines.append(f"  return {run}[&](Call& call) {{")
        made = f"    const {operator.template}<{TYPES[type_]}> op{start}"
        lines.append(_wrap(made, sizes, f"{end};"))
        lines.append(_wrap(f"    return op.{member}(", [*arguments, "call"], ");"))
        lines.append("  });")
        lines.append("}")
    return "\n".join(lines)


def _call(face: Face, counts: bool) -> tuple[str, list[str]]:
    """Member function of a class, and its arguments: a group of arrays each."""
    groups = [[] if counts else [f"array({name_of(text)})" for text, _ in g] for g in face.groups]
    return face.name, [f"{{{', '.join(group)}}}" for group in groups]


def _call_declared(op: Operator, face: str, type_: str, counts: bool) -> tuple[str, list[str]]:
    """Member function of a declared operator, and its arguments: records, and inputs in pairs."""

    def group(*groups: str) -> list[str]:
        arrays = [array for group, array in op.operands(face) if group in groups]
        return [] if counts else [f"array({array.name})" for array in arrays]

    real = f"real<{TYPES[type_]}>"
    tangents = group("tangents")
    number = f"Dual<{real}>" if face in ("jvp", "hvp") else real
    pairs = itertools.zip_longest(group("inputs"), tangents, fillvalue="nullptr")
    inputs = ", ".join(f"{{{value}, {tangent}}}" for value, tangent in pairs)
    inputs = f"{declared(op).template}Records::Inputs<{TYPES[type_]}, {number}>{{{inputs}}}"
    if face in ("forward", "jvp"):
        return "evaluate", [inputs, f"{{{', '.join(group('outputs', 'saved'))}}}"]
    others = [f"{{{', '.join(group(name))}}}" for name in ("cotangents", "saved", "gradients")]
    saved = [others[1]] if op.saved else []
    return "reverse", [others[0], inputs, *saved, others[2]]


def _wrap(head: str, items: Sequence[str], end: str) -> str:
    """A list over as many lines as it needs; line breaks stand between items only."""
    text = head + ", ".join(item.replace(" ", "\0") for item in items) + end
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    wrapped = textwrap.fill(text, c.WIDTH, subsequent_indent=indent, break_long_words=False)
    return wrapped.replace("\0", " ")


def write_entries(source: Path, target: Path) -> None:
    """The C functions of the operators whose class templates are in a source."""
    names = set(re.findall(r"\b(?:struct|using) (?:\w+::)?(\w+)", source.read_text()))
    types = types_of()
    found = [operator for operator in classes().values() if operator.template in names]
    missing = [operator.name for operator in found if operator.name not in types]
    if missing or not found:
        raise SystemExit(f"{source}: no line for {missing or 'any operator'} in {TEMPLATE}")
    text = [define(operator, type_) for operator in found for type_ in types[operator.name]]
    c.write(target, "\n".join(["using namespace gnograd;", *text]) + "\n")


def header() -> str:
    """The header."""
    operators = classes()
    sections = {
        f"{name} {' '.join(types)}": declare(operators[name], types)
        for name, types in types_of().items()
        if name in operators
    }
    return c.fill(TEMPLATE, sections, template())


def without_comments() -> str:
    """The header's declarations alone."""
    return re.sub(r"/\*.*?\*/", "", header(), flags=re.DOTALL)


# ---- the header in Fortran ----

MODULE_HEAD = """\
! SPDX-License-Identifier: MIT
! Written by tools/interface/cuda.py from gnograd_cuda.h, where every function is explained.

!> The CUDA library from Fortran, with arrays in device memory (OpenACC, OpenMP, CUDA Fortran).
!>
!> This file is source, so that any compiler can compile it; programs that call these functions
!> link libgnograd_cuda. Arrays are addresses in device memory (c_loc in a region of host_data
!> use_device or target data use_device_addr, c_devloc in CUDA Fortran), axes in the reverse of the
!> header's order; c_null_ptr is "null" there. Nodes and edges are counted from 0. Functions for
!> 16-bit numbers are left out. An abstract interface has the name of functions without their type.
module gnograd_cuda
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int64_t, c_ptr, c_null_ptr, &
    & c_size_t
  implicit none
  public

"""
MODULE_TYPES = """\
  !> Arrays of a graph grouped by the node at one end, in device memory
  type, bind(C) :: gnograd_cuda_csc
    !> [n_rows+1]
    type(c_ptr) :: offsets = c_null_ptr
    !> Node at the other end, 32-bit integers [n_edges]
    type(c_ptr) :: indices = c_null_ptr
    !> Row of the edge table [n_edges], or null: the position itself
    type(c_ptr) :: edge = c_null_ptr
    !> Place in by_dst [n_edges] (by_src only), or null: same as edge
    type(c_ptr) :: position = c_null_ptr
  end type gnograd_cuda_csc

  !> A graph, as gnograd_cuda.h has it
  type, bind(C) :: gnograd_cuda_graph
    integer(c_int64_t) :: n_src = 0, n_dst = 0, n_edges = 0
    type(gnograd_cuda_csc) :: by_dst, by_src
  end type gnograd_cuda_graph

"""
_VALUES = {
    "int": "integer(c_int)", "int64_t": "integer(c_int64_t)", "size_t": "integer(c_size_t)",
    "double": "real(c_double)",
}  # fmt: skip
_RESULTS = _VALUES | {"const char *": "type(c_ptr)"}
_REFERENCES = {
    "const gnograd_cuda_graph *": "type(gnograd_cuda_graph), intent(in)",
    "void **": "type(c_ptr), intent(out)",
    "int *": "integer(c_int), intent(out)",
    "char *": "character(kind=c_char), intent(out)",
}
"""C types that cross the interface by reference; other pointers are addresses."""


def _fortran_parameter(text: str) -> tuple[str, str]:
    """Type and name of a parameter, from C."""
    type_, name = re.fullmatch(r"(.*[ *])(\w+)", text.strip()).groups()  # type: ignore[union-attr]
    type_ = type_.strip()
    if type_ in _REFERENCES:
        return _REFERENCES[type_], f"{name}(*)" if type_ == "char *" else name
    return _VALUES.get(type_, "type(c_ptr)") + ", value", name


def _fortran_statement(head: str, items: Sequence[str], end: str, indent: str) -> list[str]:
    """A statement over as many lines as it needs."""
    lines = [indent + head]
    for k, item in enumerate(items):
        piece = item + (", " if k + 1 < len(items) else end)
        if len(lines[-1] + piece) > c.WIDTH - 2:
            lines[-1] = lines[-1].rstrip() + " &"
            lines.append(f"{indent}  & ")
        lines[-1] += piece
    return lines if items else [indent + head + end]


def fortran_interface(result: str, name: str, parameters: Sequence[str]) -> str:
    """The interface body of a function."""
    assert len(name) <= 63, f"{name} is too long for Fortran"
    by_type: dict[str, list[str]] = {}
    names = []
    for parameter in parameters:
        type_, declared_name = _fortran_parameter(parameter)
        names.append(declared_name.removesuffix("(*)"))
        by_type.setdefault(type_, []).append(declared_name)
    types = " ".join([_RESULTS[result], *by_type])
    needed = [t for t in ("c_char", "c_double", "c_int", "c_int64_t", "c_ptr", "c_size_t",
                          "gnograd_cuda_graph") if re.search(rf"\b{t}\b", types)]  # fmt: skip
    lines = _fortran_statement(f"function {name}(", names, ") result(outcome) bind(C)", "    ")
    lines.append(f"      import :: {', '.join(needed)}")
    for type_, declared_names in by_type.items():
        lines += _fortran_statement(f"{type_} :: ", declared_names, "", "      ")
    lines += [f"      {_RESULTS[result]} :: outcome", f"    end function {name}"]
    return "\n".join(lines)


def write_fortran(target: Path) -> None:
    """The module for Fortran."""
    text = without_comments()
    lines = []
    for body in re.findall(r"enum gnograd_cuda_\w+ \{(.*?)\};", text, re.DOTALL):
        value = -1
        for item in filter(None, (item.strip() for item in body.split(","))):
            name, _, number = (part.strip() for part in item.partition("="))
            value = int(number) if number else value + 1
            lines.append(f"  integer(c_int), parameter :: {name.lower()} = {value}")
        lines.append("")
    bodies, faces = [], []
    typed: dict[str, list[str]] = {}
    signatures: dict[str, tuple[str, ...]] = {}
    for result, name, arguments in re.findall(
        r"GNOGRAD_CUDA_API\s+(\w+ (?:\w+ \*)?)(\w+)\(([^()]*)\);", text
    ):
        if name.endswith(("f16", "bf16")):
            continue
        parameters = [] if arguments == "void" else re.split(r",\s+", arguments.strip())
        # types differ in the name alone, and so do the faces of an operator in what counts bytes
        face = re.sub(r"_(f32|f64|i32|i64)$", "", name)
        face = re.sub(r"_[a-z]+(?=_workspace_bytes$)", "", face) if face != name else face
        if face == name:
            bodies.append(fortran_interface(result.strip(), name, parameters))
            continue
        if face not in typed:
            faces.append(fortran_interface(result.strip(), face, parameters))
        signature = (result, *parameters)
        assert signatures.setdefault(face, signature) == signature, f"{name} is no {face}"
        typed.setdefault(face, []).append(name)
    module = MODULE_HEAD + "\n".join(lines) + "\n" + MODULE_TYPES
    module += "  interface\n" + "\n\n".join(bodies) + "\n  end interface\n\n"
    module += "  abstract interface\n" + "\n\n".join(faces) + "\n  end interface\n\n"
    for face, names in typed.items():
        statement = _fortran_statement(f"procedure({face}), bind(C) :: ", names, "", "  ")
        module += "\n".join(statement) + "\n"
    module += "\nend module gnograd_cuda\n"
    c.write(target, module)


def write_prototypes(target: Path) -> None:
    """A string of C for every pair of functions in the header, the sizes told from the arrays."""
    text = without_comments()
    found = re.findall(r"GNOGRAD_CUDA_API\s+\w+\s+gnograd_cuda_(\w+)\(([^()]*)\);", text)
    parameters = {name: re.split(r",\s+", arguments.strip()) for name, arguments in found}
    lines = []
    for name, sizes in parameters.items():
        if "_workspace_bytes_" in name:
            plain = name.replace("_workspace_bytes", "")
            arrays = parameters[plain][len(sizes) : -len(CALL)]
            lines.append(f'"{plain}({", ".join(sizes)}; {", ".join(arrays)})\\n"')
    c.write(target, "\n".join(lines) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["header", target]:
            c.write(Path(target), header())
        case ["fortran", target]:
            write_fortran(Path(target))
        case ["records", target]:
            c.write(Path(target), records())
        case ["entries", source, target]:
            write_entries(Path(source), Path(target))
        case ["prototypes", target]:
            write_prototypes(Path(target))
        case _:
            raise SystemExit(__doc__)
