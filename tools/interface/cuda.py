# SPDX-License-Identifier: MIT
"""The C interface of the CUDA kernels, from the operators' declarations.

usage: cuda.py header TARGET                gnograd_cuda.h
       cuda.py fortran TARGET               gnograd_cuda.f90, the header in Fortran
       cuda.py entries SOURCE.cu TARGET     the C functions of the operators of a source
       cuda.py prototypes TARGET            all of them as text, for gnograd_cuda_prototypes

cuda/gnograd_cuda.h.in has the rest of the header, and the types of each operator: a line
``@operator f32 f64@`` stands for all functions of an operator. A source defines the operators whose
class template it has: agg_weighted is AggWeighted (cuda/device/call.cuh describes the form).
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
    unread: str = ""
    """Comment of the header: saved arrays that vjp does not read."""

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
    return Class(op.name, before, tuple(faces), c.unread(op, "cuda"))


def _array(array: Array) -> Parameter:
    real = "real " if array.dtype == "wide" else ""
    return c.pointer(array, "void", "void"), real + c.shape(array)


def _parse(text: str) -> tuple[Parameter, ...]:
    """Parameters in C, each on a line, a comment behind it."""
    found = re.findall(r"^\s*(.+?),?(?:  /\* (.*) \*/)?$", text.strip(), re.MULTILINE)
    return tuple((parameter, comment) for parameter, comment in found)


_POINTS = """
const void *sources,  /* [n_src, d] */
const void *destinations,  /* [n_dst, d] */
const int64_t *source_items,  /* [n_items+1] or null */
const int64_t *destination_items,  /* [n_items+1] or null */
"""
_TABLE = """
double *positions,  /* [n_src, d] */
int32_t *order,  /* [n_src] */
int32_t *starts,  /* [n_buckets+1] */
double *grid,  /* [2] */
int32_t *found,  /* [n_dst, room] */
int64_t *offsets,  /* [n_dst+1] */
"""
_ROWS = _parse("""
const int64_t *offsets,  /* [n_dst+1] */
const int32_t *indices,  /* [offsets[n_dst]] */
""")
_KEPT = """
int64_t *kept_offsets,  /* [n_dst+1] */
int32_t *marks,  /* [offsets[n_dst]/32 + n_dst] */
"""
_CELL = _parse("""
const void *points,  /* [n, d] */
const double *lattice,  /* [d (2 d + 1) + 1] */
""")
_CANDIDATES = _parse("""
const int32_t *base
const int32_t *point
const int32_t *shift
const int64_t *candidate_offsets,  /* [n+1] */
const int32_t *candidates,  /* [candidate_offsets[n]] */
""")
_QUERY = """
const void *query,  /* [n_queries, n_query_heads, d_k] */
const void *key,  /* [n_keys, n_heads, d_k] */
const void *value,  /* [n_keys, n_heads, d_v] */
"""
_ATTENTION_OUT = """
void *attention_out,  /* [n_queries, n_query_heads, d_v] */
void *softmax_max,  /* [n_queries, n_query_heads, 8] */
void *softmax_sum,  /* [n_queries, n_query_heads, 8] */
"""
_ENDS = _parse("""
const void *src,  /* [n_given] */
const void *dst,  /* [n_given] */
""")
_KEPT_ENDS = _parse("""
void *kept_src,  /* [n_given] */
void *kept_dst,  /* [n_given] */
int64_t *found,  /* [1] */
""")
_BY_SOURCE = """
int64_t *src_offsets,  /* [n_src+1] */
int32_t *src_indices,  /* [n_edges] */
int64_t *src_edges,  /* [n_edges] */
int64_t *src_positions,  /* [n_edges] or null */
int64_t *found,  /* [2] */
"""
_BOTH_ORDERS = _parse(
    """
int64_t *offsets,  /* [n_dst+1] */
int32_t *indices,  /* [n_edges] */
int64_t *edge_ids,  /* [n_edges] */
"""
    + _BY_SOURCE.strip().replace(" or null", "")
)
UNDECLARED = (
    Class(
        "graph_from_edges",
        _parse("""
int64_t n_src
int64_t n_dst
int64_t n_given
int self_loops
"""),
        (
            Face("largest", (_ENDS, _parse("int64_t *largest,  /* [2] */"))),
            Face("build", (_ENDS, _BOTH_ORDERS)),
            Face("rows", (_ENDS, _BOTH_ORDERS)),
        ),
    ),
    Class(
        "graph_rows",
        _parse("int64_t n_dst\nint64_t n_edges"),
        (
            Face(
                "ends",
                (
                    _parse("""
const int64_t *offsets,  /* [n_dst+1] */
const void *indices,  /* [n_edges] */
const int64_t *edge_ids,  /* [n_edges] or null */
"""),
                    _parse("void *src,  /* [n_edges] */\nvoid *dst,  /* [n_edges] */"),
                ),
            ),
        ),
    ),
    Class(
        "graph_union",
        _parse("int64_t n_src\nint64_t n_dst\nint64_t n_given"),
        (Face("first", (_ENDS, _KEPT_ENDS)),),
    ),
    Class(
        "graph_from_csc",
        _parse("""
int64_t n_src
int64_t n_dst
int64_t n_edges
"""),
        (
            Face(
                "build",
                (
                    _parse("""
const int64_t *offsets,  /* [n_dst+1] */
const void *sources,  /* [n_edges] */
const int64_t *edge_ids,  /* [n_edges] or null */
"""),
                    _parse("int32_t *indices,  /* [n_edges] */\n" + _BY_SOURCE.strip()),
                ),
            ),
        ),
    ),
    Class(
        "nsa_selected_attention",
        _parse("""
int64_t n_queries
int64_t n_keys
int64_t n_query_heads
int64_t n_heads
int64_t d_k
int64_t d_v
int64_t n_sequences
const int32_t *topk_indices,  /* [n_queries, n_heads, select_block_count] */
const int64_t *cu_q,  /* [n_sequences+1] or null */
const int64_t *cu_k,  /* [n_sequences+1] or null */
double scale_value
int64_t select_block_size
int64_t select_block_count
int sparse_mode
"""),
        (
            Face("forward", (_parse(_QUERY), _parse(_ATTENTION_OUT))),
            Face(
                "vjp",
                (
                    _parse("const void *attention_out_grad"),
                    _parse(_QUERY),
                    _parse(re.sub(r"(?m)^void", "const void", _ATTENTION_OUT)),
                    _parse("void *dq\nvoid *dk\nvoid *dv"),
                ),
            ),
        ),
    ),
    Class(
        "neighbors",
        _parse("""
int64_t n_src
int64_t n_dst
int64_t d
int64_t n_items
int64_t n_buckets
double radius
double period_x
double period_y
double period_z
int exclude_self
int64_t max_neighbors
int64_t seed
int64_t room
"""),
        (
            Face("count", (_parse(_POINTS), _parse(_TABLE))),
            Face(
                "fill",
                (
                    _parse(_POINTS)[1:] + _parse(re.sub(r"(?m)^(?=\w)", "const ", _TABLE)),
                    _parse("int32_t *indices,  /* [offsets[n_dst]] */"),
                ),
            ),
        ),
    ),
    Class(
        "nearer_neighbors",
        _parse("""
int64_t n_src
int64_t n_dst
int64_t d
double radius
double period_x
double period_y
double period_z
"""),
        (
            Face("count", (_parse(_POINTS)[:2] + _ROWS, _parse(_KEPT))),
            Face(
                "fill",
                (
                    _ROWS + _parse(re.sub(r"(?m)^(?=\w)", "const ", _KEPT)),
                    _parse("int32_t *kept,  /* [kept_offsets[n_dst]] */"),
                ),
            ),
        ),
    ),
    Class(
        "nearest_neighbors",
        _parse("""
int64_t n_src
int64_t n_dst
int64_t d
int64_t n_items
int64_t k
double radius
double period_x
double period_y
double period_z
int exclude_self
int ascending
"""),
        (
            Face(
                "find",
                (
                    _parse(_POINTS),
                    _parse("""
int32_t *found,  /* [n_dst, k] */
int64_t *offsets,  /* [n_dst+1] */
"""),
                ),
            ),
            Face(
                "fill",
                (
                    _parse("const int32_t *found\nconst int64_t *offsets"),
                    _parse("int32_t *indices,  /* [offsets[n_dst]] */"),
                ),
            ),
        ),
    ),
    Class(
        "neighbor_list",
        _parse("""
int64_t n
int64_t d
int64_t n_images
double radius
int full
"""),
        (
            Face(
                "images",
                (
                    _CELL,
                    _parse("""
int64_t *starts,  /* [n+1] */
int32_t *base,  /* [n, d] */
int64_t *exponent,  /* [1] */
"""),
                ),
            ),
            Face(
                "place",
                (
                    _CELL + _parse("const int64_t *starts\nconst int32_t *base"),
                    _parse("""
double *inside,  /* [n, d] */
double *copies,  /* [n_images, d] */
int32_t *point,  /* [n_images] */
int32_t *shift,  /* [n_images, d] */
"""),
                ),
            ),
            Face("count", (_CELL + _CANDIDATES, _parse("int64_t *offsets,  /* [n+1] */"))),
            Face(
                "fill",
                (
                    _CELL + _CANDIDATES + _parse("const int64_t *offsets"),
                    _parse("""
int32_t *indices,  /* [offsets[n]] */
int32_t *shifts,  /* [offsets[n], d] */
double *distances,  /* [offsets[n]] */
double *vectors,  /* [offsets[n], d] */
"""),
                ),
            ),
        ),
    ),
)
"""Functions that Python calls but does not declare as operators."""


def classes() -> dict[str, Class]:
    """All operators by their names."""
    found = [*map(declared, read_operators()), *UNDECLARED]
    return {operator.name: operator for operator in found}


def types_of() -> dict[str, list[str]]:
    """The types of every operator in the header."""
    lines = re.findall(r"^@(\w+) (.*)@$", TEMPLATE.read_text(), re.MULTILINE)
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
    lines, explained = [operator.unread] if operator.unread else [], set[str]()
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


def define(operator: Class, type_: str) -> str:
    """The functions of an operator for a type: each calls a member of its class."""
    sizes = [name_of(text) for text, _ in operator.sizes]
    lines = []
    for face, counts, name, parameters in functions(operator, type_):
        if counts:
            head, run, groups = "size_t", "count_workspace(", ["{}"] * len(face.groups)
        else:
            head, run = "int", "run_face(workspace, workspace_bytes, stream, "
            groups = [
                "{" + ", ".join(f"array({name_of(text)})" for text, _ in group) + "}"
                for group in face.groups
            ]
        lines.append(_wrap(f"{head} {name}(", [text for text, _ in parameters], ") {"))
        lines.append(f"  return {run}[&](Call& call) {{")
        lines.append(_wrap(f"    const {operator.template}<{TYPES[type_]}> op{{", sizes, "};"))
        lines.append(_wrap(f"    return op.{face.name}(", [*groups, "call"], ");"))
        lines.append("  });")
        lines.append("}")
    return "\n".join(lines)


def _wrap(head: str, items: Sequence[str], end: str) -> str:
    """A list over as many lines as it needs; line breaks stand between items only."""
    text = head + ", ".join(item.replace(" ", "\0") for item in items) + end
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    wrapped = textwrap.fill(text, c.WIDTH, subsequent_indent=indent, break_long_words=False)
    return wrapped.replace("\0", " ")


def write_entries(source: Path, target: Path) -> None:
    """The C functions of the operators whose class templates are in a source."""
    names = set(re.findall(r"\b(?:struct|using) (\w+)", source.read_text()))
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
    return c.fill(TEMPLATE, sections)


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
        case ["entries", source, target]:
            write_entries(Path(source), Path(target))
        case ["prototypes", target]:
            write_prototypes(Path(target))
        case _:
            raise SystemExit(__doc__)
