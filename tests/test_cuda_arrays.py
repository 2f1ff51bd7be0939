# SPDX-License-Identifier: MIT
"""Arrays on a GPU: what operators take, what they return, and the memory that they need."""

import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
from gnograd.backends import cuda_arrays, cuda_library
from gpus import GPUS, needs_gpu, on_host
from on_device import Lender, calls, columns, numbers, to_device, weighted

__all__ = ["calls", "weighted"]

pytestmark = needs_gpu
if GPUS:
    from gnograd.backends import cuda


def test_arrays_that_have_but_the_interface(weighted):
    x, w = Lender(cuda.to_device(weighted.x)), Lender(cuda.to_device(weighted.w), stream=...)
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


def test_bfloat16_without_a_dtype(weighted):
    pytest.importorskip("ml_dtypes")
    x, w = (Lender(cuda.to_device(a.astype("bfloat16"))) for a in (weighted.x, weighted.w))
    assert x.__cuda_array_interface__["typestr"] == "<V2"
    assert gg.agg_weighted(x, w, graph=weighted.graph).dtype == "bfloat16"


@on_host
def test_numpy_memory(weighted):
    """Memory of NumPy is device memory in the build for the host."""

    class Wrapped:
        def __init__(self, array):
            self.__cuda_array_interface__ = array.__array_interface__

    out = gg.agg_weighted(Wrapped(weighted.x), Wrapped(weighted.w), graph=weighted.graph)
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


def test_strides(weighted):
    """Arrays may be transposed, have gaps or run backwards."""
    transposed = cuda.to_device(weighted.x.T)
    rows, width = transposed.shape
    x = Lender(transposed, shape=(width, rows), strides=(8, 8 * width))
    gaps = cuda.to_device(np.repeat(weighted.w[::-1], 2))
    last = gaps.__cuda_array_interface__["data"][0] + 8 * (gaps.shape[0] - 1)
    w = Lender(gaps, shape=weighted.w.shape, strides=(-16,), data=(last, False))
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


def test_strides_that_are_none(weighted):
    """Strides of a contiguous array cause no copy; the step of a single item means nothing."""
    x = Lender(cuda.to_device(weighted.x), strides=(32, 8))
    assert cuda.contiguous(x) is x
    one = Lender(cuda.to_device(np.ones((1, 4))), strides=(999, 8))
    assert cuda.contiguous(one) is one


def test_results():
    array = cuda.to_device(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert repr(array) == "DeviceArray(shape=(2, 3), dtype=float32)"
    assert array.dtype == np.float32
    assert_array_equal(cuda.contiguous(columns(array, 1)).get(), [[1, 2], [4, 5]])
    assert cuda.to_device(np.ones((0, 3))).get().shape == (0, 3)
    assert cuda.to_device(np.array(2.5)).get() == 2.5


@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("target", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("add", [False, True])
def test_assign(target, source, add):
    values = np.linspace(-2, 2, 6).reshape(2, 3)
    host, given = np.ones((2, 3)).astype(numbers(target)), values.astype(numbers(source))
    array = cuda.to_device(host)
    cuda.assign(array, cuda.to_device(given), add=add)
    between = np.float64 if "float64" in (target, source) else np.float32
    expected = given.astype(between) + (host.astype(between) if add else 0)
    assert_array_equal(array.get(), expected.astype(host.dtype))


def test_assign_integers():
    array = cuda.to_device(np.zeros(3, np.int32))
    cuda.assign(array, cuda.to_device(np.array([1, -2, 2**31 - 1])))
    assert array.get().tolist() == [1, -2, 2**31 - 1]
    with pytest.raises(ValueError, match="means nothing"):
        cuda.assign(array, cuda.to_device(np.ones(3)))


def test_memory_is_given_back(weighted, calls):
    graph = pickle.loads(pickle.dumps(weighted.graph))
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    out = gg.agg_weighted(x, w, graph=graph)
    view = columns(x, 2)
    assert len(calls["free"]) == 1  # the workspace
    del x, w, out
    assert len(calls["free"]) == 3
    assert_array_equal(cuda.contiguous(view).get(), weighted.x[:, 2:])
    del view
    assert "release" not in calls
    del graph
    assert len(calls["hold"]) == len(calls["release"]) == 7  # a graph with edge_ids, both ways
    assert len(calls["allocate"]) == len(calls["free"])


def test_graph_is_copied_once(weighted, calls):
    graph = pickle.loads(pickle.dumps(weighted.graph))
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    counts = []
    for _ in range(3):
        gg.agg_weighted.vjp(x, (x, w), graph=graph)
        counts.append(len(calls["allocate"]))
    assert counts[2] - counts[1] == 3  # two gradients, workspace
    assert len(graph.mirrors) == 1
    assert not pickle.loads(pickle.dumps(graph)).mirrors


@pytest.mark.parametrize("integer", ["int32", "int64"])
@pytest.mark.parametrize("with_ids", [False, True])
def test_integers_of_graphs(integer, with_ids, rng):
    offsets, indices = np.array([0, 2, 2, 5], integer), np.array([3, 0, 1, 1, 2], integer)
    ids = np.array([4, 2, 0, 1, 3], integer) if with_ids else None
    graph = gg.Graph(offsets, indices, n_src=4, edge_ids=ids)
    x, w = rng.normal(size=(4, 3)), rng.normal(size=5)
    c = rng.normal(size=(3, 3))
    expected = gg.agg_weighted.vjp(c, (x, w), graph=graph)
    actual = gg.agg_weighted.vjp(to_device(c), to_device((x, w)), graph=graph)
    for a, e in zip(actual, expected, strict=True):
        assert_allclose(a.get(), e, rtol=1e-12)


# sizes of selected attention: tokens, query heads, key/value heads, features, query_block
SELECTED = [
    (65_536, 16, 16, 64, 1), (65_536, 16, 16, 128, 1), (262_144, 16, 16, 64, 1),
    (1_048_576, 8, 8, 32, 1), (65_536, 64, 16, 128, 1), (65_536, 64, 4, 128, 1),
    (65_536, 16, 16, 64, 16), (4_096, 4, 2, 192, 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("face", ["forward", "vjp", "jvp", "hvp"])
@pytest.mark.parametrize("size", SELECTED, ids=str)
def test_workspace_of_selected_attention(size, face, dtype):
    """What docs/howto/sparse_attention.md says, and no more than a tenth above it."""
    tokens, query_heads, heads, d, query_block = size
    n_slots, block = 16, 64
    real = 8 if dtype == "f64" else 4
    number = 2 * real if face in ("jvp", "hvp") else real  # a value with its tangent
    units = -(-tokens // query_block)
    documented = 2 * 8 * units * heads * n_slots  # the lists twice
    if face in ("vjp", "hvp"):
        documented += 2 * number * tokens * query_heads
        documented += 3 * number * 2 * d * tokens * heads
    if face in ("jvp", "hvp"):
        documented += number * tokens * query_heads  # lse
    few_rows = query_block * query_heads // heads < 16
    if few_rows:
        records = number * (d + 3) * tokens * query_heads * n_slots
        widest = {"f32": 64, "f16": 128, "bf16": 128}.get(dtype, 0)
        if face != "forward" or d > widest:
            records *= 8 if face == "hvp" else 4  # a record for so many fewer keys
        documented += min(records, 2 << 30)
    elif face == "vjp":
        documented += min((real if dtype in ("f32", "f64") else 2) * d * tokens * query_heads
                          * n_slots, 2 << 30)  # fmt: skip
    asked = cuda_library.library().faces[f"selected_attention_{face}_{dtype}"].workspace_bytes(
        tokens, tokens, query_heads, heads, d, d, n_slots, 0, None, None, None, block, d**-0.5,
        1, 0, query_block, 0,
    )  # fmt: skip
    assert asked <= 1.1 * documented + 4096


class Nowhere(cuda_arrays.DeviceArray):
    """An array that takes no memory; no kernel reads it."""

    def __init__(self, shape, dtype):
        memory = cuda_arrays.Memory(0, 0, 0)
        super().__init__(tuple(shape), dtype, memory, 256 if np.prod(shape) else 0)


@pytest.fixture
def counted(monkeypatch):
    """Bytes of results, and of the largest workspace, of calls that launch nothing."""
    log = SimpleNamespace(results=0, workspace=0)
    library = cuda_library.library()
    faces = {name: f._replace(launch=lambda *_: 0) for name, f in library.faces.items()}
    monkeypatch.setattr(library, "faces", faces)

    def empty(shape, dtype, like=None, stream=None):
        bytes_ = int(np.prod(shape)) * cuda_arrays.item_size(dtype)
        if dtype == "uint8":
            log.workspace = max(log.workspace, bytes_)
        else:
            log.results += bytes_
        return Nowhere(shape, dtype)

    monkeypatch.setattr(cuda, "empty", empty)
    monkeypatch.setattr(cuda, "device_of", lambda array: 0)
    return log


def memory_of(case, size, counted):
    """Bytes of arrays and of the workspace, by face of a case of the benchmarks."""
    operator, inputs, static = case.make(size, np.random.default_rng(0))

    def there(x):
        if isinstance(x, tuple):
            return tuple(map(there, x))
        return Nowhere(x.shape, str(x.dtype)) if isinstance(x, np.ndarray) else x

    arrays = [*inputs, *static.values()]
    given = sum(x.nbytes for x in arrays if isinstance(x, np.ndarray))
    inputs, static = there(tuple(inputs)), {k: there(v) for k, v in static.items()}
    if "graph" in static:
        given += sum(x.nbytes for x in static["graph"].arrays if x is not None)
    found = {}
    for face in ("forward", "vjp", "jvp", "hvp"):
        counted.results = counted.workspace = 0
        if face == "forward":
            out, saved = operator.forward(*inputs, return_saved=True, **static)
        elif not hasattr(operator, face):
            continue
        elif face == "vjp":
            operator.vjp(out, inputs, saved=saved, **static)
        elif face == "jvp":
            operator.jvp(inputs, inputs, **static)
        else:
            operator.hvp(out, inputs, inputs, **static)
        found[face] = given + counted.results, counted.workspace
    return found


@pytest.fixture
def benchmarks(monkeypatch):
    """The cases of the benchmarks."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import cases

    return cases.CASES


@on_host
@pytest.mark.parametrize("name", [
    "agg_sum_32", "agg_max_128", "relational", "edge_updates", "moments", "gat", "gat_v2",
    "mha_simple", "edge_softmax", "gno_64", "gno_diagonal", "gno_kernel", "laplacian", "edge_mlp",
    "radial", "nsa", "nsa_mha", "window", "compress",
])  # fmt: skip
def test_workspaces_are_linear(name, benchmarks, counted):
    """Four times the size takes four times the workspace at most, a few times the arrays."""
    case = benchmarks[name]
    small, large = (memory_of(case, size, counted) for size in (case.small // 4, case.small))
    for face, (arrays, workspace) in large.items():
        assert workspace <= 4.4 * small[face][1] + (1 << 20), face
        assert workspace <= 8 * arrays + (16 << 20), face  # panels have a size of their own
