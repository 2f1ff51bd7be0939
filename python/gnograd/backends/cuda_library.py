# SPDX-License-Identifier: MIT
"""libgnograd_cuda.so: its location, functions and status codes.

It is in the package itself if that was built with nvcc, else in a wheel of its own, gnograd-cu13
or gnograd-cu12, which holds nothing else and has no code to import.

The functions of operators are bound from the prototypes that the library returns
(``gnograd_cuda_prototypes``), so that this module knows no operator.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import importlib.resources
import os
import re
from collections.abc import Callable
from ctypes import byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["ABSENT", "PLUGINS", "RUNTIME", "Face", "Library", "devices", "find", "library"]

RUNTIME = """
int abi_version(void)
const char *error_string(int status)
const char *prototypes(void)
int device_count(int *n)
int device_name(int device, int64_t length, char *name)
int device_usable(int device)
int device_of(const void *memory, int *device)
int current_device(int *device)
int use_device(int device)
int allocate(size_t bytes, void **memory, void *stream)
int free(void *memory, void *stream)
int hold(size_t bytes, const void *from, void **memory)
int release(void *memory)
int copy(void *to, const void *from, size_t bytes, void *stream)
int synchronize(void *stream)
int wait(void *stream, void *other, int device)
int use_tf32(int on)
int assign(int n_dims, const int64_t *shape, void *to, int to_type, const int64_t *to_strides, \
const void *from, int from_type, const int64_t *from_strides, int add, void *stream)
"""
"""Functions that belong to no operator, as gnograd_cuda.h declares them, without the prefix."""

PLUGINS = ("gnograd-cu13", "gnograd-cu12")
"""Wheels with the library alone, for the CUDA of their name; the first one installed is used."""

ABSENT = f"gnograd was built without CUDA kernels; the wheel {PLUGINS[0]} has them"

_ABI_VERSION = 4
_EXCEPTIONS = {-4: NotImplementedError, -2: ValueError, 2: MemoryError}
_SCALARS = {"int": c_int, "int64_t": c_int64, "size_t": c_size_t, "double": c_double}


class Face(NamedTuple):
    """The two functions of one face of an operator for one dtype."""

    n_sizes: int
    """Number of arguments before the arrays: graphs, sizes and codes."""
    n_arrays: int
    workspace_bytes: Callable[..., int]
    launch: Callable[..., int]


class Library:
    """The functions of the library by their names without ``gnograd_cuda_``.

    Attributes
    ----------
    faces : dict
        Functions of operators, by names like ``"agg_weighted_forward_f32"``.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise RuntimeError(f"the CUDA kernels cannot be loaded: {error}") from None
        self._functions = {}
        for line in RUNTIME.strip().splitlines():
            result, name, arguments = re.fullmatch(r"(.*?)(\w+)\((.*)\)", line).groups()  # type: ignore[union-attr]
            self._functions[name] = self._bind(
                name, _argument_types(arguments), c_char_p if "*" in result else c_int
            )
        version = self._functions["abi_version"]()
        if version != _ABI_VERSION:
            raise RuntimeError(
                f"{path} has version {version} of the interface, needs {_ABI_VERSION}"
            )
        self.faces = dict(map(self._face, self._functions["prototypes"]().decode().splitlines()))

    def _bind(self, name: str, arguments: list[Any], result: Any) -> Any:
        function = self._library[f"gnograd_cuda_{name}"]
        function.argtypes, function.restype = arguments, result
        return function

    def _face(self, prototype: str) -> tuple[str, Face]:
        """Bind one line of prototypes: ``name_type(sizes and codes; arrays)``."""
        name, sizes, arrays = re.fullmatch(r"(\w+)\((.*); (.*)\)", prototype).groups()  # type: ignore[union-attr]
        head, tail = _argument_types(sizes), _argument_types(arrays)
        stem, _, dtype = name.rpartition("_")
        return name, Face(
            len(head),
            len(tail),
            self._bind(f"{stem}_workspace_bytes_{dtype}", head, c_size_t),
            self._bind(name, [*head, *tail, c_void_p, c_size_t, c_void_p], c_int),
        )

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Function that belongs to no operator; it raises the error of its status code."""
        if name not in self._functions:
            raise AttributeError(name)
        function = self._functions[name]
        call = functools.partial(self._call, function)
        self.__dict__[name] = call
        return call

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        self.check(function(*arguments))

    def check(self, status: int, operator: str = "CUDA") -> None:
        """Raise the error behind a status code, with the operator's name in front."""
        if status:
            kind = _EXCEPTIONS.get(status, RuntimeError)
            raise kind(f"{operator}: {self.message(status)}")

    def message(self, status: int) -> str:
        """Text for a status code."""
        text: bytes = self._functions["error_string"](status)
        return text.decode(errors="replace")

    def integer(self, name: str, *arguments: Any) -> int:
        """Result of a function that writes one integer behind its last pointer."""
        value = c_int()
        getattr(self, name)(*arguments, byref(value))
        return value.value


def _argument_types(arguments: str) -> list[Any]:
    """Types of C parameters; all pointers are alike."""
    if arguments == "void":
        return []
    return [
        c_void_p if "*" in argument else _SCALARS[argument.split()[0]]
        for argument in arguments.split(", ")
    ]


def find() -> Path | None:
    """The library; ``GNOGRAD_CUDA_LIBRARY`` names another one, or, left empty, none."""
    named = os.environ.get("GNOGRAD_CUDA_LIBRARY")
    if named is not None:
        return _path(named) if named else None
    return _installed()


_path = functools.lru_cache(Path)


@functools.cache
def _installed() -> Path | None:
    # in an editable installation it is in the build folder
    path = importlib.resources.files("gnograd") / "lib" / "libgnograd_cuda.so"
    if path.is_file():
        return Path(str(path))
    plugin = _plugin()
    return plugin.path if plugin else None


class _Plugin(NamedTuple):
    name: str
    version: str
    path: Path


@functools.cache
def _plugin() -> _Plugin | None:
    for name in PLUGINS:
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        path = found.locate_file(f"{name.replace('-', '_')}/libgnograd_cuda.so")
        return _Plugin(name, found.version, Path(str(path)))
    return None


@functools.cache
def library() -> Library:
    """The library, loaded when it is first needed.

    Raises
    ------
    RuntimeError
        There is none, or it does not fit this package.
    """
    path = find()
    if path is None:
        raise RuntimeError(ABSENT)
    plugin, own = _plugin(), importlib.metadata.version("gnograd")
    if plugin and path == plugin.path and plugin.version != own:
        raise RuntimeError(
            f"{plugin.name} {plugin.version} is for gnograd {plugin.version}, and this is {own}: "
            f"pip install {plugin.name}=={own}"
        )
    return Library(path)


def devices() -> tuple[list[str], str]:
    """Names of the GPUs that can be used, and the reason why others, or all, cannot."""
    if find() is None:
        return [], "built without CUDA kernels"
    try:
        cuda = library()
        count = cuda.integer("device_count")
    except RuntimeError as error:
        return [], str(error).removeprefix("CUDA: ")
    names, reasons = [], []
    for device in range(count):
        text = ctypes.create_string_buffer(256)
        cuda.device_name(device, len(text), text)
        name = text.value.decode(errors="replace")
        try:
            cuda.device_usable(device)
        except RuntimeError as error:
            reasons.append(f"{name}: {str(error).removeprefix('CUDA: ')}")
        else:
            names.append(name)
    return names, "; ".join(reasons)
