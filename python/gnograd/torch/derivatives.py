# SPDX-License-Identifier: MIT
"""Derivatives of operators in eager mode, by `torch.autograd.Function`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import forward_ad

from gnograd.faces.operator import spread
from gnograd.torch.batches import one_by_one, rows_of_batch
from gnograd.torch.custom_operators import Faces, Tensors, needed, where
from gnograd.torch.eager import in_transform, not_compiled

__all__ = ["functions"]


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
            wrt = needed(operands[:n], ctx.needs_input_grad[1 : 1 + n])
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
                to_cotangents = where(cotangents, jvp(static, operands, along))
            wrt = needed(operands[:n], needs[n_outputs : n_outputs + n])
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
            wrt = needed(operands[:n], needs[:n])
            gradients = hvp(wrt, static, cotangents, operands, tangents) if any(wrt) else []
            along = needed(tangents, needs[n_operands : n_operands + n])
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
        if torch.compiler.is_compiling() and not is_differentiated():
            outputs = faces.forward(*operands, *static)
        else:
            outputs = uncompiled(operands, static)
        return tuple(outputs[:n_outputs])

    return apply, vjp


def is_differentiated() -> bool:
    """True inside of a transform, or a level of forward mode, that needs derivatives at once.

    There compilers leave out the rules of custom operators: tangents would be 0.
    """
    differentiate = TransformType.Grad, TransformType.Jvp
    stack = get_interpreter_stack() or ()
    return forward_ad._current_level >= 0 or any(level.key() in differentiate for level in stack)


is_differentiated._dynamo_marked_constant = True  # type: ignore[attr-defined]
