# SPDX-License-Identifier: MIT
"""Calls of operators in which one argument is something else: refused, or answered rightly."""

import numpy as np
import values
from values import numbers, same, tupled

import gnograd as gg
from operators import MANY, invoke, make

LIMITS = {"window", "q_offset", "query_block", "stride", "block_size", "block"}
"""Integers that may be as large as they like, and then have the effect of `MANY`."""
OTHERS = ("tangents", "cotangent", "saved", "wrt", "out", "out", "out", "out", "unknown")


def hostile(trial, name):
    """A valid call, and then one with an argument that is something else."""
    operator = getattr(gg, name)
    target = trial.pick(*trial.pick(operator.inputs, list(operator.static) or OTHERS, OTHERS))
    extreme, forced = None, {}
    if target in LIMITS and trial.chance(0.6) and (name, target) != ("compress", "block"):
        extreme = trial.pick(*values.EXTREMES)
        if extreme > 0 or target in ("q_offset", "window"):
            forced = {target: int(np.clip(extreme, -MANY, MANY))}
    try:
        call = make(trial, name, forced=forced, dense=trial.chance(0.5))
    except ValueError:
        if forced:  # refused already
            return
        raise
    if call.ghost or all(x is None for x in call.inputs):
        return
    face = trial.pick(*call.faces)
    arguments = call.arguments(face)
    base = invoke(trial, call, face, arguments)
    given = (trial, call, face, arguments, target)
    if target == "unknown":
        refused(*given, 1)
    elif target == "wrt" and face in ("vjp", "hvp"):
        wrong = "nonsense", ["nonsense"], 3, [3], np.array(["nonsense"]), [None]
        refused(*given, trial.pick(*wrong))
    elif target in operator.inputs or target in ("tangents", "cotangent"):
        strange_array(*given)
    elif isinstance(base, Exception):
        expect_limit(trial, base, invoke(trial, call, face, arguments | {target: extreme}), extreme)
    elif target == "saved" and face == "vjp":
        strange_saved(*given)
    elif target == "out":
        strange_out(trial, call, face, arguments, tupled(base))
    elif extreme is not None:
        expect_limit(trial, base, invoke(trial, call, face, arguments | {target: extreme}), extreme)
    elif target in operator.arrays and arguments[target] is not None:
        strange_integers(*given)
    elif target in operator.static:
        strange_static(*given)


def expect_limit(trial, base, result, extreme):
    """An extreme is refused, or has the effect of `MANY`."""
    if extreme is not None and not isinstance(result, Exception):
        trial.expect(same(result, base), f"an extreme has not the effect of {MANY}")


def refused(trial, call, face, arguments, target, wrong):
    """A call that must raise."""
    _refused(trial, invoke(trial, call, face, arguments | {target: wrong}), target, wrong)


def _refused(trial, result, target, wrong):
    kind = wrong if isinstance(wrong, str) else type(wrong).__name__
    trial.expect(isinstance(result, Exception), f"accepted as {target}: {kind}")


def strange_array(trial, call, face, arguments, target):
    """No array, or one of another kind or size."""
    group = target if target in ("tangents", "cotangent") else "inputs"
    if group not in arguments:
        return
    members = list(tupled(arguments[group]))
    names = call.operator.inputs
    k = names.index(target) if group == "inputs" else trial.rng.integers(len(members))
    if members[k] is None:
        return
    resized = trial.chance(0.2)  # which may be right by chance
    if resized:
        n = members[k].shape[0] + trial.pick(1, -1)
        members[k] = np.resize(members[k], (max(n, 0), *members[k].shape[1:]))
    else:
        members[k] = values.no_such_array(trial, members[k])
    whole = tuple(members) if isinstance(arguments[group], tuple) else members[0]
    floats = getattr(members[k], "dtype", None) in (np.float32, np.float64)
    if resized or (floats and face == "forward" and sum(x is not None for x in members) == 1):
        invoke(trial, call, face, arguments | {group: whole})
    else:
        result = invoke(trial, call, face, arguments | {group: whole})
        _refused(trial, result, group, members[k])


def strange_integers(trial, call, face, arguments, target):
    """Static arguments that are arrays of integers."""
    array = arguments[target].copy()
    if trial.chance(0.4):
        refused(trial, call, face, arguments, target, values.no_such_array(trial, array))
    elif array.size:
        info = np.iinfo(array.dtype)
        array.flat[trial.rng.integers(array.size)] = trial.pick(info.min, info.max, -1, -2, MANY)
        invoke(trial, call, face, arguments | {target: array})


def strange_saved(trial, call, face, arguments, target):
    """Saved arrays of another call, or nonsense in them: any answer will do."""
    _, saved = call.operator.forward(*call.inputs, return_saved=True, **call.static)
    saved = list(saved)
    for k, x in enumerate(saved):
        if x is not None and x.dtype.kind == "i":
            wild = np.array([0, -1, 5, 2**62, -(2**63), 2**63 - 1])
            saved[k] = trial.rng.choice(wild, x.shape).astype(x.dtype)
        elif x is not None:
            saved[k] = numbers(trial, x.shape, "wild", x.dtype)
        if x is not None and trial.chance(0.2):
            saved[k] = values.no_such_array(trial, x)
    kinds = tuple(saved), tuple(saved), tuple(saved), saved[:1], 3, "saved", (*saved, 1)
    invoke(trial, call, face, arguments | {"saved": trial.pick(*kinds)})


def strange_static(trial, call, face, arguments, target):
    """A value of another type, or an extreme."""
    value, default = arguments[target], call.operator.static[target]
    any_answer = ()
    if target == "graph":
        wrong = None, 3, "graph", ([0], [0]), np.zeros(3), object(), gg.Graph
    elif target == "widths":
        wrong = 3, None, "ab", [], [0], [2.5], [True], [-1], [None], [2**62], [2**64], {4}
    elif target in call.operator._choices:
        wrong = values.NO_NAMES
    elif isinstance(value, bool):
        wrong = values.NO_BOOLEANS
    elif target in ("scale", "negative_slope"):
        wrong, any_answer = (*values.NO_NUMBERS, None, 10**400, np.nan, np.inf, 1e308), (int, float)
    elif target == "seed":
        wrong = values.NO_ARRAYS
    elif target == "dropout":
        wrong = (*values.NO_NUMBERS, None, 10**400, np.nan, np.inf, -1e-300, 1 + 1e-15)
    else:
        wrong, any_answer = (*values.NO_INTEGERS, *values.EXTREMES, None, 0, -1), (int,)
    wrong = trial.pick(*wrong)
    if type(wrong) in any_answer:
        invoke(trial, call, face, arguments | {target: wrong})
        return
    if wrong is not None or default is not None:
        refused(trial, call, face, arguments, target, wrong)


def strange_out(trial, call, face, arguments, base):
    """Memory for the results that is not to be written, or is no such memory."""
    k = int(trial.rng.integers(len(base)))
    if base[k] is None or base[k].size == 0:
        return
    out = [None if x is None else np.full_like(x, 77) for x in base]
    kind = trial.pick("shared", "shared", "twice", "read-only", "no array", "strided", "many")
    if kind == "read-only":
        out[k] = values.read_only(trial, out[k])
    elif kind == "no array":
        out[k] = values.no_such_array(trial, out[k])
    elif kind == "strided":
        out[k] = np.full((*base[k].shape, 2), 77, base[k].dtype)[..., 0]
        if out[k].flags.c_contiguous:
            return
    elif kind == "many":
        out.append(out[k])
    elif kind == "twice":
        others = [j for j, x in enumerate(base) if x is not None and x.size and j != k]
        others = [j for j in others if base[j].dtype == base[k].dtype]
        if not others:
            return
        j = trial.pick(*others)
        out[k], out[j] = values.overlapping(trial, base[k], base[j])
    else:
        found = [
            (group, j)
            for group in ("inputs", "tangents", "cotangent")
            for j, x in enumerate(tupled(arguments.get(group)))
            if isinstance(x, np.ndarray) and x.size and x.dtype == base[k].dtype
        ]
        if not found:
            return
        group, j = trial.pick(*found)
        members = list(tupled(arguments[group]))
        shared, out[k] = values.overlapping(trial, members[j], base[k])
        shared[...], members[j] = members[j], shared
        whole = tuple(members) if isinstance(arguments[group], tuple) else members[0]
        arguments = arguments | {group: whole}
    if trial.chance(0.3) and kind in ("shared", "read-only", "no array", "strided"):
        out = [x if j == k else None for j, x in enumerate(out)]
    arrays = [x for x in out if isinstance(x, np.ndarray)]
    before = [x.copy() for x in arrays]
    result = invoke(trial, call, face, arguments | {"out": tuple(out)})
    trial.expect(isinstance(result, Exception), f"accepted as `out`: {kind}")
    if isinstance(result, Exception):
        trial.expect(same(arrays, before), f"an error, but `out` was written: {kind}")
