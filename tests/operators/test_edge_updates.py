# SPDX-License-Identifier: MIT
import numpy as np
import pytest

import gnograd as gg
from conftest import power_law
from gnograd import _core
from gnograd.backends.cpu import address

# ---- errors ----


def test_nothing_to_update_is_refused():
    with pytest.raises(TypeError, match="update_edges: needs one of e, x_src, x_dst, got none of"):
        gg.update_edges(None, graph=power_law(6, 20).graph)


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
