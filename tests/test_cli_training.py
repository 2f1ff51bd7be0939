# SPDX-License-Identifier: MIT
"""Parts of all trainings: names of options, logs, learning rates, errors."""

import math

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs gnograd[cli]")
pytest.importorskip("torch")

import torch

from gnograd import models
from gnograd.cli import config
from gnograd.cli.checkpoint import State
from gnograd.cli.config import Schedule
from gnograd.cli.log import Epoch
from gnograd.cli.point_problem import norms, relative_errors
from gnograd.cli.training import learning_rate, progress


def test_names_are_those_of_the_help() -> None:
    assert tuple(models.MODELS) == models.NAMES and config.SIZES == models.SIZES


def test_lines_of_a_log_have_columns() -> None:
    """Also where a number ends with zeros, or is small."""
    rows = [
        Epoch(9, 0.1, 0.12345, 0.0305, 9.6), Epoch(10, 0.1, 1.2e-5, 1.0, 100.2),
        Epoch(100, 0.1, 0.0, 12345.678, 9999.0), Epoch(1, 0.1, 0.1, math.inf, 0.0),
    ]  # fmt: skip
    lines = [progress(row, 100) for row in rows]
    assert lines[0] == "epoch   9/100  loss 0.1235    held out 0.03050      10 s"
    assert {len(line) for line in lines} == {len(lines[0])}
    assert {line.index("held") for line in lines} == {lines[0].index("held")}


def test_schedules() -> None:
    for schedule in Schedule:
        assert learning_rate(1.0, 0.0, schedule) < 0.2 < learning_rate(1.0, 0.04, schedule)
    assert learning_rate(1.0, 0.99, Schedule.CONSTANT) == 1.0
    assert learning_rate(1.0, 1.0, Schedule.LINEAR) == pytest.approx(0.01)


def test_errors_leave_out_channels_that_are_zero() -> None:
    truth = np.stack([np.ones(4), np.zeros(4)], axis=1)
    assert relative_errors(truth + 0.5, truth) == pytest.approx(0.5)
    assert relative_errors(truth[:, 1:] + 1, truth[:, 1:]) == pytest.approx(2.0)
    assert relative_errors(np.full((4, 1), np.nan), np.ones((4, 1))) == np.inf


def test_norms_of_many_rows_keep_their_digits() -> None:
    x = 0.1 * (0.5 + torch.rand(1_000_000, 3, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(norms(x), x.double().square().sum(0).sqrt(), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("epochs", "finished", "cycles", "left"),
    [
        (100, False, [(100, 1.0)], True),
        (150, False, [(150, 1.0)], True),
        (100, True, [(100, 1.0)], False),
        (150, True, [(50, 1.0), (150, 1.0)], True),
        (30, False, [(100, 1.0)], False),
    ],
)
def test_more_epochs(epochs, finished, cycles, left) -> None:
    state = State({}, [None] * 50, [(100, 1.0)], finished=finished)
    state.plan(epochs, 1.0)
    assert state.cycles == cycles and state.finished is not left
