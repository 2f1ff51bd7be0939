# SPDX-License-Identifier: MIT
"""A null pointer, or a negative size: an error that names it, in every function of gnograd.h.

The functions are those of the installed header. A process of its own calls them, one pointer null
at a time; where it crashes, the last line that it has written says in which call. A tape that has
an error already keeps it: the null pointer takes nothing from it.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gnograd
from programs import PACKAGE, ROOT, needs_installation

FUNCTION = re.compile(r"^(int|int64_t|void) (\w+)\(([^()]*\*[^()]*)\);", re.MULTILINE)
MAY_BE_NULL = {
    "gnograd_last_error": "message",
    "gnograd_graph_create": "edge_ids",
    "gnograd_graph_lend": "dst_edge src_position",
    "gnograd_graph_free": "graph",
    "gnograd_graph_by_dst": "edge",
    "gnograd_neighbors_free": "found",
    "gnograd_neighbors_images": "indices",
    "gnograd_tape_free": "tape",
    "gnograd_array_linear_map": "context",
    "gnograd_optimizer_free": "optimizer",
}
"""By function; of operators all that their declarations do not need."""
ASCEND = "atten_mask stream"
REALS = ("_r32", "_r64")
EARLIER = "leaf: rank is 5, needs 0 to 4"


def functions() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Result, name and parameters, each with its type, of the functions that take pointers."""
    header = (Path(gnograd.get_include()) / "gnograd.h").read_text()
    for result, name, text in FUNCTION.findall(re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)):
        parameters = []
        for parameter in text.split(","):
            type_, argument = re.fullmatch(r"(?:const )?(\w+ \**)(\w+)", parameter.strip()).groups()
            parameters.append((type_, argument))
        yield result, name, parameters


def needed() -> dict[str, set[str]]:
    """Pointers that functions of operators need, by function, as the declarations say."""
    sys.path.insert(0, str(ROOT / "tools/interface"))
    from declarations import read_operators
    from kernels import places, static_arrays

    found = {}
    for op in read_operators():
        graph = {"graph"} if op.has_graph else set()
        lists = {array.name for array in static_arrays(op) if not array.optional}
        others = {"others"} if len(op.outputs) > 1 else set()
        found[f"gnograd_array_{op.name}"] = {"tape", *graph, *lists, *others}
        for face in op.faces:
            arrays = {array.name for array, _ in places(op, face) if not array.optional}
            for real in REALS:
                found[f"gnograd_{op.name}_{face}{real}"] = {*graph, *lists, *arrays}
    return found


def sizes() -> dict[str, list[str]]:
    """Sizes by function; those of operators as the declarations say."""
    from declarations import read_operators

    of_graphs = ["n_dst", "n_src", "n_edges"]
    return {
        "gnograd_graph_create": of_graphs,
        "gnograd_graph_from_edges": of_graphs,
        "gnograd_graph_lend": of_graphs,
        "gnograd_gumbel_f32": ["n"],
        "gnograd_gumbel_f64": ["n"],
        "gnograd_neighbors_within": ["n_radii"],
    } | {
        f"gnograd_{op.name}_{face}{real}": [name for name in op.arguments if name not in op.statics]
        for op in read_operators()
        for face in op.faces
        for real in REALS
    }


def calls() -> Iterator[tuple[str, str, list[tuple[str, str]], str]]:
    """Result, function, parameters, and the one that is to be null."""
    by_operator = needed()
    for result, function, parameters in functions():
        pointers = {name for type_, name in parameters if "*" in type_}
        if function in by_operator:
            pointers &= by_operator[function]
        elif "nsa_selected_attention" in function:
            pointers -= {*ASCEND.split()}
        else:
            pointers -= {*MAY_BE_NULL.get(function, "").split()}
        for pointer in sorted(pointers):
            yield result, function, parameters, pointer


class Library:
    """The library, and what its functions may be called with: numbers and extents are 1."""

    def __init__(self) -> None:
        self.load = ctypes.CDLL(str(PACKAGE / "lib/libgnograd.so"))
        self.memory = (ctypes.c_int64 * 4096)(*[1] * 4096)
        self.slot = ctypes.c_void_p()
        self.map = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
        ones = ctypes.byref(self.memory)
        rows = ctypes.byref((ctypes.c_int64 * 2)(0, 1))
        zero = ctypes.byref((ctypes.c_int64 * 1)(0))
        one = ctypes.c_int64(1)
        self.handles = {
            "gnograd_graph": self.made("graph_create", one, one, one, rows, zero, None),
            "gnograd_neighbors": self.made(
                "neighbors_nearest", one, one, one, one, one, ctypes.c_int64(-1),
                *[ones] * 3, rows, rows,
            ),
            "gnograd_tape": self.made("tape_create"),
        }  # fmt: skip
        self.array = self.call(
            "gnograd_array_leaf", ctypes.c_int64, self.handles["gnograd_tape"], 32, 1, 1, ones, ones
        )
        parameters = ctypes.byref(ctypes.c_int64(self.array))
        half = ctypes.c_double(0.5)
        self.handles["gnograd_optimizer"] = self.made(
            "sgd_create", self.handles["gnograd_tape"], one, parameters, half, half
        )

    def call(self, function: str, result: type | None, *arguments: object) -> int:
        """What a function returns."""
        found = self.load[function]
        found.restype = result
        return found(*arguments)

    def made(self, function: str, *arguments: object) -> ctypes.c_void_p:
        """Handle that a function makes."""
        handle = ctypes.c_void_p()
        status = self.call(f"gnograd_{function}", ctypes.c_int, *arguments, ctypes.byref(handle))
        assert status == 0, self.message()
        return handle

    def message(self) -> str:
        """Message of the last error."""
        text = ctypes.create_string_buffer(300)
        self.call("gnograd_last_error", None, ctypes.c_int64(300), text)
        return text.value.decode()

    def argument(self, function: str, type_: str, name: str) -> object:
        """An argument that does not fail by itself."""
        base, stars = type_.split(" ")
        if stars == "**":
            return ctypes.byref((ctypes.c_void_p * 7)())
        if base == "gnograd_linear_map":
            return self.map
        if stars:
            return self.handles.get(base, self.memory)
        if base == "double":
            return ctypes.c_double(1)
        if function.startswith("gnograd_array_") and name in ("x", "a", "b", "like"):
            return ctypes.c_int64(self.array)
        values = {"kind": 32, "number": 0, "slot": 0, "parameter": 0, "axis": 0, "outputs": 0}
        return {"int": ctypes.c_int, "int64_t": ctypes.c_int64}[base](values.get(name, 1))


def main(earlier: bool) -> None:
    """Make all calls, and write a line for each: what is null, result and message.

    With `earlier` they are those that take a tape, which has an error before each.
    """
    library = Library()
    tape = library.handles["gnograd_tape"]
    results = {"int": ctypes.c_int, "int64_t": ctypes.c_int64, "void": None}
    for result, function, parameters, pointer in calls():
        if earlier:
            if pointer == "tape" or "tape" not in dict(map(reversed, parameters)):
                continue
            library.call("gnograd_array_leaf", ctypes.c_int64, tape, 32, 1, 5, None, None)
        print(function, pointer, end=" ", flush=True)
        arguments = [
            None if name == pointer else library.argument(function, type_, name)
            for type_, name in parameters
        ]
        returned = library.call(function, results[result], *arguments)
        message = library.message()
        if pointer != "tape" and library.call("gnograd_tape_error", ctypes.c_int, tape):
            message = library.message()
        print(returned, message, sep="\t", flush=True)
    for function in MAY_BE_NULL:
        if function.endswith("_free"):
            library.call(function, None, None)
    library.call("gnograd_last_error", None, ctypes.c_int64(9), None)


def with_negative_sizes() -> None:
    """Call functions with one size that is negative, and write a line for each."""
    library, by_function = Library(), sizes()
    for _, function, parameters in functions():
        for size in by_function.get(function, ()):
            print(function, size, end=" ", flush=True)
            arguments = [
                ctypes.c_int64(-1) if name == size else library.argument(function, type_, name)
                for type_, name in parameters
            ]
            status = library.call(function, ctypes.c_int, *arguments)
            print(status, library.message(), sep="\t", flush=True)


def told(*arguments: str) -> list[str]:
    """Lines that this file writes as a program."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]} {done.stderr}"
    return lines


@needs_installation
def test_earlier_error_of_tape_stays() -> None:
    lines = told("earlier")
    assert len(lines) > 50
    assert [line for line in lines if not line.endswith(f"\t{EARLIER}")] == []


@needs_installation
def test_every_function_names_a_size_that_is_negative() -> None:
    lines = told("negative")
    assert len(lines) > 100
    wrong = []
    for line in lines:
        function, size, rest = line.split(" ", 2)
        status, message = rest.split("\t")
        named = re.fullmatch(rf"(\w+): {size} must be at least [01]", message)
        if not (named and named[1] in function and status != "0"):
            wrong.append(line)
    assert not wrong, "\n".join(wrong)


@needs_installation
def test_every_function_names_a_pointer_that_is_null() -> None:
    wrong = []
    for (result, function, _, pointer), line in zip(calls(), told(), strict=True):
        returned, message = line.removeprefix(f"{function} {pointer} ").split("\t")
        named = re.fullmatch(rf"(\w+): {pointer} is a null pointer", message)
        failed = {"int": "[^0].*", "int64_t": "0", "void": "None"}[result]
        if function == "gnograd_graph_is_ordered":
            failed = "0"
        if not (named and named[1] in function and re.fullmatch(failed, returned)):
            wrong.append(line)
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    if "negative" in sys.argv:
        needed()  # finds the module of declarations
        with_negative_sizes()
    else:
        main("earlier" in sys.argv)
