# SPDX-License-Identifier: MIT
"""Batches of functions on one graph: what single calls give, stacked; shared gradients added up."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
import gnograd.autodiff as ad
import table
from conftest import Edges, power_law
from faces import tuple_of
from gpus import needs_gpu
from memory import needs_linux, temporary_bytes

LEADING = [(2, 3), (17,), (2,), (1,), (0,), (2, 0)]
"""A batch of two with a full kernel is factorised, larger ones have matrices of edges."""
SIZES = {"F_in": 3, "F_out": 4, "H": 19, "d": 2}


def batched(name, kernel, reduction):
    """An operator in one of its forms."""
    static = {"kernel": kernel, "reduction": reduction}
    static |= {} if name == "gno_contract" else {"activation": "gelu"}
    static |= {"widths": [6, 5], "geometry": "pair"} if name.startswith("gno_with") else {}
    return table.case(name, **static, **SIZES)


NAMES = ("gno", "gno_contract", "gno_with_gradient", "gno_with_laplacian", "gno_with_hessian")
CASES = [batched(name, kernel, "mean") for name in NAMES for kernel in ("full", "diagonal")]
CASES += [batched("gno", "full", "sum"), batched("gno_with_laplacian", "full", "sum")]
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_batch = pytest.mark.parametrize("leading", LEADING, ids=str)
few_cases = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in ("gno", "gno_with_laplacian")], ids=str
)


def cotangents_like(case, inputs, static, leading, rng):
    single = (np.zeros(inputs[0].shape[len(leading) :]), *inputs[1:])
    outputs = tuple_of(case.operator(*single, **static))
    return tuple(rng.normal(size=(*leading, *out.shape)) for out in outputs)


def one_by_one(case, face, leading, arrays, static):
    """A face item by item; `arrays` are cotangents, inputs, tangents, each a tuple or None."""
    cotangents, inputs, tangents = arrays
    found = []
    for item in np.ndindex(leading):
        first = (inputs[0][item], *inputs[1:])
        given = [first] if tangents is None else [first, (tangents[0][item], *tangents[1:])]
        if cotangents is not None:
            of_item = tuple(c[item] for c in cotangents)
            given.insert(0, of_item if len(of_item) > 1 else of_item[0])
        found.append(tuple_of(getattr(case.operator, face)(*given, **static)))
    return found


def stacked(leading, found, k):
    return np.stack([each[k] for each in found]).reshape(*leading, *found[0][k].shape)


def assert_gradients(gradients, leading, found, inputs):
    """Check the gradient of h item by item, and the others as sums over items."""
    if not found:
        assert gradients[0].shape == inputs[0].shape
        for gradient, x in zip(gradients[1:], inputs[1:], strict=True):
            assert_array_equal(gradient, np.zeros_like(x))
        return
    assert_allclose(gradients[0], stacked(leading, found, 0), rtol=1e-12, atol=1e-12)
    for k, gradient in enumerate(gradients[1:], 1):
        terms = np.stack([each[k] for each in found])
        assert_allclose(gradient, terms.sum(0), rtol=1e-12, atol=1e-12 * max(1, abs(terms).max()))


def set_up(case, leading, rng, edges=None):
    edges = edges or power_law(12, 90)
    static, inputs = case.arguments(edges), case.change(**{"*": leading}).inputs(edges, rng)
    tangents = tuple(rng.normal(size=x.shape) for x in inputs)
    return inputs, tangents, cotangents_like(case, inputs, static, leading, rng), static


@every_case
@every_batch
def test_forward_and_jvp(case, leading, rng):
    inputs, tangents, cotangents, static = set_up(case, leading, rng)
    out = tuple_of(case.operator(*inputs, **static))
    tangent = tuple_of(case.operator.jvp(inputs, tangents, **static))
    assert [x.shape for x in out] == [x.shape for x in tangent] == [c.shape for c in cotangents]
    if 0 in leading:
        return
    singles = [
        tuple_of(case.operator(inputs[0][item], *inputs[1:], **static))
        for item in np.ndindex(leading)
    ]
    moved = one_by_one(case, "jvp", leading, (None, inputs, tangents), static)
    for k in range(len(out)):
        assert_allclose(out[k], stacked(leading, singles, k), rtol=1e-12, atol=1e-12)
        assert_allclose(tangent[k], stacked(leading, moved, k), rtol=1e-12, atol=1e-11)


@every_case
@every_batch
def test_vjp_and_hvp(case, leading, rng):
    inputs, tangents, cotangents, static = set_up(case, leading, rng)
    given = cotangents if len(cotangents) > 1 else cotangents[0]
    found = one_by_one(case, "vjp", leading, (cotangents, inputs, None), static)
    assert_gradients(case.operator.vjp(given, inputs, **static), leading, found, inputs)
    found = one_by_one(case, "hvp", leading, (cotangents, inputs, tangents), static)
    assert_gradients(case.operator.hvp(given, inputs, tangents, **static), leading, found, inputs)


@few_cases
def test_no_edges(case, rng):
    none = np.zeros(0, int)
    inputs, _, cotangents, static = set_up(case, (3,), rng, Edges(none, none, 4, 2))
    given = cotangents if len(cotangents) > 1 else cotangents[0]
    for out in tuple_of(case.operator(*inputs, **static)):
        assert_array_equal(out, np.zeros_like(out))
    for gradient in case.operator.vjp(given, inputs, **static):
        assert_array_equal(gradient, np.zeros_like(gradient))


@pytest.mark.parametrize("n_batch", [2, 5])
def test_an_absent_tangent_and_a_gradient_alone(n_batch, rng):
    case = batched("gno", "full", "mean")
    inputs, tangents, (cotangent,), static = set_up(case, (n_batch,), rng)
    for k, name in enumerate(gg.gno.inputs):
        some = tuple(t if k == at else None for at, t in enumerate(tangents))
        zeros = tuple(t if k == at else np.zeros_like(t) for at, t in enumerate(tangents))
        assert_allclose(
            gg.gno.jvp(inputs, some, **static), gg.gno.jvp(inputs, zeros, **static), atol=1e-11
        )
        alone = gg.gno.vjp(cotangent, inputs, wrt=[name], **static)
        assert_array_equal(alone[k], gg.gno.vjp(cotangent, inputs, **static)[k])
        moved = gg.gno.hvp(cotangent, inputs, some, wrt=[name], **static)
        assert_allclose(moved[k], gg.gno.hvp(cotangent, inputs, zeros, **static)[k], atol=1e-11)


def test_without_h_there_is_no_batch(rng):
    case = batched("gno", "diagonal", "sum")
    inputs, _, _, static = set_up(case, (2,), rng)
    out = gg.gno(None, *inputs[1:], **static)
    assert out.shape == (12, SIZES["F_in"])
    with pytest.raises(ValueError, match=r"^gno: cotangent has shape \(2, 12, 3\), needs \(n_dst"):
        gg.gno.vjp(np.stack([out, out]), (None, *inputs[1:]), **static)


@pytest.mark.parametrize("n_batch", [2, 5])
def test_bits_do_not_depend_on_threads(n_batch, threads, rng):
    case = batched("gno", "full", "mean")
    inputs, _, (cotangent,), static = set_up(case, (n_batch,), rng, power_law(3000, 30_000))
    found = []
    for n in (1, 2, 3):
        threads(n)
        found.append((gg.gno(*inputs, **static), *gg.gno.vjp(cotangent, inputs, **static)))
    for each in found[1:]:
        for a, b in zip(found[0], each, strict=True):
            assert_array_equal(a, b)


def test_float32_is_as_near_as_single_calls(rng):
    """Error of a batch is at most twice that of single calls."""
    inputs, _, _, static = set_up(batched("gno", "full", "mean"), (4,), rng)
    exact = gg.gno(*inputs, **static)
    narrow = tuple(x.astype(np.float32) for x in inputs)
    single = np.stack([gg.gno(h, *narrow[1:], **static) for h in narrow[0]])
    error = abs(gg.gno(*narrow, **static) - exact).max()
    assert error <= 2 * abs(single - exact).max()


def prepare(kernel, n_batch, threads):
    """A call of hvp, in a process of its own."""
    gg.set_num_threads(threads)
    rng, n, degree, f, hidden = np.random.default_rng(0), 4000, 8, 8, 64
    graph = gg.Graph(
        np.arange(0, n * degree + 1, degree), rng.integers(0, n, n * degree).astype(np.int32), n
    )
    kappa = (f, f) if kernel == "full" else (f,)
    shapes = (n_batch, n, f), (n * degree, 2), (2, hidden), (hidden,), (hidden, *kappa), kappa
    inputs, tangents = ([rng.normal(size=shape) for shape in shapes] for _ in range(2))
    static = {"graph": graph, "activation": "gelu", "kernel": kernel}
    gg.gno.hvp(inputs[0][:, :1], [inputs[0][:, :1], np.zeros((1, 2)), *inputs[2:]], [None] * 6, **(
        static | {"graph": gg.Graph([0, 1], np.zeros(1, np.int32), 1)}
    ))  # fmt: skip
    return lambda: gg.gno.hvp(inputs[0], inputs, tangents, **static)


@pytest.mark.exhaustive
@needs_linux
@pytest.mark.parametrize(("kernel", "n_batch"), [("full", 16), ("full", 2), ("diagonal", 16)])
def test_peak_memory_is_as_documented(kernel, n_batch):
    n, f, hidden, pieces, threads = 4000, 8, 64, 64, 2
    copies = 5 * n_batch * n * f
    if kernel == "diagonal":
        sums, of_thread = (f + 2) * (hidden + 1), 480 * hidden + 336 * n_batch * f
    elif n_batch == 2:  # factorised
        slices = f * f * (hidden + 1)
        copies += 4 * slices
        sums, of_thread = slices, slices + 4 * max(2**16, 8 * f * hidden) + 480 * hidden
        of_thread += 144 * n_batch * f
    else:
        sums = f * f * (hidden + 1)
        of_thread = 480 * hidden + (288 + 2 * hidden) * f * f + 144 * n_batch * f
    documented = 8 * (copies + pieces * sums + threads * of_thread)
    slack = 4 * 2**20  # stacks of threads, rounding to pages
    assert temporary_bytes(prepare, kernel, n_batch, threads) <= documented + slack


@pytest.mark.parametrize(
    "change, message",
    [
        ({"h": (2, 3, 11, 3)}, r"h has shape \(2, 3, 11, 3\), needs \(..., n_src=12, F_in\)"),
        ({"h": (3,)}, r"h has shape \(3,\), needs \(..., n_src=12, F_in\)"),
        ({"V": (19, 4, 4)}, r"V has shape \(19, 4, 4\), needs \(H=19, F_in=3, F_out\)"),
    ],
)
def test_wrong_shapes(change, message, rng):
    inputs, _, _, static = set_up(batched("gno", "full", "mean"), (2, 3), rng)
    named = dict(zip(gg.gno.inputs, inputs, strict=True))
    with pytest.raises(ValueError, match=f"^gno: {message}"):
        gg.gno(**named | {name: np.zeros(shape) for name, shape in change.items()}, **static)


def test_a_cotangent_of_another_batch(rng):
    inputs, tangents, (cotangent,), static = set_up(batched("gno", "full", "mean"), (2, 3), rng)
    message = r"^gno: cotangent has shape \(6, 12, 4\), needs \(2, 3, n_dst=12, F_out=4\)"
    with pytest.raises(ValueError, match=message):
        gg.gno.vjp(cotangent.reshape(6, 12, 4), inputs, **static)
    with pytest.raises(ValueError, match=r"^gno: tangent of h has shape"):
        gg.gno.jvp(inputs, (tangents[0][0], *tangents[1:]), **static)


# ---- the tape ----


@pytest.mark.parametrize("leading", [(2, 3), (4,), (1,)], ids=str)
@pytest.mark.parametrize("kernel", ["full", "diagonal"])
def test_tape(kernel, leading, rng):
    case = batched("gno", kernel, "mean")
    inputs, tangents, (cotangent,), static = set_up(case, leading, rng)
    tape = ad.Tape("float64")
    on_tape = [tape.parameter(x) for x in inputs]
    out = ad.gno(*on_tape, **static)
    assert_array_equal(out.value, gg.gno(*inputs, **static))
    first = ad.grad(ad.sum(out * cotangent), on_tape, create_graph=True)
    for gradient, wanted in zip(first, gg.gno.vjp(cotangent, inputs, **static), strict=True):
        assert_array_equal(gradient.value, wanted)
    terms = [ad.sum(g * t) for g, t in zip(first, tangents, strict=True)]
    second = ad.grad(functools.reduce(lambda a, b: a + b, terms), on_tape)
    wanted = gg.gno.hvp(cotangent, inputs, tangents, **static)
    for gradient, expected in zip(second, wanted, strict=True):
        assert_allclose(gradient.value, expected, rtol=1e-12, atol=1e-12)


def test_derivatives_on_the_tape(rng):
    """Batches work on the tape as far as its arrays have axes for them."""
    for name in ("gno_with_laplacian", "gno_with_hessian"):
        inputs, _, _, static = set_up(batched(name, "full", "mean"), (4,), rng)
        tape = ad.Tape("float64")
        on_tape = [tape.parameter(x) for x in inputs]
        if name == "gno_with_hessian":
            with pytest.raises(ValueError, match=f"^{name}: an output has more axes"):
                ad.gno_with_hessian(*on_tape, **static)[0].value  # noqa: B018
            continue
        found = ad.gno_with_laplacian(*on_tape, **static)
        for out, wanted in zip(found, gg.gno_with_laplacian(*inputs, **static), strict=True):
            assert_array_equal(out.value, wanted)


# ---- PyTorch ----


def torch_case(case, leading, rng):
    torch = pytest.importorskip("torch")
    gt = pytest.importorskip("gnograd.torch")
    inputs, _, _, static = set_up(case, leading, rng, power_law(3, 5))
    tensors = [torch.from_numpy(x).requires_grad_() for x in inputs]
    return torch, tensors, lambda *x: getattr(gt, case.name)(*x, **static), static


@few_cases
def test_torch(case, rng):
    torch, tensors, function, static = torch_case(case, (2, 1), rng)
    wanted = tuple_of(case.operator(*(x.detach().numpy() for x in tensors), **static))
    for out, expected in zip(tuple_of(function(*tensors)), wanted, strict=True):
        assert_array_equal(out.detach().numpy(), expected)
    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


def test_torch_compiled(rng):
    torch, tensors, function, _ = torch_case(batched("gno", "full", "mean"), (2, 2), rng)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for h in (tensors[0], tensors[0][0], torch.randn(5, 3, 3, dtype=torch.float64)):
        moved = [h.detach().requires_grad_(), *tensors[1:]]
        out, wanted = compiled(*moved), function(*moved)
        assert torch.equal(out, wanted)
        c = torch.randn_like(out)
        found = torch.autograd.grad(out, moved, c), torch.autograd.grad(wanted, moved, c)
        assert all(map(torch.equal, *found))


def test_torch_layer(rng):
    torch = pytest.importorskip("torch")
    gt = pytest.importorskip("gnograd.torch")
    edges = power_law(12, 40)
    layer, graph = gt.GNO(3, 5, coord_dim=2), edges.graph
    h, coords = torch.randn(2, 4, 12, 3), torch.randn(40, 2)
    out = layer(h, coords, graph)
    assert out.shape == (2, 4, 12, 5)
    assert torch.allclose(out[1, 2], layer(h[1, 2], coords, graph), atol=1e-6)


# ---- JAX ----


@few_cases
def test_jax(case, rng):
    jax = pytest.importorskip("jax")
    gj = pytest.importorskip("gnograd.jax")
    jax.config.update("jax_enable_x64", True)
    inputs, tangents, cotangents, static = set_up(case, (2, 3), rng)
    function = jax.jit(lambda *x: getattr(gj, case.name)(*x, **static))
    out = function(*inputs)
    wanted = case.operator(*inputs, **static)
    for a, b in zip(tuple_of(out), tuple_of(wanted), strict=True):
        assert_array_equal(np.asarray(a), b)
    given = cotangents if len(cotangents) > 1 else cotangents[0]
    gradients = jax.vjp(function, *inputs)[1](given)
    for a, b in zip(gradients, case.operator.vjp(given, inputs, **static), strict=True):
        assert_allclose(np.asarray(a), b, rtol=1e-12, atol=1e-12)
    _, moved = jax.jvp(function, inputs, tangents)
    for a, b in zip(
        tuple_of(moved), tuple_of(case.operator.jvp(inputs, tangents, **static)), strict=True
    ):
        assert_allclose(np.asarray(a), b, rtol=1e-12, atol=1e-12)


# ---- CUDA ----


@needs_gpu
@every_case
@pytest.mark.parametrize("leading", [(2, 3), (1,), (0,)], ids=str)
def test_cuda(case, leading, rng):
    from gnograd.backends import cuda

    def to_device(arrays):
        return tuple(map(cuda.to_device, arrays))

    inputs, tangents, cotangents, static = set_up(case, leading, rng)
    x, t, c = map(to_device, (inputs, tangents, cotangents))
    given, on_host = (c, cotangents) if len(c) > 1 else (c[0], cotangents[0])
    op = case.operator
    for found, wanted in (
        (op(*x, **static), op(*inputs, **static)),
        (op.vjp(given, x, **static), op.vjp(on_host, inputs, **static)),
        (op.jvp(x, t, **static), op.jvp(inputs, tangents, **static)),
        (op.hvp(given, x, t, **static), op.hvp(on_host, inputs, tangents, **static)),
    ):
        for a, b in zip(tuple_of(found), tuple_of(wanted), strict=True):
            scale = max(1, abs(b).max(initial=0))
            assert_allclose(a.get(), b, rtol=1e-11, atol=1e-11 * scale)
