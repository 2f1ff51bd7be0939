# SPDX-License-Identifier: MIT
"""Optimizers of the tape: formulas, states, threads, errors."""

import numpy as np
import pytest

import gnograd.autodiff as ad


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adam_is_its_formula(rng, dtype, weight_decay):
    tape = ad.Tape(dtype)
    start, target = rng.normal(size=(3, 2)).astype(dtype), rng.normal(size=(3, 2)).astype(dtype)
    x = tape.parameter(start)
    adam = ad.Adam([x], lr=0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=weight_decay)
    p, m, v = start.astype(np.float64), 0.0, 0.0
    for k in range(1, 11):
        adam.lr = 0.1 / k
        with tape.step():
            ad.sum((x - target) ** 4).backward()
        adam.step()
        g = 4 * (p - target) ** 3 + weight_decay * p
        m, v = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g * g
        p = p - 0.1 / k * (m / (1 - 0.8**k)) / (np.sqrt(v / (1 - 0.95**k)) + 1e-6)
    np.testing.assert_allclose(x.value, p, rtol=2e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("max_norm", [0.5, 1e9])
def test_adamw_and_clipping_are_those_of_pytorch(rng, dtype, max_norm):
    torch = pytest.importorskip("torch")
    tape = ad.Tape(dtype)
    starts = [rng.normal(size=shape).astype(dtype) for shape in ((3, 2), (4,))]
    x = [tape.parameter(start) for start in starts]
    adam = ad.AdamW(x, lr=0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3)
    y = [torch.tensor(start, requires_grad=True) for start in starts]
    theirs = torch.optim.AdamW(y, lr=0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3)
    for k in range(10):
        adam.lr = theirs.param_groups[0]["lr"] = 0.1 / (k + 1)
        with tape.step():
            sum(ad.sum((p - k) ** 4) for p in x).backward()
        norm = adam.clip_gradients(max_norm)
        adam.step()
        theirs.zero_grad()
        sum(((p - k) ** 4).sum() for p in y).backward()
        assert norm == pytest.approx(
            float(torch.nn.utils.clip_grad_norm_(y, max_norm)),
            rel=1e-5 if dtype == "float32" else 1e-12,
        )
        theirs.step()
    for ours, other in zip(x, y, strict=True):
        # values of about one, some of which come near zero by subtraction
        np.testing.assert_allclose(
            ours.value, other.detach(), rtol=0, atol=2e-7 if dtype == "float32" else 1e-14
        )


def test_clipping_without_gradients_is_an_error():
    tape = ad.Tape("float64")
    x = tape.parameter([1.0, -1.0])
    adam = ad.AdamW([x])
    with tape.step():
        ad.sum(x * x).backward()
        with pytest.raises(ValueError, match="one number"):
            (x * x).backward()
    with pytest.raises(ValueError, match="no gradients"):
        adam.clip_gradients(1.0)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_is_its_formula(rng, momentum):
    tape = ad.Tape("float64")
    start = rng.normal(size=4)
    x = tape.parameter(start)
    sgd = ad.SGD([x], lr=0.05, momentum=momentum)
    p, s = start.copy(), 0.0
    for _ in range(8):
        with tape.step():
            ad.sum(ad.cos(x)).backward()
        sgd.step()
        s = momentum * s - np.sin(p)
        p = p - 0.05 * s
    np.testing.assert_allclose(x.value, p, rtol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: ad.Adam(x, lr=0.1),
        lambda x: ad.AdamW(x, lr=0.1),
        lambda x: ad.SGD(x, lr=0.1, momentum=0.9),
    ],
)
def test_optimizers_go_on_from_their_state(make):
    def run(optimizer, x, n):
        for _ in range(n):
            with x.tape.step():
                ad.sum(x**4).backward()
            optimizer.step()

    x = ad.Tape("float64").parameter([1.0, 2.0])
    whole = make([x])
    run(whole, x, 10)
    y = ad.Tape("float64").parameter([1.0, 2.0])
    first = make([y])
    run(first, y, 6)
    z = ad.Tape("float64").parameter(y.value)
    second = make([z])
    second.load_state_dict(first.state_dict())
    run(second, z, 4)
    np.testing.assert_array_equal(x.value, z.value)
    with pytest.raises(ValueError, match="has shape"):
        make([ad.Tape().parameter([1.0])]).load_state_dict(first.state_dict())


def test_optimizers_take_parameters_only():
    tape = ad.Tape()
    x = tape.parameter([1.0])
    with pytest.raises(ValueError, match="not a parameter"):
        ad.Adam([x * 2])
    with pytest.raises(ValueError, match="not a parameter"):
        ad.SGD([tape.constant([1.0])], lr=0.1)
    with pytest.raises(ValueError, match="on different tapes"):
        ad.Adam([x, ad.Tape().parameter([1.0])])
    with pytest.raises(ValueError, match="at least one"):
        ad.Adam([])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_optimizers_move_along_the_gradient_that_was_set(dtype):
    tape = ad.Tape(dtype)
    x, untouched, empty = tape.parameter([[1.0], [2.0]]), tape.parameter([3.0]), tape.parameter([])
    x.grad = [[4], [-8]]  # before any backward
    empty.grad = []
    np.testing.assert_array_equal(x.grad, [[4.0], [-8.0]])
    ad.SGD([x, untouched, empty], lr=0.25).step()
    np.testing.assert_array_equal(x.value, [[0.0], [4.0]])
    ad.sum(x * x).backward()
    x.grad = 0.5 * x.grad
    ad.SGD([x], lr=1.0).step()
    np.testing.assert_array_equal(x.value, [[0.0], [0.0]])
    ad.sum(x + 1).backward(add=True)
    np.testing.assert_array_equal(x.grad, [[1.0], [5.0]])


@pytest.mark.parametrize("make", [ad.SGD, ad.Adam])
def test_a_backward_that_failed_leaves_nothing_to_step_along(make):
    tape = ad.Tape("float64")
    x = tape.parameter([1.0, 2.0])
    optimizer = make([x], lr=0.1)
    ad.sum(x * x).backward()
    y = ad.sum(x * x)
    x.value = [3.0, 4.0]
    with pytest.raises(ValueError, match="changed after it had been used"):
        y.backward()
    with pytest.raises(ValueError, match=r"optimizer: the last backward .* has failed"):
        optimizer.step()
    np.testing.assert_array_equal(x.value, [3.0, 4.0])
    np.testing.assert_array_equal(x.grad, [0.0, 0.0])
    ad.sum(x * x).backward(add=True)  # a part of a sum
    with pytest.raises(ValueError, match="has failed"):
        optimizer.step()
    assert optimizer.state_dict()["steps"] == 0
    ad.sum(x * x).backward()
    optimizer.step()
    assert (x.value < [3.0, 4.0]).all()


def test_optimizers_do_not_depend_on_the_number_of_threads(rng, threads):
    x = rng.normal(size=100_000).astype(np.float32)
    for method in (ad.Adam, ad.SGD):
        results = []
        for count in (1, 2, 3):
            threads(count)
            tape = ad.Tape()
            p = tape.parameter(x)
            optimizer = method([p], lr=0.01)
            for _ in range(3):
                with tape.step():
                    ad.sum(ad.sin(p) * p).backward()
                    optimizer.step()
            results.append(p.value)
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])
