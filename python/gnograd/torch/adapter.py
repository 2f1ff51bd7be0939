# SPDX-License-Identifier: MIT
"""Any gnograd operator as a PyTorch operator.

Each of the four faces becomes a custom operator ``gnograd::<name>_<face>`` on tensors, so that
`torch.compile` can put it into a graph without looking inside. Derivatives need no more than the
faces themselves: the gradient of forward is vjp; the gradient of vjp is jvp for the cotangent
and hvp for the inputs. The same two rules are given twice, to the dispatcher (for
`torch.compile`) and to `torch.autograd.Function` (for eager mode, where it brings forward-mode
differentiation and the transforms of `torch.func` besides).

Custom operators take tensors and plain numbers: a graph comes as its arrays, and static arguments
that are arrays as tensors behind the inputs. So one compiled program serves all graphs.

Half precision is computed by the kernels that a device has for it. Where there are none, a face
computes on float32 copies and returns the type that was given. What `torch.autocast` asks for is
done to the operands before they reach a face, so that a backward pass, which runs outside of it,
finds them as they were computed with.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import forward_ad

from gnograd.backends import cpu, has_cuda
from gnograd.backends.cpu import dtype_name
from gnograd.faces.fronts import present
from gnograd.faces.operator import Function, Operator, spread
from gnograd.graphs.in_parts import GraphInParts
from gnograd.notation import shapes
from gnograd.notation.declaration import FACES
from gnograd.notation.graph_arrays import GraphArrays
from gnograd.torch.arrays import as_arrays, integers
from gnograd.torch.batches import one_by_one, register_loop, rows_of_batch
from gnograd.torch.dispatch import kernels, without_gradients
from gnograd.torch.eager import (
    AnyFunction,
    KnownCalls,
    eager,
    eager_function,
    in_transform,
    is_plain,
    leave_to_python,
    read_by_vjp,
)
from gnograd.torch.graph import Graph, arrays_of, lend_tensors

__all__ = ["Faces", "autocast", "check_tensors", "functions", "not_compiled", "torch_operator"]

Tensors: TypeAlias = Sequence[Tensor | None]

_HALF = (torch.float16, torch.bfloat16)
_DEVICES = ("cpu", "cuda", "meta")
_SINGLE_OR_HALF = (torch.float32, *_HALF)

_SCHEMA_TYPES = {
    "GraphLike": "Tensor?[]",
    "GraphLike | None": "Tensor?[]",
    "bool": "bool",
    "int": "SymInt",
    "float": "float",
    "str": "str",
    "int | None": "SymInt?",
    "float | None": "float?",
    "Array": "Tensor?",
    "Array | None": "Tensor?",
    "Sequence[int]": "int[]",
}


def torch_operator(
    op: Function[Any, Any], in_parts: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Make a PyTorch function of a gnograd operator.

    Parameters
    ----------
    op : Function or Operator
        A function has no derivatives, and gives tensors without gradients.
    in_parts : callable, optional
        Function for graphs distributed over processes.

    Returns
    -------
    callable
        Takes tensors where `op` takes arrays, and the same static arguments; where it takes
        integers, tensors of any integer type. Tensors of the right type are not copied; those on a
        GPU are computed on the current stream. float16 and bfloat16 are computed in float32 copies
        and returned in their type where there are no kernels for them, which are on GPUs only.
        Differentiable twice in reverse mode, once in forward mode; works under
        `torch.compile(fullgraph=True)`, `torch.vmap` (a loop over the batch) and `torch.autocast`:
        there inputs of half precision make all inputs those of the region where there are kernels
        for them, else float32; float64 stays. Beside others in half precision, what an operator
        takes in the type of its arithmetic (positions, quadrature weights) is float32; if it is in
        half precision too, it is made so.
    """
    apply, directly = _ways(op)

    def function(*inputs: Any, **arguments: Any) -> Any:
        graph: Any = arguments.get("graph")
        if in_parts is not None and isinstance(graph, GraphInParts):
            if torch._C._get_tracing_state() is not None:
                _check_traced(op, arguments)
            return in_parts(inputs, arguments)
        of_tensors = isinstance(graph, Graph)
        if not torch.compiler.is_compiling() and is_plain():
            if of_tensors and graph.is_lendable:
                arguments["graph"] = graph.lent
            outputs = directly(inputs, arguments, of_tensors)
            if outputs is not None:
                return op.returned(outputs, arguments)
        if torch._C._get_tracing_state() is not None:
            _check_traced(op, arguments)
        if of_tensors:
            arguments["graph"] = graph.sizes
        operands, static = op.arrange(inputs, arguments)
        check_tensors(op, operands)
        operands = widened(op, autocast(op, operands, static), static)
        if "graph" in static:
            graph = graph if of_tensors else static["graph"]
            static["graph"] = [] if graph is None else _tensors(op, operands, graph)
        outputs = apply(operands, list(static.values()))
        return op.returned(outputs, arguments)

    present(function, op, "gnograd.torch", "Tensor")
    return function


def _check_traced(op: Function[Any, Any], arguments: dict[str, Any]) -> None:
    """Raise an error for arguments that `torch.jit.trace` cannot record: graphs, and sizes."""
    names = (*op.inputs, *op.arrays)
    sizes = (x for name, x in arguments.items() if name not in names)
    if arguments.get("graph") is not None or any(isinstance(x, Tensor) for x in sizes):
        raise NotImplementedError(
            f"{op.name}: torch.jit.trace cannot record it; torch.export and torch.compile can"
        )


def check_tensors(op: Function[Any, Any], operands: Sequence[Any]) -> None:
    """Raise TypeError for an operand that is no tensor, or on a device without kernels."""
    for name, x in zip((*op.inputs, *op.arrays), operands, strict=True):
        if x is not None and not isinstance(x, Tensor):
            raise TypeError(f"{op.name}: {name} is of type {type(x).__name__}, needs a tensor")
        if x is not None and x.device.type not in _DEVICES:
            raise TypeError(
                f"{op.name}: {name} is on {x.device}, needs a tensor on the CPU or an NVIDIA GPU"
            )


def _ways(op: Function[Any, Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Two functions that call an operator: through the dispatcher, and past it in eager mode."""
    if not isinstance(op, Operator):
        return _Face(op).apply, eager_function(op)
    faces = Faces(op)
    apply, vjp = functions(faces)

    def vjp_of_inputs(
        kept: list[Tensor],
        wrt: Sequence[bool],
        static: dict[str, Any],
        cotangents: Tensors,
        inputs: Tensors,
    ) -> list[Tensor | None]:
        ordered = [static[name] for name in faces.plain]
        if "graph" in faces.plain:
            graph = static["graph"]
            device = next(x.device for x in inputs if x is not None)
            arrays = [] if graph is None else list(arrays_of(graph, device))
            ordered[faces.plain.index("graph")] = arrays
        operands = [*inputs, *[None] * len(op.arrays)]
        return spread(wrt, vjp(kept, wrt, ordered, cotangents, operands))

    return apply, eager(op, vjp_of_inputs)


class _Face:
    """The forward face of a gnograd function as a custom operator.

    Operands are its inputs and, behind them, those of its static arguments that are arrays;
    `static` below are the others.
    """

    def __init__(self, op: Function[Any, Any]) -> None:
        self.op = op
        self.n = len(op.inputs)
        self.plain = [name for name in op.static if name not in op.arrays]
        self.place = self.plain.index("graph") if "graph" in self.plain else None
        self.n_operands = self.n + len(op.arrays)
        # further results of forward are saved for the vjp
        self.n_outputs = op.n_outputs
        parameters = inspect.signature(op).parameters
        self.operand_schema = [f"Tensor? {name}" for name in (*op.inputs, *op.arrays)]
        self.static_schema = [f"{_schema_type(parameters[name])} {name}" for name in self.plain]
        self.known = KnownCalls(op, self.plain)
        self.forward = self._define(
            "forward", self.operand_schema + self.static_schema, self._forward, self._like_forward
        )

    def _define(
        self, face: str, arguments: list[str], run: Callable[..., Any], fake: Callable[..., Any]
    ) -> Any:
        """Register one face: its kernel, its fake (shapes and types only), and vmap."""
        known = {"forward": self.known.forward, "vjp": self.known.vjp}.get(face)

        refuse = self.refuse_forward_mode if isinstance(self.op, Operator) else lambda _: None

        def compute_on_cpu(*args: Any) -> list[Tensor]:
            refuse(False)
            results = None if known is None else known(*args)
            return compute(*args) if results is None else results

        def compute(*args: Any) -> list[Tensor]:
            refuse(False)
            if not self.in_copies(args):
                return list(run(*args))
            like = fake(*args)  # before the copies: it refuses inputs of different types
            results = run(*map(_single, args))
            return [y.to(x.dtype) for y, x in zip(results, like, strict=True)]

        operator = torch.library.custom_op(
            f"gnograd::{self.op.name}_{face}",
            compute,
            mutates_args=(),
            schema=f"({', '.join(arguments)}) -> Tensor[]",
        )
        operator.register_fake(fake)
        register_loop(operator)
        # `register_kernel` would put two more functions around each call
        kernels.impl(f"{self.op.name}_{face}", leave_to_python(compute_on_cpu), "CPU")
        if known is not None:
            without_gradients(operator, known)
        return operator

    def refuse_forward_mode(self, dispatched: bool) -> None:
        """Raise NotImplementedError in forward mode of an exported or compiled program.

        Such a program calls the dispatcher, which has no rule for tangents and would drop them.

        Parameters
        ----------
        dispatched : bool
            True in the rules of the dispatcher, which nothing else calls; kernels are also called
            by rules that take care of tangents, and forward mode is then off.
        """
        if forward_ad._current_level >= 0 and (dispatched or torch._C._is_fwd_grad_enabled()):
            raise NotImplementedError(
                f"{self.op.name}: there is no forward mode of exported or compiled programs; "
                "reverse mode, or the program itself, gives the same numbers"
            )

    def in_copies(self, args: Sequence[Any]) -> bool:
        """True if a tensor is of half precision and there are no kernels for it."""
        return any(
            isinstance(x, Tensor)
            and x.dtype in _HALF
            and not _has_kernel(self.op.name, x.device.type, x.dtype)
            for x in args
        )

    def apply(self, operands: Sequence[Any], static: list[Any]) -> tuple[Tensor, ...]:
        """Outputs without derivatives."""
        inputs = [None if x is None else x.detach() for x in operands[: self.n]]
        return tuple(self.forward(*inputs, *operands[self.n :], *static)[: self.n_outputs])

    def static(
        self, operands: Tensors, static: Sequence[Any], lent: bool = False
    ) -> dict[str, Any]:
        """Static arguments of the gnograd operator from those of the custom operator.

        For a graph these are its sizes, or with `lent` a graph for kernels.
        """
        values = dict(zip(self.plain, static, strict=True))
        if "graph" in values:
            arrays = GraphArrays(*values["graph"]) if values["graph"] else None
            values["graph"] = arrays and (lend_tensors(arrays) if lent else arrays.sizes)
        return values | dict(zip(self.op.arrays, operands[self.n : self.n_operands], strict=True))

    def without_graph(self, static: Sequence[Any]) -> tuple[list[Any], list[Tensor | None]]:
        """Static arguments without the tensors of the graph, and these tensors."""
        rest = list(static)
        if self.place is None or not isinstance(rest[self.place], list):
            return rest, []  # without a graph, or with one over many processes
        graph, rest[self.place] = rest[self.place], []
        return rest, graph

    def with_graph(self, rest: Sequence[Any], graph: Tensors) -> list[Any]:
        """Static arguments with the tensors of the graph put back."""
        static = list(rest)
        if graph and self.place is not None:
            static[self.place] = list(graph)
        return static

    def static_arrays(
        self, array: Callable[..., Any], operands: Tensors, static: Sequence[Any]
    ) -> dict[str, Any]:
        """`static` for a call: arrays for tensors, of the integer types that the operator needs."""
        values = self.static(operands, static, lent=True)
        specs = self.op.signature(**values).arrays if self.op.arrays else {}
        for name in self.op.arrays:
            tensor, dtype = values[name], shapes.parse(specs.get(name, "")).dtype
            if tensor is not None and dtype:
                tensor = integers(tensor, getattr(torch, dtype))
            values[name] = array(tensor)
        return values

    def _forward(self, *args: Any) -> list[Tensor]:
        operands, static = args[: self.n_operands], args[self.n_operands :]
        with as_arrays(operands) as (array, tensor):
            outputs, saved = self.op.forward(
                *map(array, operands[: self.n]),
                return_saved=True,
                **self.static_arrays(array, operands, static),
            )
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            own = [a for a in saved if a is not None and all(a is not y for y in outputs)]
            return [*self._every(tensor, outputs, operands, static), *map(tensor, own)]

    def _every(
        self,
        tensor: Callable[..., Tensor],
        outputs: Sequence[Any],
        operands: Tensors,
        static: Sequence[Any],
    ) -> list[Tensor]:
        """All outputs as tensors; an absent one is an empty tensor."""
        if len(outputs) == self.n_outputs:
            return list(map(tensor, outputs))
        there = self.op.signature(**self.static(operands, static)).there
        first = next(x for x in operands[: self.n] if x is not None)
        every = spread(there, outputs)
        return [first.new_empty(0) if y is None else tensor(y) for y in every]

    def _like_forward(self, *args: Any) -> list[Tensor]:
        return self._like(args[: self.n_operands], args[self.n_operands :])

    def _like(self, operands: Tensors, static: Sequence[Any]) -> list[Tensor]:
        inputs = operands[: self.n]
        first = next(x for x in inputs if x is not None)
        results = self.op.results(
            [None if x is None else (tuple(x.shape), dtype_name(x.dtype)) for x in inputs],
            **self.static(operands, static),
        )
        return [
            first.new_empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in results.values()
        ]


class Faces(_Face):
    """All custom operators of one gnograd operator, and their derivatives."""

    op: Operator[Any, Any]

    def __init__(self, op: Operator[Any, Any]) -> None:
        super().__init__(op)
        self._groups = {
            "cotangents": ["Tensor?[] cotangents"],
            "inputs": self.operand_schema,
            "tangents": [f"Tensor? t_{name}" for name in op.inputs],
            "saved": ["Tensor[] saved"],
            "gradients": ["bool[] wrt"],
        }
        self.vjp, self.jvp, self.hvp = map(self._define_derivative, ("vjp", "jvp", "hvp"))
        self._register_rules()

    def _register_rules(self) -> None:
        """Register the derivatives of forward and vjp, and an error for that of hvp."""
        self.forward.register_autograd(self._backward, setup_context=self._keep)
        self.vjp.register_autograd(self._vjp_backward, setup_context=self._keep_vjp)
        self.hvp.register_autograd(self.refuse)

    # ---- the other three faces on tensors ----

    def _define_derivative(self, face: str) -> Any:
        groups = [self._groups.get(group, []) for group in FACES[face]]
        return self._define(
            face,
            [*itertools.chain(*groups), *self.static_schema],
            functools.partial(self._derivative, face),
            functools.partial(self._like_derivative, face),
        )

    def _sorted(self, face: str, args: Sequence[Any]) -> tuple[dict[str, Any], Sequence[Any]]:
        """Arguments of a custom operator by their groups, and static ones."""
        rest = iter(args)
        at = {
            group: list(itertools.islice(rest, len(self._groups[group])))
            for group in FACES[face]
            if group in self._groups
        }
        return at, tuple(rest)

    def _derivative(self, face: str, *args: Any) -> list[Tensor]:
        at, static = self._sorted(face, args)
        operands = at["inputs"]
        with as_arrays(operands) as (array, tensor):
            given = self.static_arrays(array, operands, static)
            if at.get("saved", [[]])[0]:
                read = read_by_vjp(self.op, operands[: self.n], given)
                given["saved"] = tuple(map(array, self.saved(read, *at["saved"])))
            if "cotangents" in at:
                given["cotangent"] = list(map(array, *at["cotangents"]))
            if "tangents" in at:
                given["tangents"] = tuple(map(array, at["tangents"]))
            given["inputs"] = tuple(map(array, operands[: self.n]))
            if "gradients" in at:
                given["wrt"] = list(compress(self.op.inputs, *at["gradients"]))
            results = getattr(self.op, face)(**given)
            if "gradients" in at:
                return _present(tensor, results)
            outputs = results if isinstance(results, tuple) else (results,)
            return self._every(tensor, outputs, operands, static)

    def _like_derivative(self, face: str, *args: Any) -> list[Tensor]:
        at, static = self._sorted(face, args)
        if "gradients" in at:
            return _like_wanted(at["inputs"][: self.n], *at["gradients"])
        return self._like(at["inputs"], static)[: self.n_outputs]

    def kept(
        self, outputs: Sequence[Tensor], operands: Tensors, static: Sequence[Any]
    ) -> list[Tensor]:
        """Pick the results of forward that the vjp reads, in its order."""
        if self.in_copies(operands):
            return []  # 16-bit results are rounded: the vjp computes them again
        values = self.static(operands, static)
        signature, read = self.op.signature(**values), read_by_vjp(self.op, operands, values)
        return list(compress(spread(signature.needed, signature.kept(outputs)), read))

    def saved(self, read: Sequence[bool], kept: Sequence[Tensor]) -> list[Tensor | None]:
        """Argument `saved` of the vjp of the gnograd operator, from the result of `kept`."""
        return spread(read, kept)

    # ---- the two rules, for the dispatcher ----

    def _keep(self, ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
        self.refuse_forward_mode(True)
        operands, ctx.static = inputs[: self.n_operands], inputs[self.n_operands :]
        ctx.save_for_backward(*operands, *self.kept(output, operands, ctx.static))

    def _backward(self, ctx: Any, cotangents: Tensors) -> tuple[Any, ...]:
        arrays = ctx.saved_tensors  # asked for once: checkpoints compute them for that
        operands, saved = arrays[: self.n_operands], arrays[self.n_operands :]
        wrt = _needed(operands[: self.n], ctx.needs_input_grad[: self.n])
        gradients = (
            self.vjp(cotangents[: self.n_outputs], *operands, list(saved), wrt, *ctx.static)
            if any(wrt)
            else []
        )
        no_arrays = [None] * len(self.op.arrays)
        return (*spread(wrt, gradients), *no_arrays, *_no_gradients(ctx.static))

    def _keep_vjp(self, ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
        self.refuse_forward_mode(True)
        cotangents, *operands = inputs[: self.n_operands + 1]
        saved, ctx.wrt, *ctx.static = inputs[self.n_operands + 1 :]
        ctx.n_cotangents, ctx.n_saved = len(cotangents), len(saved)
        ctx.save_for_backward(*cotangents, *operands)

    def _vjp_backward(self, ctx: Any, directions: Tensors) -> tuple[Any, ...]:
        arrays = ctx.saved_tensors
        cotangents, operands = arrays[: ctx.n_cotangents], arrays[ctx.n_cotangents :]
        along = spread(ctx.wrt, directions)
        to_cotangents = self.jvp(*operands, *along, *ctx.static)
        wrt = _needed(operands[: self.n], ctx.needs_input_grad[1 : 1 + self.n])
        gradients = self.hvp(cotangents, *operands, *along, wrt, *ctx.static) if any(wrt) else []
        return (
            _where(cotangents, to_cotangents),
            *spread(wrt, gradients),
            *[None] * len(self.op.arrays),
            [None] * ctx.n_saved,
            None,
            *_no_gradients(ctx.static),
        )

    def refuse(self, *_: Any) -> None:
        """Raise NotImplementedError: there are no further derivatives."""
        raise NotImplementedError(f"{self.op.name}: there are no third derivatives")


def functions(faces: Faces) -> tuple[Callable[..., tuple[Tensor, ...]], Callable[..., Any]]:
    """Differentiable forward and vjp for eager mode, with forward mode and vmap.

    The tensors of a graph follow the operands as arguments of their own, so that PyTorch's
    transforms see them.
    """
    n, n_operands, n_outputs = faces.n, faces.n_operands, faces.n_outputs

    def vjp(
        saved: Tensors,
        wrt: Sequence[bool],
        static: Sequence[Any],
        cotangents: Tensors,
        operands: Tensors,
    ) -> Sequence[Tensor]:
        """Gradients of the inputs that `wrt` marks."""
        rest, graph = faces.without_graph(static)
        apply = functools.partial(Vjp.apply, (list(wrt), rest, len(graph)))
        return one_by_one(apply, *cotangents, *operands, *graph, *saved)

    def jvp(static: Sequence[Any], operands: Tensors, tangents: Tensors) -> Sequence[Tensor]:
        rest, graph = faces.without_graph(static)
        return one_by_one(functools.partial(Jvp.apply, rest), *operands, *tangents, *graph)

    def hvp(
        wrt: Sequence[bool],
        static: Sequence[Any],
        cotangents: Tensors,
        operands: Tensors,
        tangents: Tensors,
    ) -> Sequence[Tensor]:
        rest, graph = faces.without_graph(static)
        apply = functools.partial(Hvp.apply, (list(wrt), rest))
        return one_by_one(apply, *cotangents, *operands, *tangents, *graph)

    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(rest: list[Any], *tensors: Tensor | None) -> tuple[Tensor, ...]:
            operands, graph = tensors[:n_operands], tensors[n_operands:]
            return tuple(faces.forward(*operands, *faces.with_graph(rest, graph)))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            ctx.rest, *tensors = inputs
            operands, graph = tensors[:n_operands], tensors[n_operands:]
            ctx.n_results, ctx.n_graph = len(output), len(graph)
            ctx.mark_non_differentiable(*output[n_outputs:])
            ctx.set_materialize_grads(False)
            kept = faces.kept(output, operands, faces.with_graph(ctx.rest, graph))
            save(ctx, operands, graph, kept)

        @staticmethod
        def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
            operands, graph, saved = saved_by(ctx, n_operands)
            wrt = _needed(operands[:n], ctx.needs_input_grad[1 : 1 + n])
            outputs = cotangents[:n_outputs]
            gradients: Sequence[Tensor | None] = [None] * n
            if any(wrt) and any(c is not None for c in outputs):
                static = faces.with_graph(ctx.rest, graph)
                gradients = spread(wrt, vjp(saved, wrt, static, outputs, operands))
            return (None, *gradients, *[None] * (len(faces.op.arrays) + ctx.n_graph))

        @staticmethod
        def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
            operands, graph, _saved = saved_by(ctx, n_operands)
            outputs = jvp(faces.with_graph(ctx.rest, graph), operands, tangents[:n])
            return (*outputs, *[None] * (ctx.n_results - n_outputs))

        @staticmethod
        def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
            return rows_of_batch(Forward.apply, info.batch_size, in_dims, arguments)

    class Vjp(torch.autograd.Function):
        @staticmethod
        def forward(
            form: tuple[list[bool], list[Any], int], *tensors: Tensor | None
        ) -> tuple[Tensor, ...]:
            wrt, rest, n_graph = form
            cotangents, operands, graph, saved = parts(tensors, n_graph)
            static = faces.with_graph(rest, graph)
            return tuple(faces.vjp(list(cotangents), *operands, list(saved), wrt, *static))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            ctx.form, *tensors = inputs
            cotangents, operands, graph, saved = parts(tensors, ctx.form[2])
            ctx.n_graph, ctx.n_saved = len(graph), len(saved)
            save(ctx, [*cotangents, *operands], graph)

        @staticmethod
        def backward(ctx: Any, *directions: Tensor) -> tuple[Any, ...]:
            wanted, rest, _ = ctx.form
            arrays, graph, _saved = saved_by(ctx, n_outputs + n_operands)
            cotangents, operands = arrays[:n_outputs], arrays[n_outputs:]
            static, along = faces.with_graph(rest, graph), spread(wanted, directions)
            needs = ctx.needs_input_grad[1:]
            to_cotangents: Sequence[Tensor | None] = [None] * n_outputs
            if any(needs[:n_outputs]):
                to_cotangents = _where(cotangents, jvp(static, operands, along))
            wrt = _needed(operands[:n], needs[n_outputs : n_outputs + n])
            gradients = hvp(wrt, static, cotangents, operands, along) if any(wrt) else []
            others = [None] * (len(faces.op.arrays) + ctx.n_graph + ctx.n_saved)
            return (None, *to_cotangents, *spread(wrt, gradients), *others)

        @staticmethod
        def jvp(ctx: Any, _: None, *tangents: Any) -> tuple[Tensor, ...]:
            wrt, rest, _n_graph = ctx.form
            arrays, graph, _saved = saved_by(ctx, n_outputs + n_operands)
            cotangents, operands = arrays[:n_outputs], arrays[n_outputs:]
            static = faces.with_graph(rest, graph)
            moved, along = tangents[:n_outputs], tangents[n_outputs : n_outputs + n]
            result = hvp(wrt, static, cotangents, operands, along)
            if any(c is not None for c in moved):
                linear = vjp([], wrt, static, moved, operands)
                result = [a + b for a, b in zip(result, linear, strict=True)]
            return tuple(result)

        @staticmethod
        def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
            return rows_of_batch(Vjp.apply, info.batch_size, in_dims, arguments)

    class Jvp(torch.autograd.Function):
        @staticmethod
        def forward(rest: list[Any], *tensors: Tensor | None) -> tuple[Tensor, ...]:
            arrays, graph = tensors[: n_operands + n], tensors[n_operands + n :]
            return tuple(faces.jvp(*arrays, *faces.with_graph(rest, graph)))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            ctx.rest, *tensors = inputs
            ctx.n_graph = len(tensors) - n_operands - n
            ctx.set_materialize_grads(False)
            save(ctx, tensors[: n_operands + n], tensors[n_operands + n :])

        @staticmethod
        def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
            arrays, graph, _saved = saved_by(ctx, n_operands + n)
            operands, tangents = arrays[:n_operands], arrays[n_operands:]
            static, needs = faces.with_graph(ctx.rest, graph), ctx.needs_input_grad[1:]
            wrt = _needed(operands[:n], needs[:n])
            gradients = hvp(wrt, static, cotangents, operands, tangents) if any(wrt) else []
            along = _needed(tangents, needs[n_operands : n_operands + n])
            to_tangents = vjp([], along, static, cotangents, operands) if any(along) else []
            no_arrays = [None] * len(faces.op.arrays)
            to_operands = (*spread(wrt, gradients), *no_arrays)
            return (None, *to_operands, *spread(along, to_tangents), *[None] * ctx.n_graph)

        @staticmethod
        def jvp(ctx: Any, *_: Any) -> None:
            raise NotImplementedError(
                f"{faces.op.name}: there is no forward mode of forward mode; "
                "forward over reverse (jacfwd of jacrev) gives the same numbers"
            )

        @staticmethod
        def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
            return rows_of_batch(Jvp.apply, info.batch_size, in_dims, arguments)

    class Hvp(torch.autograd.Function):
        @staticmethod
        def forward(
            form: tuple[list[bool], list[Any]], *tensors: Tensor | None
        ) -> tuple[Tensor, ...]:
            wrt, rest = form
            cotangents, others = tensors[:n_outputs], tensors[n_outputs:]
            arrays, graph = others[: n_operands + n], others[n_operands + n :]
            return tuple(faces.hvp(list(cotangents), *arrays, wrt, *faces.with_graph(rest, graph)))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            """Save nothing: there are no further derivatives."""

        @staticmethod
        def backward(ctx: Any, *_: Any) -> None:
            faces.refuse()

        @staticmethod
        def jvp(ctx: Any, *_: Any) -> None:
            faces.refuse()

        @staticmethod
        def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
            return rows_of_batch(Hvp.apply, info.batch_size, in_dims, arguments)

    def parts(tensors: Sequence[Any], n_graph: int) -> list[Sequence[Any]]:
        """Split tensors into cotangents, operands, the graph, and those saved by forward."""
        ends = [0, *itertools.accumulate((n_outputs, n_operands, n_graph)), len(tensors)]
        return [tensors[first:last] for first, last in itertools.pairwise(ends)]

    def save(ctx: Any, operands: Tensors, graph: Tensors, kept: Tensors = ()) -> None:
        """Save tensors; those of a graph as an attribute, unless a transform may replace them."""
        ctx.graph = None if in_transform() else graph
        of_graph = graph if ctx.graph is None else []
        ctx.save_for_backward(*operands, *of_graph, *kept)
        ctx.save_for_forward(*operands, *of_graph)

    def saved_by(ctx: Any, n_arrays: int) -> tuple[Tensors, Tensors, Tensors]:
        """Operands, graph and kept tensors, as `save` has stored them."""
        arrays = ctx.saved_tensors
        operands, others = arrays[:n_arrays], arrays[n_arrays:]
        if ctx.graph is not None:
            return operands, ctx.graph, others
        return operands, others[: ctx.n_graph], others[ctx.n_graph :]

    @not_compiled
    def uncompiled(operands: Sequence[Any], static: list[Any]) -> tuple[Tensor, ...]:
        rest, graph = faces.without_graph(static)
        outputs: tuple[Tensor, ...] = Forward.apply(rest, *operands, *graph)
        return outputs

    def apply(operands: Sequence[Any], static: list[Any]) -> tuple[Tensor, ...]:
        if torch.compiler.is_compiling() and not _is_differentiated():
            outputs = faces.forward(*operands, *static)
        else:
            outputs = uncompiled(operands, static)
        return tuple(outputs[:n_outputs])

    return apply, vjp


def not_compiled(function: AnyFunction) -> AnyFunction:
    """Make `torch.compile` break its graph at a function that reads the values of tensors."""
    # torch.compiler.disable would import the compiler, which takes longer than all of gnograd
    disabled = torch._disable_dynamo(function)  # type: ignore[attr-defined]
    leave_to_python(function)

    @functools.wraps(function)
    def call(*inputs: Any, **arguments: Any) -> Any:
        if torch.compiler.is_compiling():
            return disabled(*inputs, **arguments)
        return function(*inputs, **arguments)

    return cast(AnyFunction, call)


def _is_differentiated() -> bool:
    """True inside of a transform, or a level of forward mode, that needs derivatives at once.

    There compilers leave out the rules of custom operators: tangents would be 0.
    """
    differentiate = TransformType.Grad, TransformType.Jvp
    stack = get_interpreter_stack() or ()
    return forward_ad._current_level >= 0 or any(level.key() in differentiate for level in stack)


def autocast(op: Function[Any, Any], operands: list[Any], static: dict[str, Any]) -> list[Any]:
    """Convert operands to the dtypes that the current region of `torch.autocast` prescribes."""
    device = next((x.device.type for x in operands if x is not None), "cpu")
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return operands
    inputs = operands[: len(op.inputs)]
    dtype, types = torch.float32, [torch.float32] * len(inputs)
    if any(x is not None and x.dtype in _HALF for x in inputs):
        dtype = torch.get_autocast_dtype(device)
        if _has_kernel(op.name, device, dtype):
            specs = op.signature(**static, **dict.fromkeys(op.arrays)).inputs.values()
            types = [torch.float32 if shapes.parse(spec).dtype else dtype for spec in specs]
    cast = [
        x.to(dtype) if x is not None and x.dtype in _SINGLE_OR_HALF else x
        for x, dtype in zip(inputs, types, strict=True)
    ]
    return [*cast, *operands[len(inputs) :]]


def widened(op: Function[Any, Any], operands: list[Any], static: dict[str, Any]) -> list[Any]:
    """Convert half-precision operands to float32 where kernels need that beside half precision."""
    if not any(x is not None and x.dtype in _HALF for x in operands):
        return operands
    specs = op.signature(**static, **dict.fromkeys(op.arrays)).inputs.values()
    given = [(x, shapes.parse(spec).dtype) for x, spec in zip(operands, specs, strict=False)]
    half = next((x.dtype for x, prescribed in given if x is not None and not prescribed), None)
    found = [
        x.float() if x is not None and prescribed == "real" and x.dtype is half else x
        for x, prescribed in given
    ]
    return [*found, *operands[len(found) :]]


def _has_kernel(operator: str, device: str, dtype: torch.dtype) -> bool:
    """True if kernels compute in this dtype on this kind of device."""
    name = dtype_name(dtype)
    if device != "cuda" or not has_cuda():
        return name in cpu.SUFFIXES
    from gnograd.backends.cuda import SUFFIXES
    from gnograd.backends.cuda_library import library

    return f"{operator}_forward_{SUFFIXES.get(name)}" in library().faces


# what torch.compiler.assume_constant_result does, without importing the compiler
_has_kernel._dynamo_marked_constant = True  # type: ignore[attr-defined]
_is_differentiated._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _single(value: Any) -> Any:
    """float32 copies of tensors of half precision, also of those in lists."""
    if isinstance(value, list | tuple):
        return [_single(v) for v in value]
    return value.float() if isinstance(value, Tensor) and value.dtype in _HALF else value


def _schema_type(parameter: inspect.Parameter) -> str:
    """Type of a static argument in the schema of a custom operator."""
    return _SCHEMA_TYPES[str(parameter.annotation)]


def _tensors(op: Function[Any, Any], operands: Tensors, graph: Any) -> list[Tensor | None]:
    """Tensors of a graph for custom operators, on the device of the first operand."""
    device = next(x.device for x in operands if x is not None)
    if isinstance(graph, Graph) and graph.device != device:
        raise TypeError(
            f"{op.name}: graph is on {graph.device}, but the arrays are on {device}; "
            "graph.to(device) moves it"
        )
    return list(arrays_of(graph, device))


def _no_gradients(static: Sequence[Any]) -> list[Any]:
    """None as gradient of every static argument, and for a list of tensors a list of None."""
    return [
        [None] * len(value)
        if isinstance(value, list | tuple) and all(isinstance(x, Tensor) for x in value)
        else None
        for value in static
    ]


def _present(tensor: Callable[..., Tensor], arrays: Sequence[Any]) -> list[Tensor]:
    return [tensor(a) for a in arrays if a is not None]


def _like_wanted(inputs: Tensors, wrt: Sequence[bool]) -> list[Tensor]:
    return [torch.empty_like(x) for x, w in zip(inputs, wrt, strict=True) if w and x is not None]


def _needed(inputs: Tensors, needs: Sequence[bool]) -> list[bool]:
    """Flag for every input: true if it is present and needs a gradient."""
    return [x is not None and bool(need) for x, need in zip(inputs, needs, strict=True)]


def _where(cotangents: Tensors, gradients: Sequence[Tensor]) -> list[Tensor | None]:
    """Gradients with respect to the cotangents, None for absent ones."""
    return [None if c is None else g for c, g in zip(cotangents, gradients, strict=True)]
