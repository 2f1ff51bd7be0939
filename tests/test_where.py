# SPDX-License-Identifier: MIT
"""Every operator is found by its name in every layer."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
import where  # noqa: E402


@pytest.mark.parametrize("op", where.read_operators(), ids=lambda op: op.name)
def test_every_layer_has_the_operator(op):
    assert None not in where.places(op).values(), where.places(op)


def test_a_name_that_is_no_operator():
    with pytest.raises(SystemExit, match="there is no operator dot: one of agg_weighted"):
        where.main(["dot"])
