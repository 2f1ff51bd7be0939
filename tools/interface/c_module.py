# SPDX-License-Identifier: MIT
"""Write the C interface as a Fortran module, for compilers that cannot read gfortran's modules.

The module is plain Fortran 2018, only interfaces and constants, and is compiled with the program.

usage: c_module.py HEADER OUTPUT
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

MODULE = "gnograd_c"
WIDTH = 100
SCALARS = {
    "int": "integer(c_int)",
    "int32_t": "integer(c_int32_t)",
    "int64_t": "integer(c_int64_t)",
    "float": "real(c_float)",
    "double": "real(c_double)",
    "char": "character(kind=c_char)",
}
HEAD = """! SPDX-License-Identifier: MIT

!> The C interface of gnograd (gnograd.h) for any compiler of Fortran 2018: compile this file with
!> the program and link the library; nothing of the compiler that built it is needed.
!>
!> gnograd.h documents the functions. Arrays have the shapes given there in C order, so axes are
!> reversed here: [n_dst, D] is (D, n_dst); rows and nodes count from 0. An array that is not
!> present is a null pointer. Handles are type(c_ptr). Functions return 0 or one of the codes
!> GNOGRAD_*.
module gnograd_c
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_float, c_funptr, c_int, c_int32_t, &
    & c_int64_t, c_ptr
  implicit none
  private :: c_char, c_double, c_float, c_funptr, c_int, c_int32_t, c_int64_t, c_ptr
"""
FUNCTION = re.compile(r"^(int|int64_t|void)\s+(\w+)\s*\(([^()]*)\)\s*;", re.MULTILINE)
ENUM = re.compile(r"^enum\s+\w+\s*\{([^}]*)\}\s*;", re.MULTILINE)
CALLBACK = re.compile(r"^typedef\s+int\s+(\w+)\s*\(", re.MULTILINE)


def declaration(parameter: str, callbacks: list[str], function: str) -> tuple[str, str]:
    """Type with attributes, and name, of one C parameter."""
    *words, name = parameter.replace("*", " * ").split()
    constant = "const" in words
    kind, *stars = [word for word in words if word != "const"]
    if stars == ["*"] and kind in callbacks:
        return "type(c_funptr), value", f"{name}"
    if stars == ["*"] and kind in SCALARS:
        intent = "in" if constant else "inout"
        return f"{SCALARS[kind]}, optional, intent({intent})", f"{name}(*)"
    if stars == ["*"]:
        return "type(c_ptr), value", name
    if stars == ["*", "*"] and kind == "void":
        return "type(c_ptr), intent(inout)", f"{name}(*)"
    if stars == ["*", "*"]:
        return "type(c_ptr), intent(out)", name
    if not stars and kind in SCALARS:
        return f"{SCALARS[kind]}, value", name
    raise SystemExit(f"{function}: no Fortran for the parameter {parameter.strip()!r}")


def wrapped(text: str, indent: int) -> str:
    """A statement in lines of at most WIDTH columns."""
    lines = textwrap.wrap(text, WIDTH - indent - 6, break_on_hyphens=False, break_long_words=False)
    return f" &\n{' ' * (indent + 2)}& ".join([" " * indent + lines[0], *lines[1:]])


def interface(result: str, name: str, parameters: str, callbacks: list[str]) -> str:
    """The interface block's part of one function."""
    texts = [] if parameters.strip() == "void" else parameters.split(",")
    declared = [declaration(text, callbacks, name) for text in texts]
    names = [re.sub(r"\(\*\)$", "", dummy) for _, dummy in declared]
    if len({dummy.lower() for dummy in names}) < len(names):
        raise SystemExit(f"{name}: names of parameters differ in case alone")
    block = "subroutine" if result == "void" else "function"
    tail = "" if result == "void" else " result(status)"
    if tail and "status" in names:
        raise SystemExit(f"{name}: a parameter is called status")
    lines = [
        wrapped(f'{block} {name}({", ".join(names)}) bind(C, name="{name}"){tail}', 4),
        "      import",
    ]
    # neighbours of one type stand together
    groups: list[tuple[str, list[str]]] = []
    for kind, dummy in declared:
        if groups and groups[-1][0] == kind:
            groups[-1][1].append(dummy)
        else:
            groups.append((kind, [dummy]))
    lines += [wrapped(f"{kind} :: {', '.join(dummies)}", 6) for kind, dummies in groups]
    if tail:
        lines.append(f"      {SCALARS[result]} :: status")
    lines.append(f"    end {block} {name}")
    return "\n".join(lines)


def main() -> None:
    """Header in, module out."""
    header, output = sys.argv[1:]
    text = re.sub(r"/\*.*?\*/", "", Path(header).read_text(), flags=re.DOTALL)
    callbacks = CALLBACK.findall(text)
    constants = []
    for body in ENUM.findall(text):
        for item in filter(str.strip, body.split(",")):
            name, value = item.split("=")
            constants.append(
                f"  integer(c_int), parameter, public :: {name.strip()} = {value.strip()}_c_int"
            )
    functions = [interface(*found, callbacks) for found in FUNCTION.findall(text)]
    Path(output).write_text(
        "\n".join([HEAD, *constants, "\n  interface", *functions, "  end interface", ""])
        + f"\nend module {MODULE}\n"
    )


if __name__ == "__main__":
    main()
