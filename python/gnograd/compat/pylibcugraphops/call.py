# SPDX-License-Identifier: MIT
"""One call of the old interface: checks of the caller's arrays, and the call of a kernel.

A kernel reads and writes the caller's memory directly. If it needs another dtype (float16 on the
CPU, locations in int32), or if results are added to present values, it works in a copy, which is
written back at the end.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any, ParamSpec

from gnograd.backends import backend_of, cpu, cuda_arrays, memory
from gnograd.compat.arrays import array_of
from gnograd.compat.pylibcugraphops.graph import Csc
from gnograd.faces.operator import Array
from gnograd.notation import shapes

__all__ = ["Call", "function"]

FLOATS = ("float32", "float64", "float16", "bfloat16")
P = ParamSpec("P")


def function(
    body: Callable[[Call], None],
    name: str = "",
    also: Mapping[str, str] = MappingProxyType({}),
    dtypes: tuple[str, ...] = FLOATS,
    mixed: bool = False,
    **roles: str,
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Make a function from a declaration without a body.

    Parameters
    ----------
    body : callable
        Common body of several functions; it accesses arguments by their roles.
    name : str
        Name of the function, if it is not that of the declaration.
    also : dict
        Aliases of arguments.
    dtypes, mixed
        As for `Call`.
    **roles : str
        Names of arguments by role, where they differ.
    """

    def decorate(declaration: Callable[P, None]) -> Callable[P, None]:
        signature = inspect.signature(declaration)
        own_name = name or declaration.__name__

        @functools.wraps(declaration)
        def call(*args: P.args, **kwargs: P.kwargs) -> None:
            named = {also.get(name, name): value for name, value in kwargs.items()}
            try:
                given = signature.bind(*args, **named)
            except TypeError as error:
                raise TypeError(f"{own_name}: {error}") from None
            given.apply_defaults()
            body(Call(own_name, given.arguments, roles, dtypes, mixed))

        call.__name__ = call.__qualname__ = own_name
        return call

    return decorate


class Call:
    """Checks arrays one by one, in the notation of `gnograd.notation.shapes`, then runs a kernel.

    Parameters
    ----------
    name : str
        The function called, for messages.
    arguments : dict
        Arguments of the call.
    roles : dict
        Names of arguments by role, where they differ.
    dtypes : tuple of str
        Accepted dtypes; the first array determines that of the others.
    mixed : bool
        True if some arrays may be float32 beside others in half precision; arithmetic is then
        float32.

    Attributes
    ----------
    sizes : dict
        Known lengths of dimensions.
    """

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Any],
        roles: Mapping[str, str],
        dtypes: tuple[str, ...],
        mixed: bool,
    ) -> None:
        self.name = name
        self.sizes: dict[str, int] = {}
        self._arguments = arguments
        self._roles = roles
        self._dtypes = dtypes
        self._mixed = mixed
        self._dtype = ""
        self._first = ""
        self._backend: ModuleType = cpu
        self._read: list[tuple[str, Array]] = []
        self._written: list[tuple[str, Array]] = []
        self._staged: list[tuple[Array, Array, bool]] = []
        for label, value in arguments.items():
            cpu.refuse_mask(name, label, value)
        if "graph" in arguments:
            graph = arguments["graph"]
            if not isinstance(graph, Csc):
                raise TypeError(
                    f"{name}: graph is of type {type(graph).__name__}, "
                    "needs what make_csc or make_bipartite_csc gives"
                )
            self.sizes.update(
                n_src=graph.n_src_nodes, n_dst=graph.n_dst_nodes, n_edges=graph.n_indices
            )

    @property
    def scores_dtype(self) -> str:
        """Dtype of attention scores: at least float32."""
        return "float64" if self._dtype == "float64" else "float32"

    def get(self, role: str) -> Any:
        """An argument as given; None if the function does not have it."""
        return self._arguments.get(self._roles.get(role, role))

    def has(self, role: str) -> bool:
        """True if the function has such an argument."""
        return self._roles.get(role, role) in self._arguments

    def wants(self, *roles: str) -> bool:
        """True if any of these outputs is wanted."""
        return any(self.get(role) is not None for role in roles)

    def read(
        self, role: str, spec: str, dtype: str = "", needed: bool = True, real: bool = False
    ) -> Array:
        """An input in the form of the kernel; None if the function does not have it.

        If `real`, it is converted to the precision of the arithmetic.
        """
        found = self._check(role, spec, dtype, needed)
        if found is None:
            return None
        label, array, dtype = found
        self._read.append((label, array))
        wanted = self._kernel_dtype(dtype, real)
        if wanted == dtype:
            return self._backend.contiguous(array, stream=self._stream)
        converted = self._empty_like(array, wanted)
        self._backend.assign(converted, array, stream=self._stream)
        return converted

    def write(
        self,
        role: str,
        spec: str,
        dtype: str = "",
        needed: bool = False,
        add: bool = False,
        real: bool = False,
    ) -> Array:
        """Memory for an output: the caller's own if the kernel can write to it."""
        found = self._check(role, spec, dtype, needed)
        if found is None:
            return None
        label, array, dtype = found
        if not self._backend.is_contiguous(array):
            raise ValueError(f"{self.name}: {label} is not contiguous")
        self._written.append((label, array))
        wanted = self._kernel_dtype(dtype, real)
        if wanted == dtype and not add:
            return array
        staged = self._empty_like(array, wanted)
        self._staged.append((array, staged, add))
        return staged

    def scratch(self, like: Array, n_rows: int) -> Array:
        """Temporary memory for `n_rows` rows like those of a result."""
        (_, *columns), dtype = self._backend.describe(like)
        return self._backend.empty((n_rows, *columns), dtype, like, stream=self._stream)

    def add_rows(self, target: Array, rows: Array) -> None:
        """Add to the first rows of a result."""
        shape, _ = self._backend.describe(rows)
        if self._backend is cpu:
            first = target[: shape[0]]
        else:  # arrays with the interface alone have no slices
            _, dtype = self._backend.describe(target)
            first = cuda_arrays.DeviceArray(shape, dtype, target, cuda_arrays.address(target))
        self._backend.assign(first, rows, add=True, stream=self._stream)

    def compute(self, operator: str, face: str, *arguments: Any) -> None:
        """Run a kernel; its arguments are in the order of the C interface."""
        memory.check_results(self.name, self._written, self._read)
        dtype = self._kernel_dtype(self._dtype)
        self._backend.run(operator, face, dtype, arguments, stream=self._stream)

    def store(self) -> None:
        """Write copies back to outputs that kernels could not write to directly."""
        for array, staged, add in self._staged:
            self._backend.assign(array, staged, add=add, stream=self._stream)

    @property
    def _stream(self) -> int:
        return int(self._arguments.get("stream_id", self._arguments.get("cuda_stream", 0)))

    def _check(
        self, role: str, spec: str, dtype: str, needed: bool
    ) -> tuple[str, Array, str] | None:
        """Name, array and dtype, after all checks that do not depend on its use."""
        if not self.has(role):
            return None
        label, value = self._roles.get(role, role), self.get(role)
        if value is None:
            if needed:
                raise ValueError(
                    f"{self.name}: {label} is missing, needs an array of shape "
                    + shapes.readable(spec, self.sizes)
                )
            return None
        array = array_of(value)
        backend = None if array is None else backend_of(array)
        if array is None or backend is None:
            raise TypeError(
                f"{self.name}: {label} is of type {type(value).__name__}, needs an array"
            )
        shape, actual = backend.describe(array)
        self._check_kind(label, backend, actual, dtype)
        shapes.match(f"{self.name}: {label}", shape, spec, self.sizes)
        return label, array, actual

    def _empty_like(self, array: Array, dtype: str) -> Array:
        shape, _ = self._backend.describe(array)
        return self._backend.empty(shape, dtype, array, stream=self._stream)

    def _check_kind(self, label: str, backend: ModuleType, dtype: str, needed: str) -> None:
        if self._first and backend is not self._backend:
            raise TypeError(
                f"{self.name}: {self._first} is on the {self._backend.DEVICE} "
                f"but {label} is on the {backend.DEVICE}"
            )
        allowed = (needed or self._dtype,) if needed or self._dtype else self._dtypes
        if dtype not in allowed:
            raise TypeError(f"{self.name}: {label} is {dtype}, needs {' or '.join(allowed)}")
        if not self._first:
            self._first, self._backend = label, backend
        if not needed:
            self._dtype = dtype

    def _kernel_dtype(self, dtype: str, real: bool = False) -> str:
        """Dtype of the kernel for numbers of the caller's dtype."""
        if dtype.startswith("int"):
            return "int64"
        half = dtype in ("float16", "bfloat16")
        same = dtype in self._backend.SUFFIXES and not self._mixed and not (real and half)
        return dtype if same else "float32"
