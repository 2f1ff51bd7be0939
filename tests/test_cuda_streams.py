# SPDX-License-Identifier: MIT
"""Streams and devices, of arrays and of PyTorch, CuPy and JAX."""

import contextlib
import ctypes
import gc
import pickle
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gnograd as gg
from gnograd.backends import cuda_arrays, cuda_library
from gpus import GPUS, needs_gpu, on_host
from on_device import EPS, Lender, calls, numbers, to_device, weighted

__all__ = ["calls", "weighted"]

pytestmark = needs_gpu
if GPUS:
    from gnograd.backends import cuda


@on_host
def test_current_stream(weighted, calls):
    """Kernels run on the first array's stream by default, and wait for the others."""
    x = Lender(cuda.to_device(weighted.x), stream=40)
    w = Lender(cuda.to_device(weighted.w), stream=50)
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert calls["launch"][-1][-1] == 40
    assert calls["wait"] == [(40, 50, 0)]
    assert out.__cuda_array_interface__["stream"] == 40
    del out
    assert calls["free"][-1][1] == 40


@on_host
def test_default_stream(weighted, calls):
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    assert x.__cuda_array_interface__["stream"] == 1
    gg.agg_weighted(x, w, graph=weighted.graph)
    assert calls["launch"][-1][-1] == 0
    assert "wait" not in calls


@on_host
def test_chosen_stream(weighted, calls):
    """Kernels take a chosen stream and memory, as the adapter for PyTorch gives them."""
    given = []

    def empty(shape, dtype):
        given.append(cuda.to_device(np.empty(shape, dtype)))
        return given[-1]

    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    with cuda.using(60, empty):
        out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert out is given[0]
    assert calls["launch"][-1][-1] == 60
    del x
    assert calls["free"][-1][1] == 60  # behind the kernel that read it
    assert_allclose(out.get(), weighted.out, rtol=1e-12)


class Xla:
    """Stand-in for XLA, which hands buffers, a stream, memory and an error's place to a target."""

    CODES = {"int32": 4, "int64": 5, "float16": 10, "float32": 11, "float64": 12, "bfloat16": 16}  # noqa: RUF012

    def __init__(self, stream):
        self.stream, self.blocks, self.taken, self.errors = stream, {}, [], []

    def call(self, task, operands, results):
        xla = pytest.importorskip("gnograd.jax.xla")
        from gnograd.jax.task import TARGET

        text = ctypes.create_string_buffer(task.text.encode())
        string = xla._Bytes(ctypes.addressof(text), len(text) - 1)
        attributes = xla._Attributes(
            n=1, types=(ctypes.c_int * 1)(xla._STRING),
            strings=ctypes.pointer(ctypes.pointer(string)),
        )  # fmt: skip
        api = xla._Api(
            error_create=self.function(xla._ErrorCreate, self.create_error),
            stream_get=self.function(xla._StreamGet, self.give_stream),
            allocate=self.function(xla._Allocate, self.allocate),
            free=self.function(xla._Free, self.free),
        )
        frame = xla._CallFrame(
            api=ctypes.pointer(api), stage=xla._EXECUTE, attributes=attributes,
            operands=self.buffers(xla, operands), results=self.buffers(xla, results),
        )  # fmt: skip
        return xla._targets[TARGET, "CUDA"](ctypes.addressof(frame))

    def buffers(self, xla, arrays):
        found = []
        for array in arrays:
            shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
            buffer = xla._Buffer(
                dtype=self.CODES[str(array.dtype)],
                data=array.ctypes.data,
                rank=array.ndim,
                dims=shape,
            )
            found.append(ctypes.pointer(buffer))
        pointers = (ctypes.POINTER(xla._Buffer) * len(found))(*found)
        return xla._Buffers(n=len(found), buffers=pointers)

    def function(self, arguments, do):
        xla = pytest.importorskip("gnograd.jax.xla")
        return xla._Function(
            lambda address: do(ctypes.cast(address, ctypes.POINTER(arguments)).contents)
        )

    def create_error(self, arguments):
        self.errors.append(arguments.message.decode())
        return len(self.errors)

    def give_stream(self, arguments):
        arguments.stream = self.stream

    def allocate(self, arguments):
        block = np.full(arguments.bytes + 256, 0xFF, np.uint8)
        arguments.data = -(-block.ctypes.data // 256) * 256
        self.blocks[arguments.data] = arguments.bytes, block
        self.taken.append(arguments.bytes)

    def free(self, arguments):
        assert self.blocks.pop(arguments.data)[0] == arguments.bytes


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_jax_buffers(dtype, weighted, monkeypatch):
    """XLA's buffers are read and written where they are, on its stream, in its memory."""
    pytest.importorskip("jax")
    jax_task = pytest.importorskip("gnograd.jax.task")
    x, w = weighted.x.astype(numbers(dtype)), weighted.w.astype(numbers(dtype))
    launched = []
    run = cuda.run
    monkeypatch.setattr(cuda, "run", lambda *a: (launched.append(cuda._current([], None)), run(*a)))
    xla = Xla(stream=75)
    static = (("aggregation", "sum"),)
    found = pytest.importorskip("gnograd.jax").Graph.of(weighted.graph).arrays
    csc = [np.asarray(array) for array in found if array is not None]
    yes = True, True, *(array is not None for array in found)
    forward = jax_task.Task(gg.agg_weighted, static, "forward", jax_task.Parts(yes))
    out = np.zeros(weighted.out.shape, x.dtype)
    assert xla.call(forward, [x, w, *csc], [out]) is None
    tolerance = 8 * max(EPS[dtype], 1e-13)
    assert_allclose(out.astype(float), weighted.out, rtol=tolerance, atol=tolerance)
    there = jax_task.Parts(yes, cotangents=(True,))
    vjp = jax_task.Task(gg.agg_weighted, static, "vjp", there, wrt=(False, True))
    d_w = np.zeros_like(w)
    assert xla.call(vjp, [x, w, *csc, out], [d_w]) is None
    expected = gg.agg_weighted.vjp(
        out.astype(float), (x.astype(float), w.astype(float)), graph=weighted.graph
    )[1]
    scale = np.abs(expected).max()
    assert_allclose(d_w.astype(float), expected, rtol=tolerance, atol=tolerance * scale)
    assert launched == [75, 75]
    assert not xla.blocks  # all that was taken has been given back
    with monkeypatch.context() as patch:
        patch.setattr(cuda, "run", None)  # a later call of the kind is only launched
        again = np.zeros_like(out)
        assert xla.call(forward, [x.copy(), w, *csc], [again]) is None
    assert again.tobytes() == out.tobytes()
    assert not xla.blocks
    wrong = np.zeros((1, 1, 1), x.dtype)
    assert xla.call(forward, [wrong, w, *csc], [out]) == 1
    assert xla.errors[0].startswith("agg_weighted: x has shape (1, 1, 1), needs")


@on_host
def test_jax_integers_on_device():
    """Integers of 32 bits become those that the kernel needs, in XLA's memory."""
    pytest.importorskip("jax")
    jax_task = pytest.importorskip("gnograd.jax.task")
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(6, 2, 16)).astype(np.float32) for _ in range(3))
    ends = np.array([0, 2, 6])
    out = np.zeros_like(v)
    declared = gg.window_attention.static.items()
    static = tuple((k, v) for k, v in declared if k not in ("cu_q", "cu_k"))
    there = *(True,) * 3, *(False,) * 3, *(True,) * 2  # q, k, v; no bias; cu_q, cu_k
    task = jax_task.Task(gg.window_attention, static, "forward", jax_task.Parts(there))
    xla = Xla(stream=0)
    assert xla.call(task, [q, k, v, ends.astype(np.int32), ends.astype(np.int32)], [out]) is None
    assert xla.taken[:2] == [24, 24]
    assert not xla.blocks
    expected = gg.window_attention(*(x.astype(float) for x in (q, k, v)), cu_q=ends, cu_k=ends)
    assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@pytest.fixture
def on_gpu(monkeypatch):
    """Makes tensors say that they are on a GPU; PyTorch's stream is number 75."""
    torch = pytest.importorskip("torch")

    class OnGpu(torch.Tensor):
        device = torch.device("cuda", 0)
        is_cuda = True

        @property
        def __cuda_array_interface__(self):
            contiguous = self.is_contiguous()
            steps = None if contiguous else tuple(s * self.element_size() for s in self.stride())
            return {
                "shape": tuple(self.shape), "strides": steps, "data": (self.data_ptr(), False),
                "typestr": torch._tensor._dtype_to_typestr(self.dtype), "version": 2,
            }  # fmt: skip

        def to(self, device, dtype):
            return self.as_subclass(torch.Tensor).to(dtype).as_subclass(OnGpu)

    streams = SimpleNamespace(cuda_stream=75)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: streams)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    empty = torch.empty
    monkeypatch.setattr(
        torch, "empty", lambda shape, dtype, device: empty(shape, dtype=dtype).as_subclass(OnGpu)
    )
    return OnGpu


@pytest.fixture
def launched(monkeypatch):
    """Streams that kernels were put on."""
    streams, run = [], cuda.run
    monkeypatch.setattr(cuda, "run", lambda *a: (streams.append(cuda._current([], None)), run(*a)))
    return streams


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_torch_tensors(dtype, weighted, on_gpu, launched):
    """Tensors go in and come out, on PyTorch's stream."""
    import torch

    from gnograd.torch.arrays import as_arrays

    host = torch.tensor(weighted.x).to(getattr(torch, dtype))
    x = host.t().contiguous().t().as_subclass(on_gpu).requires_grad_()
    w = torch.tensor(weighted.w).to(host.dtype).as_subclass(on_gpu)
    with as_arrays([x, w]) as (array, tensor):
        out = tensor(gg.agg_weighted(array(x), array(w), graph=weighted.graph))
    assert type(out) is on_gpu
    assert out.dtype == host.dtype
    assert launched == [75]
    tolerance = 8 * max(EPS[dtype], 1e-13)
    assert_allclose(out.as_subclass(torch.Tensor).double(), weighted.out, tolerance, tolerance)


@on_host
def test_tensors_of_plain_functions(weighted, on_gpu, calls):
    """Kernels on tensors, which name no stream, run on PyTorch's current one."""
    import torch

    x, w = (torch.tensor(a).as_subclass(on_gpu) for a in (weighted.x, weighted.w))
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert_allclose(out.get(), weighted.out, rtol=1e-12)
    assert calls["launch"][-1][-1] == 75
    assert out.__cuda_array_interface__["stream"] == 75
    # one tensor suffices; what others name is waited for
    given = Lender(cuda.to_device(weighted.x), stream=40)
    gg.agg_weighted(given, w, graph=weighted.graph)
    assert calls["launch"][-1][-1] == 75
    assert set(calls["wait"]) == {(75, 40, 0)}


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_torch_neighbor_search(dtype, rng, on_gpu, launched, monkeypatch):
    import torch

    import gnograd.torch as gt

    # these tensors are no CUDA tensors to PyTorch's dispatcher
    monkeypatch.setattr(gt.searches, "is_eager", lambda *_: True)

    data, queries = (torch.tensor(rng.random((n, 2))).to(getattr(torch, dtype)) for n in (50, 30))
    options = {"data_ptr": [0, 20, 50], "queries_ptr": [0, 30, 30]}
    expected = gt.neighbor_search(data, queries, 0.2, True, **options)
    data, queries = (x.as_subclass(on_gpu) for x in (data, queries))
    found = gt.neighbor_search(data, queries, 0.2, True, **options)
    for name in expected:
        assert type(found[name]) is on_gpu
        assert torch.equal(found[name].as_subclass(torch.Tensor), expected[name])
    assert launched == [75, 75]


@on_host
def test_cupy_stream(weighted, calls, monkeypatch):
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: True, get_current_stream=lambda: SimpleNamespace(ptr=70)
        )
    )
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    monkeypatch.setattr(cuda, "_cupy", lambda: cupy)
    assert cuda._current([cuda.to_device(weighted.x)], None) == 70
    assert cuda._current([], 80) == 80


@on_host
def test_stream_of_cupy_lives_as_long_as_results(weighted, monkeypatch):
    """CuPy destroys a stream with its object; bfloat16 results are given back on it later."""

    class Stream:
        ptr = 70

    stream = Stream()
    cupy = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda, "_cupy", lambda: cupy)
    new = cuda_arrays.empty

    def empty(shape, dtype, like, stream=None):
        return new(shape, dtype, 0, cuda._current([], stream))

    monkeypatch.setattr(cuda, "empty", empty)
    x, w = to_device((weighted.x, weighted.w))
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    alive = weakref.ref(stream)
    cupy.cuda.get_current_stream = stream = None
    del x, w
    gc.collect()
    assert alive() is not None
    assert_allclose(out.get(), weighted.out, rtol=1e-12)
    del out
    gc.collect()
    assert alive() is None


@on_host
def test_stream_of_an_array_lives_as_long_as_results(weighted):
    """An array is kept as long as results on its stream, which may end with the array."""
    lender = Lender(cuda.to_device(weighted.x), stream=70)
    alive, w = weakref.ref(lender), cuda.to_device(weighted.w)
    out = gg.agg_weighted(lender, w, graph=weighted.graph)
    del lender, w
    more = gg.agg_simple(out, graph=gg.Graph([0, 1], [0], len(weighted.out)))
    assert_allclose(out.get(), weighted.out, rtol=1e-12)
    del out
    assert alive() is not None
    del more
    assert alive() is None


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("operator", ["selected", "window", "compressed"])
def test_copies_arrive_before_a_block_ends(operator, dtype, rng):
    """Copies arrive also for queries that see no key: otherwise the stand-in ends the process."""
    sizes = (40, 16, 128), (64, 1, 128), (64, 1, 128)
    q, k, v = to_device(tuple(rng.normal(size=size).astype(dtype) for size in sizes))
    slots = np.full((40, 1, 2), -1, np.int32)
    slots[20:, 0, 0] = 1
    attention, static = {
        "selected": (gg.selected_attention, dict(block_index=to_device(slots), block_size=32)),
        "window": (gg.window_attention, dict(window=8, causal=True, q_offset=-30)),
        "compressed": (
            gg.compressed_attention, dict(block=4, stride=2, causal=True, q_offset=-30),
        ),
    }[operator]  # fmt: skip
    out = attention(q, k, v, **static)
    out = out[0] if isinstance(out, tuple) else out
    assert not out.get()[:20].any()
    cotangent = (out, None) if operator == "compressed" else out
    grad_q = attention.vjp(cotangent, (q, k, v), **static)[0]
    assert not grad_q.get()[:20].any()


@on_host
def test_two_devices(weighted, calls):
    x, w = (cuda.to_device(a, device=1) for a in (weighted.x, weighted.w))
    assert cuda.device_of(x) == 1
    out = gg.agg_weighted(x, w, graph=weighted.graph)
    assert cuda.device_of(out) == 1
    assert 1 in weighted.graph.mirrors
    assert_allclose(out.get(), weighted.out, rtol=1e-12)
    assert cuda_library.library().integer("current_device") == 0
    with pytest.raises(TypeError, match="agg_weighted: arrays are on GPU 0 and GPU 1"):
        gg.agg_weighted(cuda.to_device(weighted.x), w, graph=weighted.graph)


@on_host
def test_first_use_of_a_graph_while_a_stream_is_captured(weighted):
    """A capture that a new graph, or the end of one, would break could not be replayed."""
    runtime = ctypes.CDLL(str(cuda_library.find()))
    stream, graph = ctypes.c_void_p(), pickle.loads(pickle.dumps(weighted.graph))
    x, w = cuda.to_device(weighted.x), cuda.to_device(weighted.w)
    assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
    x, w = (Lender(a, stream=stream.value) for a in (x, w))
    gc.collect()  # arrays that other tests have left
    assert runtime.cudaStreamBeginCapture(stream, 0) == 0
    try:
        out = gg.agg_weighted(x, w, graph=graph)
        del graph
    finally:
        status = runtime.cudaStreamEndCapture(stream, None)
        runtime.cudaGetLastError()
    assert status == 0
    assert_allclose(out.get(), weighted.out, rtol=1e-12)
