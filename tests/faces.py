# SPDX-License-Identifier: MIT
"""Laws of the four faces of an operator, whatever its formula.

A law takes a case of `table.py`, edges and a generator of random numbers.
"""

from collections import Counter
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
from conftest import power_law
from gnograd.notation import shapes
from gnograd.notation.declaration import names_in
from reference import derivatives

EPS = np.finfo(np.float32).eps


def tuple_of(results):
    return results if isinstance(results, tuple) else (results,)


def there(arrays):
    return [x for x in arrays if x is not None]


def join(arrays):
    """Arrays one behind the other in a vector."""
    return np.concatenate([np.ravel(a) for a in tuple_of(arrays)])


def like(arrays, rng):
    """Random arrays of the same shapes."""
    return tuple(None if x is None else rng.normal(size=x.shape).astype(x.dtype) for x in arrays)


def convert(arrays, dtype):
    return tuple(None if x is None else x.astype(dtype) for x in arrays)


def assert_all_close(actual, expected, **tolerance):
    assert [a is None for a in actual] == [e is None for e in expected]
    for a, e in zip(actual, expected, strict=True):
        if e is not None:
            assert_allclose(a, e, **tolerance)


def assert_all_equal(actual, expected):
    for a, e in zip(actual, expected, strict=True):
        assert (a is None) == (e is None)
        if e is not None:
            assert_array_equal(a, e)


def inner(left, right):
    return sum(np.sum(a * b) for a, b in zip(left, right, strict=True) if a is not None)


class Call:
    """A case on a graph: inputs, tangents and cotangents, the faces, and the formula."""

    def __init__(self, case, edges, rng, dtype=np.float64):
        self.case, self.operator, self.edges = case, case.operator, case.fit(edges)
        self.static = case.arguments(edges)
        self.inputs = case.inputs(edges, rng, dtype)
        self.tangents = case.tangents(self.inputs, edges, rng)
        outputs = self.forward()
        # what no query sees has a logarithm of -infinity, whose cotangent is 0
        self.finite = [np.isfinite(y) for y in outputs]
        self.cotangents = tuple(
            np.where(there, c, 0) for there, c in zip(self.finite, like(outputs, rng), strict=True)
        )

    def convert(self, dtype):
        """The same numbers in another precision."""
        other = object.__new__(Call)
        other.__dict__ = self.__dict__ | {
            name: convert(getattr(self, name), dtype)
            for name in ("inputs", "tangents", "cotangents")
        }
        return other

    def forward(self, inputs=None):
        return tuple_of(self.operator(*(inputs or self.inputs), **self.static))

    def vjp(self, inputs=None, cotangents=None, **more):
        given = cotangents or self.cotangents, inputs or self.inputs
        return self.operator.vjp(*given, **self.static, **more)

    def jvp(self, tangents=None):
        return tuple_of(self.operator.jvp(self.inputs, tangents or self.tangents, **self.static))

    def hvp(self, tangents=None, cotangents=None, **more):
        given = cotangents or self.cotangents, self.inputs, tangents or self.tangents
        return self.operator.hvp(*given, **self.static, **more)

    def everything(self):
        """Results of all faces."""
        return [*self.forward(), *self.vjp(), *self.jvp(), *self.hvp()]

    def formula(self, *inputs):
        """The oracle, its outputs in a vector, 0 where they are not finite."""
        there = join(tuple(self.finite))
        return np.where(there, join(self.case.reference(self.edges)(*inputs)), 0)

    def by_formula(self):
        """Value, jvp and vjp by the oracle."""
        return [
            self.formula(*self.inputs),
            derivatives.jvp(self.formula, self.inputs, self.tangents),
            *derivatives.vjp(self.formula, self.inputs, join(self.cotangents)),
        ]


def check_forward(case, edges, rng):
    call = Call(case, edges, rng)
    expected = tuple_of(case.reference(edges)(*call.inputs))
    assert_all_close(call.forward(), expected, rtol=1e-12, atol=1e-12)


def check_vjp(case, edges, rng):
    call = Call(case, edges, rng)
    expected = derivatives.vjp(call.formula, call.inputs, join(call.cotangents))
    assert_all_close(call.vjp(), expected, rtol=1e-12, atol=1e-12)
    _, saved = call.operator.forward(*call.inputs, return_saved=True, **call.static)
    assert_all_close(call.vjp(saved=saved), expected, rtol=1e-12, atol=1e-12)


def check_wrt(case, edges, rng):
    """A gradient has the same bits whichever others are wanted."""
    call = Call(case, edges, rng)
    for face in (call.vjp, call.hvp):
        everything = face()
        for k, name in enumerate(case.operator.inputs):
            alone = face(wrt=[name])
            assert [g is None for g in alone[:k] + alone[k + 1 :]] == [True] * (len(alone) - 1)
            if call.inputs[k] is not None:
                assert_array_equal(alone[k], everything[k])


def check_jvp(case, edges, rng):
    call = Call(case, edges, rng)
    expected = derivatives.jvp(call.formula, call.inputs, call.tangents)
    actual = np.where(join(tuple(call.finite)), join(call.jvp()), 0)
    assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


def check_absent_tangents(case, edges, rng):
    """None is zero."""
    call = Call(case, edges, rng)
    for kept in range(-1, len(call.inputs)):
        some = tuple(t if k == kept else None for k, t in enumerate(call.tangents))
        zeros = tuple(
            t if k == kept or t is None else np.zeros_like(t) for k, t in enumerate(call.tangents)
        )
        for face in (call.jvp, call.hvp):
            assert_all_close(face(some), face(zeros), rtol=1e-12, atol=1e-12)


def check_absent_cotangents(case, edges, rng):
    """None is zero."""
    call = Call(case, edges, rng)
    n = len(call.cotangents)
    for kept in range(n if n > 1 else 0):
        some = tuple(c if k == kept else None for k, c in enumerate(call.cotangents))
        zeros = tuple(c if k == kept else 0 * c for k, c in enumerate(call.cotangents))
        for face in (call.vjp, call.hvp):
            pair = face(cotangents=some), face(cotangents=zeros)
            assert_all_close(*pair, rtol=1e-13, atol=1e-14)


def check_adjoint(case, edges, rng):
    """The inner products ``<vjp(u), v>`` and ``<u, jvp(v)>`` agree."""
    call = Call(case, edges, rng)
    products = inner(call.vjp(), call.tangents), inner(call.cotangents, call.jvp())
    assert_allclose(*products, rtol=1e-11, atol=1e-12)


def check_hvp(case, edges, rng):
    call = Call(case, edges, rng)
    given = call.inputs, join(call.cotangents), call.tangents
    assert_all_close(call.hvp(), derivatives.hvp(call.formula, *given), rtol=1e-6, atol=1e-7)


def check_differences(case, edges, rng):
    """The jvp is the derivative of forward, and the hvp that of vjp."""
    call, step = Call(case, edges, rng), 3e-6

    def moved(side):
        pairs = zip(call.inputs, call.tangents, strict=True)
        return tuple(None if x is None else x + side * step * t for x, t in pairs)

    for face, f in ((call.jvp, call.forward), (call.hvp, call.vjp)):
        for actual, a, b in zip(face(), f(moved(1)), f(moved(-1)), strict=True):
            if actual is not None:
                a, b = (np.where(np.isfinite(a), x, 0) for x in (a, b))
                difference = (a - b) / (2 * step)
                scale = np.linalg.norm(a) + np.linalg.norm(difference)
                # what cancels is rounding alone, divided by the step
                cancelled = 1e-9 * np.sqrt(actual.size)
                assert np.linalg.norm(actual - difference) <= 1e-7 * scale + cancelled


def check_symmetric(case, edges, rng):
    call = Call(case, edges, rng)
    s, t = call.tangents, case.tangents(call.inputs, edges, rng)
    assert_allclose(inner(call.hvp(s), t), inner(call.hvp(t), s), rtol=1e-10, atol=1e-11)


def error(actual, exact):
    """Error of several arrays, each in the 2-norm and relative to the exact one."""
    return np.array(
        [
            np.linalg.norm(a - e) / np.linalg.norm(e)
            for a, e in zip(actual, exact, strict=True)
            if e is not None and np.any(e)
        ]
    )


def rms(draws):
    return np.sqrt(np.mean(np.square(draws), axis=0))


def check_float32(case, edges, rng, draws=4):
    """The error against float64 is at most twice that of the formula in float32 NumPy.

    Errors are of every array, in the mean square over several draws of the inputs.
    """
    ours, plain = zip(*(float32_errors(case, edges, rng) for _ in range(draws)), strict=True)
    assert np.all(rms(ours) <= 2 * rms(plain) + EPS)


def float32_errors(case, edges, rng):
    """Errors of forward, jvp and vjp against float64: the operator's, the plain formula's."""
    single = Call(case, edges, rng, np.float32)
    double, there = single.convert(np.float64), join(tuple(single.finite))
    actual = [
        np.where(there, join(single.forward()), 0),
        np.where(there, join(single.jvp()), 0),
        *single.vjp(),
    ]
    plain, exact = single.by_formula(), double.by_formula()
    assert all(x.dtype == np.float32 for x in actual + plain if x is not None)
    assert np.all(error(single.hvp(), double.hvp()) < 1e-5)
    return error(actual, exact), error(plain, exact)


def check_float32_sums(case, edges, rng):
    """The error of gradients to what all edges share does not grow with their number.

    It is that of the median draw, since a sum may nearly cancel.
    """
    draws = []
    for _ in range(3):
        single = Call(case, edges, rng, np.float32)
        single.cotangents = tuple(1 + c for c in single.cotangents)
        rows = {edges.n_src, edges.n_dst, edges.n_edges}
        shared = [k for k, x in enumerate(single.inputs) if x is not None and len(x) not in rows]
        ours, exact = (call.vjp() for call in (single, single.convert(np.float64)))
        draws.append(error([ours[k] for k in shared], [exact[k] for k in shared]))
    assert np.all(np.median(draws, axis=0) < 3e-6)


def check_isolated_nodes(case, edges, rng):
    """Zero comes out, zero goes back, and never NaN. A destination's own features are passed on."""
    call = Call(case, edges, rng)
    alone = np.bincount(edges.dst, minlength=edges.n_dst) == 0
    own = dict(zip(case.operator.inputs, call.inputs, strict=True)).get("own")
    # all edges of a row are dropped, or a second derivative is 0 everywhere
    may_vanish = "dropout" in case.static or case.static.get("activation") in ("relu", "identity")
    cotangents = []
    for out, tangent in zip(call.forward(), call.jvp(), strict=True):
        cotangent = np.zeros_like(out)
        if len(out) == edges.n_dst:
            cut = slice(None, out.shape[1] - (0 if own is None else own.shape[1]))
            for array in (out, tangent):
                nothing = (array[:, cut] == 0).reshape(edges.n_dst, -1).all(axis=1)
                assert nothing[alone].all()
                assert may_vanish or not nothing[~alone].any()
            cotangent[alone, cut] = 1e300
        cotangents.append(cotangent)
    for face in (call.vjp, call.hvp):
        assert all(np.all(g == 0) for g in face(cotangents=tuple(cotangents)) if g is not None)


def check_rows_of_no_edge(case, edges, rng):
    """Rows of room for more edges are never read, and 0 in every result."""
    call, n, more = Call(case, edges, rng), edges.n_edges, 10
    signature = case.operator.signature(**call.static)

    def pad(arrays, specs, fill=np.nan):
        """Arrays with such rows, where they have a row an edge."""
        return tuple(
            np.concatenate([x, np.full((more, *x.shape[1:]), fill, x.dtype)])
            if x is not None and shapes.parse(spec).dims[0] == "n_edges"
            else x
            for x, spec in zip(arrays, specs, strict=True)
        )

    own, specs = call.everything(), [*signature.inputs.values()]
    outputs = [spec for spec, y in zip(signature.outputs.values(), call.cotangents, strict=False)]
    names = [name for name in signature.arrays if call.static.get(name) is not None]
    arrays = [call.static[name] for name in names]
    call.static = call.static | {"graph": call.edges.graph.pad(n_edges=n + more)}
    padded = pad(arrays, [signature.arrays[name] for name in names], 99)
    call.static |= dict(zip(names, padded, strict=True))
    call.inputs, call.tangents = pad(call.inputs, specs), pad(call.tangents, specs)
    call.cotangents = pad(call.cotangents, outputs)
    results = [*outputs, *specs] * 2
    zeros = pad(own, results, 0)
    assert_all_equal(call.everything(), zeros)


def check_refused(case, edges, rng):
    """Arrays and choices that do not fit are refused, and named, by every face that takes them."""
    call, op = Call(case, edges, rng), case.operator
    names, specs = op.inputs, [*op.signature(**call.static).inputs.values()]
    of_graph = {"n_src", "n_dst", "n_edges"}
    given = [spec for spec, x in zip(specs, call.inputs, strict=True) if x is not None]
    sizes = [size for spec in given for dim in shapes.parse(spec).dims for size in names_in(dim)]
    uses = Counter(sizes)

    def refused(error, message, run, *args, **kwargs):
        with pytest.raises(error, match=f"^{op.name}: {message}"):
            run(*args, **kwargs)

    for k, (name, spec) in enumerate(zip(names, specs, strict=True)):
        x = call.inputs[k]
        if x is None:
            continue

        def change(value, k=k):
            return *call.inputs[:k], value, *call.inputs[k + 1 :]

        shape = f"{name} has shape "
        wrong = [(x[..., None], ValueError, shape), (x.astype(int), TypeError, "")]
        if case.on_graph and shapes.parse(spec).dims[0] in of_graph:
            wrong.append((x[1:], ValueError, shape))
        for axis, dim in enumerate(shapes.parse(spec).dims, -len(shapes.parse(spec).dims)):
            if any(uses[size] > 1 for size in names_in(dim)):
                longer = np.concatenate([x, x.take([0], axis)], axis)
                wrong.append((longer, ValueError, ""))
        if len(there(call.inputs)) > 1:
            wrong.append((x.astype(np.float32), TypeError, r"\w+ is float\d\d"))
        if not shapes.parse(spec).optional:
            wrong.append((None, TypeError, f"{name} is missing"))
        for value, error, message in wrong:
            refused(error, message, call.forward, change(value))
            refused(error, message, call.vjp, change(value))
        tangents = *call.tangents[:k], x[..., None], *call.tangents[k + 1 :]
        refused(ValueError, f"tangent of {shape}", call.jvp, tangents)
        refused(ValueError, f"tangent of {shape}", call.hvp, tangents)
    for k, c in enumerate(call.cotangents):
        cotangents = *call.cotangents[:k], c[..., None], *call.cotangents[k + 1 :]
        refused(ValueError, "cotangent", call.vjp, cotangents=cotangents)
        refused(ValueError, "cotangent", call.hvp, cotangents=cotangents)
    for name in op._choices:
        given = call.static | {name: "none of them"}
        refused(ValueError, f"{name} is 'none of them', needs one of", op, *call.inputs, **given)


def check_left_alone(case, edges, rng):
    """No face changes its arguments."""
    call = Call(case, edges, rng)

    def arrays():
        given = *call.inputs, *call.tangents, *call.cotangents, *call.static.values()
        return [x.copy() for x in given if isinstance(x, np.ndarray)]

    before = arrays()
    call.everything()
    assert_all_equal(arrays(), before)


def check_threads(case, edges, rng, dtype, set_threads):
    """Results have the same bits for any number of threads."""
    call, results = Call(case, edges, rng, dtype), []
    for n in (1, 2, 3):
        set_threads(n)
        results.append(call.everything())
    for other in results[1:]:
        assert_all_equal(results[0], other)


def large_call(case, face, n, n_edges, threads=2):
    """A large call, after a small one that starts the threads; for `memory.temporary_bytes`."""
    gg.set_num_threads(threads)
    rng = np.random.default_rng(0)

    def prepare(n, n_edges):
        call = Call(case, power_law(n, n_edges), rng)
        return partial(getattr(call, face))

    prepare(50, 200)()
    return prepare(n, n_edges)
