# SPDX-License-Identifier: MIT
"""The frame that all operators share, with a kernel that only writes down its arguments."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle

import numpy as np
import pytest

import calls
import gnograd as gg
from gnograd import _core
from gnograd.backends import cpu
from gnograd.backends.cpu import address
from gnograd.faces.operator import Array, operator
from gnograd.faces.recent import Recent
from gnograd.graphs.graph import Graph
from gnograd.notation.declaration import parse


@operator(
    inputs={
        "x": "n_src heads*C",
        "a": "2*heads*C",
        "e": "n_edges D or None",
    },
    outputs={"y": "n_dst heads*C", "z": "n_edges"},
    arguments="graph heads C kind slope",
    saved={"y": "n_dst heads*C", "most": "n_dst heads", "where": "int64 n_dst"},
    when={"concat=False": {"y": "n_dst C"}, "kind=soft": {"most": "None"}},
    choices={"kind": {"soft": 0, "hard": 5}},
)
def attend(
    x: Array,
    a: Array,
    e: Array | None = None,
    *,
    graph: Graph,
    heads: int,
    concat: bool = True,
    kind: str = "soft",
    slope: float = 0.2,
) -> tuple[Array, Array]:
    """Document of attend."""


@pytest.fixture
def graph():
    return gg.Graph([0, 2, 3], [2, 0, 1], n_src=3)


@pytest.fixture
def inputs():
    return np.ones((3, 8)), np.ones(16), np.ones((3, 5))


@pytest.fixture
def kernels(monkeypatch):
    """Kernels of all faces, which append (face, arguments) here."""
    record = []
    for face in ("forward", "vjp", "jvp", "hvp"):

        def kernel(*arguments, face=face):
            record.append((face, arguments))
            return 0

        monkeypatch.setattr(_core, f"gnograd_attend_{face}_r64", kernel, raising=False)
    return record


# ---- order of the arguments ----


def test_forward(kernels, graph, inputs):
    y, z = attend(*inputs, graph=graph, heads=4, kind="hard")
    assert (y.shape, z.shape, y.dtype) == ((2, 8), (3,), np.float64)
    numbers = (graph.handle, 4, 2, 5, 0.2)
    arrays = [address(array) for array in (*inputs, y, z)]
    assert kernels == [("forward", (*numbers, *arrays, 0, 0))]


def test_forward_by_name_and_with_saved(kernels, graph, inputs):
    (y, z), saved = attend.forward(
        inputs[0], e=inputs[2], a=inputs[1], graph=graph, heads=2, concat=False, return_saved=True
    )
    assert y.shape == (2, 4)
    assert saved[0] is y
    assert saved[1] is None
    assert (saved[2].shape, saved[2].dtype) == ((2,), np.int64)
    assert kernels[0][1][5:] == tuple(map(address, (*inputs, y, z, None, saved[2])))


def test_vjp(kernels, graph, inputs):
    cotangent = np.ones((2, 8)), None
    gradients = attend.vjp(cotangent, inputs, wrt={"a"}, graph=graph, heads=4)
    assert [g is None for g in gradients] == [True, False, True]
    assert gradients[1].shape == (16,)
    expected = [cotangent[0], None, *inputs, None, None, None, None, gradients[1], None]
    assert kernels == [("vjp", (graph.handle, 4, 2, 0, 0.2, *map(address, expected)))]


def test_vjp_with_saved(kernels, graph, inputs):
    (y, z), saved = attend.forward(*inputs, graph=graph, heads=4, return_saved=True)
    attend.vjp((y, z), inputs, saved=saved, graph=graph, heads=4)
    assert kernels[1][1][10:13] == tuple(map(address, saved))


def test_nothing_wanted_calls_nothing(kernels, graph, inputs):
    cotangent = np.ones((2, 8)), np.ones(3)
    assert attend.vjp(cotangent, inputs, wrt=(), graph=graph, heads=4) == (None,) * 3
    # an absent input has no gradient
    assert attend.vjp(cotangent, inputs[:2], wrt=["e"], graph=graph, heads=4) == (None,) * 3
    assert not kernels


def test_jvp(kernels, graph, inputs):
    y, z = attend.jvp(inputs, (None, inputs[1], None), graph=graph, heads=4)
    expected = [*inputs, None, inputs[1], None, y, z]
    assert kernels == [("jvp", (graph.handle, 4, 2, 0, 0.2, *map(address, expected)))]


def test_hvp(kernels, graph, inputs):
    cotangent = np.ones((2, 8)), np.ones(3)
    gradients = attend.hvp(cotangent, inputs, (inputs[0],), wrt="x", graph=graph, heads=4)
    expected = [*cotangent, *inputs, inputs[0], None, None, gradients[0], None, None]
    assert kernels == [("hvp", (graph.handle, 4, 2, 0, 0.2, *map(address, expected)))]


def test_results_are_written_where_the_caller_wants(kernels, graph, inputs):
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
    assert len(kernels) == 5


def test_wrong_out(graph, inputs):
    with pytest.raises(ValueError, match=r"attend: out for y has shape \(8, 2\), needs"):
        attend.forward(*inputs, out=(np.empty((8, 2)),), graph=graph, heads=4)
    with pytest.raises(ValueError, match="attend: out for y is not contiguous"):
        attend.forward(*inputs, out=(np.empty((8, 2)).T,), graph=graph, heads=4)
    with pytest.raises(TypeError, match="attend: x is float64 but out for z is float32"):
        attend.jvp(inputs, (), out=(None, np.empty(3, np.float32)), graph=graph, heads=4)
    with pytest.raises(
        TypeError, match="attend: out is of type ndarray, needs a tuple of 2 arrays"
    ):
        attend.forward(*inputs, out=np.empty((2, 8)), graph=graph, heads=4)
    x, w = np.ones((3, 2)), np.ones(2)
    with pytest.raises(TypeError, match="agg_weighted: out is of type ndarray, needs a tuple of 2"):
        gg.agg_weighted.vjp(np.ones((2, 2)), (x, w), out=x, graph=gg.Graph([0, 1, 2], [0, 1], 3))
    with pytest.raises(TypeError, match="edge_softmax: out for out is of type int, needs an array"):
        gg.edge_softmax.forward(np.ones((2, 1)), out=3, graph=gg.Graph([0, 2], [0, 0]))
    with pytest.raises(ValueError, match=r"edge_softmax: out for out has shape \(2,\), needs"):
        gg.edge_softmax.forward(np.ones((2, 1)), out=np.ones(2), graph=gg.Graph([0, 2], [0, 0]))


def test_strided_and_unaligned_inputs_are_copied(kernels, graph, inputs):
    strided = np.ones((3, 16))[:, ::2]
    unaligned = np.frombuffer(b"\0" * 129, np.float64, 16, offset=1)
    attend(strided, unaligned, graph=graph, heads=4)
    x, a = kernels[0][1][5:7]
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
    assert attend.results(given[:2], graph=graph, heads=4) == expected
    for few in ((given[0], None, None), given[:1]):
        with pytest.raises(
            TypeError, match=r"attend: a is missing, needs an array of shape \(2\*h"
        ):
            attend.results(few, graph=graph, heads=4)
    with pytest.raises(TypeError, match="attend: 4 arrays were given for x, a, e"):
        attend.results((*given, None), graph=graph, heads=4)
    with pytest.raises(TypeError, match="attend: inputs is of type int, needs a list of shapes"):
        attend.results(3, graph=graph, heads=4)
    with pytest.raises(TypeError, match=r"attend: x is \(3, 8\), needs a shape and the name"):
        attend.results([(3, 8)], graph=graph, heads=4)


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
        ({"a": np.ones(16, ">f4")}, TypeError, "x is float64 but a is float32"),
        ({"x": [1.0]}, TypeError, "x is of type list, needs an array"),
        ({"x": np.ma.ones((3, 8))}, TypeError, "x is a masked array, whose mask would be ignored"),
        ({"heads": 0.5}, TypeError, "heads is 0.5, needs an integer"),
        ({"concat": 1}, TypeError, "concat is 1, needs True or False"),
        ({"a": None}, TypeError, r"a is missing, needs an array of shape \(2\*heads\*C=16,\)"),
        ({"x": OnDevice()}, RuntimeError, "x is on a GPU, but gnograd was built without CUDA"),
        ({"graph": None}, TypeError, "graph is None, needs a gnograd.Graph"),
        ({"kind": "sharp"}, ValueError, "kind is 'sharp', needs one of 'soft', 'hard'"),
        ({"kind": []}, ValueError, r"kind is \[\]"),
        ({"knid": "soft"}, TypeError, "unknown argument 'knid'"),
    ],
)
def test_refused(kernels, graph, inputs, change, error, message, monkeypatch):
    monkeypatch.setattr("gnograd.backends.has_cuda", lambda: False)
    arguments = {**dict(zip(attend.inputs, inputs, strict=True)), "graph": graph, "heads": 4}
    with pytest.raises(error, match=f"^attend: {message}"):
        attend(**{**arguments, **change})
    assert not kernels


def test_more_arrays_than_inputs(kernels, graph, inputs):
    with pytest.raises(TypeError, match="attend: 4 arrays were given for x, a, e"):
        attend(*inputs, None, graph=graph, heads=4)
    assert not kernels


def test_refused_derivatives(kernels, graph, inputs):
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
    for wrong in 3, 2.5, object():
        with pytest.raises(TypeError, match=r"^attend: wrt is of type .*, needs names of inputs"):
            attend.vjp(cotangent, inputs, wrt=wrong, **static)
    with pytest.raises(ValueError, match=r"^attend: wrt names 3, which is none of x, a, e"):
        attend.hvp(cotangent, inputs, inputs, wrt=[3], **static)
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
    assert not kernels


def test_mixed_devices(monkeypatch, graph, inputs):
    from gnograd.faces import call as module

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


@pytest.mark.parametrize("name", sorted(calls.calls()))
def test_null_pointer_of_an_input_that_must_be_there(name, monkeypatch):
    """For callers in C: the entry point names the array, and does not go on without it."""
    inputs, static = calls.call_of(name, calls.graph())
    op, run, refused = getattr(gg, name), cpu.run, []
    needed = [
        (label.lower(), address(x))
        for (label, spec), x in zip(op.declaration.inputs.items(), inputs, strict=False)
        if not parse(spec).optional
    ]

    def with_nulls(operator, face, dtype, arguments, stream=None):
        for label, where in needed:
            nulled = [
                None if isinstance(a, np.ndarray) and address(a) == where else a for a in arguments
            ]
            with pytest.raises(ValueError, match=rf"^{name}: .*\b{label}\b"):
                run(operator, face, dtype, nulled)
            refused.append(label)

    monkeypatch.setattr(op, "known", Recent(1))  # none that other tests have prepared
    monkeypatch.setattr(cpu, "run", with_nulls)
    op(*inputs, **static)
    assert refused == [label for label, _ in needed]
