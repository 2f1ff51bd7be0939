# SPDX-License-Identifier: MIT
import numpy as np
import pytest

import gnograd as gg
from conftest import power_law
from gnograd import _core
from gnograd.backends.cpu import address

# ---- errors ----


def test_refused(rng):
    edges = power_law(6, 20)
    e, x = rng.normal(size=(20, 3)), rng.normal(size=(6, 2))
    for arguments, mode, kind, message in (
        ((e[1:], x), "concat", ValueError, r"e has shape \(19, 3\), needs \(n_edges=20, De\)"),
        ((e, x), "sum", ValueError, r"x_src has shape \(6, 2\), needs \(n_src=6, De=3\)"),
        ((None, x, x[:, 1:]), "sum", ValueError, r"x_dst has shape \(6, 1\), needs "),
        ((None,), "sum", TypeError, "needs one of e, x_src, x_dst, got none of them"),
        ((e, x.astype(np.float32)), "concat", TypeError, "e is float64 but x_src is float32"),
        ((e, x), "mean", ValueError, "mode is 'mean'"),
    ):
        with pytest.raises(kind, match="update_edges: " + message):
            gg.update_edges(*arguments, graph=edges.graph, mode=mode)


def test_error_of_the_library_leaves_the_output(rng):
    edges = power_law(6, 20)
    e, out = rng.normal(size=(20, 2)), np.full((20, 2), 7.0)
    graph = edges.graph
    for code, given in ((2, address(e)), (-1, address(e)), (0, 0)):
        status = _core.gnograd_update_edges_forward_r64(
            graph.handle, 2, 0, 0, code, given, 0, 0, address(out)
        )
        assert status == 1
        assert np.all(out == 7)
