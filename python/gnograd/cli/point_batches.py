# SPDX-License-Identifier: MIT
"""Samples of functions on points as tensors, and batches of them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt
import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from torch import Tensor

from gnograd.data import PointData, Sample
from gnograd.models import Cloud, PointModel
from gnograd.notation.text import printable
from gnograd.torch.graph import Graph

__all__ = ["Batch", "PointBatches"]

Array = npt.NDArray[Any]


class Batch(NamedTuple):
    """Arguments of a model for some samples, and the true results."""

    points: Cloud
    inputs: Tensor
    queries: Cloud | None
    parameters: Tensor
    graphs: dict[str, Graph]
    truth: Tensor
    """True outputs or next state, (m, channels)."""

    @property
    def known(self) -> tuple[Any, ...]:
        """Arguments of the model."""
        return self[:5]

    @property
    def sizes(self) -> list[int]:
        """Number of rows of the truth for each sample."""
        borders = (self.points if self.queries is None else self.queries).borders
        sizes: list[int] = borders.diff().tolist()
        return sizes


class PointBatches:
    """Samples as tensors, with their graphs, which are made once.

    Parameters
    ----------
    model : PointModel
        Model for which graphs are made, on its device.
    data : PointData
    """

    def __init__(self, model: PointModel, data: PointData) -> None:
        self.data = data
        self._model = model
        self._tensors: dict[int, Tensor] = {}
        self._graphs: dict[tuple[int, int, int], dict[str, Graph]] = {}
        self.steps = [
            (k, t)
            for k, sample in enumerate(data.samples)
            for t in (range(1) if sample.states is None else range(len(sample.states) - 1))
        ]
        """Training steps: sample, and first of two times."""

    def find_neighbours(self, console: Console, what: str) -> None:
        """Make all graphs, with a bar that says what for."""
        what, disable = escape(printable(what)), not console.is_terminal
        for sample in track(
            self.data.samples, what, console=console, transient=True, disable=disable
        ):
            self.graphs(sample)

    def graphs(self, sample: Sample) -> dict[str, Graph]:
        """Graphs of a sample, shared by samples on the same points."""
        key = id(sample.points), id(sample.queries), id(sample.cells)
        if key not in self._graphs:
            queries = None if sample.queries is sample.points else self._positions(sample.queries)
            self._graphs[key] = self._model.graphs(
                self._positions(sample.points), queries, self._model.edges(sample)
            )
        return self._graphs[key]

    def batch(self, steps: Sequence[tuple[int, int]], noise: Sequence[Any] | None = None) -> Batch:
        """Join some of `steps` in a batch.

        Parameters
        ----------
        steps : sequence of pair of int
        noise : sequence of ndarray, optional
            Noise that is added to the state of each, (n, channels).
        """
        samples = [self.data.samples[k] for k, _ in steps]
        inputs, truth = [], []
        for k, (sample, (_, t)) in enumerate(zip(samples, steps, strict=True)):
            known = self._tensor(sample.inputs)
            columns = [known[t] if known.ndim == 3 else known]
            if sample.states is not None:
                states = self._tensor(sample.states)
                state = states[t]
                if noise is not None:
                    state = state + self._model.tensor(noise[k])
                columns.append(state)
                truth.append(states[t + 1])
            elif sample.outputs is not None:
                truth.append(self._tensor(sample.outputs))
            inputs.append(torch.cat(columns, dim=1))
        queries = None
        if self.data.layout.apart:
            queries = Cloud.of([self._positions(s.queries) for s in samples])
        graphs = [self.graphs(sample) for sample in samples]
        return Batch(
            Cloud.of([self._positions(s.points) for s in samples]),
            torch.cat(inputs),
            queries,
            torch.stack([self._tensor(s.parameters) for s in samples]),
            {name: Graph.batch([of[name] for of in graphs]) for name in graphs[0]},
            torch.cat(truth),
        )

    def _tensor(self, array: Array) -> Tensor:
        """Copy of an array on the device, shared by samples that share the array."""
        return self._kept(array, self._model.tensor)

    def _positions(self, array: Array) -> Tensor:
        """Copy of positions on the device, shared likewise."""
        return self._kept(array, self._model.positions)

    def _kept(self, array: Array, make: Callable[[Array], Tensor]) -> Tensor:
        if id(array) not in self._tensors:
            self._tensors[id(array)] = make(array)
        return self._tensors[id(array)]
