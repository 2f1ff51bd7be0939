# SPDX-License-Identifier: MIT
"""Any gnograd operator as a JAX function.

Each of the four faces is a JAX primitive. There is a fifth, `curve`: the second derivative along
two tangents, ``d2 f(x)[s, t]``. No kernel computes it, but forward over forward mode needs it, and
its transpose is hvp; so reverse over forward mode works too. With it the rules are closed::

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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from gnograd.backends import cpu
from gnograd.distributed.roles import role_of
from gnograd.faces.fronts import present
from gnograd.faces.operator import Function, Operator, spread
from gnograd.jax.distributed import DistributedGraph
from gnograd.jax.graph import Graph, arrays_of, check
from gnograd.jax.task import TARGET, Parts, Task, know
from gnograd.notation import shapes
from gnograd.notation.static import exact_integers

try:
    from jax.sharding import reshard
except ImportError:  # its place in JAX 0.6
    from jax.experimental.shard import reshard  # type: ignore[no-redef]

__all__ = ["jax_operator"]


def jax_operator(op: Function[Any, Any]) -> Callable[..., Any]:
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
        for name, value in arguments.items():
            if isinstance(value, jax.Array) and name not in (*op.inputs, *op.arrays):
                raise TypeError(
                    f"{op.name}: {name} is a JAX array, but needs to be known when the program is "
                    "compiled"
                )
        graph, parts = arguments.get("graph"), None
        if isinstance(graph, DistributedGraph):
            parts, graph = graph, graph.local
        if isinstance(graph, Graph):
            check(op.name, graph.arrays)
            arguments["graph"] = graph.sizes
        given, static = op.arrange(inputs, arguments)
        made = static.pop("graph", None)
        names = (*op.inputs, *op.arrays)
        operands = [_array(op, *pair) for pair in zip(names, given, strict=True)]
        for k, name in enumerate(op.arrays, len(op.inputs)):
            dtype = shapes.parse(op.declaration.arrays[name]).dtype
            operands[k] = _integers(f"{op.name}: {name}", operands[k], dtype)
        operands = [None if x is None else jnp.asarray(x) for x in operands]
        _check_type(op, operands[: len(op.inputs)])
        if made is not None:
            operands += graph.arrays if isinstance(graph, Graph) else arrays_of(made)
        hashable = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in static.items())
        task = Task(op, hashable)
        if parts is not None:
            operands = _with_halo(parts, task, operands)
        outputs = _bind(task, Parts(operands), "forward")
        return op.returned(outputs, arguments)

    know(op)
    present(function, op, "gnograd.jax", "jax.Array")
    return function


def _array(op: Function[Any, Any], name: str, value: Any) -> Any:
    if value is None:
        return None
    if not hasattr(value, "dtype") or isinstance(value, jax.ShapeDtypeStruct):
        raise TypeError(f"{op.name}: {name} is of type {type(value).__name__}, needs an array")
    return cpu.native(value) if isinstance(value, np.ndarray) else value


def _with_halo(graph: DistributedGraph, task: Task, operands: list[Any]) -> list[Any]:
    """Operands with the rows of the halo appended where their rows belong to sources."""
    if task.op.hops > 1:
        raise NotImplementedError(
            f"{task.op.name}: on a DistributedGraph of JAX there is no halo of edges"
        )
    found = list(operands)
    for k, spec in enumerate(task.signature(operands).inputs.values()):
        of, axis = role_of(spec)
        if operands[k] is None or of != "n_src":
            continue
        axis += operands[k].ndim
        if axis >= 0 and operands[k].shape[axis] == graph.n_own:
            found[k] = graph.extended(operands[k], axis)
    return found


def _check_type(op: Function[Any, Any], inputs: Sequence[Any]) -> None:
    """Raise an error if there are no kernels for the dtypes of the inputs."""
    known = list(cpu.SUFFIXES)
    if jax.default_backend() != "cpu":
        known += ["float16", "bfloat16"]
    there = [(n, x.dtype) for n, x in zip(op.inputs, inputs, strict=True) if x is not None]
    for name, dtype in there:
        if str(dtype) not in known:
            raise TypeError(f"{op.name}: {name} is {dtype}, needs {' or '.join(known)}")


def _integers(label: str, array: Any, dtype: str) -> Any:
    """Convert integers to the dtype that the operator needs, or to the largest that JAX has."""
    if array is None:
        return None
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(f"{label} is {array.dtype}, needs {dtype}")
    there = np.dtype(jax.dtypes.canonicalize_dtype(dtype))
    if there != dtype and isinstance(array, np.ndarray | np.generic):  # JAX would cut them
        return exact_integers(label, np.asarray(array), there)
    if np.can_cast(array.dtype, there):
        return array.astype(there)
    # kernels report those that do not fit: free rows may hold anything
    limits, xp = np.iinfo(there), np if isinstance(array, np.ndarray | np.generic) else jnp
    least = max(limits.min, np.iinfo(array.dtype).min)
    return xp.clip(array, least, limits.max).astype(there)


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


def _bind(
    task: Task, at: Parts, face: str, wrt: Sequence[bool] = (), keeps: bool = False
) -> list[Any]:
    """Bind the primitive of a face, for the operator and static arguments of a task."""
    bound = Task(task.op, task.static, face, Parts(*map(_there, at)), tuple(wrt), keeps)
    operands = _vary_alike(list(map(_whole, _flat(at))))
    results: list[Any] = _PRIMITIVES[face].bind(*operands, task=bound)
    return results


def _mesh(aval: Any) -> Any:
    """Mesh of devices with explicit axes that the type of an array names, or None."""
    mesh: Any = getattr(getattr(aval, "sharding", None), "mesh", None)
    return mesh if getattr(mesh, "explicit_axes", None) else None


def _undivided(mesh: Any, rank: int) -> jax.sharding.NamedSharding:
    """Type of an array that is whole on every device of a mesh."""
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*[None] * rank))


def _whole(x: Any) -> Any:
    """The array on every device, if its type says that it is in parts on several."""
    aval = jax.typeof(x)
    mesh = _mesh(aval)
    if mesh is None or not any(aval.sharding.spec):
        return x
    return reshard(x, _undivided(mesh, aval.ndim))


def _vary_alike(operands: list[Any]) -> list[Any]:
    """In `jax.shard_map`, mark all operands as varying along the axes along which any varies."""
    own = [_axes(jax.typeof(x)) for x in operands]
    every = frozenset[Any]().union(*own)
    return [
        x if mine == every else _vary(x, tuple(every - mine))
        for x, mine in zip(operands, own, strict=True)
    ]


def _vary(x: Any, axes: tuple[Any, ...]) -> Any:
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(x, axes, to="varying")
    pvary: Any = getattr(jax.lax, "pvary")  # noqa: B009 its name in older versions
    return pvary(x, axes)


def _axes(aval: Any) -> frozenset[Any]:
    """Axes of `jax.shard_map` along which an array varies."""
    kind = getattr(aval, "manual_axis_type", None)
    axes: frozenset[Any] = getattr(aval, "vma", frozenset()) if kind is None else kind.varying
    return axes


def _results(*operands: Any, task: Task) -> list[Any]:
    """Shapes and dtypes of the results of a primitive."""
    at = task.parts(operands)
    if task.face in ("vjp", "hvp"):
        wanted = zip(at.operands, task.wrt, strict=False)
        given = [(x.shape, x.dtype) for x, wrt in wanted if wrt]
    else:
        given = task.results(at.operands)[: None if task.keeps else task.op.n_outputs]
    like = operands[0]
    if _axes(like):
        return [like.update(shape, jnp.dtype(dtype), weak_type=False) for shape, dtype in given]
    found = [jax.core.ShapedArray(shape, jnp.dtype(dtype)) for shape, dtype in given]
    mesh = next(filter(None, map(_mesh, operands)), None)
    if mesh is not None:
        found = [aval.update(sharding=_undivided(mesh, aval.ndim)) for aval in found]
    return found


def _compute(*operands: Any, task: Task) -> Any:
    with jax.disable_jit(False):
        return _compiled(task)(*operands)


@functools.lru_cache(maxsize=128)
def _compiled(task: Task) -> Any:
    def compute(*operands: Any) -> Any:
        return _PRIMITIVES[task.face].bind(*operands, task=task)

    compute.__name__ = task.op.name
    compute.__qualname__ = f"{task.op.name} ({task.face})"
    # JAX's mark: jax.debug_nans does not look for a NaN inside, where this function is called again
    compute._apply_primitive = True  # type: ignore[attr-defined]
    return jax.jit(compute)


def _lower(ctx: Any, *operands: Any, task: Task) -> Any:
    if task.face == "curve":
        raise NotImplementedError(
            f"{task.op.name}: there is no second derivative in forward over forward mode; "
            "jax.jacfwd(jax.jacrev(f)) and jax.jacrev(jax.jacfwd(f)) are equal to it"
        )
    return jax.ffi.ffi_lowering(TARGET)(ctx, *operands, task=task.text)


def _loop(arrays: Sequence[Any], dims: Sequence[Any], *, task: Task) -> tuple[Any, Any]:
    """Batching rule: a loop, since kernels take long compared with their calls."""
    batched = [dim is not None for dim in dims]
    arrays = list(map(_whole, arrays))
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
    along = moved.operands[: len(task.op.inputs)]
    if task.face == "forward":
        return _differentiate_forward(at, along, task)
    terms = []
    if any(_there(along)):
        if task.face == "jvp":
            terms.append(_bind(task, at._replace(others=along, saved=()), "curve"))
        elif task.face == "vjp":
            terms.append(_bind(task, at._replace(tangents=along, saved=()), "hvp", task.wrt))
        else:
            raise NotImplementedError(f"{task.op.name}: there are no third derivatives")
    for group in ("cotangents", "tangents", "others"):
        if any(_there(getattr(moved, group))):
            linear = at._replace(**{group: getattr(moved, group)})
            terms.append(_bind(task, linear, task.face, task.wrt))
    values = _PRIMITIVES[task.face].bind(*primals, task=task)
    if not terms:
        return values, list(map(_zero, values))
    return values, [functools.reduce(jnp.add, column) for column in zip(*terms, strict=True)]


def _differentiate_forward(
    at: Parts, along: Sequence[Any], task: Task
) -> tuple[list[Any], list[Any]]:
    """JVP rule of forward, which reverse mode uses too: it keeps what the vjp reads."""
    op = task.op
    differentiable = isinstance(op, Operator) and any(_there(along))
    values = _bind(task, at, "forward", keeps=task.keeps or differentiable)
    changes = list(map(_zero, values))
    if differentiable:
        signature = task.signature(at.operands)
        dtypes = [str(x.dtype) for x in at.operands[: len(op.inputs)] if x is not None]
        # a program may be lowered for any backend, which is not known yet
        by_backend = [signature.read(backend, dtypes) for backend in ("cpu", "cuda")]
        read = map(any, zip(*by_backend, strict=True))
        kept = spread(signature.needed, signature.kept(values))
        saved = [x if is_read else None for x, is_read in zip(kept, read, strict=True)]
        changes[: op.n_outputs] = _bind(task, at._replace(tangents=along, saved=saved), "jvp")
    n = None if task.keeps else op.n_outputs
    return values[:n], changes[:n]


def _transpose(cotangents: Sequence[Any], *args: Any, task: Task) -> list[Any]:
    at, given = task.parts(args), list(map(_or_none, cotangents))
    (group,) = [g for g in Parts._fields if any(map(ad.is_undefined_primal, getattr(at, g)))]
    asked = [ad.is_undefined_primal(x) for x in getattr(at, group)]
    if group == "operands" and not _is_linear(task, asked):
        raise NotImplementedError(
            f"{task.op.name}: it cannot be transposed here, as jax.linear_transpose does, and "
            "jax.grad through a rule of jax.custom_jvp: its output is not declared linear in what "
            "is transposed; take its derivatives by jax.vjp or jax.jvp"
        )
    gradients: Sequence[Any] = [None] * len(asked)
    if any(_there(given)):
        if group == "operands":  # the gradient does not read the operand that it is by
            filled = [
                jnp.zeros(x.aval.shape, x.aval.dtype) if ad.is_undefined_primal(x) else x
                for x in at.operands
            ]
            point = at._replace(operands=filled, cotangents=given[: task.op.n_outputs])
            wrt = asked[: len(task.op.inputs)]
            gradients = spread(asked, _bind(task, point, "vjp", wrt))
        elif group == "cotangents":  # of vjp and hvp: their results are gradients
            along = spread(task.wrt, given)
            if task.face == "vjp":
                gradients = _bind(task, at._replace(cotangents=(), tangents=along), "jvp")
            else:
                gradients = _bind(task, at._replace(cotangents=(), others=along), "curve")
        elif task.face == "jvp":
            point = at._replace(cotangents=given, tangents=())
            gradients = spread(asked, _bind(task, point, "vjp", asked))
        else:  # hvp and curve are symmetric in the two tangents
            if task.face == "hvp":
                point = at._replace(tangents=spread(task.wrt, given))
            else:
                known = at.others if group == "tangents" else at.tangents
                point = at._replace(cotangents=given, tangents=known, others=())
            gradients = spread(asked, _bind(task, point, "hvp", asked))
    mine = [g if wanted else None for g, wanted in zip(gradients, asked, strict=True)]
    result = Parts(*([None] * len(part) for part in at))._replace(**{group: mine})
    masked = (zip(*pair, strict=True) for pair in zip(task.there, result, strict=True))
    return [value for pairs in masked for there, value in pairs if there]


def _is_linear(task: Task, asked: Sequence[bool]) -> bool:
    """True if the value of an operator is linear in the operand that is asked for."""
    op, static = task.op, dict(task.static)
    return (
        isinstance(op, Operator)
        and sum(asked) == 1
        and not any(asked[len(op.inputs) :])
        and op.declaration.is_bilinear(static)
    )


def _zero(value: Any) -> Any:
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def _or_none(tangent: Any) -> Any:
    return None if type(tangent) is ad.Zero else tangent


def _there(values: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(value is not None for value in values)


def _flat(at: Parts) -> list[Any]:
    """All arrays that are not None, in order."""
    return [array for group in at for array in group if array is not None]


_PRIMITIVES = {face: _primitive(face) for face in ("forward", "vjp", "jvp", "hvp", "curve")}
