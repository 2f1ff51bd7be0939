# SPDX-License-Identifier: MIT
"""PyTorch in eager mode, past the dispatcher: values and derivatives of the custom operators."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import calls
import gnograd as gg
from faces import tuple_of
from gnograd.faces import operator

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

from torch.autograd import forward_ad  # noqa: E402

from calls_of_torch import NAMES, OtherMode, bind  # noqa: E402
from torch_eager import assert_equal, compare, dispatched, loss_of  # noqa: E402


@pytest.fixture
def custom(monkeypatch):
    """Names of the operators whose custom operators are called, for each face."""
    names = []

    def watch(kind, method):
        original = getattr(kind, method)

        def spy(face, *rest):
            names.append(face.op.name)
            return original(face, *rest)

        monkeypatch.setattr(kind, method, spy)

    watch(gt.eager.KnownCalls, "_operands")
    watch(gt.custom_operators.Face, "static_arrays")
    return names


# ---- values and derivatives ----


def test_other_gradients_of_a_call_like_an_earlier_one(graph):
    """A later call of the same types and shapes that wants gradients of other inputs gets them."""
    x, w = torch.randn(5, 3, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    c = torch.randn(5, 3, dtype=torch.float64)
    expected = gg.agg_weighted.vjp(c.numpy(), (x.numpy(), w.numpy()), graph=graph)
    for wanted in ([0], [1], [0, 1], [1]):
        leaves = [t.clone().requires_grad_(k in wanted) for k, t in enumerate((x, w))]
        out = gt.agg_weighted(*leaves, graph=graph)
        found = torch.autograd.grad(out, [leaves[k] for k in wanted], c)
        for gradient, k in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(gradient.numpy(), expected[k])


@pytest.mark.parametrize("name", NAMES)
def test_values_and_derivatives(name, graph):
    leaves, function, _ = bind(name, graph)

    def run():
        y = function(*leaves)
        plain = torch.autograd.grad(loss_of(y), leaves, retain_graph=True)
        first = torch.autograd.grad(loss_of(y), leaves, create_graph=True)
        second = torch.autograd.grad(
            sum(g.square().sum() for g in first), leaves, allow_unused=True
        )
        return [*tuple_of(y), *plain, *first, *second]

    compare(run)


@pytest.mark.parametrize("name", NAMES)
def test_forward_mode(name, graph):
    leaves, function, _ = bind(name, graph)

    def run():
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(x.detach(), x.detach().cos()) for x in leaves]
            found = [forward_ad.unpack_dual(y) for y in tuple_of(function(*duals))]
            return [part.clone() for y in found for part in y]

    function(*leaves)  # this kind of call is known
    compare(run)


@pytest.mark.parametrize("name", NAMES)
def test_forward_over_reverse(name, graph):
    leaves, function, _ = bind(name, graph)

    def run():
        with forward_ad.dual_level():
            duals = [
                forward_ad.make_dual(x.detach().requires_grad_(), x.detach().cos()) for x in leaves
            ]
            gradients = torch.autograd.grad(loss_of(function(*duals)), duals)
            return [forward_ad.unpack_dual(g).tangent.clone() for g in gradients]

    first = torch.autograd.grad(loss_of(function(*leaves)), leaves, create_graph=True)
    compare(run)
    moved = sum((g * x.detach().cos()).sum() for g, x in zip(first, leaves, strict=True))
    for found, expected in zip(run(), torch.autograd.grad(moved, leaves), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_a_negative_view_is_read_as_its_values(graph):
    """A tensor whose numbers are to be negated, as the imaginary part of a conjugate is."""
    leaves, function, _ = bind("agg_weighted", graph)
    view = torch._neg_view(-leaves[0].detach())
    assert view.is_neg() and view.is_contiguous()
    expected = function(*leaves)
    for _ in range(2):  # the second call is one that is known
        assert torch.equal(function(view, *leaves[1:]), expected)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_that_compiled_programs_have(name, graph, monkeypatch):
    """The rules of the custom operators themselves, which torch.compile traces."""
    leaves, function, _ = bind(name, graph)

    def run():
        first = torch.autograd.grad(loss_of(function(*leaves)), leaves, create_graph=True)
        second = torch.autograd.grad(loss_of(first), leaves, create_graph=True, allow_unused=True)
        return first, second

    expected = run()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with dispatched():
        found = run()
    for group, wanted in zip(found, expected, strict=True):
        assert_equal([x.detach() for x in group], [x.detach() for x in wanted])
    with pytest.raises(NotImplementedError, match=f"{name}: there are no third derivatives"):
        torch.autograd.grad(loss_of(found[1]), leaves)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_programs_repeat_calls_without_checks(name, graph, monkeypatch):
    leaves, function, _ = bind(name, graph)

    def run():
        outputs = tuple_of(function(*leaves))
        return *outputs, *torch.autograd.grad(loss_of(outputs), leaves)

    expected = run()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    checked = []
    original = operator.Call
    monkeypatch.setattr(operator, "Call", lambda *args: checked.append(args) or original(*args))
    with dispatched():
        run()
        checked.clear()
        found = run()
    assert_equal([x.detach() for x in found], [x.detach() for x in expected])
    static = calls.call_of(name, graph)[1].values()
    assert bool(checked) == any(isinstance(value, np.ndarray) for value in static)


def test_compiled_passes_enter_the_dispatcher_once(graph, monkeypatch):
    leaves, function, _ = bind("mha_gat", graph)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    again = []
    original = torch._ops.OpOverload.redispatch
    monkeypatch.setattr(
        torch._ops.OpOverload, "redispatch", lambda *args: again.append(args) or original(*args)
    )
    function(*leaves)
    assert again  # PyTorch's rule records gradients
    again.clear()
    with torch.no_grad():
        function(*leaves)
    assert not again


@pytest.mark.parametrize("name", NAMES)
def test_some_gradients(name, graph):
    leaves, function, _ = bind(name, graph)
    for k in range(len(leaves)):
        inputs = [x if j == k else x.detach() for j, x in enumerate(leaves)]
        compare(
            lambda inputs=inputs, k=k: torch.autograd.grad(loss_of(function(*inputs)), leaves[k])
        )


def test_one_of_two_outputs():
    leaves, function, _ = bind("compressed_attention", None)
    for k in range(2):
        compare(
            lambda k=k: torch.autograd.grad(function(*leaves)[k].sum(), leaves, allow_unused=True)
        )


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", NAMES)
def test_without_gradients(name, context, graph):
    leaves, function, _ = bind(name, graph)
    function(*leaves)

    def run():
        with context():
            return tuple_of(function(*leaves))

    compare(run)


def test_inference_tensors_have_no_gradients(graph):
    with torch.inference_mode():
        x = torch.ones(5, 2, dtype=torch.float64)
    e = torch.ones(8, 2, dtype=torch.float64, requires_grad=True)
    compare(lambda: [gt.agg_simple(x, graph=graph)])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
            gt.agg_simple(x, e, graph=graph)


def test_it_is_past_the_dispatcher(graph, custom):
    """Custom operators are called only with static arrays, or if something else has to see them."""
    for name in NAMES:
        leaves, function, _ = bind(name, graph)
        loss_of(function(*leaves)).backward()
    # whose static arrays are looked at
    assert set(custom) == {
        "agg_relational", "attention", "compress", "mha_gat_v2", "mha_simple", "selected_attention",
    }  # fmt: skip
    with dispatched():
        gt.agg_simple(torch.ones(5, 2), graph=graph)
    assert custom[-1] == "agg_simple"


# ---- tensors in other forms ----


def test_strides(graph):
    x = torch.randn(3, 5, dtype=torch.float64).T.requires_grad_()
    e = torch.randn(8, 6, dtype=torch.float64)[:, ::2].requires_grad_()

    def run():
        y = gt.agg_simple(x, e, graph=graph)
        expanded = torch.autograd.grad(y.sum(), (x, e), retain_graph=True)
        transposed = torch.autograd.grad(y, (x, e), torch.arange(30.0).double().view(6, 5).T)
        return [y, *expanded, *transposed]

    compare(run)


def test_unaligned(graph):
    memory = np.zeros(81, np.uint8)[1:]
    x = torch.frombuffer(memory.data, dtype=torch.float64).view(5, 2)
    compare(lambda: [gt.agg_simple(x, graph=graph)])


def test_views_in_the_middle_of_memory(graph):
    x = torch.arange(11.0)[1:].view(5, 2)
    compare(lambda: [gt.agg_simple(x, graph=graph)])


def test_bits_that_are_not_resolved(graph):
    z = torch.randn(5, 2, dtype=torch.complex128)
    negative, zeros = z.conj().imag, torch._efficientzerotensor(5, 2, dtype=torch.float64)
    assert negative.is_neg()
    gt.agg_simple(torch.randn(5, 2, dtype=torch.float64), graph=graph)
    torch.testing.assert_close(
        gt.agg_simple(negative.clone(), graph=graph),
        -gt.agg_simple(z.imag.contiguous(), graph=graph),
    )
    for x in (negative, zeros):
        results = []
        for context in (OtherMode(), torch.no_grad()):
            with context:
                try:
                    results.append(gt.agg_simple(x, graph=graph))
                except RuntimeError as error:
                    results.append(str(error))
        assert type(results[0]) is type(results[1])
        if isinstance(results[0], str):
            assert results[0] == results[1]
        else:
            assert torch.equal(*results)


def test_empty(graph):
    compare(lambda: [gt.agg_simple(torch.ones(5, 0), graph=graph)])
    nothing = gg.Graph([0], np.zeros(0, np.int64), n_src=0)
    compare(lambda: [gt.agg_simple(torch.ones(0, 3), graph=nothing)])
    # without elements is not absent
    apart = gg.Graph(np.zeros(6, np.int64), np.zeros(0, np.int64))
    x, e = torch.ones(5, 2, requires_grad=True), torch.ones(0, 3, requires_grad=True)

    def run():
        y = gt.agg_simple(x, e, graph=apart)
        assert y.shape == (5, 5)
        return [y, *torch.autograd.grad(y.sum(), (x, e))]

    compare(run)
    leaves = [torch.ones(5, 4), torch.ones(5, 4), torch.ones(8), torch.ones(0, 0)]
    compare(lambda: [gt.mha_gat(*leaves, graph=apart, num_heads=2)])
    compare(lambda: [gt.mha_gat(*leaves[:3], graph=apart, num_heads=2)])


def test_by_name_and_absent(graph):
    x, e = torch.randn(5, 2), torch.randn(8, 3)
    compare(lambda: [gt.agg_simple(x=x, e=e, graph=graph)])
    compare(lambda: [gt.agg_simple(x, e=e, graph=graph)])
    compare(lambda: [gt.agg_simple(None, e, graph=graph)])
    compare(lambda: [gt.agg_simple(x, None, graph=graph)])


# ---- errors ----


def test_wrong_after_right(graph):
    """Errors are those of the custom operators."""
    x, w = torch.randn(5, 2, requires_grad=True), torch.randn(8)
    op = gt.agg_weighted
    wrong = [
        lambda: op(x, w[:7], graph=graph),
        lambda: op(x.double(), w, graph=graph),
        lambda: op(x.int(), w, graph=graph),
        lambda: op(x, graph=graph),
        lambda: op(x, None, graph=graph),
        lambda: op(x, w, w, graph=graph),
        lambda: op(x, w, x=x, graph=graph),
        lambda: op(x, w),
        lambda: op(x, w, graph=1),
        lambda: op(x, w, graph=graph, aggregation="median"),
        lambda: op(x, w, graph=graph, more=1),
        lambda: op(x.detach().numpy(), w, graph=graph),
        lambda: op(x, w, graph=gg.Graph([0, 1], [0])),
        lambda: gt.window_attention(*[torch.ones(3, 2, 4)] * 3, window=0),
        lambda: gt.window_attention(*[torch.ones(3, 2, 4)] * 3, window=1.5),
        lambda: gt.window_attention(*[torch.ones(3, 2, 4)] * 3, window=True),
    ]
    messages = []
    for context in (OtherMode(), torch.enable_grad()):
        for call in wrong:
            op(x, w, graph=graph).sum().backward()
            gt.window_attention(*[torch.ones(3, 2, 4)] * 3, window=1)
            with context, pytest.raises((TypeError, ValueError)) as caught:
                call()
            messages.append((type(caught.value), str(caught.value)))
    assert messages[: len(wrong)] == messages[len(wrong) :]


def test_threads(graph):
    """Kinds of calls that come at the same time, and backward in each thread."""
    failures = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        try:
            for _ in range(200):
                width = int(torch.randint(1, 90, (), generator=generator))
                x = torch.randn(5, width, generator=generator).requires_grad_()
                y = gt.agg_simple(x, graph=graph)
                (g,) = torch.autograd.grad(y.sum(), x)
                expected = torch.tensor([2.0, 1.0, 2.0, 2.0, 1.0])[:, None].expand(5, width)
                assert torch.equal(g, expected), g
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# ---- edges ----


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("sizes", [(6, 6), (6, 9), (9, 6)])
def test_self_loops_of_an_edge_index(dtype, sizes):
    edge_index = torch.randint(0, 6, (2, 30), dtype=dtype)
    direct = gt.graph_from_edge_index(edge_index, *sizes, self_loops=True)
    plain = gt.graph_from_edge_index(edge_index, *sizes)
    looped, none = gt.with_self_loops(plain)
    assert none is None
    for name in ("src", "dst", "offsets", "indices", "edge_ids"):
        np.testing.assert_array_equal(getattr(direct, name), getattr(looped, name))
    # rows of edge features stay where they are, and those of the loops come behind
    features = torch.arange(30.0)[:, None]
    other, rows = gt.with_self_loops(plain, features, fill_value=-1.0)
    np.testing.assert_array_equal(other.src, direct.src)
    assert torch.equal(rows[:30], features)
    assert (rows[30:] == -1).all()
    assert other.in_degree.sum() == (plain.src != plain.dst).sum() + min(sizes)


# ---- imports ----


@pytest.mark.exhaustive
def test_nothing_but_torch_is_imported():
    """Neither the import nor a first call of a layer or an operator imports more than torch."""
    code = """
import sys, numpy, torch
before = set(sys.modules)
import gnograd as gg, gnograd.torch as gt
x = torch.ones(2, 3, requires_grad=True)
gt.agg_simple(x, graph=gg.Graph([0, 1, 2], [1, 0])).sum().backward()
gt.GATConv(3, 2)(x, torch.tensor([[0, 1], [1, 0]])).sum().backward()
more = {name.split(".")[0] for name in set(sys.modules) - before}
more -= sys.stdlib_module_names | {"gnograd", "torch", "numpy"}
assert not {name for name in more if not name.startswith("_")}, more
assert "torch._dynamo" not in sys.modules
assert "sympy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
