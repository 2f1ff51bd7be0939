# SPDX-License-Identifier: MIT
"""One call of an operator: checks of its arguments, sizes, memory for its results."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from gnograd.backends import backend_of, cpu, memory
from gnograd.graphs.graph import Graph
from gnograd.notation import shapes
from gnograd.notation.declaration import FACES, NOTHING, Signature

__all__ = ["Array", "Call", "TypeOfCall", "check_all_or_none", "kind_of", "known_sizes", "missing"]

Array: TypeAlias = Any
"""A NumPy array, or any array on a GPU that has ``__cuda_array_interface__``."""


class Call:
    """One call: its inputs checked, its sizes known, its backend chosen."""

    def __init__(
        self,
        name: str,
        signature: Signature,
        inputs: Sequence[Array],
        static: Mapping[str, Any],
        codes: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.signature = signature
        self._sizes: dict[str, Any] = known_sizes(static, signature)
        self._static = dict(codes)
        for argument, value in static.items():
            if isinstance(value, list):  # of integers; kernels get their address
                self._static[argument] = np.array(value, np.int64)
        self._checked: list[tuple[str, Array]] = []
        self._type = TypeOfCall(name)
        self._like: Array = None
        self._backend: ModuleType | None = None
        if not isinstance(inputs, tuple | list):
            raise TypeError(f"{name}: inputs is {kind_of(inputs)}, needs a tuple of arrays")
        self.inputs = self._arrays("", inputs, signature.inputs)
        check_all_or_none(name, signature, self.inputs)
        given = [static[name] for name in signature.arrays]
        self._static.update(
            zip(signature.arrays, self._arrays("", given, signature.arrays), strict=True)
        )
        if self._backend is None:
            raise TypeError(f"{name}: needs one of {', '.join(signature.inputs)}, got none of them")
        shapes.close(signature.inputs.values(), self._sizes)
        if signature.not_negative and self._backend is cpu:
            self._check_signs()

    def cotangents(self, cotangent: Array) -> tuple[Array, ...]:
        """Check the cotangents of the outputs. If there are several, some may be None."""
        outputs = self.signature.outputs
        if not all(self.signature.there) and not isinstance(cotangent, tuple | list):
            cotangent = (cotangent,)
        if len(outputs) > 1:
            every = self._of_every_output(cotangent, outputs)
            return self._arrays("cotangent of ", every, outputs, absent=True)
        (spec,) = outputs.values()
        if isinstance(cotangent, tuple | list) and len(cotangent) == 1:  # from adapters
            (cotangent,) = cotangent
        return (self._array("cotangent", cotangent, spec),)

    def tangents(self, tangents: Sequence[Array]) -> tuple[Array, ...]:
        """Check the tangents of the inputs, any of which may be None."""
        if isinstance(tangents, tuple | list):
            # the shape of an absent input is not known: this comes before the shapes
            for name, value, tangent in zip(
                self.signature.inputs, self.inputs, tangents, strict=False
            ):
                if tangent is not None and value is None:
                    raise ValueError(f"{self.name}: tangent of {name} is given, but {name} is None")
        return self._arrays("tangent of ", tangents, self.signature.inputs, absent=True)

    def saved(self, saved: Sequence[Array] | None) -> tuple[Array, ...]:
        """Check the arrays that the forward face saved; all None if `saved` is None.

        Those that the vjp of this backend does not read may be None.
        """
        if saved is None:
            return (None,) * len(self.signature.saved)
        unread = self.signature.not_read(
            "cpu" if self._backend is cpu else "cuda", self._type.dtype
        )
        specs = {
            name: f"{spec} or None" if name in unread and spec != "None" else spec
            for name, spec in self.signature.saved.items()
        }
        return self._arrays("saved ", saved, specs)

    def gradients(
        self, wanted: Collection[str], out: Sequence[Array] | Array = None
    ) -> tuple[Array, ...]:
        """Memory for the gradients of the wanted inputs that are present."""
        specs = {
            name: spec if name in wanted and value is not None else "None"
            for (name, spec), value in zip(self.signature.inputs.items(), self.inputs, strict=True)
        }
        return self.memory(specs, out)

    def memory(
        self, specs: Mapping[str, str], out: Sequence[Array] | Array = None, n: int | None = None
    ) -> tuple[Array, ...]:
        """Memory for results: the caller's if given, else new.

        Parameters
        ----------
        specs : dict
            Shapes of the results.
        out : tuple of array or array, optional
            One entry a result. A single result may be given as it is.
        n : int, optional
            Number of results that callers see, if not all.
        """
        if out is None:
            return tuple(None if spec == "None" else self.empty(spec) for spec in specs.values())
        if not isinstance(out, tuple | list):
            if n is None:
                n = sum(spec != NOTHING for spec in specs.values())
            if n != 1:
                raise TypeError(f"{self.name}: out is {kind_of(out)}, needs a tuple of {n} arrays")
            out = (out,)
        others = list(self._checked)
        out = self._of_every_output(out, specs)
        given = self._arrays("out for ", out, specs, absent=True)
        results: dict[str, Array] = {}
        for name, array, mine in zip(specs, out, given, strict=False):
            if array is not mine:
                raise ValueError(f"{self.name}: out for {name} is not contiguous")
            shared = name in self.signature.shared_gradient and any(
                array is results.get(f"out for {other}") for other in self.signature.shared_gradient
            )
            if array is not None and not shared:
                results[f"out for {name}"] = array
        memory.check_results(self.name, [*results.items()], others)
        return tuple(
            self.empty(spec) if array is None and spec != "None" else array
            for array, spec in zip(given, specs.values(), strict=True)
        )

    def empty(self, spec: str) -> Array:
        """Memory for a result."""
        assert self._backend is not None
        return self._backend.empty(
            shapes.shape_of(spec, self._sizes), shapes.dtype_of(spec, self._type.dtype), self._like
        )

    def results(self, return_saved: bool, out: Sequence[Array] | Array) -> tuple[Array, ...]:
        """Memory for the outputs, and for the other saved arrays if wanted and needed."""
        own = self.signature.own_saved
        kept = {name: spec for name, spec in own.items() if return_saved and spec != "None"}
        wanted = {**self.signature.outputs, **kept}
        n = sum(self.signature.there)
        arrays = dict(zip(wanted, self.memory(wanted, out, n), strict=True))
        return tuple(arrays.get(name) for name in (*self.signature.outputs, *own))

    def _of_every_output(self, arrays: Sequence[Array], specs: Mapping[str, str]) -> Any:
        """One entry an output: put in None for absent outputs, which adapters have done already."""
        missing = [spec == NOTHING for spec in specs.values()]
        if not isinstance(arrays, tuple | list) or len(arrays) > len(specs) - sum(missing):
            return arrays
        rest = iter(arrays)
        return [None if is_missing else next(rest, None) for is_missing in missing]

    @property
    def leading(self) -> tuple[int, ...]:
        """Lengths of the leading (batch) axes."""
        lengths: tuple[int, ...] = self._sizes["*"]
        return lengths

    @property
    def places_of_saved(self) -> tuple[int, ...]:
        """Positions of the saved arrays among `results`."""
        names = [*self.signature.outputs, *self.signature.own_saved]
        return tuple(map(names.index, self.signature.saved))

    @functools.cached_property
    def _arguments(self) -> list[Any]:
        """Graphs, sizes and numbers that the kernels take before the arrays."""
        return [
            self._static[word] if word in self._static else shapes.number(word, self._sizes)
            for word in self.signature.arguments.split()
        ]

    def run(self, face: str, results: Sequence[Array], **given: Sequence[Array]) -> None:
        """Call the kernel; arrays besides inputs and results are given by their groups."""
        assert self._backend is not None
        arguments = self._arguments
        found = self._backend.faults(self.name, arguments, len(self.signature.faults))
        for item, (error, message) in zip(found, self.signature.faults, strict=False):
            if item >= 0:
                raise error(f"{self.name}: {message.format(item)}")
        given["inputs"] = self.inputs
        arrays = [array for group in FACES[face] for array in given.get(group, ())]
        self._backend.run(self.name, face, self._type.dtype, [*arguments, *arrays, *results])

    def prepared(self, face: str, n_absent: int, results: Sequence[Array]) -> Any:
        """Prepared call for later calls of this kind; None where each needs checks of its own.

        Parameters
        ----------
        face : str
        n_absent : int
            Number of absent arrays between those that callers give and the results.
        results : sequence of array
            Examples of the results.
        """
        # only the first argument may be another graph of the same sizes; signs are checked every
        # time on a CPU, and on a GPU items of static arrays
        more_graphs = any(isinstance(argument, Graph) for argument in self._arguments[1:])
        checks = self.signature.not_negative if self._backend is cpu else self.signature.faults
        if more_graphs or checks:
            return None
        assert self._backend is not None
        saved = self.places_of_saved if face == "forward" else ()
        function = self.name, face, self._type.dtype
        return self._backend.prepare(
            function, self._arguments, n_absent, results, saved, self._like
        )

    def _arrays(
        self, label: str, arrays: Sequence[Array], specs: Mapping[str, str], absent: bool = False
    ) -> tuple[Array, ...]:
        """Check one array for every spec; trailing optional arrays may be left out."""
        if not isinstance(arrays, tuple | list):
            raise TypeError(f"{self.name}: {label}{next(iter(specs), '')} needs a tuple of arrays")
        if len(arrays) > len(specs):
            raise TypeError(
                f"{self.name}: {len(arrays)} arrays were given for {label}{', '.join(specs)}"
            )
        padded = [*arrays, *[None] * (len(specs) - len(arrays))]
        return tuple(
            None
            if array is None and (absent or shapes.parse(spec).optional)
            else self._array(label + name, array, spec)
            for (name, spec), array in zip(specs.items(), padded, strict=True)
        )

    def _array(self, label: str, array: Array, spec: str) -> Array:
        """Check one array against its spec and the sizes found in the arrays before it."""
        if array is None:
            raise missing(self.name, label, spec, self._sizes)
        try:
            backend = backend_of(array)
        except RuntimeError as error:
            raise RuntimeError(f"{self.name}: {label} is on a GPU, but {error}") from None
        if backend is None:
            raise TypeError(
                f"{self.name}: {label} is {kind_of(array)}, needs an array{_place_of(array)}"
            )
        if backend is cpu:
            cpu.refuse_mask(self.name, label, array)
            if not label.startswith("out for "):
                array = cpu.native(array)
        self._checked.append((label, array))
        shape, dtype = backend.describe(array)
        if self._backend is None:
            self._like = array
        self._check_kind(label, backend, dtype, spec)
        shapes.match(f"{self.name}: {label}", shape, spec, self._sizes)
        return backend.contiguous(array)

    def _check_signs(self) -> None:
        for name, array in zip(self.signature.inputs, self.inputs, strict=True):
            if name not in self.signature.not_negative or array is None:
                continue
            if array.min(initial=0) < 0:
                place = np.unravel_index(np.nanargmin(array), array.shape)
                entry = f"{name}[{', '.join(map(str, place))}]"
                raise ValueError(
                    f"{self.name}: {entry} is {array[place]}, needs a number that is not negative"
                )

    def _check_kind(self, label: str, backend: ModuleType, dtype: str, spec: str) -> None:
        """Check device and dtype: those of the first array, unless the dtype is prescribed."""
        if self._backend is not None and backend is not self._backend:
            raise TypeError(
                f"{self.name}: {self._type.label} is on the {self._backend.DEVICE} "
                f"but {label} is on the {backend.DEVICE}"
            )
        if self._type.check(label, dtype, spec) and dtype not in backend.SUFFIXES:
            raise TypeError(
                f"{self.name}: {label} is {dtype}, needs {' or '.join(backend.SUFFIXES)}"
            )
        self._backend = backend


class TypeOfCall:
    """The dtype of a call: that of the first array for which none is prescribed.

    Before there is such an array, ``real`` arrays determine the dtype of the arithmetic.
    """

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.label = ""
        """Label of the array that determined `dtype`."""
        self.dtype = ""
        self._prescribed = ""

    def check(self, label: str, dtype: str, spec: str) -> bool:
        """Check the dtype of one more array. True if it determines the dtype of the call."""
        prescribed = shapes.parse(spec).dtype
        tells = not self.label or bool(self._prescribed and not prescribed)
        if self.label:
            of_call = dtype if tells else self.dtype
            judged = (self.label, self.dtype, self._prescribed) if tells else (label, dtype, spec)
            needed = shapes.dtype_of(judged[2], of_call)
            if judged[1] != needed == of_call:
                raise TypeError(
                    f"{self.operator}: {self.label} is {self.dtype} but {label} is {dtype}"
                )
            if judged[1] != needed:
                raise TypeError(f"{self.operator}: {judged[0]} is {judged[1]}, needs {needed}")
        if tells:
            self.label, self.dtype, self._prescribed = label, dtype, prescribed
        return tells


def check_all_or_none(operator: str, signature: Signature, inputs: Sequence[Any]) -> None:
    """Raise ValueError if only some of the inputs `Signature.all_or_none` are given."""
    given = dict(zip(signature.inputs, inputs, strict=False))
    absent = [name for name in signature.all_or_none if given.get(name) is None]
    if absent and len(absent) < len(signature.all_or_none):
        raise ValueError(
            f"{operator}: {' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} missing: "
            f"{', '.join(signature.all_or_none)} go together"
        )


def missing(operator: str, label: str, spec: str, sizes: Mapping[str, int]) -> TypeError:
    """Error for a missing array."""
    readable = shapes.readable(spec, sizes)
    return TypeError(f"{operator}: {label} is missing, needs an array of shape {readable}")


def known_sizes(static: Mapping[str, Any], signature: Signature) -> dict[str, int]:
    """Sizes that follow from the static arguments."""
    sizes = {name: value for name, value in static.items() if type(value) is int}
    graph = static.get("graph")
    if graph is not None:
        sizes.update(n_src=graph.n_src, n_dst=graph.n_dst, n_edges=graph.n_edges)
    sizes.update(signature.sizes)
    return sizes


def kind_of(value: object) -> str:
    """Description of a wrong argument for messages: None, or its type."""
    return "None" if value is None else f"of type {type(value).__name__}"


def _place_of(value: object) -> str:
    """End of a message: the module that takes arrays of PyTorch or JAX; empty for others."""
    library = type(value).__module__.partition(".")[0]
    if library in ("torch", "jax", "jaxlib"):
        return f"; gnograd.{library.removesuffix('lib')} takes those of {library}"
    return ""
