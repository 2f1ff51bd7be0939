# SPDX-License-Identifier: MIT
"""Operators: four faces (forward, vjp, jvp, hvp) over one declaration.

A `Function` has the forward face alone, an `Operator` all four. Either is declared by a function
without a body, whose positional arguments are the (differentiable) inputs and whose keyword
arguments are static, and by a `Declaration` of what the kernels take. Everything else is
written once, here: checks of type, dtype, device and shape, and memory for the results. Static
arguments are converted by the types they are declared with (`gnograd.notation.static`). The order
of arrays, which is the same for all kernels, is that of `gnograd.notation.declaration.FACES`.

The checks of a call on a CPU hold for all calls with the same static arguments, dtypes and shapes,
so what they have found out is kept for these (`gnograd.faces.recent`).

One file: a face is a few lines, and all of them share the checks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, ParamSpec, TypeVar, cast

from gnograd.backends import cpu, layouts_on_gpu
from gnograd.faces.call import (
    Array,
    Call,
    TypeOfCall,
    check_all_or_none,
    kind_of,
    known_sizes,
    missing,
)
from gnograd.faces.recent import Recent, key_of
from gnograd.graphs.graph import Graph
from gnograd.graphs.in_parts import GraphInParts
from gnograd.notation import shapes
from gnograd.notation.declaration import Declaration, Signature
from gnograd.notation.graph_arrays import GraphSizes
from gnograd.notation.shapes import Shape
from gnograd.notation.static import Limits, converter, shown

__all__ = ["Array", "Function", "Operator", "function", "operator", "spread"]

P = ParamSpec("P")
R = TypeVar("R")
"""Arguments and result of an operator's declaration, for type checkers."""
_KINDS_OF_CALLS = 128
"""Number of kinds of calls, at least, for which an operator keeps the results of its checks."""


def operator(
    *,
    choices: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    limits: Mapping[str, Limits] = MappingProxyType({}),
    kind: type[Operator[Any, Any]] | None = None,
    **shapes: Any,
) -> Callable[[Callable[P, R]], Operator[P, R]]:
    """Make an operator from a function without a body.

    Parameters
    ----------
    choices : dict of dict
        Static arguments that are chosen by name, and the codes of their choices.
    limits : dict of Limits
        Limits of static numbers.
    kind : type, optional
        `Operator`, or a subclass.
    **shapes
        Fields of `Declaration`.
    """
    made = Operator if kind is None else kind
    return lambda function: made(function, Declaration(**shapes), choices, limits)


def function(
    *,
    choices: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    limits: Mapping[str, Limits] = MappingProxyType({}),
    **shapes: Any,
) -> Callable[[Callable[P, R]], Function[P, R]]:
    """Make a function that has no derivatives; arguments as for `operator`."""
    return lambda function: Function(function, Declaration(**shapes), choices, limits)


class Function(Generic[P, R]):
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
        Number of outputs.
    hops : int
        Distance, in edges, over which a result depends on others: 1 for the edges that end at its
        destination, 2 if edges that end where these start matter too.

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

    hops = 1
    _replaced: Collection[str] = ()
    """Static arguments of the declaration that `complete` puts others in place of."""

    def __init__(
        self,
        function: Callable[P, R],
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
        self.n_outputs = len(declaration.outputs)
        self._all_there = all(
            changes.get(name) != "None"
            for changes in declaration.when.values()
            for name in declaration.outputs
        )
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
        self.known = Recent(_KINDS_OF_CALLS)
        """Prepared calls of every front, by static arguments, dtypes and shapes."""

    def __repr__(self) -> str:
        return f"<gnograd operator {self.name}>"

    def __reduce__(self) -> str:
        return self.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Value of the operator; inputs may be given by name."""
        return cast(R, self.forward(*args, **cast(dict[str, Any], kwargs)))

    def forward(
        self,
        *inputs: Array,
        return_saved: bool = False,
        out: Sequence[Array] | Array = None,
        **static: Any,
    ) -> Array:
        """Value of the operator.

        Parameters
        ----------
        *inputs : array
            As the operator's own documentation says; they may be given by name.
        return_saved : bool, optional
            Return ``(y, saved)``; `saved` makes a later `vjp` cheaper.
        out : array or tuple of array, optional
            Memory for the results, in the order of `results`, which no other array of the call has
            a part of; None is new memory. An array is that of a single output.
        **static
            Static arguments.
        """
        graph = static.get("graph")
        if isinstance(graph, GraphInParts):
            return graph.faces.forward(graph, self, inputs, return_saved, out, static)
        ordered, given = self.ordered(inputs, static)
        results, saved = self._results(
            "forward", bool(return_saved), ordered, ordered, given, out,
            lambda call: call.results(return_saved, out),
        )  # fmt: skip
        result = self.returned(results[: self.n_outputs], static)
        return (result, tuple(results[k] for k in saved)) if return_saved else result

    def returned(self, outputs: Sequence[Any], static: Mapping[str, Any]) -> Any:
        """Value that a caller gets: the outputs without absent ones; a single output, not a tuple.

        Parameters
        ----------
        outputs : sequence
        static : dict
            Static arguments, maybe with inputs that were given by name.
        """
        if not self._all_there:
            there = self.signature(**self.ordered((), static)[1]).there
            outputs = [y for y, is_there in zip(outputs, there, strict=True) if is_there]
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    def prepare(self, inputs: tuple[Array, ...], static: Mapping[str, Any]) -> Any:
        """Check and prepare a call of `forward` with ``return_saved=True``, without making it.

        For adapters. None where each call needs checks of its own.
        Errors are those of the call.
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
        """Shapes and dtypes of the outputs, then of the other saved arrays; nothing is computed.

        Parameters
        ----------
        inputs : sequence of (tuple of int, str)
            Shapes and dtypes of the inputs in order, None for an absent one; trailing ones that are
            absent may be left out.
        **static
            Static arguments. Of those that are arrays, the shapes alone matter.

        Raises
        ------
        TypeError, ValueError
            As for the call: an input is missing, or has another dtype or shape than it needs.

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
        if not isinstance(inputs, tuple | list):
            raise TypeError(f"{self.name}: inputs is {kind_of(inputs)}, needs a list of shapes")
        if len(inputs) > len(self.inputs):
            raise TypeError(
                f"{self.name}: {len(inputs)} arrays were given for {', '.join(self.inputs)}"
            )
        padded = [*inputs, *self._absent[len(inputs) :]]
        check_all_or_none(self.name, signature, padded)
        type_ = TypeOfCall(self.name)
        for (name, spec), given in zip(signature.inputs.items(), padded, strict=True):
            if given is None:
                if not shapes.parse(spec).optional:
                    raise missing(self.name, name, spec, sizes)
                continue
            try:
                shape, dtype = tuple(given[0]), str(given[1])
            except (TypeError, IndexError):
                raise TypeError(
                    f"{self.name}: {name} is {shown(given)}, needs a shape and the name of a dtype"
                ) from None
            type_.check(name, dtype, spec)
            shapes.match(f"{self.name}: {name}", shape, spec, sizes)
        for name, spec in signature.arrays.items():
            if values[name] is not None:
                shapes.match(f"{self.name}: {name}", tuple(values[name].shape), spec, sizes)
            elif not shapes.parse(spec).optional:
                raise missing(self.name, name, spec, sizes)
        shapes.close(signature.inputs.values(), sizes)
        return {
            name: (shapes.shape_of(spec, sizes), shapes.dtype_of(spec, type_.dtype))
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
            Static arguments that a caller gave, by name.
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
        """Check one static argument, and convert it to the form that kernels take."""
        return self._converters[name](value)

    def codes(self, static: Mapping[str, Any]) -> dict[str, Any]:
        """Static arguments, complete, with the codes of choices in place of their names."""
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

    def _graph(self, value: Any) -> Graph | GraphSizes:
        if isinstance(value, Graph | GraphSizes):
            return value
        if isinstance(value, GraphInParts):
            return value.sizes  # sizes are enough for shapes
        raise TypeError(f"{self.name}: graph is {kind_of(value)}, needs a gnograd.Graph")

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

    def _call(self, inputs: Sequence[Array], static: Mapping[str, Any]) -> Call:
        values = self.complete(static)
        signature = self.declaration.signature(values)
        return Call(self.name, signature, inputs, values, self.codes(values))

    def _results(
        self,
        face: str,
        choice: Hashable,
        arrays: tuple[Array, ...],
        inputs: Sequence[Array],
        static: Mapping[str, Any],
        out: Sequence[Array] | Array,
        memory: Callable[[Call], tuple[Array, ...]],
        **groups: Any,
    ) -> tuple[tuple[Array, ...], tuple[int, ...]]:
        """Results of a face, and the positions of those that are saved.

        The checks of an earlier call hold for this one, too, if `out` is not given, kernels can
        take all arrays as they are, and static arguments are plain numbers and names.

        Parameters
        ----------
        face : str
        choice : hashable
            All that distinguishes calls of the face besides arrays and static arguments.
        arrays : tuple of array
            All arrays but the results, in the order of the face.
        inputs, static, out
            As for the face.
        memory : callable
            Memory for the results of a call.
        **groups
            Arrays besides the inputs, as callers gave them.
        """
        key = None
        if out is None and choice is not _NEEDS_CHECKS:
            found, of_static = cpu.layouts(arrays) or layouts_on_gpu(arrays), key_of(static)
            if found is not None and of_static is not None:
                key = face, choice, of_static, found[0]
                known = self.known.get(key)
                if known is not None:
                    return tuple(known.run(static.get("graph"), found[1])), known.saved
        call = self._call(inputs, static)
        checked = {group: getattr(call, group)(given) for group, given in groups.items()}
        results = memory(call)
        if any(result is not None for result in results):
            call.run(face, results, **checked)
            if key is not None:
                n_absent = len(checked.get("saved", ())) - len(_items(groups.get("saved")))
                self.known.put(key, call.prepared(face, n_absent, results))
        return results, call.places_of_saved


class Operator(Function[P, R]):
    """A differentiable function of arrays with four faces.

    The value is that of the function, `vjp`, `jvp` and `hvp` are its derivatives.
    """

    def vjp(
        self,
        cotangent: Array,
        inputs: Sequence[Array],
        wrt: Collection[str] | None = None,
        saved: Sequence[Array] | None = None,
        out: Sequence[Array] | Array = None,
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
            From ``forward(..., return_saved=True)`` with the same inputs. Arrays that the backend
            does not read (``unread`` in the declaration) may be None.
        out : tuple of array, optional
            Memory for the gradients, one entry an input; None is new memory. An operator of one
            input takes its array.
        **static
            Static arguments.

        Returns
        -------
        tuple of array
            One entry an input, None where it was absent or not asked for.
        """
        graph = static.get("graph")
        if isinstance(graph, GraphInParts):
            return cast(
                tuple[Array, ...],
                graph.faces.vjp(graph, self, cotangent, inputs, wrt, saved, out, static),
            )
        arrays = *self._cotangents(cotangent), *self._padded(inputs), *_items(saved)
        return self._results(
            "vjp", _choice(wrt, saved is None), arrays, inputs, static, out,
            lambda call: call.gradients(self.wanted(wrt), out), cotangents=cotangent, saved=saved,
        )[0]  # fmt: skip

    def jvp(
        self,
        inputs: Sequence[Array],
        tangents: Sequence[Array],
        out: Sequence[Array] | Array = None,
        **static: Any,
    ) -> Array:
        """Derivative of ``op(*(inputs + t * tangents))`` by t at 0.

        Parameters
        ----------
        inputs : tuple of array
            The inputs in order; None for an absent one.
        tangents : tuple of array
            One entry an input, in its shape; None is zero.
        out : array or tuple of array, optional
            Memory for the tangents of the outputs; None is new memory. An array is that of a single
            output.
        **static
            Static arguments.
        """
        graph = static.get("graph")
        if isinstance(graph, GraphInParts):
            return graph.faces.jvp(graph, self, inputs, tangents, out, static)
        arrays = *self._padded(inputs), *self._padded(tangents)
        outputs, _ = self._results(
            "jvp", None, arrays, inputs, static, out,
            lambda call: call.memory(call.signature.outputs, out), tangents=tangents,
        )  # fmt: skip
        return self.returned(outputs, static)

    def hvp(
        self,
        cotangent: Array,
        inputs: Sequence[Array],
        tangents: Sequence[Array],
        wrt: Collection[str] | None = None,
        out: Sequence[Array] | Array = None,
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
            Memory for the results, one entry an input; None is new memory. An operator of one input
            takes its array.
        **static
            Static arguments.

        Returns
        -------
        tuple of array
            One entry an input, None where it was absent or not asked for.
        """
        graph = static.get("graph")
        if isinstance(graph, GraphInParts):
            return cast(
                tuple[Array, ...],
                graph.faces.hvp(graph, self, cotangent, inputs, tangents, wrt, out, static),
            )
        arrays = *self._cotangents(cotangent), *self._padded(inputs), *self._padded(tangents)
        return self._results(
            "hvp", _choice(wrt), arrays, inputs, static, out,
            lambda call: call.gradients(self.wanted(wrt), out),
            cotangents=cotangent, tangents=tangents,
        )[0]  # fmt: skip

    def prepare_vjp(
        self,
        cotangent: Sequence[Array],
        inputs: tuple[Array, ...],
        wrt: Collection[str],
        saved: Sequence[Array],
        static: Mapping[str, Any],
    ) -> Any:
        """Check and prepare a call of `vjp`; `saved` is from a call that `prepare` has prepared."""
        call = self._call(inputs, static)
        call.cotangents(cotangent)
        call.saved(saved)
        return call.prepared("vjp", 0, call.gradients(self.wanted(wrt)))

    def _cotangents(self, cotangent: Array) -> tuple[Any, ...]:
        """Cotangents, one entry an output; `_NEEDS_CHECKS` if they are not given as such."""
        if self.n_outputs == 1 and type(cotangent) not in _SEQUENCES:
            return (cotangent,)
        items = _items(cotangent)
        return items if len(items) == self.n_outputs else (_NEEDS_CHECKS,)

    def _padded(self, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """One entry an input, None at the end; `_NEEDS_CHECKS` if they are no sequence."""
        if type(arrays) not in _SEQUENCES:
            return (_NEEDS_CHECKS,)
        return (*arrays, *self._absent[len(arrays) :])

    def wanted(self, wrt: Collection[str] | None) -> Collection[str]:
        """Check the names of the inputs whose gradients are wanted."""
        if wrt is None:
            return self.inputs
        if not isinstance(wrt, Iterable):
            raise TypeError(f"{self.name}: wrt is {kind_of(wrt)}, needs names of inputs")
        names = {wrt} if isinstance(wrt, str) else tuple(wrt)
        for name in names:
            if not isinstance(name, str) or name not in self.inputs:
                raise ValueError(
                    f"{self.name}: wrt names {name!r}, which is none of {', '.join(self.inputs)}"
                )
        return names


_SEQUENCES = (tuple, list)
_NEEDS_CHECKS = object()
"""Marks an argument in an unusual form, so that all checks are made; no kernel takes it."""


def _items(arrays: Sequence[Array] | None) -> tuple[Any, ...]:
    """A sequence of arrays as a tuple; `_NEEDS_CHECKS` if it is none."""
    if arrays is None:
        return ()
    return tuple(arrays) if type(arrays) in _SEQUENCES else (_NEEDS_CHECKS,)


def _choice(wrt: Collection[str] | None, *more: bool) -> Hashable:
    """Names of inputs and flags as part of the key of a call."""
    kind = type(wrt)
    if wrt is None or kind is str:
        return (wrt, *more)
    if kind not in (tuple, list, set, frozenset) or not all(type(name) is str for name in wrt):
        return _NEEDS_CHECKS
    return (frozenset(wrt), *more)


def spread(mask: Sequence[bool], values: Iterable[Any]) -> list[Any]:
    """One entry for every flag of the mask: the next of `values`, None where the flag is false."""
    rest = iter(values)
    return [next(rest) if there else None for there in mask]
