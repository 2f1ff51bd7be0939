# SPDX-License-Identifier: MIT
"""Any gnograd operator as a JAX function.

Each of the four faces is a JAX primitive. There is a fifth, `curve`: the second derivative along
two tangents, ``d2 f(x)[s, t]``. No kernel computes it, but it is what forward over forward mode
asks of an operator, and its transpose is hvp; so reverse over forward mode works too. With it
the rules are closed::

    forward(x)        jvp: jvp(x, dx)
    jvp(x, t)         jvp: jvp(x, dt) + curve(x, t, dx)         transpose by t: vjp(x, c)
    vjp(x, c)         jvp: vjp(x, dc) + hvp(x, c, dx)           transpose by c: jvp(x, t)
    hvp(x, c, t)      jvp: hvp(x, dc, t) + hvp(x, c, dt)        transpose by t: hvp(x, c, s)
                                                                transpose by c: curve(x, s, t)
    curve(x, s, t)    jvp: curve(x, ds, t) + curve(x, s, dt)    transpose by t: hvp(x, c, s)

A derivative of the last two by x is a third derivative, and refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from gnograd import shapes
from gnograd.jax.task import TARGET, Parts, Task, number_of, spread
from gnograd.operator import Function, Operator

__all__ = ["jax_operator"]


def jax_operator(op: Function[Any]) -> Callable[..., Any]:
    """Make a JAX function of a gnograd operator.

    Parameters
    ----------
    op : Function or Operator
        A function has no derivatives, and its results are constants to JAX.

    Returns
    -------
    callable
        Takes JAX arrays where `op` takes arrays, and the same static arguments; where it takes
        integers, JAX arrays of any integer type. Arrays are not copied. Under `jax.jit`, static
        arguments are constants of the program. Differentiable twice: in reverse mode, in forward
        mode, and in one after the other, but for forward over forward mode. `jax.vmap` is a loop
        over the batch.
    """

    def function(*inputs: Any, **arguments: Any) -> Any:
        given, static = op.arrange(inputs, arguments)
        names = (*op.inputs, *op.arrays)
        operands = [_array(op, *pair) for pair in zip(names, given, strict=True)]
        task = Task(op, _hashable(op, static), "forward", Parts(_there(operands)))
        specs = task.signature.arrays
        for k, name in enumerate(op.arrays, len(op.inputs)):
            operands[k] = _integers(operands[k], shapes.parse(specs[name]).dtype)
        outputs = _bind(task, "forward", Parts(operands))[: op.n_outputs]
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = f"`gnograd.{op.name}` on JAX arrays.\n\n{op.__doc__}"
    return function


def _array(op: Function[Any], name: str, value: Any) -> Any:
    if value is None:
        return None
    if not hasattr(value, "dtype"):
        raise TypeError(f"{op.name}: {name} is of type {type(value).__name__}, needs an array")
    return jnp.asarray(value)


def _integers(array: Any, dtype: str) -> Any:
    """The same numbers in the type that the operator needs, or in the largest that JAX has."""
    if array is None or not dtype or not jnp.issubdtype(array.dtype, jnp.integer):
        return array
    return array.astype(jax.dtypes.canonicalize_dtype(dtype))


def _hashable(op: Function[Any], static: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    for name, value in static.items():
        if isinstance(value, jax.Array):
            raise TypeError(
                f"{op.name}: {name} is a JAX array, but needs to be known when the program is "
                "compiled"
            )
    return tuple((n, tuple(v) if isinstance(v, list) else v) for n, v in static.items())


# ---- the primitives ----


def _primitive(face: str) -> Primitive:
    primitive = Primitive(f"gnograd_{face}")
    primitive.multiple_results = True
    primitive.def_impl(_compute)
    primitive.def_abstract_eval(_results)
    ad.primitive_jvps[primitive] = _differentiate
    ad.primitive_transposes[primitive] = _transpose
    batching.primitive_batchers[primitive] = _loop
    mlir.register_lowering(primitive, _lower)
    return primitive


def _bind(task: Task, face: str, at: Parts, wrt: Sequence[bool] = (), keeps: bool = False) -> Any:
    """Apply a face of the operator of another task."""
    there = Parts(*map(_there, at))
    task = replace(task, face=face, there=there, wrt=tuple(wrt), keeps=keeps)
    return _PRIMITIVES[face].bind(*_flat(at), task=task)


def _results(*operands: Any, task: Task) -> list[Any]:
    """Shapes and dtypes of what a primitive gives."""
    at, n = task.parts(operands), len(task.op.inputs)
    if task.face in ("vjp", "hvp"):
        wanted = zip(at.operands, task.wrt, strict=False)
        return [jax.core.ShapedArray(x.shape, x.dtype) for x, wrt in wanted if wrt]
    # signatures may look at the numbers in static arrays, but not for the shapes of results
    arrays = [None if x is None else np.broadcast_to(0, x.shape) for x in at.operands[n:]]
    results = task.op.results(
        [None if x is None else (x.shape, str(x.dtype)) for x in at.operands[:n]],
        **task.arguments,
        **dict(zip(task.op.arrays, arrays, strict=True)),
    )
    given = list(results.values())[: None if task.keeps else len(task.signature.outputs)]
    return [jax.core.ShapedArray(shape, jnp.dtype(dtype)) for shape, dtype in given]


def _compute(*operands: Any, task: Task) -> Any:
    with jax.disable_jit(False):
        return _compiled(task)(*operands)


@functools.lru_cache(maxsize=128)
def _compiled(task: Task) -> Any:
    return jax.jit(functools.partial(_PRIMITIVES[task.face].bind, task=task))


def _lower(ctx: Any, *operands: Any, task: Task) -> Any:
    if task.face == "curve":
        raise NotImplementedError(
            f"{task.op.name}: there is no second derivative in forward over forward mode; "
            "jax.jacfwd(jax.jacrev(f)) and jax.jacrev(jax.jacfwd(f)) are equal to it"
        )
    ctx.module_context.add_keepalive(task)
    return jax.ffi.ffi_lowering(TARGET)(ctx, *operands, task=np.int64(number_of(task)))


def _loop(arrays: Sequence[Any], dims: Sequence[Any], *, task: Task) -> tuple[Any, Any]:
    """Batch by a loop: kernels are long compared with their calls."""
    batched = [dim is not None for dim in dims]
    rows = [jnp.moveaxis(a, dim, 0) for a, dim in zip(arrays, dims, strict=True) if dim is not None]

    def one(row: Sequence[Any]) -> Any:
        mine = iter(row)
        each = [next(mine) if b else a for a, b in zip(arrays, batched, strict=True)]
        return _PRIMITIVES[task.face].bind(*each, task=task)

    results = jax.lax.map(one, rows)
    return results, [0] * len(results)


# ---- their derivatives ----


def _differentiate(
    primals: Sequence[Any], tangents: Sequence[Any], *, task: Task
) -> tuple[list[Any], list[Any]]:
    at, moved = task.parts(primals), task.parts(map(_or_none, tangents))
    if task.face == "forward":
        return _differentiate_forward(at, moved, task)
    terms = []
    along = moved.operands[: len(task.op.inputs)]
    if any(_there(along)):
        if task.face == "jvp":
            terms.append(_bind(task, "curve", at._replace(others=along, saved=())))
        elif task.face == "vjp":
            terms.append(_bind(task, "hvp", at._replace(tangents=along, saved=()), task.wrt))
        else:
            raise NotImplementedError(f"{task.op.name}: there are no third derivatives")
    for group in ("cotangents", "tangents", "others"):
        if any(_there(getattr(moved, group))):
            linear = at._replace(**{group: getattr(moved, group)})
            terms.append(_bind(task, task.face, linear, task.wrt))
    values = _PRIMITIVES[task.face].bind(*primals, task=task)
    if not terms:
        return values, list(map(_zero, values))
    return values, [functools.reduce(jnp.add, column) for column in zip(*terms, strict=True)]


def _differentiate_forward(at: Parts, moved: Parts, task: Task) -> tuple[list[Any], list[Any]]:
    """Forward mode, which is what reverse mode is made of: with all that the vjp would like."""
    along = moved.operands[: len(task.op.inputs)]
    n = len(task.signature.outputs)
    differentiable = isinstance(task.op, Operator) and any(_there(along))
    values = _bind(task, "forward", at, keeps=task.keeps or differentiable)
    changes = list(map(_zero, values))
    if differentiable:
        own = [name for name in task.saved_names if name not in task.signature.outputs]
        results = dict(zip([*task.signature.outputs, *own], values, strict=True))
        saved = [results[name] for name in task.saved_names]
        changes[:n] = _bind(task, "jvp", at._replace(tangents=along, saved=saved))
    return (values, changes) if task.keeps else (values[:n], changes[:n])


def _transpose(cotangents: Sequence[Any], *args: Any, task: Task) -> list[Any]:
    at, given = task.parts(args), list(map(_or_none, cotangents))
    (group,) = [g for g in Parts._fields if any(map(ad.is_undefined_primal, getattr(at, g)))]
    asked = [ad.is_undefined_primal(x) for x in getattr(at, group)]
    gradients: Sequence[Any] = [None] * len(asked)
    if any(_there(given)):
        if group == "cotangents":  # of vjp and hvp, whose own cotangents are those of gradients
            along = spread(task.wrt, given)
            if task.face == "vjp":
                gradients = _bind(task, "jvp", at._replace(cotangents=(), tangents=along))
            else:
                gradients = _bind(task, "curve", at._replace(cotangents=(), others=along))
        elif task.face == "jvp":
            point = at._replace(cotangents=given, tangents=())
            gradients = spread(asked, _bind(task, "vjp", point, asked))
        else:  # hvp and curve, symmetric in the two tangents
            if task.face == "hvp":
                point = at._replace(tangents=spread(task.wrt, given))
            else:
                known = at.others if group == "tangents" else at.tangents
                point = at._replace(cotangents=given, tangents=known, others=())
            gradients = spread(asked, _bind(task, "hvp", point, asked))
    mine = [g if wanted else None for g, wanted in zip(gradients, asked, strict=True)]
    result = Parts(*([None] * len(part) for part in at))._replace(**{group: mine})
    masked = (zip(*pair, strict=True) for pair in zip(task.there, result, strict=True))
    return [value for pairs in masked for there, value in pairs if there]


def _zero(value: Any) -> Any:
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def _or_none(tangent: Any) -> Any:
    return None if type(tangent) is ad.Zero else tangent


def _there(values: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(value is not None for value in values)


def _flat(at: Parts) -> list[Any]:
    """The arrays that are there, one after the other."""
    return [array for group in at for array in group if array is not None]


_PRIMITIVES = {face: _primitive(face) for face in ("forward", "vjp", "jvp", "hvp", "curve")}
