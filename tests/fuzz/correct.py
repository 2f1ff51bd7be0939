# SPDX-License-Identifier: MIT
"""Valid calls of operators, and what must be true of what they give."""

from functools import partial

import numpy as np
import values
from values import disguised, same, tupled

from faces import inner, like
from operators import FACES, dims, invoke, make
from reference import derivatives
from table_case import oracle as formula_of

MOST_PAIRS = 20_000
"""Pairs of queries and keys that the formulas of attention are evaluated for."""
SMOOTH = {"gelu", "silu", "tanh", "sin", "identity", "Linear", "Scalar", "Sigmoid", "Tanh"}


def valid(trial, name):
    """A call in every face."""
    style = trial.pick("normal", "normal", "normal", "ties", "wild")
    call, results = make(trial, name, style), {}
    for face in call.faces:
        arguments = call.arguments(face)
        result = results[face] = invoke(trial, call, face, arguments)
        if isinstance(result, Exception):
            there = [x for x in call.inputs if x is not None]
            legal = there and all(0 not in x.shape for x in there) and not call.ghost
            trial.expect(not legal, f"a valid call was refused: {result}")
            return
        if not call.ghost:
            in_disguise(trial, call, face, arguments, tupled(result))
    if style == "normal" and trial.dtype == np.float64 and not call.ghost:
        by_formula(trial, call, results)
        consistent(trial, call, results)


def in_disguise(trial, call, face, arguments, result):
    """Require the same bits from other layouts, in given memory, for a subset of gradients."""
    other = {name: _disguise(trial, name, value) for name, value in arguments.items()}
    if face in ("vjp", "hvp") and trial.chance(0.4):
        wanted = [name for name in call.operator.inputs if trial.chance(0.5)]
        other["wrt"] = trial.pick(wanted, set(wanted), tuple(wanted))
        names = zip(result, call.operator.inputs, strict=True)
        result = tuple(x if name in wanted else None for x, name in names)
    if face == "vjp" and trial.chance(0.5):
        _, other["saved"] = call.operator.forward(*call.inputs, return_saved=True, **call.static)
    before = [x.copy() for x in _arrays(other)]
    memory = [(None, lambda: True) if x is None else values.guarded(x) for x in result]
    out = {"out": tuple(inside for inside, _ in memory)} if trial.chance(0.7) else {}
    again = invoke(trial, call, face, other | out)
    if isinstance(again, Exception):
        trial.find("refused in another layout or kind of number")
        return
    again = tupled(again)
    if "saved" in other:  # what is computed again may be rounded otherwise
        trial.expect(all(map(values.close, again, result)), "another value with `saved`")
    else:
        trial.expect(same(again, result), "other bits in another layout or kind of number")
    if out:
        trial.expect(all(a is o for a, o in zip(again, out["out"], strict=True)), "not in `out`")
        trial.expect(all(untouched() for _, untouched in memory), "wrote around `out`")
    trial.expect(same(before, list(_arrays(other))), "changed an input")


def _disguise(trial, name, value):
    """Arrays in other layouts, numbers of other types."""
    if name in ("inputs", "tangents", "cotangent"):
        changed = tuple(disguised(trial, x) for x in tupled(value))
        return changed if isinstance(value, tuple) else changed[0]
    if type(value) is int:
        kinds = value, np.int64(value), np.int32(value), np.array(value), values.Index(value)
        return trial.pick(*kinds)
    if type(value) is float:
        return trial.pick(value, np.float64(value), np.array(value))
    if type(value) is list:
        return trial.pick(value, tuple(value), [np.int64(x) for x in value])
    return disguised(trial, value)


def _arrays(arguments):
    return (x for v in arguments.values() for x in tupled(v) if isinstance(x, np.ndarray))


# ---- values ----


def by_formula(trial, call, results):
    """The value and its derivative in a direction, by the formula."""
    formula = oracle(call)
    if formula is None:
        return
    with np.errstate(all="ignore"):
        expected = tupled(formula(*call.inputs))
        for actual, e in zip(tupled(results["forward"]), expected, strict=True):
            right = actual.shape == e.shape and np.allclose(actual, e, 1e-9, 1e-9)
            trial.expect(right, "another value than the formula's")
        if "jvp" in results and len(expected) == 1:
            e = derivatives.jvp(formula, call.inputs, call.tangents)
            right = np.allclose(results["jvp"], e, 1e-8, 1e-8)
            trial.expect(right, "another jvp than the formula's")


def oracle(call):
    """The formula, where there is one for these arguments."""
    name, given = call.operator.name, dict(zip(call.operator.inputs, call.inputs, strict=True))
    there = [x for label, x in given.items() if x is not None and label != "w"]
    static = dict(call.static)
    if (
        static.get("kernel") == "diagonal"
        or not there
        or any(0 in x.shape[1:] for x in there)
        or static.get("n_keys") == 0
    ):
        return None
    if given.get("q") is not None and len(given["q"]) * len(given["k"]) > MOST_PAIRS:
        return None
    if name == "select_blocks" and static["scale"] == 0:
        return None  # of blocks with equal scores rounding decides
    if name == "radial_basis":
        return None  # 80 digits take their time
    absent = given.get("weight_derivatives") is not None and given["edge_weight"] is None
    batch = np.shape(given["h"])[:-2] if given.get("h") is not None else ()
    if absent or 0 in batch:
        return None
    formula = partial(first, call.operator, formula_of(name, static, call.edges))
    return partial(item_by_item, formula, batch) if batch else formula


def first(operator, formula, *inputs):
    """As many outputs as the operator has."""
    found = tupled(formula(*inputs))[: getattr(operator, "n_outputs", 1)]
    return found if len(found) > 1 else found[0]


def item_by_item(formula, batch, h, *others):
    """The formula for each function of a batch."""
    found = [tupled(formula(h[item], *others)) for item in np.ndindex(batch)]
    outputs = tuple(
        np.stack(each).reshape(*batch, *each[0].shape) for each in zip(*found, strict=True)
    )
    return outputs if len(outputs) > 1 else outputs[0]


def consistent(trial, call, results):
    """Adjointness, symmetry, and derivatives by differences."""
    if "hvp" not in results or not all(np.isfinite(x).all() for x in tupled(results["forward"])):
        return
    operator, static = call.operator, call.static
    cotangents, tangent = tupled(call.cotangent), tupled(results["jvp"])
    size = sum(np.abs(c * t).sum() for c, t in zip(cotangents, tangent, strict=True))
    left, right = inner(results["vjp"], call.tangents), inner(cotangents, tangent)
    trial.expect(abs(left - right) <= 1e-9 * (1 + size), "vjp and jvp are not adjoint")

    other = like(call.inputs, trial.rng)
    twice = operator.hvp(call.cotangent, call.inputs, other, **static)
    pairs = [(h, t) for h, t in zip(twice, call.tangents, strict=True) if h is not None]
    left, right = inner(results["hvp"], other), inner(twice, call.tangents)
    size = sum(np.abs(h * t).sum() for h, t in pairs)
    trial.expect(abs(left - right) <= 1e-9 * (1 + size), "the hvp is not symmetric")

    # a normalisation is as steep as a kink where a row hardly varies; its faces have been compared
    smooth = static.get("activation", "tanh") in SMOOTH and not static.get("layer_norm")
    if not smooth or static.get("aggregation") in ("min", "max"):
        return
    step = 1e-6

    def moved(s):
        pairs = zip(call.inputs, call.tangents, strict=True)
        return [None if x is None else x + s * step * t for x, t in pairs]

    def gradient(x):
        return operator.vjp(call.cotangent, x, **static)

    for face, f in ("jvp", lambda x: tupled(operator(*x, **static))), ("hvp", gradient):
        for d, ahead, behind in zip(tupled(results[face]), f(moved(1)), f(moved(-1)), strict=True):
            if d is not None:
                size = 1 + values.size(ahead) + values.size(d)
                error = np.abs(d - (ahead - behind) / (2 * step)).max(initial=0)
                trial.expect(error <= 1e-6 * size, f"the {face} is not the derivative")


# ---- NaN ----


def not_a_number(trial, name):
    """A NaN reaches what depends on its place, and no other node or token."""
    call = make(trial, name, dense=True)
    extreme = call.static.get("aggregation") in ("min", "max")
    if name == "select_blocks" or all(x is None for x in call.inputs):
        return
    # the gradient of an extreme goes where the NaN is, and is none itself
    face = "forward" if extreme else trial.pick(*call.faces)
    arguments = call.arguments(face)
    group = trial.pick("inputs", *FACES[face])
    members = list(tupled(arguments[group]))
    k = trial.pick(*[k for k, x in enumerate(members) if x is not None])
    if not members[k].size:
        return
    member = call.operator.inputs[k] if group == "inputs" else group
    place = tuple(int(trial.rng.integers(n)) for n in members[k].shape)
    old = members[k][place]

    def result(value):
        changed = members[k].copy()
        changed[place] = value
        whole = (*members[:k], changed, *members[k + 1 :])
        given = arguments | {group: whole if isinstance(arguments[group], tuple) else whole[0]}
        return invoke(trial, call, face, given)

    # so far that the smallest share of a softmax tells
    reach = 1e30 if _is_value(call, member) else 50.0
    far = [] if face != "forward" or name == "radial_basis" else [reach, 0.0]
    if member == "temperature":
        far = far[:1]
    elif far and member != "slot_gate":
        far.append(-reach)
    results = [result(x) for x in (old, old * 1.01 + 1e-3, *far, np.nan)]
    errors = [x for x in results if isinstance(x, Exception)]
    if errors:
        trial.expect(len(errors) == len(results), f"refused for a value: {errors[0]}")
        return
    start, *others, nan = map(tupled, results)
    local = face == "forward" and group == "inputs" and _is_local(call, member)
    rows = np.zeros(len(start[0]) if local else 0, bool)
    for j, s in enumerate(start):
        if s is None:
            continue
        depends = np.zeros(s.shape, bool)
        for other in others:
            # by more than the rounding of sums in which it does not take part
            near = (
                1e3 * np.finfo(s.dtype).eps * np.nan_to_num(np.abs(s) + np.abs(other[j]), posinf=0)
            )
            depends |= ~(np.abs(s - other[j]) <= near) & (s != other[j])
        reaches = _is_step(call, face, j) or np.isnan(nan[j])[depends].all()
        trial.expect(reaches, f"a NaN became a number: {face} by {member}")
        if local:
            rows |= depends.reshape(len(rows), depends[:1].size).any(axis=1)
    if local:
        for a, b in zip(start, nan, strict=True):
            new = (np.isnan(b) & ~np.isnan(a)).reshape(len(rows), a[:1].size).any(axis=1)
            trial.expect(not (new & ~rows).any(), f"a NaN spread: {face} by {member}")


def _is_value(call, member):
    """True if it holds values of attention, which reach only the tokens that see them."""
    return member == "v" and "Tk" in call.operator.signature(**call.static).inputs.get("v", "")


def _is_step(call, face, j):
    """True if a result is made of slopes of relu, which are steps, and numbers at NaN."""
    if call.static.get("activation") != "relu":
        return False
    if face == "vjp":  # values of relu are in the gradients of the last layer and the features
        return call.operator.inputs[j] not in ("h", "V", "b_v")
    return face != "forward" or (call.operator.n_outputs > 1 and j > 0)


def _is_local(call, member):
    """True if a NaN in a row of this input may only reach rows that depend on it.

    Softmax and mean cancel what all edges of a row have in common, dead units of relu their
    inputs, dropout its edges, a scale of 0 everything, the normalisation of a single feature that,
    and a weight may be of no winner; products of triplets multiply by 0 what is not seen.
    """
    if _is_value(call, member):
        return True
    name, static = call.operator.name, call.static
    spec = call.operator.signature(**static).inputs[member]
    cancels = "mha" in name and member not in ("v", "x_src")
    cancels |= name == "edge_softmax"
    cancels |= static.get("aggregation", "sum") != "sum" and member == "w"
    cancels |= static.get("scale") == 0 or static.get("dropout", 0) > 0
    cancels |= static.get("activation") == "relu" or name in ("agg_edge_to_edge", "edge_mlp")
    return dims(spec)[0] in ("n_src", "n_dst", "n_edges", "T") and not cancels
