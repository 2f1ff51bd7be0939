# SPDX-License-Identifier: MIT
"""Write the f2py signature file of the C ABI from its header.

Sizes and pointers travel as 64-bit integers by value (a null pointer is 0), so that optional
arrays need no second function, and the same call works for host and device pointers. Every
call releases the GIL. Arrays are checked in `gnograd.backends`, not here; where they lie is found
by the functions of arrays.h, which become part of the module as they are.

usage: signatures.py HEADER OUTPUT MODULE
"""

import re
import sys
from pathlib import Path

SCALARS = {
    "int": "integer",
    "int32_t": "integer",
    "int64_t": "integer*8",
    "size_t": "integer*8",
    "float": "real*4",
    "double": "real*8",
}
DECLARATION = re.compile(r"^(int|int64_t|void)\s+(\w+)\s*\(([^()]*)\)\s*;", re.MULTILINE)

OWN = """usercode '''
#include "arrays.h"
'''
pymethoddef '''
{"address", address, METH_O, "Where an array begins; 0 for None."},
{"layouts", layouts, METH_O, "Types and shapes of arrays, as bytes, and their addresses."},
'''
"""


def declarations(header: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Functions of a C header as (result, name, [(f2py type, argument), ...])."""
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    functions = []
    for result, name, arguments in DECLARATION.findall(header):
        arguments = [] if arguments.strip() == "void" else arguments.split(",")
        functions.append((result, name, [argument(text, name) for text in arguments]))
    return functions


def argument(text: str, function: str) -> tuple[str, str]:
    """One C parameter as (f2py type, name)."""
    *kind, name = text.replace("*", " * ").split()
    if "*" in kind:
        return "integer*8", name
    kind = [word for word in kind if word != "const"]
    if len(kind) != 1 or kind[0] not in SCALARS:
        raise SystemExit(f"{function}: cannot bind the argument {text.strip()!r}")
    return SCALARS[kind[0]], name


def signature(result: str, name: str, arguments: list[tuple[str, str]]) -> str:
    """The f2py block of one function."""
    block = "subroutine" if result == "void" else "function"
    names = ", ".join(argument for _, argument in arguments)
    lines = [f"{block} {name}({names})", f"  intent(c) {name}", "  intent(c)", "  threadsafe"]
    if block == "function":
        lines.append(f"  {SCALARS[result]} :: {name}")
    lines += [f"  {kind}, intent(in) :: {argument}" for kind, argument in arguments]
    return "\n".join([*lines, f"end {block} {name}"])


def main() -> None:
    """Header in, signature file out."""
    header, output, module = sys.argv[1:]
    blocks = [signature(*function) for function in declarations(Path(header).read_text())]
    Path(output).write_text(
        f"python module {module}\n{OWN}interface\n"
        + "\n".join(blocks)
        + f"\nend interface\nend python module {module}\n"
    )


if __name__ == "__main__":
    main()
