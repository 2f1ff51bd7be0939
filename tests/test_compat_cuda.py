# SPDX-License-Identifier: MIT
"""pylibcugraphops on edges with every array on a GPU, or on the host that plays one."""

import pytest

import test_compat_edges
import test_cuda
from test_compat_edges import (
    test_directed_messages,
    test_edge_updates,
    test_gradients_of_relations_not_wanted,
    test_relations,
    test_relations_of_samples_up_to_23_02,
    test_types_of_relations,
)

pytestmark = test_cuda.pytestmark
__all__ = [
    "test_directed_messages",
    "test_edge_updates",
    "test_gradients_of_relations_not_wanted",
    "test_relations",
    "test_relations_of_samples_up_to_23_02",
    "test_types_of_relations",
]


@pytest.fixture(autouse=True)
def _on_device(monkeypatch):
    monkeypatch.setattr(test_compat_edges, "ops", test_cuda.OnDevice())
