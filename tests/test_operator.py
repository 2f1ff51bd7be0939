# SPDX-License-Identifier: MIT
"""The frame that all operators share, with a kernel that only writes down its arguments."""

import copy
import functools
import inspect
import pickle

import numpy as np
import pytest

import gnograd as gg
from gnograd import _core
from gnograd.backends.cpu import address
from gnograd.operator import Signature, operator


@operator(
    lambda static: Signature(
        inputs={
            "x": "n_src heads*C",
            "a": "2*heads*C",
            "e": "n_edges D or None",
        },
        outputs={"y": "n_dst heads*C" if static["concat"] else "n_dst C", "z": "n_edges"},
        arguments="graph heads C kind slope",
        saved={
            "y": "n_dst heads*C" if static["concat"] else "n_dst C",
            "most": "n_dst heads" if static["kind"] == "hard" else "None",
            "where": "int64 n_dst",
        },
    ),
    choices={"kind": {"soft": 0, "hard": 5}},
)
def attend(x, a, e=None, *, graph, heads, concat=True, kind="soft", slope=0.2):
    """Document of attend."""


@pytest.fixture
def graph():
    return gg.Graph([0, 2, 3], [2, 0, 1], n_src=3)


@pytest.fixture
def inputs():
    return np.ones((3, 8)), np.ones(16), np.ones((3, 5))


@pytest.fixture
def calls(monkeypatch):
    """Kernels of all faces, which append (face, arguments) here."""
    record = []
    for face in ("forward", "vjp", "jvp", "hvp"):

        def kernel(*arguments, face=face):
            record.append((face, arguments))
            return 0

        monkeypatch.setattr(_core, f"gnograd_attend_{face}_r64", kernel, raising=False)
    return record


# ---- order of the arguments ----


def test_forward(calls, graph, inputs):
    y, z = attend(*inputs, graph=graph, heads=4, kind="hard")
    assert (y.shape, z.shape, y.dtype) == ((2, 8), (3,), np.float64)
    numbers = (graph.handle, 4, 2, 5, 0.2)
    arrays = [address(array) for array in (*inputs, y, z)]
    assert calls == [("forward", (*numbers, *arrays, 0, 0))]


def test_forward_by_name_and_with_saved(calls, graph, inputs):
    (y, z), saved = attend.forward(
        inputs[0], e=inputs[2], a=inputs[1], graph=graph, heads=2, concat=False, return_saved=True
    )
    assert y.shape == (2, 4)
    assert saved[0] is y
    assert saved[1] is None
    assert (saved[2].shape, saved[2].dtype) == ((2,), np.int64)
    assert calls[0][1][5:] == tuple(map(address, (*inputs, y, z, None, saved[2])))


def test_vjp(calls, graph, inputs):
    cotangent = np.ones((2, 8)), None
    gradients = attend.vjp(cotangent, inputs, wrt={"a"}, graph=graph, heads=4)
    assert [g is None for g in gradients] == [True, False, True]
    assert gradients[1].shape == (16,)
    expected = [cotangent[0], None, *inputs, None, None, None, None, gradients[1], None]
    assert calls == [("vjp", (graph.handle, 4, 2, 0, 0.2, *map(address, expected)))]


def test_vjp_with_saved(calls, graph, inputs):
    (y, z), saved = attend.forward(*inputs, graph=graph, heads=4, return_saved=True)
    attend.vjp((y, z), inputs, saved=saved, graph=graph, heads=4)
    assert calls[1][1][10:13] == tuple(map(address, saved))


def test_nothing_wanted_calls_nothing(calls, graph, inputs):
    cotangent = np.ones((2, 8)), np.ones(3)
    assert attend.vjp(cotangent, inputs, wrt=(), graph=graph, heads=4) == (None,) * 3
    # an absent input has no gradient
    assert attend.vjp(cotangent, inputs[:2], wrt=["e"], graph=graph, heads=4) == (None,) * 3
    assert not calls


def test_jvp(calls, graph, inputs):
    y, z = attend.jvp(inputs, (None, inputs[1], None), graph=graph, heads=4)
    expected = [*inputs, None, inputs[1], None, y, z]
    assert calls == [("jvp", (graph.handle, 4, 2, 0, 0.2, *map(address, expected)))]


def test_hvp(calls, graph, inputs):
    cotangent = np.ones((2, 8)), np.ones(3)
    gradients = attend.hvp(cotangent, inputs, (inputs[0],), wrt="x", graph=graph, heads=4)
    expected = [*cotangent, *inputs, inputs[0], None, None, gradients[0], None, None]
    assert calls == [("hvp", (graph.handle, 4, 2, 0, 0.2, *map(address, expected)))]


def test_results_are_written_where_the_caller_wants(calls, graph, inputs):
    mine = np.empty((2, 8))
    y, z = attend.forward(*inputs, out=(mine,), graph=graph, heads=4)
    assert y is mine
    assert z.shape == (3,)
    most, where = np.empty((2, 4)), np.empty(2, np.int64)
    _, saved = attend.forward(
        *inputs, return_saved=True, out=(mine, z, most, where), graph=graph, heads=4, kind="hard"
    )
    assert [a is b for a, b in zip(saved, (mine, most, where), strict=True)] == [True] * 3
    assert attend.jvp(inputs, (inputs[0],), out=(mine, z), graph=graph, heads=4)[1] is z
    to_a = np.empty(16)
    for face in (attend.vjp, functools.partial(attend.hvp, tangents=(inputs[0],))):
        gradients = face((y, z), inputs, wrt=["x", "a"], out=(None, to_a), graph=graph, heads=4)
        assert gradients[0].shape == (3, 8)
        assert gradients[1] is to_a
        assert gradients[2] is None
    assert len(calls) == 5


def test_wrong_out(graph, inputs):
    with pytest.raises(ValueError, match=r"attend: out for y has shape \(8, 2\), needs"):
        attend.forward(*inputs, out=(np.empty((8, 2)),), graph=graph, heads=4)
    with pytest.raises(ValueError, match="attend: out for y is not contiguous"):
        attend.forward(*inputs, out=(np.empty((8, 2)).T,), graph=graph, heads=4)
    with pytest.raises(TypeError, match="attend: x is float64 but out for z is float32"):
        attend.jvp(inputs, (), out=(None, np.empty(3, np.float32)), graph=graph, heads=4)


def test_strided_and_unaligned_inputs_are_copied(calls, graph, inputs):
    strided = np.ones((3, 16))[:, ::2]
    unaligned = np.frombuffer(b"\0" * 129, np.float64, 16, offset=1)
    attend(strided, unaligned, graph=graph, heads=4)
    x, a = calls[0][1][5:7]
    assert x != address(strided)
    assert a != address(unaligned)
    assert a % 8 == 0


# ---- what adapters ask ----


def test_introspection():
    assert attend.inputs == ("x", "a", "e")
    assert attend.static["heads"] is inspect.Parameter.empty
    assert attend.static["slope"] == 0.2
    assert attend.__doc__ == "Document of attend."
    assert list(inspect.signature(attend).parameters)[:3] == ["x", "a", "e"]
    assert repr(attend) == "<gnograd operator attend>"
    assert pickle.loads(pickle.dumps(attend)) is attend
    assert copy.copy(attend) is attend


def test_results(graph):
    given = ((3, 8), "float32"), ((16,), "float32"), None
    expected = {"y": ((2, 8), "float32"), "z": ((3,), "float32"), "where": ((2,), "int64")}
    assert attend.results(given, graph=graph, heads=4) == expected
    assert attend.results(given, graph=graph, heads=4, concat=False)["y"][0] == (2, 2)
    with pytest.raises(ValueError, match="attend: a has shape"):
        attend.results((given[0], ((15,), "float32"), None), graph=graph, heads=4)
    with pytest.raises(TypeError, match="attend: x is float32 but a is float64"):
        attend.results((given[0], ((16,), "float64"), None), graph=graph, heads=4)
    with pytest.raises(TypeError, match="attend: a is missing"):
        attend.results((given[0], None, None), graph=graph, heads=4)


# ---- errors ----


class OnDevice:
    """Stands for an array on a GPU."""

    shape, dtype, __cuda_array_interface__ = (3, 8), np.dtype(float), {}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x": np.ones((4, 8))}, ValueError, r"x has shape \(4, 8\), needs \(n_src=3, heads\*C\)"),
        ({"x": np.ones((3, 9))}, ValueError, r"x has shape \(3, 9\)"),
        ({"x": np.ones(8)}, ValueError, r"x has shape \(8,\)"),
        ({"a": np.ones(8)}, ValueError, r"a has shape \(8,\), needs \(2\*heads\*C=16,\)"),
        ({"e": np.ones((4, 1))}, ValueError, r"e has shape \(4, 1\), needs \(n_edges=3, D\)"),
        ({"a": np.ones(16, np.float32)}, TypeError, "x is float64 but a is float32"),
        ({"x": np.ones((3, 8), np.float16)}, TypeError, "x is float16, needs float32 or float64"),
        ({"x": np.ones((3, 8), int)}, TypeError, "x is int64, needs float32 or float64"),
        ({"a": np.ones(16, ">f8")}, TypeError, "x is float64 but a is >f8"),
        ({"x": [1.0]}, TypeError, "x is of type list, needs an array"),
        ({"a": None}, TypeError, r"a is missing, needs an array of shape \(2\*heads\*C=16,\)"),
        ({"x": OnDevice()}, RuntimeError, "x is on a GPU, but gnograd was built without CUDA"),
        ({"graph": None}, TypeError, "graph is None, needs a gnograd.Graph"),
        ({"kind": "sharp"}, ValueError, "kind is 'sharp', needs one of 'soft', 'hard'"),
        ({"kind": []}, ValueError, r"kind is \[\]"),
        ({"knid": "soft"}, TypeError, "unknown argument 'knid'"),
    ],
)
def test_refused(calls, graph, inputs, change, error, message, monkeypatch):
    monkeypatch.setattr("gnograd.backends.has_cuda", lambda: False)
    arguments = {**dict(zip(attend.inputs, inputs, strict=True)), "graph": graph, "heads": 4}
    with pytest.raises(error, match=f"^attend: {message}"):
        attend(**{**arguments, **change})
    assert not calls


def test_refused_derivatives(calls, graph, inputs):
    static = {"graph": graph, "heads": 4}
    cotangent = np.ones((2, 8)), np.ones(3)
    for face in (attend.vjp, lambda *a, **k: attend.hvp(*a, inputs, **k)):
        with pytest.raises(ValueError, match=r"cotangent of y has shape \(2, 7\), needs \(n_dst=2"):
            face((np.ones((2, 7)), None), inputs, **static)
        with pytest.raises(TypeError, match="x is float64 but cotangent of z is float32"):
            face((None, np.ones(3, np.float32)), inputs, **static)
    with pytest.raises(TypeError, match="cotangent of y needs a tuple"):
        attend.vjp(cotangent[0], inputs, **static)
    with pytest.raises(ValueError, match="wrt names 'w', which is none of x, a, e"):
        attend.vjp(cotangent, inputs, wrt="w", **static)
    with pytest.raises(TypeError, match="saved where is float64, needs int64"):
        attend.vjp(cotangent, inputs, saved=(cotangent[0], None, np.ones(2)), **static)
    with pytest.raises(ValueError, match=r"tangent of a has shape \(3, 8\)"):
        attend.jvp(inputs, (None, inputs[0]), **static)
    with pytest.raises(ValueError, match="tangent of e is given, but e is None"):
        attend.jvp(inputs[:2], inputs, **static)
    with pytest.raises(TypeError, match="inputs is of type ndarray, needs a tuple"):
        attend.jvp(inputs[0], inputs, **static)
    with pytest.raises(TypeError, match="4 arrays were given for x, a, e"):
        attend.jvp((*inputs, None), inputs, **static)
    with pytest.raises(TypeError, match="heads is missing"):
        attend.jvp(inputs, inputs, graph=graph)
    with pytest.raises(TypeError, match="a is given twice"):
        attend(*inputs, a=inputs[1], **static)
    assert not calls


def test_mixed_devices(monkeypatch, graph, inputs):
    from gnograd import operator as module

    class device:
        DEVICE, SUFFIXES = "GPU", {"float64": "f64"}

        @staticmethod
        def describe(array):
            return array.shape, str(array.dtype)

    backend_of = module.backend_of
    monkeypatch.setattr(
        module, "backend_of", lambda a: device if isinstance(a, OnDevice) else backend_of(a)
    )
    with pytest.raises(TypeError, match="x is on the CPU but a is on the GPU"):
        attend(inputs[0], OnDevice(), graph=graph, heads=4)


@pytest.mark.parametrize(
    ("status", "error"),
    [(1, ValueError), (2, IndexError), (3, MemoryError), (4, NotImplementedError)],
)
def test_status(monkeypatch, graph, inputs, status, error):
    monkeypatch.setattr(_core, "gnograd_attend_forward_r64", lambda *_: status, raising=False)
    with pytest.raises(error):
        attend(*inputs, graph=graph, heads=4)
