# SPDX-License-Identifier: MIT
"""Laws of the four faces of an operator on a graph, whatever its formula."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
from conftest import Edges, power_law
from reference import derivatives

EPS = np.finfo(np.float32).eps


@dataclass(frozen=True)
class Case:
    """An operator with static arguments, its formula, and a maker of inputs."""

    operator: gg.Operator
    formula: Callable[..., np.ndarray]
    make: Callable[..., tuple]
    static: dict[str, Any] = field(default_factory=dict)
    label: str = ""

    def __str__(self) -> str:
        words = [self.operator.name, *map(str, self.static.values()), self.label]
        return "-".join(word for word in words if word)

    def inputs(self, edges: Edges, rng: np.random.Generator, **sizes: int) -> tuple:
        return self.make(edges, rng, **{**self.heads, **sizes})

    @property
    def heads(self) -> dict[str, int]:
        return {k: v for k, v in self.static.items() if k == "num_heads"}

    def arguments(self, edges: Edges) -> dict[str, Any]:
        return {"graph": edges.graph, **self.static}

    def reference(self, edges: Edges) -> Callable[..., np.ndarray]:
        return partial(self.formula, src=edges.src, dst=edges.dst, n_dst=edges.n_dst, **self.static)


def join(outputs):
    """Outputs one behind the other in a vector; a single one is no tuple."""
    every = outputs if isinstance(outputs, tuple) else (outputs,)
    return np.concatenate([np.ravel(a) for a in every])


@dataclass(frozen=True)
class Joined:
    """An operator with its outputs in one vector."""

    operator: gg.Operator

    @property
    def name(self):
        return self.operator.name

    @property
    def inputs(self):
        return self.operator.inputs

    def __call__(self, *inputs, **static):
        return join(self.operator(*inputs, **static))

    def forward(self, *inputs, return_saved, **static):
        outputs, saved = self.operator.forward(*inputs, return_saved=return_saved, **static)
        return join(outputs), saved

    def vjp(self, cotangent, inputs, **arguments):
        return self._reverse("vjp", cotangent, inputs, arguments)

    def jvp(self, inputs, tangents, **static):
        return join(self.operator.jvp(inputs, tangents, **static))

    def hvp(self, cotangent, inputs, tangents, **arguments):
        return self._reverse("hvp", cotangent, inputs, arguments, tangents)

    def _reverse(self, face, cotangent, inputs, arguments, *tangents):
        static = {k: v for k, v in arguments.items() if k not in ("wrt", "saved")}
        shapes = self.operator.results(
            [None if x is None else (x.shape, "float64") for x in inputs], **static
        )
        parts, start = [], 0
        for shape, _ in [*shapes.values()][: self.operator.n_outputs]:
            end = start + int(np.prod(shape))
            parts.append(cotangent[start:end].reshape(shape))
            start = end
        return getattr(self.operator, face)(tuple(parts), inputs, *tangents, **arguments)


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


def inner(left, right):
    return sum(np.sum(a * b) for a, b in zip(left, right, strict=True) if a is not None)


def set_up(case, edges, rng):
    """Inputs, tangents, a cotangent and static arguments."""
    inputs = case.inputs(edges, rng)
    cotangent = rng.normal(size=case.reference(edges)(*inputs).shape)
    return inputs, like(inputs, rng), cotangent, case.arguments(edges)


def check_forward(case, edges, rng):
    inputs = case.inputs(edges, rng)
    actual = case.operator(*inputs, **case.arguments(edges))
    assert_allclose(actual, case.reference(edges)(*inputs), rtol=1e-11, atol=1e-11)


def check_vjp(case, edges, rng):
    inputs, _, cotangent, static = set_up(case, edges, rng)
    expected = derivatives.vjp(case.reference(edges), inputs, cotangent)
    actual = case.operator.vjp(cotangent, inputs, **static)
    assert_all_close(actual, expected, rtol=1e-10, atol=1e-11)
    _, saved = case.operator.forward(*inputs, return_saved=True, **static)
    again = case.operator.vjp(cotangent, inputs, saved=saved, **static)
    assert_all_close(again, expected, rtol=1e-10, atol=1e-11)


def check_wrt(case, edges, rng):
    """A gradient has the same bits whichever others are wanted."""
    inputs, tangents, cotangent, static = set_up(case, edges, rng)
    for face in (
        partial(case.operator.vjp, cotangent, inputs, **static),
        partial(case.operator.hvp, cotangent, inputs, tangents, **static),
    ):
        everything = face()
        for k, name in enumerate(case.operator.inputs):
            alone = face(wrt=[name])
            assert [g is None for g in alone[:k] + alone[k + 1 :]] == [True] * (len(inputs) - 1)
            if inputs[k] is not None:
                assert_array_equal(alone[k], everything[k])


def check_jvp(case, edges, rng):
    inputs, tangents, _, static = set_up(case, edges, rng)
    expected = derivatives.jvp(case.reference(edges), inputs, tangents)
    actual = case.operator.jvp(inputs, tangents, **static)
    assert_allclose(actual, expected, rtol=1e-10, atol=1e-11)


def check_absent_tangents(case, edges, rng):
    inputs, tangents, cotangent, static = set_up(case, edges, rng)
    for kept in range(-1, len(inputs)):
        some = tuple(t if k == kept else None for k, t in enumerate(tangents))
        zeros = tuple(
            t if k == kept or t is None else np.zeros_like(t) for k, t in enumerate(tangents)
        )
        jvp = partial(case.operator.jvp, inputs, **static)
        hvp = partial(case.operator.hvp, cotangent, inputs, **static)
        assert_allclose(jvp(some), jvp(zeros), rtol=1e-12, atol=1e-12)
        assert_all_close(hvp(some), hvp(zeros), rtol=1e-12, atol=1e-12)


def check_adjoint(case, edges, rng):
    """The inner products ``<vjp(u), v>`` and ``<u, jvp(v)>`` agree."""
    inputs, tangents, cotangent, static = set_up(case, edges, rng)
    gradients = case.operator.vjp(cotangent, inputs, **static)
    tangent = case.operator.jvp(inputs, tangents, **static)
    assert_allclose(inner(gradients, tangents), np.sum(cotangent * tangent), rtol=1e-10, atol=1e-11)


def check_hvp(case, edges, rng):
    inputs, tangents, cotangent, static = set_up(case, edges, rng)
    expected = derivatives.hvp(case.reference(edges), inputs, cotangent, tangents)
    actual = case.operator.hvp(cotangent, inputs, tangents, **static)
    assert_all_close(actual, expected, rtol=1e-6, atol=1e-7)


def check_hvp_differences(case, edges, rng):
    """The hvp is the derivative of vjp, on a graph too large for the formula's own derivatives."""
    inputs = case.inputs(edges, rng)
    tangents, static = like(inputs, rng), case.arguments(edges)
    cotangent = rng.normal(size=case.operator(*inputs, **static).shape)
    step = 1e-5
    ahead, behind = (
        case.operator.vjp(
            cotangent,
            tuple(
                None if x is None else x + side * step * t
                for x, t in zip(inputs, tangents, strict=True)
            ),
            **static,
        )
        for side in (1, -1)
    )
    actual = case.operator.hvp(cotangent, inputs, tangents, **static)
    for hvp, a, b in zip(actual, ahead, behind, strict=True):
        if hvp is not None:
            difference = (a - b) / (2 * step)
            scale = np.linalg.norm(a) + np.linalg.norm(difference)
            assert np.linalg.norm(hvp - difference) <= 1e-7 * scale


def check_symmetric(case, edges, rng):
    inputs, s, cotangent, static = set_up(case, edges, rng)
    t = like(inputs, rng)
    hvp = partial(case.operator.hvp, cotangent, inputs, **static)
    assert_allclose(inner(hvp(s), t), inner(hvp(t), s), rtol=1e-9, atol=1e-10)


def error(actual, exact):
    """Error of several arrays, each in the 2-norm and relative to the exact one."""
    return np.array(
        [
            np.linalg.norm(a - e) / np.linalg.norm(e)
            for a, e in zip(actual, exact, strict=True)
            if e is not None and np.any(e)
        ]
    )


def check_float32(case, edges, rng, draws=4):
    """The error against float64 is at most twice that of the formula in float32 NumPy.

    Errors are of every array, in the mean square over several draws of the inputs.
    """
    ours, plain = zip(*(float32_errors(case, edges, rng) for _ in range(draws)), strict=True)
    assert np.all(rms(ours) <= 2 * rms(plain) + EPS)


def rms(draws):
    return np.sqrt(np.mean(np.square(draws), axis=0))


def float32_errors(case, edges, rng):
    """Errors of forward, jvp and vjp against float64: the operator's, the plain formula's."""
    single = convert(case.inputs(edges, rng), np.float32)
    tangents, formula, static = like(single, rng), case.reference(edges), case.arguments(edges)
    cotangent = rng.normal(size=formula(*single).shape).astype(np.float32)

    def plain(inputs, tangents, cotangent):
        return [
            formula(*inputs),
            derivatives.jvp(formula, inputs, tangents),
            *derivatives.vjp(formula, inputs, cotangent),
        ]

    actual = [
        case.operator(*single, **static),
        case.operator.jvp(single, tangents, **static),
        *case.operator.vjp(cotangent, single, **static),
    ]
    numpy = plain(single, tangents, cotangent)
    wide = (convert(single, float), convert(tangents, float), cotangent.astype(float))
    assert all(x.dtype == np.float32 for x in actual + numpy if x is not None)
    exact = plain(*wide)

    hvp = case.operator.hvp(cotangent, single, tangents, **static)
    exact_hvp = case.operator.hvp(wide[2], wide[0], wide[1], **static)
    assert np.all(error(hvp, exact_hvp) < 1e-5)
    return error(actual, exact), error(numpy, exact)


def check_isolated_nodes(case, edges, rng, own=0):
    """Zero comes out, zero goes back, and never NaN. The last `own` columns are passed on."""
    inputs, tangents, cotangent, static = set_up(case, edges, rng)
    alone = np.bincount(edges.dst, minlength=edges.n_dst) == 0
    cut = slice(None, cotangent.shape[1] - own)
    out = case.operator(*inputs, **static)
    tangent = case.operator.jvp(inputs, tangents, **static)
    for array in (out, tangent):
        assert np.all((array[:, cut] == 0).all(axis=1) == alone)
    cotangent[:] = 0
    cotangent[alone, cut] = 1e300
    for gradients in (
        case.operator.vjp(cotangent, inputs, **static),
        case.operator.hvp(cotangent, inputs, tangents, **static),
    ):
        assert all(np.all(g == 0) for g in gradients if g is not None)


def check_threads(case, edges, rng, dtype, set_threads):
    """Results have the same bits in every run and for any number of threads."""
    static = case.arguments(edges)
    inputs = convert(case.inputs(edges, rng), dtype)
    tangents = like(inputs, rng)
    results = []
    for n in (1, 2, 3, 3):
        set_threads(n)
        out = case.operator(*inputs, **static)
        results.append(
            [
                out,
                *case.operator.vjp(out, inputs, **static),
                case.operator.jvp(inputs, tangents, **static),
                *case.operator.hvp(out, inputs, tangents, **static),
            ]
        )
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert_array_equal(a, b)


def large_call(case, face, n, n_edges, sizes=None, threads=2):
    """A large call, after a small one that starts the threads; for `memory.temporary_bytes`."""
    gg.set_num_threads(threads)
    rng = np.random.default_rng(0)

    def call(n, n_edges):
        edges = power_law(n, n_edges)
        inputs = case.inputs(edges, rng, **(sizes or {}))
        static = case.arguments(edges)
        out = case.operator(*inputs, **static)
        work = {
            "forward": partial(case.operator, *inputs),
            "vjp": partial(case.operator.vjp, out, inputs),
            "jvp": partial(case.operator.jvp, inputs, inputs),
            "hvp": partial(case.operator.hvp, out, inputs, inputs),
        }[face]

        def results():
            found = work(**static)
            return found if isinstance(found, tuple) else (found,)

        return results

    call(50, 200)()
    return call(n, n_edges)
