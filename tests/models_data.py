# SPDX-License-Identifier: MIT
"""Samples, models and batches of points."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from gnograd.data import Field, Layout, PointData, Sample
from gnograd.models import Cloud, PointModel


def data(d: int = 2, apart: bool = False, in_time: bool = False, period: float = 0) -> PointData:
    rng = np.random.default_rng(0)

    def field(*shape: int) -> np.ndarray:
        return rng.random(shape).astype(np.float32)

    samples = []
    for n in (40, 50):
        x = 3 * rng.random((n, d)) + 7
        queries = 3 * rng.random((n // 2, d)) + 7 if apart else x
        outputs, states = (None, field(4, n, 1)) if in_time else (field(len(queries), 1), None)
        samples.append(Sample(x, field(n, 2), queries, outputs, field(1), states))
    fields = (Field("f", 2),), (Field("u", 1),), (Field("p", 1),)
    return PointData(samples, Layout(d, *fields, (period,) * d if period else None, in_time, apart))


def model_of(made: PointData, name: str = "gno") -> PointModel:
    torch.manual_seed(0)
    return PointModel.for_data(made, name).eval()


def batch_of(model: PointModel, made: PointData) -> tuple:
    def of(arrays: list[np.ndarray]) -> list[torch.Tensor]:
        return [model.tensor(x) for x in arrays]

    queries = None
    if made.layout.apart:
        queries = Cloud.of(of([s.queries for s in made.samples]))
    return (
        Cloud.of(of([s.points for s in made.samples])),
        torch.cat(of([s.inputs for s in made.samples])),
        queries,
        torch.stack(of([s.parameters for s in made.samples])),
    )
