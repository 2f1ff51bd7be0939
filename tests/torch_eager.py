# SPDX-License-Identifier: MIT
"""Calls past PyTorch's dispatcher beside those through the custom operators."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from faces import tuple_of

torch = pytest.importorskip("torch")
pytest.importorskip("gnograd.torch")

from calls_of_torch import OtherMode  # noqa: E402


@contextmanager
def dispatched():
    """Every call through the custom operators."""
    with OtherMode():
        yield


def loss_of(result):
    return sum((y.sin() * (k + 1)).sum() for k, y in enumerate(tuple_of(result)))


def assert_equal(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert type(x) is type(y)
        if x is not None:
            assert (x.dtype, x.shape, x.requires_grad) == (y.dtype, y.shape, y.requires_grad)
            assert x.is_inference() == y.is_inference()
            assert torch.equal(x, y)


def compare(run):
    """Check that results past the dispatcher, twice, equal those through it."""
    first, again = run(), run()
    with dispatched():
        through = run()
    assert_equal(first, again)
    assert_equal(first, through)
