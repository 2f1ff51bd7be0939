# SPDX-License-Identifier: MIT
"""What every operator is: four faces over one declaration.

A `Function` has the forward face alone, an `Operator` all four. Either is declared by a function
without a body, whose positional arguments are the (differentiable) inputs and whose keyword
arguments are static, and by a `Declaration` of what the kernels take. Everything else is
written once, here: checks of type, dtype, device and shape, memory for the results, and the order
of arguments, which is the same for all kernels. Static arguments are converted by the types they
are declared with (`gnograd.static`)::

    forward   arguments, inputs, outputs, saved
    vjp       arguments, cotangents, inputs, saved, gradients
    jvp       arguments, inputs, tangents, output tangents
    hvp       arguments, cotangents, inputs, tangents, gradient tangents

The checks of a call on a CPU hold for all calls with the same static arguments, dtypes and shapes,
so what they have found out is kept for these (`gnograd.recent`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, Generic, ParamSpec, TypeAlias, cast

import numpy as np

from gnograd import shapes
from gnograd.backends import backend_of, cpu, memory
from gnograd.declaration import Declaration, Signature
from gnograd.graph import Graph
from gnograd.recent import Recent, key_of
from gnograd.shapes import Shape
from gnograd.static import Limits, converter

__all__ = ["Array", "Function", "Operator", "function", "known_sizes", "operator", "spread"]

Array: TypeAlias = Any
"""A NumPy array, or any array on a GPU that has ``__cuda_array_interface__``."""
P = ParamSpec("P")
_KINDS_OF_CALLS = 64
"""For so many, at least, an operator knows the checks to hold."""


def operator(
    *,
    choices: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    limits: Mapping[str, Limits] = MappingProxyType({}),
    kind: type[Operator[Any]] | None = None,
    **shapes: Any,
) -> Callable[[Callable[P, Array]], Operator[P]]:
    """Make an operator of a function without a body.

    Parameters
    ----------
    choices : dict of dict
        Static arguments that are chosen by name, and the codes of their choices.
    limits : dict of Limits
        What static integers may be.
    kind : type, optional
        `Operator`, or what extends it.
    **shapes
        Those of `Declaration`.
    """
    made = Operator if kind is None else kind
    return lambda function: made(function, Declaration(**shapes), choices, limits)


def function(
    *,
    choices: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    limits: Mapping[str, Limits] = MappingProxyType({}),
    **shapes: Any,
) -> Callable[[Callable[P, Array]], Function[P]]:
    """Make a function that has no derivatives; arguments as for `operator`."""
    return lambda function: Function(function, Declaration(**shapes), choices, limits)


class Function(Generic[P]):
    """A function of arrays without derivatives.

    ``y = function(*inputs, **static)`` is the value. Inputs are all float32 or all float64, all on
    the CPU (NumPy) or all on one GPU, where many kernels take float16 and bfloat16 too.

    Attributes
    ----------
    inputs : tuple of str
        Names of the inputs, in order.
    static : dict
        Static arguments and their defaults, `inspect.Parameter.empty` where there is none.
    arrays : tuple of str
        Names of the static arguments that are arrays.
    lists : tuple of str
        Names of the static arguments that are lists of integers.
    n_outputs : int
        How many outputs there are.

    Raises
    ------
    TypeError
        An argument missing or unknown, not an array, of another dtype or device than the first; a
        static argument of another type than declared.
    ValueError
        A shape that does not fit, a static argument that is none of its choices or outside its
        limits; memory for results that is read-only or shared with another array of the call.
    MemoryError
        Temporary memory could not be had.
    NotImplementedError
        The arrays are on a GPU, and there is no kernel for them.
    """

    _replaced: Collection[str] = ()
    """Static arguments of the declaration that `complete` puts others in place of."""

    def __init__(
        self,
        function: Callable[P, Array],
        declaration: Declaration,
        choices: Mapping[str, Mapping[str, int]],
        limits: Mapping[str, Limits],
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = function.__name__
        self.declaration = declaration
        declared = inspect.signature(function)
        parameters = declared.parameters.values()
        self.inputs = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        self.static = {
            p.name: p.default
            for p in parameters
            if p.kind is p.KEYWORD_ONLY and p.name not in self._replaced
        }
        self.arrays = tuple(
            name
            for name in self.static
            if str(declared.parameters[name].annotation).startswith("Array")
        )
        self.lists = tuple(
            name
            for name in self.static
            if str(declared.parameters[name].annotation) == "Sequence[int]"
        )
        self.n_outputs = str(declared.return_annotation).count("Array")
        self._choices = choices
        self._converters = {
            name: self._converter(name, str(declared.parameters[name].annotation), limits)
            for name in self.static
            if name not in self.arrays
        }
        self._rules = [
            (name, default, self._converters.get(name)) for name, default in self.static.items()
        ]
        self._absent = (None,) * len(self.inputs)
        self._names = frozenset(self.inputs)
        self._known = Recent(_KINDS_OF_CALLS)

    def __repr__(self) -> str:
        return f"<gnograd operator {self.name}>"

    def __reduce__(self) -> str:
        return self.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Value of the operator; inputs may be given by name."""
        return self.forward(*args, **cast(dict[str, Any], kwargs))

    def forward(
        self,
        *inputs: Array,
        return_saved: bool = False,
        out: Sequence[Array] | None = None,
        **static: Any,
    ) -> Array:
        """Value of the operator.

        Parameters
        ----------
        *inputs : array
            As the operator's own documentation says; they may be given by name.
        return_saved : bool, optional
            Return ``(y, saved)``; `saved` makes a later `vjp` cheaper.
        out : tuple of array, optional
            Memory for the results, in the order of `results`, which no other array of the call has
            a part of; None is new memory.
        **static
            Static arguments.
        """
        ordered, given = self.ordered(inputs, static)
        key, addresses = self._key("forward", bool(return_saved), ordered, given, out)
        known = self._known.get(key)
        results: Sequence[Array]
        if known is not None:
            results, saved = cpu.run_prepared(known, given.get("graph"), addresses), known.saved
        else:
            call = self._call(ordered, given)
            results, saved = call.results(return_saved, out), call.places_of_saved
            call.run("forward", call.inputs, results)
            if key is not None:
                self._known.put(key, call.prepared("forward", 0, results))
        outputs = tuple(results[: self.n_outputs])
        result = outputs if len(outputs) > 1 else outputs[0]
        return (result, tuple(results[k] for k in saved)) if return_saved else result

    def prepare(self, inputs: tuple[Array, ...], static: Mapping[str, Any]) -> cpu.Prepared | None:
        """A call of `forward` with ``return_saved=True``, not made; errors are those of the call.

        For adapters whose arrays lie on the CPU. None where each call needs checks of its own.
        """
        ordered, given = self.ordered(inputs, static)
        call = self._call(ordered, given)
        return call.prepared("forward", 0, call.results(True, None))

    def signature(self, **static: Any) -> Signature:
        """Shapes and kernel arguments under these static arguments."""
        return self.declaration.signature(self.complete(static))

    def results(
        self, inputs: Sequence[tuple[Shape, str] | None], **static: Any
    ) -> dict[str, tuple[Shape, str]]:
        """Shapes and dtypes of the outputs, then of what else is saved; nothing is computed.

        Parameters
        ----------
        inputs : sequence of (tuple of int, str)
            Shapes and dtypes of the inputs in order, None for an absent one.
        **static
            Static arguments. Of those that are arrays, the shapes alone matter.

        Raises
        ------
        TypeError, ValueError
            What is true of the call: an input missing, of another dtype or shape than it needs.

        Examples
        --------
        >>> import gnograd as gg
        >>> shapes = (10, 2), (2, 8), (8,), (8, 3, 4), (3, 4)
        >>> gg.gno_kernel.results([(shape, "float64") for shape in shapes])
        {'kappa': ((10, 3, 4), 'float64')}
        """
        values = self.complete(static)
        signature = self.declaration.signature(values)
        sizes = known_sizes(values, signature)
        first = of_first = ""
        for (name, spec), given in zip(signature.inputs.items(), inputs, strict=True):
            if given is None:
                if not shapes.parse(spec).optional:
                    raise _missing(self.name, name, spec, sizes)
                continue
            shape, dtype = given
            if first:
                _check_dtype(self.name, name, dtype, spec, first, of_first)
            else:
                first, of_first = name, dtype
            shapes.match(f"{self.name}: {name}", tuple(shape), spec, sizes)
        for name, spec in signature.arrays.items():
            if values[name] is not None:
                shapes.match(f"{self.name}: {name}", tuple(values[name].shape), spec, sizes)
        shapes.close(signature.inputs.values(), sizes)
        return {
            name: (shapes.shape_of(spec, sizes), shapes.dtype_of(spec, of_first))
            for name, spec in {**signature.outputs, **signature.saved}.items()
            if spec != "None"
        }

    def arrange(
        self, inputs: tuple[Array, ...], arguments: Mapping[str, Any]
    ) -> tuple[list[Array], dict[str, Any]]:
        """Arguments of a call as adapters pass them on.

        Parameters
        ----------
        inputs : tuple of array
            Arguments by position.
        arguments : dict
            Arguments by name.

        Returns
        -------
        operands : list of array
            The inputs, then the static arguments that are arrays; None for an absent one.
        static : dict
            The other static arguments, complete.
        """
        ordered, given = self.ordered(inputs, arguments)
        static = self.complete(given)
        return [*ordered, *(static.pop(name) for name in self.arrays)], static

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Static arguments in their order, with defaults, checked and converted.

        Parameters
        ----------
        given : dict
            Those that a caller gave, by name.
        """
        for name in given:
            if name not in self.static:
                raise TypeError(f"{self.name}: unknown argument {name!r}")
        static = {}
        for name, default, convert in self._rules:
            if name in given:
                value = given[name]
                static[name] = value if convert is None else convert(value)
            elif default is inspect.Parameter.empty:
                raise TypeError(f"{self.name}: {name} is missing")
            else:
                static[name] = default
        return static

    def convert(self, name: str, value: Any) -> Any:
        """One static argument in the form that kernels take, checked before there is a call."""
        return self._converters[name](value)

    def codes(self, static: Mapping[str, Any]) -> dict[str, Any]:
        """Static arguments, complete, with the codes of what was chosen by name."""
        return {
            name: self._choices[name][value] if name in self._choices else value
            for name, value in static.items()
        }

    def _converter(
        self, name: str, annotation: str, limits: Mapping[str, Limits]
    ) -> Callable[[Any], Any]:
        if annotation.startswith("Graph"):
            return self._graph
        label = f"{self.name}: {name}"
        return converter(label, annotation, self._choices.get(name), limits.get(name, Limits()))

    def _graph(self, value: Any) -> Graph:
        if isinstance(value, Graph):
            return value
        raise TypeError(f"{self.name}: graph is {_kind(value)}, needs a gnograd.Graph")

    def ordered(
        self, inputs: tuple[Array, ...], arguments: Mapping[str, Any]
    ) -> tuple[tuple[Array, ...], Mapping[str, Any]]:
        """All inputs in order, those by name behind those by position; and the other arguments."""
        by_position = self._names.isdisjoint(arguments)
        if not by_position:
            for name in self.inputs[: len(inputs)]:
                if name in arguments:
                    raise TypeError(f"{self.name}: {name} is given twice")
        if len(inputs) > len(self.inputs):
            raise TypeError(
                f"{self.name}: {len(inputs)} arrays were given for {', '.join(self.inputs)}"
            )
        if by_position:
            return inputs + self._absent[len(inputs) :], arguments
        named = tuple(arguments.get(name) for name in self.inputs[len(inputs) :])
        rest = {name: value for name, value in arguments.items() if name not in self.inputs}
        return inputs + named, rest

    def _call(self, inputs: Sequence[Array], static: Mapping[str, Any]) -> _Call:
        values = self.complete(static)
        signature = self.declaration.signature(values)
        return _Call(self.name, signature, inputs, values, self.codes(values))

    def _key(
        self,
        face: str,
        choice: Hashable,
        given: tuple[Array, ...],
        static: Mapping[str, Any],
        out: Sequence[Array] | None = None,
    ) -> tuple[Hashable, tuple[int, ...]]:
        """What a call has in common with others, whose checks hold for it, and its addresses.

        None where there may be more to check: memory for results, arrays that kernels do not take
        as they are, static arguments that are no plain numbers and names.
        """
        if out is not None or choice is _STRANGE:
            return None, ()
        found = cpu.layouts(given)
        of_static = key_of(static)
        if found is None or of_static is None:
            return None, ()
        layouts, addresses = found
        return (face, choice, of_static, layouts), addresses


class Operator(Function[P]):
    """A differentiable function of arrays with four faces.

    The value is that of the function, `vjp`, `jvp` and `hvp` are its derivatives.
    """

    def vjp(
        self,
        cotangent: Array,
        inputs: Sequence[Array],
        wrt: Collection[str] | None = None,
        saved: Sequence[Array] | None = None,
        out: Sequence[Array] | None = None,
        **static: Any,
    ) -> tuple[Array, ...]:
        """Gradients of ``sum(cotangent * op(*inputs))``.

        Parameters
        ----------
        cotangent : array
            In the shape of the output; a tuple for several outputs, some of which may be None.
        inputs : tuple of array
            The inputs in order; None for an absent one.
        wrt : collection of str, optional
            Names of the inputs whose gradients are wanted, all when left out.
        saved : tuple of array, optional
            From ``forward(..., return_saved=True)`` with the same inputs.
        out : tuple of array, optional
            Memory for the gradients, one entry an input; None is new memory.
        **static
            Static arguments.

        Returns
        -------
        tuple of array
            One entry an input, None where it was absent or not asked for.
        """
        given = *self._cotangents(cotangent), *self._padded(inputs), *_items(saved)
        choice = _choice(wrt, saved is None)
        key, addresses = self._key("vjp", choice, given, static, out)
        known = self._known.get(key)
        if known is not None:
            return tuple(cpu.run_prepared(known, static.get("graph"), addresses))
        call = self._call(inputs, static)
        cotangents = call.cotangents(cotangent)
        kept = call.saved(saved)
        gradients = call.gradients(self._wanted(wrt), out)
        if any(gradient is not None for gradient in gradients):
            arrays = *cotangents, *call.inputs, *kept
            call.run("vjp", arrays, gradients)
            if key is not None:
                self._known.put(key, call.prepared("vjp", len(arrays) - len(given), gradients))
        return gradients

    def jvp(
        self,
        inputs: Sequence[Array],
        tangents: Sequence[Array],
        out: Sequence[Array] | None = None,
        **static: Any,
    ) -> Array:
        """Derivative of ``op(*(inputs + t * tangents))`` by t at 0.

        Parameters
        ----------
        inputs : tuple of array
            The inputs in order; None for an absent one.
        tangents : tuple of array
            One entry an input, in its shape; None is zero.
        out : tuple of array, optional
            Memory for the tangents of the outputs; None is new memory.
        **static
            Static arguments.
        """
        given = *self._padded(inputs), *self._padded(tangents)
        key, addresses = self._key("jvp", None, given, static, out)
        known = self._known.get(key)
        outputs: tuple[Array, ...]
        if known is not None:
            outputs = tuple(cpu.run_prepared(known, static.get("graph"), addresses))
        else:
            call = self._call(inputs, static)
            directions = call.tangents(tangents)
            outputs = call.memory(call.signature.outputs, out)
            call.run("jvp", (*call.inputs, *directions), outputs)
            if key is not None:
                self._known.put(key, call.prepared("jvp", 0, outputs))
        return outputs if len(outputs) > 1 else outputs[0]

    def hvp(
        self,
        cotangent: Array,
        inputs: Sequence[Array],
        tangents: Sequence[Array],
        wrt: Collection[str] | None = None,
        out: Sequence[Array] | None = None,
        **static: Any,
    ) -> tuple[Array, ...]:
        """Derivative of ``vjp(cotangent, inputs + t * tangents)`` by t at 0.

        Parameters
        ----------
        cotangent : array
            In the shape of the output, held fixed; a tuple for several outputs.
        inputs : tuple of array
            The inputs in order; None for an absent one.
        tangents : tuple of array
            One entry an input, in its shape; None is zero.
        wrt : collection of str, optional
            Names of the inputs whose gradients' tangents are wanted, all when left out.
        out : tuple of array, optional
            Memory for the results, one entry an input; None is new memory.
        **static
            Static arguments.

        Returns
        -------
        tuple of array
            One entry an input, None where it was absent or not asked for.
        """
        given = *self._cotangents(cotangent), *self._padded(inputs), *self._padded(tangents)
        key, addresses = self._key("hvp", _choice(wrt), given, static, out)
        known = self._known.get(key)
        if known is not None:
            return tuple(cpu.run_prepared(known, static.get("graph"), addresses))
        call = self._call(inputs, static)
        cotangents = call.cotangents(cotangent)
        directions = call.tangents(tangents)
        gradients = call.gradients(self._wanted(wrt), out)
        if any(gradient is not None for gradient in gradients):
            call.run("hvp", (*cotangents, *call.inputs, *directions), gradients)
            if key is not None:
                self._known.put(key, call.prepared("hvp", 0, gradients))
        return gradients

    def prepare_vjp(
        self,
        cotangent: Sequence[Array],
        inputs: tuple[Array, ...],
        wrt: Collection[str],
        saved: Sequence[Array],
        static: Mapping[str, Any],
    ) -> cpu.Prepared | None:
        """The same of `vjp`; what is saved is what a call of `prepare` saves."""
        call = self._call(inputs, static)
        call.cotangents(cotangent)
        call.saved(saved)
        return call.prepared("vjp", 0, call.gradients(self._wanted(wrt)))

    def _cotangents(self, cotangent: Array) -> tuple[Any, ...]:
        """Cotangents of all outputs, as far as they come so."""
        if self.n_outputs == 1 and type(cotangent) not in _SEQUENCES:
            return (cotangent,)
        items = _items(cotangent)
        return items if len(items) == self.n_outputs else (_STRANGE,)

    def _padded(self, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """One entry an input, as far as they come so."""
        if type(arrays) not in _SEQUENCES:
            return (_STRANGE,)
        return (*arrays, *self._absent[len(arrays) :])

    def _wanted(self, wrt: Collection[str] | None) -> Collection[str]:
        if wrt is None:
            return self.inputs
        if not isinstance(wrt, Iterable):
            raise TypeError(f"{self.name}: wrt is {_kind(wrt)}, needs names of inputs")
        names = {wrt} if isinstance(wrt, str) else tuple(wrt)
        for name in names:
            if not isinstance(name, str) or name not in self.inputs:
                raise ValueError(
                    f"{self.name}: wrt names {name!r}, which is none of {', '.join(self.inputs)}"
                )
        return names


_SEQUENCES = (tuple, list)
_STRANGE = object()
"""Stands for what is not in the form that most calls have it in; no kernel takes it."""


def _items(arrays: Sequence[Array] | None) -> tuple[Any, ...]:
    """A sequence of arrays."""
    if arrays is None:
        return ()
    return tuple(arrays) if type(arrays) in _SEQUENCES else (_STRANGE,)


def _choice(wrt: Collection[str] | None, *more: bool) -> Hashable:
    """Names of inputs, and what else a call is known by."""
    kind = type(wrt)
    if wrt is None or kind is str:
        return (wrt, *more)
    if kind not in (tuple, list, set, frozenset) or not all(type(name) is str for name in wrt):
        return _STRANGE
    return (frozenset(wrt), *more)


def spread(mask: Sequence[bool], values: Iterable[Any]) -> list[Any]:
    """One entry for every one of the mask, None where it is false."""
    rest = iter(values)
    return [next(rest) if there else None for there in mask]


class _Call:
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
        self._sizes = known_sizes(static, signature)
        self._static = dict(codes)
        for argument, value in static.items():
            if isinstance(value, list):  # of integers; kernels get their address
                self._static[argument] = np.array(value, np.int64)
        self._checked: list[tuple[str, Array]] = []
        self._first = ""
        self._dtype = ""
        self._like: Array = None
        self._backend: ModuleType | None = None
        if not isinstance(inputs, tuple | list):
            raise TypeError(f"{name}: inputs is {_kind(inputs)}, needs a tuple of arrays")
        self.inputs = self._arrays("", inputs, signature.inputs)
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
        """Cotangents of the outputs; of several, some may be None."""
        outputs = self.signature.outputs
        if len(outputs) > 1:
            return self._arrays("cotangent of ", cotangent, outputs, absent=True)
        (spec,) = outputs.values()
        if isinstance(cotangent, tuple | list) and len(cotangent) == 1:  # as adapters have it
            (cotangent,) = cotangent
        return (self._array("cotangent", cotangent, spec),)

    def tangents(self, tangents: Sequence[Array]) -> tuple[Array, ...]:
        """Tangents of the inputs, any of them None."""
        if isinstance(tangents, tuple | list):
            # the shape of an absent input is not known: this comes before the shapes
            for name, value, tangent in zip(
                self.signature.inputs, self.inputs, tangents, strict=False
            ):
                if tangent is not None and value is None:
                    raise ValueError(f"{self.name}: tangent of {name} is given, but {name} is None")
        return self._arrays("tangent of ", tangents, self.signature.inputs, absent=True)

    def saved(self, saved: Sequence[Array] | None) -> tuple[Array, ...]:
        """What the forward face kept, or nothing."""
        if saved is None:
            return (None,) * len(self.signature.saved)
        return self._arrays("saved ", saved, self.signature.saved)

    def gradients(
        self, wanted: Collection[str], out: Sequence[Array] | None = None
    ) -> tuple[Array, ...]:
        """Memory for the gradients of the wanted inputs that are present."""
        specs = {
            name: spec if name in wanted and value is not None else "None"
            for (name, spec), value in zip(self.signature.inputs.items(), self.inputs, strict=True)
        }
        return self.memory(specs, out)

    def memory(
        self, specs: Mapping[str, str], out: Sequence[Array] | None = None
    ) -> tuple[Array, ...]:
        """Memory for results: the caller's as far as it is given, else new."""
        if out is None:
            return tuple(None if spec == "None" else self.empty(spec) for spec in specs.values())
        if not isinstance(out, tuple | list):
            raise TypeError(f"{self.name}: out is {_kind(out)}, needs a tuple of arrays")
        others = list(self._checked)
        given = self._arrays("out for ", out, specs, absent=True)
        results: dict[str, Array] = {}
        for name, array, mine in zip(specs, out, given, strict=False):
            if array is not mine:
                raise ValueError(f"{self.name}: out for {name} is not contiguous")
            summed = name in self.signature.summed and any(
                array is results.get(f"out for {other}") for other in self.signature.summed
            )
            if array is not None and not summed:
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
            shapes.shape_of(spec, self._sizes), shapes.dtype_of(spec, self._dtype), self._like
        )

    def results(self, return_saved: bool, out: Sequence[Array] | None) -> tuple[Array, ...]:
        """Memory for the outputs, and for what else is saved: if it is wanted, and needed."""
        own = {
            name: spec if return_saved else "None"
            for name, spec in self.signature.saved.items()
            if name not in self.signature.outputs
        }
        kept = {name: spec for name, spec in own.items() if spec != "None"}
        wanted = {**self.signature.outputs, **kept}
        arrays = dict(zip(wanted, self.memory(wanted, out), strict=True))
        return tuple(arrays.get(name) for name in (*self.signature.outputs, *own))

    @property
    def places_of_saved(self) -> tuple[int, ...]:
        """Where among `results` what is saved is."""
        own = [name for name in self.signature.saved if name not in self.signature.outputs]
        names = [*self.signature.outputs, *own]
        return tuple(map(names.index, self.signature.saved))

    @functools.cached_property
    def _arguments(self) -> list[Any]:
        """What the kernels take before the arrays."""
        return [
            self._static[word] if word in self._static else shapes.number(word, self._sizes)
            for word in self.signature.arguments.split()
        ]

    def run(self, face: str, given: Sequence[Array], results: Sequence[Array]) -> None:
        """Call the kernel."""
        assert self._backend is not None
        arguments = self._arguments
        found = self._backend.faults(self.name, arguments, len(self.signature.faults))
        for item, (error, message) in zip(found, self.signature.faults, strict=False):
            if item >= 0:
                raise error(f"{self.name}: {message.format(item)}")
        self._backend.run(self.name, face, self._dtype, [*arguments, *given, *results])

    def prepared(self, face: str, n_absent: int, results: Sequence[Array]) -> cpu.Prepared | None:
        """The same for later calls of this kind; None where they need checks of their own.

        Parameters
        ----------
        face : str
        n_absent : int
            How many arrays before the results callers do not give.
        results : sequence of array
            Examples of the results.
        """
        # graphs of the same sizes take turns in the first place; signs are looked for in each call
        more_graphs = any(isinstance(argument, Graph) for argument in self._arguments[1:])
        if self._backend is not cpu or more_graphs or self.signature.not_negative:
            return None
        saved = self.places_of_saved if face == "forward" else ()
        function = self.name, face, self._dtype
        return cpu.prepare(function, self._arguments, n_absent, results, saved)

    def _arrays(
        self, label: str, arrays: Sequence[Array], specs: Mapping[str, str], absent: bool = False
    ) -> tuple[Array, ...]:
        """Check one array for every spec; trailing ones that may be absent may be left out."""
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
        """Check one array against its spec and what is known from those before it."""
        if array is None:
            raise _missing(self.name, label, spec, self._sizes)
        try:
            backend = backend_of(array)
        except RuntimeError as error:
            raise RuntimeError(f"{self.name}: {label} is on a GPU, but {error}") from None
        if backend is None:
            raise TypeError(
                f"{self.name}: {label} is {_kind(array)}, needs an array{_place_of(array)}"
            )
        if backend is cpu:
            cpu.refuse_mask(self.name, label, array)
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
        if self._backend is None:
            if dtype not in backend.SUFFIXES:
                raise TypeError(
                    f"{self.name}: {label} is {dtype}, needs {' or '.join(backend.SUFFIXES)}"
                )
            self._first, self._backend, self._dtype = label, backend, dtype
        elif backend is not self._backend:
            raise TypeError(
                f"{self.name}: {self._first} is on the {self._backend.DEVICE} "
                f"but {label} is on the {backend.DEVICE}"
            )
        else:
            _check_dtype(self.name, label, dtype, spec, self._first, self._dtype)


def _check_dtype(
    operator: str, label: str, dtype: str, spec: str, first: str, of_first: str
) -> None:
    """Check a dtype: that of the first array, unless another is prescribed."""
    if not shapes.parse(spec).dtype:
        if dtype != of_first:
            raise TypeError(f"{operator}: {first} is {of_first} but {label} is {dtype}")
    elif dtype != shapes.dtype_of(spec, of_first):
        needed = shapes.dtype_of(spec, of_first)
        raise TypeError(f"{operator}: {label} is {dtype}, needs {needed}")


def _missing(operator: str, label: str, spec: str, sizes: Mapping[str, int]) -> TypeError:
    readable = shapes.readable(spec, sizes)
    return TypeError(f"{operator}: {label} is missing, needs an array of shape {readable}")


def known_sizes(static: Mapping[str, Any], signature: Signature) -> dict[str, int]:
    """Sizes that the static arguments tell."""
    sizes = {name: value for name, value in static.items() if type(value) is int}
    graph = static.get("graph")
    if graph is not None:
        sizes.update(n_src=graph.n_src, n_dst=graph.n_dst, n_edges=graph.n_edges)
    sizes.update(signature.sizes)
    return sizes


def _kind(value: object) -> str:
    """What a wrong argument is, for messages."""
    return "None" if value is None else f"of type {type(value).__name__}"


def _place_of(value: object) -> str:
    """Where the arrays of other libraries are taken, for messages."""
    library = type(value).__module__.partition(".")[0]
    if library in ("torch", "jax", "jaxlib"):
        return f"; gnograd.{library.removesuffix('lib')} takes those of {library}"
    return ""
