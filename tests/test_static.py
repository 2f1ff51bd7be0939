# SPDX-License-Identifier: MIT
"""Static arguments of all operators: what they may be, and what is said of anything else."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import calls
import gnograd as gg
import gnograd.autodiff as ad
from gnograd.notation import shapes
from gnograd.notation.static import LARGEST, Limits, boolean, integer, integers, number

NOTHING_ELSE = {
    "int": [2.5, 2.0, "2", b"2", True, [2], np.array([2]), np.array(2.0), np.ones(3, bool), 1j],
    "float": ["0.5", True, [0.5], np.array([0.5]), np.array(True), 1j, np.complex64(1)],
    "bool": [1, 0, 0.5, "no", np.ones(3, bool), np.array(1)],
    "str": ["nonsense", 0, ["sum"]],
    "Graph": [None, 3, [[0], [1]]],
    "Sequence[int]": [5, 2.5, [], [2.5], [True], ["4"], [None], [0], [-1], np.array(4)],
}
"""Values that are wrong for arguments declared like this."""


def call(name):
    """Inputs and static arguments; what is optional has a value, too."""
    if name == "select_blocks":
        inputs = [*calls.normal((5, 2, 3), (4, 1, 3)), np.zeros((5, 2))]
        return inputs, dict(block=2, stride=1, block_size=2, n_blocks=2)
    return calls.call_of(name, calls.graph())


def arguments():
    for name in sorted(calls.FUNCTIONS):
        for argument, parameter in inspect.signature(getattr(gg, name)).parameters.items():
            kind = str(parameter.annotation).removesuffix(" | None")
            if parameter.kind is not parameter.KEYWORD_ONLY or kind not in NOTHING_ELSE:
                continue
            wrong = list(NOTHING_ELSE[kind])
            if kind == parameter.annotation:
                wrong.append(None)
            yield pytest.param(name, argument, wrong, id=f"{name}-{argument}")


every_argument = pytest.mark.parametrize(("name", "argument", "wrong"), list(arguments()))


def test_arguments_are_found():
    assert len(list(arguments())) > 70


@every_argument
def test_wrong_kinds_are_refused(name, argument, wrong):
    inputs, static = call(name)
    operator = getattr(gg, name)
    if argument == "n_nodes":
        static = {k: v for k, v in static.items() if k != "graph"}
        static["edges"] = calls.SRC, calls.DST
    faces = [lambda **given: operator(*inputs, **given)]
    faces.append(lambda **given: operator.results([(x.shape, "float64") for x in inputs], **given))
    faces.append(operator.signature)
    if hasattr(ad, name):
        tape = ad.Tape("float64")
        on_tape = [tape.parameter(x) for x in inputs]
        known = inspect.signature(getattr(ad, name)).parameters
        if argument in known or "static" in known:
            given_to = {k for k in static if k in known or "static" in known}
            faces.append(
                lambda **given: getattr(ad, name)(
                    *on_tape, **{k: v for k, v in given.items() if k in given_to | {argument}}
                )
            )
    for value in wrong:
        for face in faces:
            with pytest.raises((TypeError, ValueError), match=rf"^{name}: {argument}\b"):
                face(**{**static, argument: value})


@every_argument
def test_numbers_of_every_kind_are_the_same(name, argument, wrong):
    """Scalars of NumPy and arrays without axes mean what Python's numbers mean."""
    inputs, static = call(name)
    operator = getattr(gg, name)
    value = static.get(argument, operator.static.get(argument))
    if value is None or isinstance(value, str | gg.Graph):
        return
    expected = operator(*inputs, **static)
    if isinstance(value, bool):
        others = [np.bool_(value), np.array(value)]
    elif isinstance(value, list):
        others = [tuple(value), [np.int32(width) for width in value]]
    elif isinstance(value, int):
        others = [np.int32(value), np.uint8(value), np.array(value), np.array(value, np.int16)]
    else:
        others = [np.float64(value), np.array(value)]
    for other in others:
        actual = operator(*inputs, **{**static, argument: other})
        for a, b in zip(*map(as_tuple, (actual, expected)), strict=True):
            assert_array_equal(a, b)


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


@every_argument
def test_sizes_beyond_all_limits(name, argument, wrong):
    """Huge sizes are refused or mean "no limit"; no arithmetic gets them."""
    inputs, static = call(name)
    operator = getattr(gg, name)
    if wrong[0] != 2.5 or argument == "n_nodes":  # no integer
        return
    for value in (2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 10**5000):
        given = {**static, argument: value}
        endless = argument == "q_offset" or (
            argument in ("window", "query_block", "keep") and value > 0
        )
        if endless:
            assert abs(operator.complete(given)[argument]) == LARGEST
            continue
        with pytest.raises(ValueError, match=rf"^{name}: {argument} is .*, needs"):
            operator(*inputs, **given)


# ---- no limit ----

MOST = [2**31, 2**62, 2**63 - 1, 10**30]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("most", [1000, *MOST])
def test_window_without_limit(causal, most, rng):
    q, k, v = rng.normal(size=(3, 70, 2, 4))
    cu = np.array([0, 30, 70])
    for packed in ({}, {"cu_q": cu, "cu_k": cu}):
        expected = gg.window_attention.vjp(q, (q, k, v), causal=causal, **packed)
        actual = gg.window_attention.vjp(q, (q, k, v), causal=causal, window=most, **packed)
        for a, b in zip(actual, expected, strict=True):
            assert_array_equal(a, b)
    tape = ad.Tape("float64")
    on_tape = ad.window_attention(tape.parameter(q), k, v, causal=causal, window=most)
    assert_array_equal(on_tape.value, gg.window_attention(q, k, v, causal=causal))


@pytest.mark.parametrize("most", MOST)
def test_query_block_and_offset_without_limit(most, rng):
    q, k, v = rng.normal(size=(3, 20, 2, 4))
    row = rng.integers(0, 5, (1, 2, 3), np.int32)
    expected = gg.selected_attention(q, k, v, block_index=row, block_size=4, query_block=20)
    for extra in ({}, {"causal": True, "q_offset": most}):
        actual = gg.selected_attention(
            q, k, v, block_index=row, block_size=4, query_block=most, **extra
        )
        assert_array_equal(actual, expected)
    hidden = gg.selected_attention(
        q, k, v, block_index=row, block_size=4, query_block=20, causal=True, q_offset=-most
    )
    assert not hidden.any()
    k_c = gg.compress(k, np.ones((4, 2)), block=4, stride=2)
    static = dict(block=4, stride=2, block_size=4, n_blocks=2)
    lse = gg.compressed_attention(q, k_c, k_c, block=4, stride=2)[1]
    assert_array_equal(
        gg.select_blocks(q, k_c, lse, query_block=most, **static),
        gg.select_blocks(q, k_c, lse, query_block=20, **static),
    )


def test_borders_for_keys_alone():
    """One sequence of queries has one sequence of keys, whatever the other borders say."""
    q, k, v = np.ones((3, 4, 1, 2))
    for cu, message in ([0], "cu_k must rise"), ([0, 2, 4], "different numbers of sequences"):
        with pytest.raises(ValueError, match=message):
            gg.window_attention(q, k, v, cu_k=np.array(cu))


# ---- one by one ----


def test_converters():
    assert integer("f: n", np.uint64(7)) == 7
    assert type(integer("f: n", np.array(7, np.int8))) is int
    assert integer("f: n", 2**40, Limits(1, endless=True)) == LARGEST
    assert integer("f: n", -(2**40), Limits(endless=True)) == -LARGEST
    assert integers("f: n", (np.int32(1), 2)) == [1, 2]
    assert type(number("f: x", np.float32(0.5))) is float
    assert number("f: x", 3) == 3.0
    assert boolean("f: b", np.bool_(True)) is True
    refused = [
        (integer, 0, (Limits(1),), ValueError, "f: n is 0, needs at least 1"),
        (integer, 11, (Limits(1, 10),), ValueError, "f: n is 11, needs 1 to 10"),
        (integer, -(2**63), (Limits(1, endless=True),), ValueError, "needs at least 1"),
        (integer, np.ones((2, 3)), (), TypeError, r"f: n is an array of shape \(2, 3\), needs"),
        (integer, None, (), TypeError, "f: n is None, needs an integer"),
        (integer, object(), (), TypeError, "f: n is of type object, needs an integer"),
        (number, 10**400, (), ValueError, "f: n is an integer of 1329 bits, which is too large"),
        (number, "1", (), TypeError, "f: n is '1', needs a number"),
        (number, np.ma.masked, (), TypeError, "f: n is of type MaskedConstant, needs a number"),
        (integer, np.ma.array(3, mask=True), (), TypeError, "f: n is of type Masked.*, needs an"),
        (boolean, np.ma.array(True, mask=True), (), TypeError, "f: n is of type MaskedArray"),
        (boolean, None, (), TypeError, "f: n is None, needs True or False"),
        (integers, [1, 2.5], (), TypeError, r"f: n\[1\] is 2.5, needs an integer"),
    ]
    for convert, value, more, error, message in refused:
        with pytest.raises(error, match=message):
            convert("f: n", value, *more)


def test_caches_do_not_grow_with_the_sizes(rng):
    """Caches hold texts of the package, and no number of the user is part of them."""

    def many():
        for n in range(20, 40):
            x, q = rng.normal(size=(n, 2, 3)), rng.normal(size=(n, 2, 3))
            cu = np.array([0, n])
            c = gg.compress(x, np.ones((n - 15, 2)), block=n - 15, stride=2, cu=cu)
            gg.compress(x, np.ones((n - 15, 2)), block=n - 15, stride=n)
            lse = np.zeros((n, 2))
            static = dict(block=n - 15, stride=2, block_size=n, n_blocks=1)
            gg.select_blocks(q, c, lse, cu_q=cu, cu_k=cu, **static)
            layers = gg.gno_pack_layers([(np.ones((2, n)), np.ones(n))])
            gg.gno_with_gradient.results(
                [((5, 1), "float64"), *[((5, 2), "float64")] * 2, (layers.shape, "float64"),
                 ((n, 1, 1), "float64"), ((1, 1), "float64"), None, None],
                graph=calls.graph(), widths=[n],
            )  # fmt: skip

    many()
    caches = shapes.parse, shapes._compiled
    before = [cache.cache_info().currsize for cache in caches]
    gg.compress(np.ones((101, 1, 1)), np.ones((50, 1)), block=50, stride=3, cu=np.array([0, 101]))
    gg.compress(np.ones((101, 1, 1)), np.ones((50, 1)), block=50, stride=3)
    assert before == [cache.cache_info().currsize for cache in caches]


def test_zero_has_no_sign():
    """Kernels are given 0.0 where a caller gives -0.0."""
    assert np.signbit(-0.0) and not np.signbit(gg.mha_gat.convert("dropout", -0.0))
