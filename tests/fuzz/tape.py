# SPDX-License-Identifier: MIT
"""Random programs on the tape against NumPy, with errors and dead handles in between."""

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import values
from hostile import LIMITS
from scipy.special import erf, expit
from values import same, tupled

import gnograd.autodiff as ad
import operators
from gnograd import _core
from gnograd.backends.cpu import address


def _softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=axis, keepdims=True)


NUMPY = SimpleNamespace(
    exp=np.exp, log=np.log, sqrt=np.sqrt, sin=np.sin, cos=np.cos, tanh=np.tanh, sigmoid=expit,
    gelu=lambda x: x * (1 + erf(x / np.sqrt(2))) / 2, silu=lambda x: x * expit(x),
    sum=np.sum, mean=np.mean, transpose=np.transpose, reshape=np.reshape, softmax=_softmax,
    concatenate=np.concatenate, relu=lambda x: np.maximum(x, 0), matmul=np.matmul,
    norm=lambda x, axis=None, keepdims=False: np.sqrt(np.sum(x * x, axis, keepdims=keepdims)),
)  # fmt: skip
ANY = ("",)
"""Names, one of which every message has."""
SHAPES = [(), (1,), (3,), (2, 3), (3, 2), (0, 3), (2, 1, 3), (1, 2, 1, 3), (3, 3), (17,)]
STEPS = [
    "m.tanh(x) * y",
    "m.sin(x) + m.cos(y)",
    "x / (1.5 + y * y)",
    "m.exp(m.tanh(x)) - 2 * y",
    "m.log(x * x + 1.0) + m.sqrt(y**2 + 0.5)",
    "m.gelu(x) - m.silu(y)",
    "m.sigmoid(-x) * m.relu(y)",
    "m.tanh(x) @ m.tanh(y)",
    "m.matmul(m.sin(x), m.transpose(m.tanh(y)))",
    "m.sum(x, p.axis, p.keep)",
    "m.mean(x, p.axis, p.keep) * 3",
    "m.norm(x + 2.0, p.axis, p.keep)",
    "m.softmax(x, p.one)",
    "m.transpose(x, p.order[: len(x.shape)])",
    "m.reshape(x, p.shape(x))",
    "m.concatenate([x, y, x], p.one)",
    "x[p.key(x)]",
    "x[p.rows(x)]",
    "(x + 3.0) ** 1.5 * p.number",
    "p.array(x) * x",
]
"""One formula for both, of two values and some parameters `p`."""


class Parameters:
    """Arguments of a step besides values, the same for NumPy and the tape."""

    def __init__(self, rng):
        self.axis = [None, 0, -1, 1, (0, 1), 2][rng.integers(6)]
        self.one = int(rng.integers(-1, 3))
        self.keep = bool(rng.integers(2))
        self.number = float(rng.normal())
        self._seed = int(rng.integers(2**31))
        self.order = (1, 0, 2, 3) if rng.integers(2) else (0, 1, 2, 3)

    def _rng(self):
        return np.random.default_rng(self._seed)

    def array(self, x):
        return self._rng().normal(size=x.shape)

    def shape(self, x):
        return [(-1,), (*x.shape, 1)[-4:], x.shape[::-1], (1, -1)][self._seed % 4]

    def rows(self, x):
        return self._rng().integers(-len(x), len(x), 4)

    def key(self, x):
        rng = self._rng()
        keys = [slice(None), slice(None, None, -1), slice(1, None), slice(None, None, 2), 0, -1]
        keys += [None, slice(5, 1, -2)]
        return tuple(keys[rng.integers(len(keys))] for _ in range(rng.integers(len(x.shape) + 1)))


def step(m, text, x, y, p):
    """One of `STEPS`."""
    return eval(text, {"m": m, "x": x, "y": y, "p": p})


def run(m, steps, leaves):
    """All values of a program: those given, and one a step."""
    found = list(leaves)
    for text, i, j, parameters in steps:
        found.append(step(m, text, found[i], found[j], parameters))
    return found


def loss_of(m, found):
    return sum((m.mean(m.tanh(x)) for x in found if 0 not in x.shape), start=0.0)


def programs(trial):
    """A program, its gradient and that of its gradient; things go wrong in between."""
    rng, tape = trial.rng, ad.Tape("float64")
    leaves = [rng.normal(size=trial.pick(*SHAPES)) for _ in range(rng.integers(1, 4))]
    leaves = [np.asarray(x) for x in leaves]
    parameters = [tape.parameter(x) for x in leaves]
    steps, on_tape, in_numpy = [], list(parameters), list(leaves)
    for _ in range(rng.integers(1, 9)):
        i, j = (int(rng.integers(len(in_numpy))) for _ in range(2))
        text, p = trial.pick(*STEPS), Parameters(rng)
        if "axis" in text or "one" in text or "[" in text:
            i = next((k for k in (i, *range(i)) if in_numpy[k].ndim), None)
        product = "mat" in text or "@" in text
        if i is None or (product and any(in_numpy[k].ndim != 2 for k in (i, j))):
            continue
        try:
            expected = np.asarray(step(NUMPY, text, in_numpy[i], in_numpy[j], p))
        except Exception:
            continue  # shapes that do not fit: see `mishap`
        if expected.ndim > 4 or expected.size > 5000:
            continue
        actual = trial.attempt(text, step, ad, text, on_tape[i], on_tape[j], p, names=ANY)
        if isinstance(actual, Exception):
            trial.find(f"refused: {text}, {actual}")
            continue
        right = actual.shape == expected.shape
        right = right and np.allclose(actual.value, expected, 1e-9, 1e-9, equal_nan=True)
        trial.require(right, f"another value than NumPy's: {text}")
        steps.append((text, i, j, p))
        on_tape.append(actual)
        in_numpy.append(expected)
        if trial.chance(0.3):
            mishap(trial, tape, on_tape)
        if trial.chance(0.2):
            rewound(trial, tape, on_tape)
    used = [x for x in on_tape if 0 not in x.shape]
    if used:
        derivatives(trial, tape, steps, leaves, parameters, loss_of(ad, on_tape))


def derivatives(trial, tape, steps, leaves, parameters, loss):
    """First and second derivatives along a direction, by differences."""
    direction = [trial.rng.normal(size=x.shape) for x in leaves]
    gradient = ad.grad(loss, parameters, create_graph=True)
    along = sum(np.sum(g.value * t) for g, t in zip(gradient, direction, strict=True))

    def moved(s):
        return [x + s * t for x, t in zip(leaves, direction, strict=True)]

    def value(s):
        return loss_of(NUMPY, run(NUMPY, steps, moved(s)))

    def slope(s):
        other = ad.Tape("float64")
        parameters = [other.parameter(x) for x in moved(s)]
        gradient = ad.grad(loss_of(ad, run(ad, steps, parameters)), parameters)
        return [g.value for g in gradient]

    h = 1e-6
    numbers = [value(-h), value(h), *[x for x in leaves if x.size]]
    kinks = any(word in text for text, *_ in steps for word in ("relu", "norm", "1.5"))
    if kinks or not all(np.isfinite(x).all() and np.abs(x).max() < 1e3 for x in numbers):
        return
    found = (value(h) - value(-h)) / (2 * h)
    trial.expect(
        abs(along - found) <= 1e-5 * (1 + abs(found)), "the gradient is not the derivative"
    )
    loss.backward()
    backward = [p.grad for p in parameters]
    trial.expect(all(map(same, backward, [g.value for g in gradient])), "backward is not grad")
    second = [g.value for g in ad.grad(inner(gradient, direction), parameters)]
    for s, a, b in zip(second, slope(h), slope(-h), strict=True):
        found = (a - b) / (2 * h)
        size = np.abs(found).max(initial=1)
        trial.expect(
            np.abs(s - found).max(initial=0) <= 1e-4 * (1 + size),
            "the second gradient is not the derivative",
        )


# ---- what is wrong, and refused ----

WRONG = [
    "x + o",
    "o * x",
    "x @ np.ones((5, 7, 2, 2))",
    "x + 'text'",
    "x * None",
    "x * object()",
    "x * 2j",
    "x**'2'",
    "ad.sum(x, axis=4)",
    "ad.sum(x, axis=2**63 - 1)",
    "ad.mean(x, axis=-(2**63))",
    "ad.softmax(x, axis=2**31)",
    "ad.softmax(x, axis=5)",
    "ad.softmax(x, axis=(0,))",
    "ad.concatenate([x, x], axis=(0,))",
    "ad.norm(x, axis='0')",
    "x[100]",
    "x['text']",
    "x[1.5]",
    "x[np.array([2**62])]",
    "x[np.array([-(2**63)])]",
    "x[[0.5]]",
    "x[(0,) * 5]",
    "ad.reshape(x, (2**62, 4))",
    "ad.reshape(x, (-1, -1))",
    "ad.reshape(x, (x.size + 1,))",
    "ad.reshape(x, (1,) * 5)",
    "ad.reshape(x, 'text')",
    "ad.transpose(x, (0,) * (x.ndim + 1))",
    "ad.transpose(x, tuple(range(5)))",
    "ad.concatenate([x, o])",
    "ad.concatenate([x, np.ones((2, 2, 2, 2, 2))])",
    "ad.concatenate([])",
    "ad.concatenate([x, x], axis=9)",
    "ad.matmul(3, 4)",
    "ad.grad(ad.sum(x), [o])",
    "ad.grad(ad.sum(o), [x])",
    "ad.grad(x.tape.constant([1.0, 2.0]), [x])",
    "ad.Adam([x, o])",
    "ad.Adam([])",
    "ad.SGD([ad.exp(x)], 0.1)",
    "x.tape.parameter('text')",
    "x.tape.parameter(object())",
    "x.tape.parameter([1j])",
    "x.tape.constant(np.ones((1,) * 5))",
    "x.tape.constant(np.ones(3, np.float16))",
    "x.tape.constant(np.ma.masked_array([1.0], [True]))",
    "x.tape.rewind('text')",
    "x.tape.rewind(None)",
    "x.tape.rewind(1.5)",
    "setattr(x, 'value', np.ones((7, 7, 7)))",
    "setattr(ad.exp(x), 'value', np.ones(x.shape))",
    "ad.Tape('int64')",
    "ad.Tape('nonsense')",
    "copy.copy(x)",
    "copy.deepcopy(x)",
    "pickle.dumps(x)",
    "copy.copy(x.tape)",
    "copy.deepcopy(x.tape)",
    "pickle.dumps(x.tape)",
    "copy.copy(ad.SGD([x.tape.parameter([1.0])], 0.1))",
    "copy.deepcopy(ad.Adam([x.tape.parameter([1.0])]))",
    "pickle.dumps(ad.Adam([x.tape.parameter([1.0])]))",
]
"""Expressions of an array x and one of another tape that must raise an error."""


GONE = [
    "gone.value", "gone.shape", "gone + kept", "kept * gone", "ad.grad(ad.sum(kept), [gone])",
    "gone.backward()", "gone.grad", "ad.sum(gone)", "gone[0]", "setattr(also, 'value', [1.0, 2.0])",
    "descent.step()", "descent.state_dict()", "ad.concatenate([kept, gone])", "ad.Adam([also])",
]  # fmt: skip
"""Expressions of an array and a parameter that are gone, its optimizer, and an array."""


def mishap(trial, tape, on_tape):
    """Something that must raise an error, and change nothing."""
    x, other = trial.pick(*on_tape), ad.Tape("float64").parameter([[1.0, 2.0, 3.0]])
    wrong = trial.pick(*WRONG)
    before, mark = x.value, tape.mark()
    given = {"x": x, "o": other, "ad": ad, "np": np, "copy": copy, "pickle": pickle}
    result = trial.attempt(wrong, lambda: eval(wrong, given), names=ANY)
    trial.require(isinstance(result, Exception), f"accepted: {wrong}")
    trial.require(same(x.value, before), f"changed a value: {wrong}")
    tape.rewind(mark)


def rewound(trial, tape, on_tape):
    """Arrays that are gone are errors, for ever; a mark that is none frees nothing."""
    mark, kept = tape.mark(), trial.pick(*on_tape)
    gone = ad.exp(kept)
    also = tape.parameter([1.0, 2.0])
    descent = ad.SGD([also], 0.1)
    tape.rewind(mark)
    if trial.chance(0.5):
        ad.cos(kept), tape.constant([3.0, 4.0])  # in their places
    use = trial.pick(*GONE)
    given = {"gone": gone, "kept": kept, "also": also, "descent": descent, "ad": ad}
    result = trial.attempt(f"rewound: {use}", lambda: eval(use, given), names=ANY)
    trial.require(isinstance(result, Exception), f"answered after rewinding: {use}")
    far = trial.pick(2**32, 2**31, 2**63 - 1, tape.mark() + 5, 2**64)
    before, mark = kept.value, tape.mark()
    trial.attempt("rewind", tape.rewind, far, names=ANY)
    alive = tape.mark() == mark and same(kept.value, before)
    trial.require(alive, "rewinding to a mark that is none freed arrays")


# ---- operators on the tape ----


def on_the_tape(trial):
    """An operator on the tape, with its own arguments or another one."""
    name = trial.pick(*sorted(set(ad.__all__) & set(operators.NAMES)))
    call, tape = operators.make(trial, name, dense=True), ad.Tape("float64")
    arrays = [None if x is None else tape.parameter(x) for x in call.inputs]
    if all(x is None for x in arrays) or trial.dtype != np.float64:
        return
    static = {k: v for k, v in call.static.items() if k != "n_compressed"}
    names = [*call.operator.inputs, *static]

    def attempt(static):
        return trial.attempt(f"autodiff.{name}", getattr(ad, name), *arrays, names=names, **static)

    if trial.chance(0.5):
        strange_static(trial, call, static, attempt)
        return
    outputs = attempt(static)
    if isinstance(outputs, Exception):
        trial.find(f"refused, unlike by the operator: {outputs}")
        return
    outputs, expected = tupled(outputs), tupled(call.operator(*call.inputs, **call.static))
    compare(trial, f"{name}: another value than the operator's", outputs, expected)
    if not all(np.isfinite(x).all() for x in expected):
        return
    present = [x for x in arrays if x is not None]
    gradient = ad.grad(inner(outputs, tupled(call.cotangent)), present, create_graph=True)
    direct = call.operator.vjp(call.cotangent, call.inputs, **call.static)
    compare(trial, f"{name}: another gradient", gradient, direct)
    tangents = [t for t in call.tangents if t is not None]
    second = ad.grad(inner(gradient, tangents), present)
    direct = call.operator.hvp(call.cotangent, call.inputs, call.tangents, **call.static)
    compare(trial, f"{name}: another hvp", second, direct)


def inner(arrays, others):
    """Sum of the products, on the tape."""
    return sum((ad.sum(a * b) for a, b in zip(arrays, others, strict=True)), start=0.0)


def compare(trial, what, arrays, expected):
    """Report arrays that are not those of the operator, as far as it has them."""
    pairs = zip(arrays, [e for e in expected if e is not None], strict=True)
    trial.expect(all(values.close(a.value, e) for a, e in pairs), what)


def strange_static(trial, call, static, attempt):
    """Give a static argument another kind of number, or an extreme."""
    target = trial.pick(*static)
    wrong = trial.pick(*values.NO_NUMBERS, *values.EXTREMES, "nonsense", 2.7, True)
    result = attempt(static | {target: wrong})
    if isinstance(result, Exception):
        return
    right = wrong is True and isinstance(static[target], bool)
    right |= type(wrong) is float and target in ("scale", "negative_slope")
    right |= isinstance(wrong, list | tuple | np.ndarray) and target == "seed"  # of one integer
    if type(wrong) is not int:
        trial.expect(right, f"accepted as {target}: {type(wrong).__name__}")
    elif target in LIMITS:
        many = call.static | {target: int(np.clip(wrong, -operators.MANY, operators.MANY))}
        expected = operators.invoke(trial, call, "forward", {"inputs": call.inputs, **many})
        if not isinstance(expected, Exception):
            first = tupled(result)[0].value
            trial.expect(same(first, tupled(expected)[0]), f"an extreme {target} is wrong")


# ---- the C interface under the tape ----


def handles(trial):
    """Handles of another tape, none, or nonsense, and sizes that are none, come back as errors."""
    one, two = ad.Tape("float64"), ad.Tape("float64")
    a, b = (tape.parameter([[1.0, 2.0], [3.0, 4.0]]) for tape in (one, two))
    loss, _ = ad.sum(a * a), ad.sum(b * b * b)
    gone = ad.exp(a)
    dead = gone._handle
    one.rewind(one.mark() - 1)
    bad = trial.pick(b._handle, 0, -1, dead, 2**62, int(trial.rng.integers(2**63)))
    room = np.zeros(64)
    t, x, out = one._handle, a._handle, address(room)

    def integers(*given):
        array = np.array([*given, *[0] * 8], np.int64)
        return address(array), array

    def statuses():  # 0 is success
        yield _core.gnograd_array_info, t, bad, out
        yield _core.gnograd_array_value, t, bad, out
        yield _core.gnograd_array_grad, t, bad, out
        yield _core.gnograd_array_set_value, t, bad, out
        yield _core.gnograd_array_set_grad, t, bad, out
        yield _core.gnograd_tape_backward, t, bad, 0
        yield _core.gnograd_tape_gradient, t, loss._handle, 1, integers(bad), 0, out
        yield _core.gnograd_tape_gradient, t, bad, 1, integers(x), 0, out

    def arrays():  # 0 is failure
        for function in ("add", "multiply", "matmul"):
            yield getattr(_core, f"gnograd_array_{function}"), t, x, bad
        yield _core.gnograd_array_exp, t, bad
        yield _core.gnograd_array_concatenate, t, 2, integers(x, bad), 0
        yield _core.gnograd_array_gather, t, x, -1, integers(0)
        yield _core.gnograd_array_gather, t, x, 1, integers(trial.pick(2, -1, 2**62))
        rank, extents = trial.pick((1, (-3,)), (2, (2**32, 2**32)), (5, (1,) * 5), (-1, ()))
        yield _core.gnograd_array_leaf, t, 64, 1, rank, integers(*extents), out
        yield _core.gnograd_array_reshape, t, x, rank, integers(*extents)
        step = trial.pick(0, 2**62, -(2**63), 2**63 - 1)
        first = trial.pick((0, 0), (2**63 - 1, 0), (-(2**63), 0))
        yield (
            _core.gnograd_array_slice, t, x, 2, integers(*first), integers(2, 2), integers(step, 1)
        )  # fmt: skip

    tables = [(call, True) for call in statuses()] + [(call, False) for call in arrays()]
    (function, *given), is_status = trial.pick(*tables)
    kept = [g for g in given if isinstance(g, tuple)]
    given = [g[0] if isinstance(g, tuple) else g for g in given]
    name = function.__doc__.split("(")[0].split("=")[-1].strip()
    told = f"{name}, {bad=} (of the other tape: {b._handle}), {[k[1][:2].tolist() for k in kept]}"
    result = trial.attempt(told, function, *given, names=ANY)
    failed = bool(result) if is_status else result == 0
    if failed and not is_status:
        _core.gnograd_tape_error(t)  # which is told once
    trial.require(failed, f"{name} took a handle or a size that is none")
    trial.expect(same(a.value, np.array([[1.0, 2.0], [3.0, 4.0]])), f"{name} changed a value")


def tape(trial):
    """A program, or an operator."""
    trial.pick(programs, programs, on_the_tape)(trial)


SUBJECTS = {"tape": tape, "handles": handles}
