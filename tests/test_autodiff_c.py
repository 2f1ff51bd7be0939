# SPDX-License-Identifier: MIT
"""Functions of the tape for C: handles of no array, sizes out of range."""

import numpy as np
import pytest

import gnograd.autodiff as ad
from gnograd import _core
from gnograd.backends.cpu import address


def c_calls(tape, x):
    """Calls of C functions with a handle x that is none, by name; all return a status or handle."""
    numbers = np.zeros(12, np.int64)
    handles = np.array([x], np.int64)
    here = tape._handle
    like = tape.parameter(np.ones((2, 2), np.float32))
    loss = ad.sum(like * like)._handle
    where = address(numbers)
    return {
        "info": lambda: _core.gnograd_array_info(here, x, where),
        "value": lambda: _core.gnograd_array_value(here, x, where),
        "grad": lambda: _core.gnograd_array_grad(here, x, where),
        "set_value": lambda: _core.gnograd_array_set_value(here, x, where),
        "set_grad": lambda: _core.gnograd_array_set_grad(here, x, where),
        "backward": lambda: _core.gnograd_tape_backward(here, x, 0),
        "gradient": lambda: _core.gnograd_tape_gradient(here, loss, 1, address(handles), 0, where),
        "loss": lambda: _core.gnograd_tape_gradient(here, x, 1, address(handles), 0, where),
        "adam": lambda: _core.gnograd_adam_create(
            here, 1, address(handles), 0.1, 0.9, 0.9, 1e-8, 0, where
        ),
        "adamw": lambda: _core.gnograd_adamw_create(
            here, 1, address(handles), 0.1, 0.9, 0.9, 1e-8, 0, where
        ),
        "exp": lambda: _core.gnograd_array_exp(here, x),
        "add": lambda: _core.gnograd_array_add(here, like._handle, x),
        "scalar": lambda: _core.gnograd_array_scalar(here, x, 1.0),
        "sum_axis": lambda: _core.gnograd_array_sum_axis(here, x, 0, 0),
        "reshape": lambda: _core.gnograd_array_reshape(here, x, 1, where),
        "slice": lambda: _core.gnograd_array_slice(here, x, 1, where, where, where),
        "concatenate": lambda: _core.gnograd_array_concatenate(here, 1, address(handles), 0),
        "gather": lambda: _core.gnograd_array_gather(here, x, 1, where),
    }


CALLS = list(c_calls(ad.Tape(), 0))
RETURN_HANDLES = CALLS[CALLS.index("exp") :]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["null", "stale", "older tape", "newer tape", "nonsense"])
def test_c_refuses_what_is_no_array(kind, name):
    older = ad.Tape()
    there = older.parameter(np.ones((2, 2), np.float32))
    tape = ad.Tape()
    mark = tape.mark()
    stale = tape.parameter(np.ones((2, 2), np.float32))
    tape.rewind(mark)
    newer = ad.Tape()
    elsewhere = newer.parameter(np.ones((2, 2), np.float32))
    x = {
        "null": 0,
        "stale": stale._handle,
        "older tape": there._handle,
        "newer tape": elsewhere._handle,
        "nonsense": -(2**63) + 5,
    }[kind]
    result = c_calls(tape, x)[name]()
    error = _core.gnograd_tape_error(tape._handle)
    if name in RETURN_HANDLES:
        assert result == 0
        assert error != 0
    else:
        assert result != 0
    # neither tape is marked
    assert ad.exp(tape.constant(0.0)).item() == 1
    assert ad.exp(older.constant(0.0)).item() == 1
    assert ad.exp(newer.constant(0.0)).item() == 1


@pytest.mark.parametrize(
    ("kind", "rank", "extents", "message"),
    [
        (64, 2, [2, -3], "leaf: extents has -3, must not be negative"),
        (64, 2, [2**32, 2**32], "no array has such extents"),
        (64, 2, [2**62, 2**62], "no array has such extents"),
        (64, 3, [2**40, 2**40, 0], None),
        (64, -1, [2], "leaf: rank is -1, needs 0 to 4"),
        (64, 5, [2], "leaf: rank is 5, needs 0 to 4"),
        (16, 1, [2], "leaf: kind is 16, needs 32 or 64"),
    ],
)
def test_c_refuses_leaves_that_are_no_arrays(kind, rank, extents, message):
    tape = ad.Tape()
    shape, numbers = np.array(extents, np.int64), np.ones(8)
    x = _core.gnograd_array_leaf(tape._handle, kind, 1, rank, address(shape), address(numbers))
    assert (x == 0) == (message is not None)
    if message:
        with pytest.raises(ValueError, match=message):
            tape._wrap(x)


def test_c_refuses_counts_and_steps_out_of_range():
    tape = ad.Tape()
    x = tape.parameter(np.arange(6.0, dtype=np.float32))
    one = np.ones(4, np.int64)

    def part(first, count, step):
        numbers = [np.array([n], np.int64) for n in (first, count, step)]
        return _core.gnograd_array_slice(tape._handle, x._handle, 1, *map(address, numbers))

    here, where = tape._handle, address(one)
    for call in [
        lambda: _core.gnograd_array_gather(here, x._handle, -1, where),
        lambda: _core.gnograd_array_concatenate(here, 0, where, 0),
        lambda: _core.gnograd_array_concatenate(here, -1, where, 0),
        lambda: _core.gnograd_array_reshape(here, x._handle, -1, where),
        lambda: _core.gnograd_array_transpose(here, x._handle, 1, address(one * 2**32)),
        lambda: part(0, 3, 2**62),
        lambda: part(5, 2, -(2**63)),
        lambda: part(2**63 - 1, 2, 1),
        lambda: part(0, 2**63 - 1, 1),
        lambda: part(0, 3, 0),
    ]:
        assert call() == 0
        assert _core.gnograd_tape_error(here) != 0
    assert _core.gnograd_tape_gradient(here, ad.sum(x)._handle, -1, where, 0, where) != 0
    assert tape._wrap(part(5, 3, -2)).value.tolist() == [5, 3, 1]
