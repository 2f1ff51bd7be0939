# SPDX-License-Identifier: MIT
"""The faces of operators as custom operators of PyTorch, with rules for the dispatcher.

Custom operators take tensors and plain numbers: a graph comes as its arrays, and static arguments
that are arrays as tensors behind the inputs. So one compiled program serves all graphs.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gnograd.backends.cpu import dtype_name
from gnograd.faces.operator import Function, Operator, spread
from gnograd.notation import shapes
from gnograd.notation.declaration import FACES
from gnograd.notation.graph_arrays import GraphArrays
from gnograd.torch import half_precision
from gnograd.torch.arrays import as_arrays, integers
from gnograd.torch.batches import register_loop
from gnograd.torch.dispatch import kernels, without_gradients
from gnograd.torch.eager import KnownCalls, leave_to_python, read_by_vjp
from gnograd.torch.graph import lend_tensors
from gnograd.torch.half_precision import HALF, single

__all__ = ["Face", "Faces", "Tensors", "needed", "where"]

Tensors: TypeAlias = Sequence[Tensor | None]

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


class Face:
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
            results = run(*map(single, args))
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
            and x.dtype in HALF
            and not half_precision.has_kernel(self.op.name, x.device.type, x.dtype)
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


class Faces(Face):
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
        wrt = needed(operands[: self.n], ctx.needs_input_grad[: self.n])
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
        wrt = needed(operands[: self.n], ctx.needs_input_grad[1 : 1 + self.n])
        gradients = self.hvp(cotangents, *operands, *along, wrt, *ctx.static) if any(wrt) else []
        return (
            where(cotangents, to_cotangents),
            *spread(wrt, gradients),
            *[None] * len(self.op.arrays),
            [None] * ctx.n_saved,
            None,
            *_no_gradients(ctx.static),
        )

    def refuse(self, *_: Any) -> None:
        """Raise NotImplementedError: there are no further derivatives."""
        raise NotImplementedError(f"{self.op.name}: there are no third derivatives")


def _schema_type(parameter: inspect.Parameter) -> str:
    """Type of a static argument in the schema of a custom operator."""
    return _SCHEMA_TYPES[str(parameter.annotation)]


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


def needed(inputs: Tensors, needs: Sequence[bool]) -> list[bool]:
    """Flag for every input: true if it is present and needs a gradient."""
    return [x is not None and bool(need) for x, need in zip(inputs, needs, strict=True)]


def where(cotangents: Tensors, gradients: Sequence[Tensor]) -> list[Tensor | None]:
    """Gradients with respect to the cotangents, None for absent ones."""
    return [None if c is None else g for c, g in zip(cotangents, gradients, strict=True)]
