# SPDX-License-Identifier: MIT
"""Arrays on a GPU, or on the host that plays one, and what operators are held to there."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
import table
from conftest import GRAPHS
from faces import Call
from gnograd.backends import cuda_library
from gnograd.notation import shapes
from gpus import GPUS

if GPUS:
    from gnograd.backends import cuda

CASES = table.of("aggregation", "attention", "relational", "edge_updates", "moments")
FEW = [case for case in CASES if not case.many and case.family != "moments"]
SPARSE = [case for case in table.of("nsa", large=False) if case.name != "compress"]
TRIPLETS = table.of("agg_edge_to_edge")
PLAIN = [case for case in FEW if case.name.startswith("mha") and "dropout" not in case.static]
EPS = {"float64": 1e-13, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def numbers(name):
    return pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.dtype(name)


def to_device(arrays):
    """Copies of arrays on the device; tuples and None stay."""
    if arrays is None or isinstance(arrays, tuple):
        return arrays and tuple(map(to_device, arrays))
    return cuda.to_device(arrays)


def to_host(arrays):
    if arrays is None or isinstance(arrays, tuple):
        return arrays and tuple(map(to_host, arrays))
    return arrays.get()


def static_on_device(static):
    """Static arguments with their arrays on the device."""
    return {k: to_device(v) if isinstance(v, np.ndarray) else v for k, v in static.items()}


def wide(arrays):
    """Copies of arrays in float64."""
    if arrays is None or isinstance(arrays, tuple):
        return arrays and tuple(map(wide, arrays))
    return arrays.astype(float)


class Lender:
    """An array of a library that has no more than the interface."""

    def __init__(self, array, **changes):
        self.lent = array
        interface = dict(array.__cuda_array_interface__, **changes)
        self.__cuda_array_interface__ = {k: v for k, v in interface.items() if v is not ...}


def columns(array, begin):
    """The columns of a matrix from this one on, without a copy."""
    (rows, width), item = array.shape, array.dtype.itemsize
    first = array.__cuda_array_interface__["data"][0] + begin * item
    return Lender(
        array, shape=(rows, width - begin), strides=(width * item, item), data=(first, False)
    )


def draw(case, edges, rng, dtype):
    """Inputs, tangents and cotangents in this dtype."""
    call = Call(case, edges, rng).convert(dtype)
    return call.inputs, call.tangents, call.cotangents


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def faces_of(operator, inputs, tangents, cotangent, static):
    """All results by name."""
    out, saved = operator.forward(*inputs, return_saved=True, **static)
    return {
        "forward": (*as_tuple(operator(*inputs, **static)), *as_tuple(out)),
        "vjp": operator.vjp(cotangent, inputs, **static),
        "vjp with saved": operator.vjp(cotangent, inputs, saved=saved, **static),
        "jvp": as_tuple(operator.jvp(inputs, tangents, **static)),
        "hvp": operator.hvp(cotangent, inputs, tangents, **static),
        "saved": tuple(saved),
    }


def check_faces(operator, inputs, tangents, cotangent, static, dtype, slack=1, terms=None):
    """The device's results in this dtype are those of the CPU in float64, rounded.

    `terms` has the sizes of what is summed, by face and result, where they exceed the results'.
    Then each of them may be rounded twice besides.
    """
    exact = faces_of(operator, wide(inputs), wide(tangents), wide(cotangent), static)
    static = static_on_device(static)
    given = map(to_device, (inputs, tangents, cotangent))
    for face, arrays in faces_of(operator, *given, static).items():
        sizes = (terms or {}).get(face.removesuffix(" with saved"), [0] * len(arrays))
        for actual, expected, size in zip(to_host(arrays), exact[face], sizes, strict=False):
            assert (actual is None) == (expected is None), face
            if expected is not None:
                assert actual.shape == expected.shape
                assert_close(actual.astype(float), expected, dtype, slack, size)
        if face in ("vjp", "hvp"):
            kinds = [None if x is None else str(x.dtype) for x in inputs]
            assert kinds == [None if a is None else str(a.dtype) for a in arrays]


def assert_close(actual, exact, dtype, slack, terms=0):
    finite = np.isfinite(exact)
    assert_array_equal(np.isfinite(actual), finite)
    scale = np.max(np.abs(exact), initial=1, where=finite)
    sums = (32 * scale + 2 * terms) * EPS["float32"] * (dtype != "float64")
    assert_allclose(actual[finite], exact[finite], rtol=0, atol=slack * (EPS[dtype] * scale + sums))


def as_taken(case, arrays, dtype):
    """Arrays in the precisions that the operator takes with a first input of this dtype."""
    specs = case.operator.declaration.inputs.values()
    return tuple(
        None if a is None else a.astype(numbers(shapes.dtype_of(spec, dtype)))
        for a, spec in zip(arrays, specs, strict=False)
    )


@pytest.fixture
def weighted(rng):
    """An operator's inputs, on the host."""
    edges = GRAPHS["power law"]
    x, w = table.FRONT["agg_weighted"].change(D=4).inputs(edges, rng)
    return SimpleNamespace(
        graph=edges.graph, x=x, w=w, out=gg.agg_weighted(x, w, graph=edges.graph)
    )


@pytest.fixture
def calls(monkeypatch):
    """Log of calls of the library, by function."""
    gc.collect()  # arrays that other tests have left
    monkeypatch.setattr(cuda, "_cupy", lambda: None)  # its pool would be asked, where it is there
    library, log = cuda_library.library(), {}

    def noted(name, function):
        def call(*arguments):
            log.setdefault(name, []).append(arguments)
            return function(*arguments)

        return call

    for name in ("allocate", "free", "hold", "release", "wait", "assign", "use_device"):
        monkeypatch.setitem(library.__dict__, name, noted(name, getattr(library, name)))
    faces = {
        name: face._replace(launch=noted("launch", face.launch))
        for name, face in library.faces.items()
    }
    monkeypatch.setattr(library, "faces", faces)
    return log
