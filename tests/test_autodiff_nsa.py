# SPDX-License-Identifier: MIT
"""Native sparse attention on the tape: a layer of all branches, and refusals."""

import numpy as np
import pytest

import gnograd.autodiff as ad


def test_a_whole_layer_by_differences(rng):
    """Gradient of a loss of all branches against central differences."""
    q, k, v, w = (rng.normal(size=s) for s in ((12, 2, 3), (12, 1, 3), (12, 1, 3), (4, 1)))
    blocks = rng.integers(0, 3, (12, 1, 2), np.int32)

    def loss(tape, values):
        q, k, v, w = (tape.parameter(x) for x in values)
        k_c, v_c = (ad.compress(x, w, block=4, stride=2) for x in (k, v))
        coarse, lse = ad.compressed_attention(q, k_c, v_c, block=4, stride=2)
        fine = ad.selected_attention(q, k, v, block_index=blocks, block_size=4, causal=True)
        near = ad.window_attention(q, k, v, window=3, causal=True)
        return (q, k, v, w), ad.sum(coarse * fine + ad.sin(near)) + ad.mean(lse**2)

    values = [q, k, v, w]
    x, y = loss(ad.Tape("float64"), values)
    gradients = ad.grad(y, x)
    for n, gradient in enumerate(gradients):
        direction = rng.normal(size=values[n].shape)
        sides = []
        for step in (1e-6, -1e-6):
            moved = list(values)
            moved[n] = values[n] + step * direction
            sides.append(loss(ad.Tape("float64"), moved)[1].item())
        difference = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(np.sum(gradient.value * direction), difference, 1e-6, 1e-8)


def test_refused(rng):
    tape = ad.Tape("float64")
    q, k = tape.parameter(rng.normal(size=(6, 2, 3))), rng.normal(size=(5, 1, 3))
    blocks = np.zeros((6, 1, 2), np.int32)
    cases = [
        (TypeError, "needs an Array", dict(q=k)),
        (ValueError, "v has shape .*, needs", dict(v=np.ones((4, 1, 3)))),
        (ValueError, r"k has shape \(5, 3\), needs \(Tk, Hk, Dk=3\)", dict(k=np.ones((5, 3)))),
        (TypeError, "block_index is int64, needs int32", dict(block_index=blocks.astype(int))),
        (ValueError, r"block_index has shape \(5, 1, 2\), needs", dict(block_index=blocks[1:])),
        (IndexError, "a block that the sequence", dict(block_index=blocks + 3)),
        (ValueError, "duplicates is 'no'", dict(duplicates="no")),
        (ValueError, "block_size is 0, needs 1 to 256", dict(block_size=0)),
        (ValueError, "query_block is 0", dict(query_block=0)),
        (ValueError, "has shape .*, needs", dict(slot_gate=np.ones((6, 1, 3)))),
        (ValueError, "cu_q must rise", dict(cu_q=np.array([0, 5]), cu_k=np.array([0, 5]))),
        (
            ValueError,
            r"cu_k has shape \(3,\), needs \(n_sequences\+1=2,\)",
            dict(cu_q=np.array([0, 6]), cu_k=np.array([0, 2, 5])),
        ),
    ]
    for error, message, change in cases:
        arguments = dict(q=q, k=k, v=k, block_index=blocks, block_size=2) | change
        with pytest.raises(error, match=f"selected_attention: .*{message}"):
            ad.selected_attention(**arguments)
    with pytest.raises(ValueError, match="compress: w has shape"):
        ad.compress(q, np.ones((3, 2)), block=2, stride=1)
    with pytest.raises(ValueError, match="compressed_attention: stride is 0"):
        ad.compressed_attention(q, k, k, block=2, stride=0)
