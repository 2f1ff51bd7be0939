# SPDX-License-Identifier: MIT
"""Samples of functions on points as tensors, and batches of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from torch import Tensor

from gnograd.data import PointData, Sample
from gnograd.data.samples import Made
from gnograd.data.stored import Columns
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


KEPT = 1 << 29
"""Bytes of graphs and positions that are kept; others are made anew for every batch."""
_EDGE, _POINT = 64, 64
"""Bytes that an edge of a graph takes, in both orders, and a point."""


class PointBatches:
    """Samples as tensors, with their graphs.

    Graphs are made once, as far as they fit in `KEPT`; samples on the same points share one.

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
        self._places: dict[int, tuple[dict[str, Graph], Tensor, Tensor | None]] = {}
        self._kept = 0
        """Bytes of the graphs that are kept."""
        self._geometry = data.facts.geometry
        states = data.facts.states
        n_steps = np.where(states > 0, states - 1, 1)
        samples = np.repeat(np.arange(len(data)), n_steps)
        first = np.arange(len(samples)) - np.repeat(np.cumsum(n_steps) - n_steps, n_steps)
        self.steps = np.stack([samples, first], axis=1)
        """Training steps, int64 (n_steps, 2): sample, and first of two times."""

    def find_neighbours(self, console: Console, what: str) -> None:
        """Make all graphs that are kept, with a bar that says what for."""
        what, disable = escape(printable(what)), not console.is_terminal
        _, numbers = np.unique(self._geometry, return_index=True)
        for k in track(numbers, what, console=console, transient=True, disable=disable):
            if self._kept >= KEPT:
                break
            self._place(int(k), self.data.samples[k])

    def graphs(self, k: int, sample: Sample) -> dict[str, Graph]:
        """Graphs of the sample with a number, shared by samples on the same points."""
        return self._place(k, sample)[0]

    def _place(self, k: int, sample: Sample) -> tuple[dict[str, Graph], Tensor, Tensor | None]:
        """Graphs, points, and queries if they are others."""
        key = int(self._geometry[k])
        if key in self._places:
            return self._places[key]
        points, queries = self._model.positions(sample.points), None
        if sample.queries is not sample.points:
            queries = self._model.positions(sample.queries)
        graphs = self._model.graphs(points, queries, self._model.edges(sample))
        found = graphs, points, queries
        if self._kept < KEPT:
            self._places[key] = found
            self._kept += _POINT * (len(sample.points) + len(sample.queries))
            self._kept += sum(_EDGE * graph.n_edges for graph in graphs.values())
        return found

    def batch(self, steps: Array | Sequence[tuple[int, int]], noise: Any = None) -> Batch:
        """Join some of `steps` in a batch.

        Parameters
        ----------
        steps : sequence of pair of int, or ndarray
        noise : sequence of ndarray, optional
            Noise that is added to the state of each, (n, channels).
        """
        samples = [self.data.samples[k] for k, _ in steps]
        inputs, truth = [], []
        for k, (sample, (_, t)) in enumerate(zip(samples, steps, strict=True)):
            columns = [self._at(sample.inputs, t)]
            if sample.states is not None:
                state = self._at(sample.states, t)
                if noise is not None:
                    state = state + self._model.tensor(noise[k])
                columns.append(state)
                truth.append(self._at(sample.states, t + 1))
            elif sample.outputs is not None:
                truth.append(self._tensor(sample.outputs))
            inputs.append(torch.cat(columns, dim=1))
        places = [self._place(int(k), s) for (k, _), s in zip(steps, samples, strict=True)]
        graphs = [graphs for graphs, *_ in places]
        queries = [q for *_, q in places if q is not None]
        return Batch(
            Cloud.of([points for _, points, _ in places]),
            torch.cat(inputs),
            Cloud.of(queries) if self.data.layout.apart else None,
            torch.stack([self._tensor(s.parameters) for s in samples]),
            {name: Graph.batch([of[name] for of in graphs]) for name in graphs[0]},
            torch.cat(truth),
        )

    def _at(self, array: Array | Columns, time: int) -> Tensor:
        """Columns at a time, or those that hold for all times."""
        if isinstance(array, Columns):
            return self._model.tensor(array[time])
        tensor = self._tensor(array)
        return tensor[time] if tensor.ndim == 3 else tensor

    def _tensor(self, array: Array) -> Tensor:
        """Copy of an array on the device; it is kept, if the samples are in memory, too."""
        if isinstance(self.data.samples, Made):
            return self._model.tensor(array)
        if id(array) not in self._tensors:
            self._tensors[id(array)] = self._model.tensor(array)
        return self._tensors[id(array)]
