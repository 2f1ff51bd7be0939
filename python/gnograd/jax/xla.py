# SPDX-License-Identifier: MIT
"""XLA's foreign function interface, through which Python functions become targets of XLA.

XLA calls a target with one pointer, to a *call frame*: addresses of operands and results,
attributes, and a table of functions to report errors and to ask for the stream. Its layout is a
stable C interface (``xla/ffi/api/c_api.h``, in ``jax.ffi.include_dir()``). This module declares the
fields in use, all of version 0.1. XLA asks a target for its version when it is registered, and
refuses versions that it does not understand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
    cast,
    sizeof,
    string_at,
)
from typing import Any, ClassVar, NamedTuple

import jax.ffi

__all__ = ["Buffer", "Call", "register"]

_VERSION = 0, 1
_EXECUTE = 3  # stage
_METADATA = 1  # extension
_STRING = 4  # attribute
_DTYPES = {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16",
    8: "uint32", 9: "uint64", 10: "float16", 11: "float32", 12: "float64", 16: "bfloat16",
}  # fmt: skip
_INVALID_ARGUMENT, _RESOURCE_EXHAUSTED, _UNIMPLEMENTED, _INTERNAL = 3, 8, 12, 13
_CODES = {
    ValueError: _INVALID_ARGUMENT,
    TypeError: _INVALID_ARGUMENT,
    IndexError: _INVALID_ARGUMENT,
    MemoryError: _RESOURCE_EXHAUSTED,
    NotImplementedError: _UNIMPLEMENTED,
}


# ---- the C interface; all structures begin with their size and a list of extensions ----


class _Head(Structure):
    _fields_: ClassVar[Sequence[tuple[str, Any]]] = (("size", c_size_t), ("extensions", c_void_p))


class _Buffer(_Head):
    _fields_ = (
        ("dtype", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    )


class _Buffers(_Head):
    _fields_ = (("n", c_int64), ("types", c_void_p), ("buffers", POINTER(POINTER(_Buffer))))


class _Bytes(Structure):
    _fields_ = (("data", c_void_p), ("length", c_size_t))


class _Attributes(_Head):
    _fields_ = (
        ("n", c_int64),
        ("types", POINTER(c_int)),
        ("names", c_void_p),
        ("strings", POINTER(POINTER(_Bytes))),
    )


class _Version(_Head):
    _fields_ = (("major", c_int), ("minor", c_int))


class _Extension(Structure):
    _fields_: ClassVar[Sequence[tuple[str, Any]]] = (
        ("size", c_size_t),
        ("type", c_int),
        ("next", c_void_p),
    )


class _Metadata(Structure):
    _fields_ = (("size", c_size_t), ("version", _Version), ("traits", c_uint32))


class _MetadataExtension(_Extension):
    _fields_ = (("metadata", POINTER(_Metadata)),)


class _ErrorCreate(_Head):
    _fields_ = (("message", c_char_p), ("code", c_int))


class _ErrorDestroy(_Head):
    _fields_ = (("error", c_void_p),)


class _StreamGet(_Head):
    _fields_ = (("context", c_void_p), ("stream", c_void_p))


class _Allocate(_Head):
    _fields_ = (
        ("context", c_void_p),
        ("bytes", c_size_t),
        ("alignment", c_size_t),
        ("data", c_void_p),
    )


class _Free(_Head):
    _fields_ = (("context", c_void_p), ("bytes", c_size_t), ("data", c_void_p))


_Function = CFUNCTYPE(c_void_p, c_void_p)
"""Type of XLA's functions: they take a pointer to their arguments, and return an error or null."""


class _Api(_Head):
    _fields_ = (
        ("version", _Version),
        ("internal", c_void_p),
        ("error_create", _Function),
        ("error_get_message", c_void_p),
        ("error_destroy", _Function),
        ("handler_register", c_void_p),
        ("stream_get", _Function),
        ("type_register", c_void_p),
        ("context_get", c_void_p),
        ("state_set", c_void_p),
        ("state_get", c_void_p),
        ("allocate", _Function),
        ("free", _Function),
    )


class _CallFrame(_Head):
    _fields_ = (
        ("api", POINTER(_Api)),
        ("context", c_void_p),
        ("stage", c_int),
        ("operands", _Buffers),
        ("results", _Buffers),
        ("attributes", _Attributes),
    )


# ---- the Python side ----


class Buffer(NamedTuple):
    """Address, shape and dtype of an array in C order, which XLA owns."""

    address: int
    shape: tuple[int, ...]
    dtype: str


class Call:
    """One call of a target, valid until the target returns.

    Attributes
    ----------
    attribute : bytes
        The one attribute, a string.
    operands, results : list of Buffer
    """

    def __init__(self, frame: _CallFrame) -> None:
        self._frame = frame
        if frame.attributes.n != 1 or frame.attributes.types[0] != _STRING:
            raise RuntimeError("gnograd: this program was made for another version")
        text = frame.attributes.strings[0].contents
        self.attribute = string_at(text.data, text.length)
        self.operands = _buffers(frame.operands)
        self.results = _buffers(frame.results)

    @property
    def stream(self) -> int:
        """The CUDA stream to compute on."""
        arguments = _StreamGet(sizeof(_StreamGet), None, self._frame.context)
        self._ask("stream_get", arguments, "there is no stream")
        return arguments.stream or 0

    def allocate(self, size: int) -> int:
        """Allocate bytes on the device, valid for the work given to the stream."""
        arguments = _Allocate(sizeof(_Allocate), None, self._frame.context, size, 256)
        self._ask("allocate", arguments, f"no memory for {size} bytes")
        return arguments.data or 0

    def free(self, address: int, size: int) -> None:
        """Free memory of `allocate`, which work on the stream may still use."""
        arguments = _Free(sizeof(_Free), None, self._frame.context, size, address)
        self._ask("free", arguments, "memory could not be freed")

    def _ask(self, function: str, arguments: Structure, otherwise: str) -> None:
        api = self._frame.api.contents
        error = getattr(api, function)(cast(byref(arguments), c_void_p))
        if error:
            destroy = _ErrorDestroy(sizeof(_ErrorDestroy), None, error)
            api.error_destroy(cast(byref(destroy), c_void_p))
            raise MemoryError(otherwise) if function == "allocate" else RuntimeError(otherwise)


def register(name: str, platform: str, function: Callable[[Call], None]) -> None:
    """Make a function a target of XLA.

    Parameters
    ----------
    name : str
    platform : {"cpu", "CUDA"}
    function : callable
        Reads the operands of a `Call` and writes its results. Its exceptions become errors of XLA
        with the same message. It may be called in any thread.
    """

    def target(frame_address: int) -> int | None:
        frame = cast(frame_address, POINTER(_CallFrame)).contents
        if frame.extensions:
            _tell_version(frame.extensions)
        elif frame.stage == _EXECUTE:
            try:
                function(Call(frame))
            except BaseException as error:  # exceptions must not reach C
                return _error(frame, error)
        return None

    callback = _targets[name, platform] = _Function(target)
    capsule = jax.ffi.pycapsule(cast(callback, c_void_p).value)
    jax.ffi.register_ffi_target(name, capsule, platform=platform)


_targets: dict[tuple[str, str], Any] = {}
"""Registered functions, kept alive here since XLA only has their addresses."""


def _tell_version(extension_address: int) -> None:
    address: int | None = extension_address
    while address:
        extension = cast(address, POINTER(_MetadataExtension)).contents
        if extension.type == _METADATA:
            metadata = extension.metadata.contents
            metadata.version.major, metadata.version.minor = _VERSION
            metadata.traits = 0  # must not be captured in CUDA graphs
        address = extension.next


def _error(frame: _CallFrame, error: BaseException) -> int | None:
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), _INTERNAL)
    message = str(error) if code != _INTERNAL else f"{type(error).__name__}: {error}"
    arguments = _ErrorCreate(sizeof(_ErrorCreate), None, message.encode(errors="replace"), code)
    created: int | None = frame.api.contents.error_create(cast(byref(arguments), c_void_p))
    return created


def _buffers(found: _Buffers) -> list[Buffer]:
    buffers = []
    for pointer in found.buffers[: found.n]:
        buffer = pointer.contents
        shape = tuple(buffer.dims[: buffer.rank])
        dtype = _DTYPES.get(buffer.dtype, f"of XLA's type {buffer.dtype}")
        buffers.append(Buffer(buffer.data or 0, shape, dtype))
    return buffers
