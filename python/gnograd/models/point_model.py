# SPDX-License-Identifier: MIT
"""Networks on points in the units of the data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gnograd.data.description import Description
from gnograd.data.neighbors import CLOUDS
from gnograd.data.samples import PointData, Sample
from gnograd.data.statistics import ROUNDING, statistics, target
from gnograd.models.cloud import Cloud, wrapped
from gnograd.models.factory import MODELS, options_of
from gnograd.models.network import Network
from gnograd.torch.graph import Graph

__all__ = ["Description", "PointModel"]

Array = NDArray[Any]

_STEPS = 2.0**24
"""Steps in a unit of the scaled box, as far as float32 tells points apart at its border."""

_STATISTICS = ("input", "parameter", "output")


class PointModel(nn.Module):
    """A network on points with the normalisation of inputs and outputs.

    Positions are moved and scaled, by one factor, into the box from -1 to 1, along periodic axes to
    their images nearest to its middle; inputs and parameters
    have mean 0 and variance 1 in the training data, and so have outputs, or their differences from
    the inputs that they are near to, such as the changes of a state in a step
    (``gnograd inspect`` says which). One that is constant there, up to rounding, has deviation 0:
    the model returns its mean. All this is part of the state dict.

    Parameters
    ----------
    description : Description
        Lengths in its options, and its period, are in units of the scaled box.

    See Also
    --------
    gnograd.load : a model that `gnograd train points` has trained.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from gnograd.data import Field, Layout, PointData, Sample
    >>> from gnograd.models import PointModel
    >>> rng = np.random.default_rng(0)
    >>> x, f = rng.random((50, 2)), rng.random((50, 1)).astype(np.float32)
    >>> data = PointData([Sample(x, f, x, 2 * f, np.zeros(0, np.float32))],
    ...                  Layout(2, (Field("f", 1),), (Field("u", 1),)))
    >>> model = PointModel.for_data(data, "gno", "small")
    >>> model(torch.rand(70, 2), torch.rand(70, 1)).shape
    torch.Size([70, 1])
    >>> model.predict(data.samples[0]).shape
    (50, 1)
    """

    centre: Tensor
    scale: Tensor
    input_mean: Tensor
    input_std: Tensor
    parameter_mean: Tensor
    parameter_std: Tensor
    output_mean: Tensor
    output_std: Tensor

    def __init__(self, description: Description) -> None:
        super().__init__()
        layout, widths = description.layout, description.widths
        self.description = description
        for name, width in zip(_STATISTICS, widths, strict=True):
            self.register_buffer(f"{name}_mean", torch.zeros(width))
            self.register_buffer(f"{name}_std", torch.ones(width))
        self.register_buffer("centre", torch.zeros(layout.dimension))
        self.register_buffer("scale", torch.ones(()))
        self.network: Network = MODELS[description.name](
            layout.dimension,
            widths[0] + widths[1],
            widths[2],
            apart=layout.apart,
            **description.options,
        )

    @classmethod
    def for_data(
        cls, data: PointData, name: str, size: str = "small", radius: float | None = None
    ) -> PointModel:
        """Make a model for data, with their normalisation.

        Parameters
        ----------
        data : gnograd.data.PointData
            Training data.
        name : {"gno", "gino", "magno", "mgn", "bsa", "transolver"}
        size : {"small", "medium", "large"}
        radius : float, optional
            Distance up to which points are neighbours, in units of the data.

        Raises
        ------
        ValueError
            Unknown name or size.
        """
        corners = [
            (x.min(axis=0), x.max(axis=0)) for s in data.geometries() for x in (s.points, s.queries)
        ]
        lower, upper = np.min(corners, axis=(0, 1)), np.max(corners, axis=(0, 1))
        scale = float((upper - lower).max() / 2) or 1.0
        centre, period = ((lower + upper) / 2).astype(np.float32).astype(float), data.layout.period
        scaled = None if period is None else [length / scale for length in period]
        seen = list(itertools.islice(data.clouds(), CLOUDS))
        options = options_of(
            name,
            size,
            [(x - centre) / scale for x in seen],
            ((lower - centre) / scale, (upper - centre) / scale),
            scaled,
            None if radius is None else radius / scale,
            name == "mgn" and data.meshed,
        )
        options["period"] = scaled
        model = cls(Description(name, options, data.layout, target(data).adds))
        model.centre.copy_(torch.from_numpy(centre))
        model.scale.fill_(scale)
        model._measure(data)
        return model

    # ---- evaluation ----

    def forward(
        self,
        points: Tensor | Cloud,
        inputs: Tensor,
        queries: Tensor | Cloud | None = None,
        parameters: Tensor | None = None,
        graphs: Mapping[str, Graph] | None = None,
    ) -> Tensor:
        """Outputs at the queries, or the next state at the points.

        Parameters
        ----------
        points : Tensor, (n, d), or Cloud
            Points of one item, or of several.
        inputs : Tensor, (n, channels)
            Input channels; in time stepping, the last ones are the state.
        queries : Tensor, (m, d), or Cloud, optional
            Points of the outputs; `points` when left out.
        parameters : Tensor, (n_parameters,) or (n_items, n_parameters), optional
        graphs : mapping, optional
            Result of `graphs` for the same points.

        Returns
        -------
        Tensor, (m, channels)

        Raises
        ------
        ValueError
            Shapes that do not fit; queries, if the model was not trained for them.
        """
        cloud = points if isinstance(points, Cloud) else Cloud.of([points])
        asked = Cloud.of([queries]) if isinstance(queries, Tensor) else queries
        features = self._features(cloud, inputs, parameters)
        self._check_queries(cloud, asked)
        if graphs is None:
            graphs = self.graphs(cloud, asked)
        here, there = self._scaled(cloud), None if asked is None else self._scaled(asked)
        made = self.network(here, features, there, graphs).float()
        outputs = made * self.output_std + self.output_mean
        if (adds := self.description.adds) is not None:
            outputs = inputs[:, adds : adds + outputs.shape[1]] + outputs
        return outputs

    def graphs(
        self,
        points: Tensor | Cloud,
        queries: Tensor | Cloud | None = None,
        edges: Tensor | Sequence[Tensor] | None = None,
    ) -> dict[str, Graph]:
        """Graphs that `forward` needs, for use in many calls.

        Parameters
        ----------
        points : Tensor, (n, d), or Cloud
        queries : Tensor, (m, d), or Cloud, optional
        edges : Tensor, int64 (n_edges, 2), or sequence of these, optional
            Edges of the mesh of every item, as `gnograd.data.Sample.edges`; needed by a model that
            passes messages along them.

        Raises
        ------
        ValueError
            Edges are missing, or are none of these points.
        """
        cloud = points if isinstance(points, Cloud) else Cloud.of([points])
        asked = Cloud.of([queries]) if isinstance(queries, Tensor) else queries
        with torch.no_grad():
            here = self._scaled(cloud).items()
            there: Sequence[Tensor | None] = [None] * len(here)
            if asked is not None:
                there = self._scaled(asked).items()
            found = [
                self.network.graphs(*item)
                for item in zip(here, there, self._edges_of(here, edges), strict=True)
            ]
        return {name: Graph.batch([of[name] for of in found]) for name in found[0]}

    @torch.no_grad()
    def predict(
        self,
        sample: Sample,
        steps: int | None = None,
        graphs: Mapping[str, Graph] | None = None,
    ) -> Array:
        """Outputs of a sample, or a trajectory that begins with its first state.

        Parameters
        ----------
        sample : gnograd.data.Sample
            Sample with the inputs; its outputs and later states are ignored.
        steps : int, optional
            Number of time steps; as many as the sample has when left out. Inputs that change in
            time are needed at the beginning of each step.
        graphs : mapping, optional
            As for `forward`.

        Returns
        -------
        ndarray, float32 (m, channels), or (steps + 1, n, channels)

        Raises
        ------
        ValueError
            There is no initial state, or inputs are not known for so many steps.
        """
        tensor = self.tensor
        points, in_time = self.positions(sample.points), sample.inputs.ndim == 3
        inputs = torch.empty(0) if in_time else tensor(sample.inputs)
        parameters = tensor(sample.parameters)
        queries = None if sample.queries is sample.points else self.positions(sample.queries)
        if graphs is None:
            graphs = self.graphs(points, queries, self.edges(sample))
        if not self.description.layout.in_time:
            made: Array = self(points, inputs, queries, parameters, graphs).cpu().numpy()
            return made
        if sample.states is None:
            raise ValueError("PointModel: a sample without a state")
        state = tensor(sample.states[0])
        states = [state]
        steps = sample.n_times - 1 if steps is None else steps
        if in_time and steps > len(sample.inputs):
            raise ValueError(
                f"PointModel: inputs change in time and are there for {len(sample.inputs)} steps, "
                f"needs {steps}"
            )
        for k in range(steps):
            if in_time:
                inputs = tensor(sample.inputs[k])
            known = torch.cat([inputs, state], dim=1)
            state = self(points, known, None, parameters, graphs)
            states.append(state)
        trajectory: Array = torch.stack(states).cpu().numpy()
        return trajectory

    def edges(self, sample: Sample) -> Tensor | None:
        """Edges of the mesh of a sample, if `graphs` needs them.

        Raises
        ------
        ValueError
            The sample has none.
        """
        if not self.network.meshed:
            return None
        found = sample.edges_in(self.description.layout.period)
        if not len(found):
            where = " across the border of the periodic box" if sample.cells else ""
            raise ValueError(
                f"{sample.source}: has no cells{where}, but the model passes messages along their "
                "edges"
            )
        return torch.as_tensor(found, device=self.centre.device)

    def _edges_of(
        self, items: Sequence[Tensor], edges: Tensor | Sequence[Tensor] | None
    ) -> Sequence[Tensor | None]:
        """Edges of every item."""
        if not self.network.meshed:
            return [None] * len(items)
        every = [edges] if isinstance(edges, Tensor) else edges
        if every is None or len(every) != len(items):
            raise ValueError(
                "PointModel: it was trained along the edges of meshes, needs those of every item: "
                "graphs = model.graphs(points, queries, edges)"
            )
        for each, points in zip(every, items, strict=True):
            fits = each.ndim == 2 and each.shape[1] == 2 and len(each) > 0
            if not fits or each.min() < 0 or each.max() >= len(points):
                raise ValueError(
                    f"PointModel: edges has shape {tuple(each.shape)}, needs (n_edges, 2) with the "
                    f"numbers of {len(points)} points"
                )
        return every

    def tensor(self, array: Array) -> Tensor:
        """Convert an array to a tensor for this model."""
        return torch.as_tensor(array, dtype=self.centre.dtype, device=self.centre.device)

    def positions(self, array: Array) -> Tensor:
        """Convert positions to a tensor of float64, since they may be far from the origin."""
        return torch.as_tensor(array, dtype=torch.float64, device=self.centre.device)

    def counted(self, truth: Array) -> Array:
        """Mask of the channels that errors are computed for: all but constant ones.

        Parameters
        ----------
        truth : ndarray, (.., channels)
            Outputs, or states.

        Returns
        -------
        ndarray, bool (channels,)
            False for a channel that is constant in the training data and has the same value in
            `truth`.
        """
        learnt = self.output_std.cpu().numpy() > 0
        if learnt.all():
            return np.asarray(learnt)
        mean = self.output_mean.cpu().numpy()
        rows = np.asarray(truth, np.float64)
        axes = tuple(range(rows.ndim - 1))
        size = np.sqrt(np.square(rows).mean(axis=axes))
        if self.description.layout.in_time and self.description.adds is not None:
            rows = np.diff(rows, axis=0)
        off = np.sqrt(np.square(rows - mean).mean(axis=axes)) if len(rows) else 0 * size
        start, known = 0, np.zeros(len(learnt), bool)
        for field in self.description.layout.outputs:
            here = slice(start, start + field.width)
            # ten times, as a sample may have larger roundings than all data together
            known[here] = off[here] <= 10 * ROUNDING * max(
                size[here].max(), np.abs(mean[here]).max()
            )
            start += field.width
        return np.asarray(learnt | ~known)

    # ---- parts ----

    def _scaled(self, cloud: Cloud) -> Cloud:
        # in units of the data, before the rounding to float32, so that an image is the same point
        period = self.description.layout.period
        near = wrapped(cloud.positions - self.centre, period) / self.scale
        if period is not None:  # also in the middle, where float32 would keep what float64 rounds
            near = (near * _STEPS).round() / _STEPS
        return cloud._replace(positions=near.to(self.centre.dtype))

    def _features(self, cloud: Cloud, inputs: Tensor, parameters: Tensor | None) -> Tensor:
        n, (n_inputs, n_parameters, _) = cloud.positions.shape[0], self.description.widths
        if inputs.shape != (n, n_inputs):
            raise ValueError(
                f"PointModel: inputs has shape {tuple(inputs.shape)}, needs ({n}, {n_inputs})"
            )
        features = (inputs - self.input_mean) / self.input_std
        if not n_parameters:
            return features
        if parameters is None or parameters.numel() != cloud.n_items * n_parameters:
            shape = None if parameters is None else tuple(parameters.shape)
            raise ValueError(
                f"PointModel: parameters has shape {shape}, needs ({cloud.n_items}, {n_parameters})"
            )
        everywhere = parameters.reshape(cloud.n_items, n_parameters)
        everywhere = (everywhere - self.parameter_mean) / self.parameter_std
        return torch.cat([features, everywhere[cloud.item]], dim=1)

    def _check_queries(self, cloud: Cloud, asked: Cloud | None) -> None:
        d, apart = self.description.layout.dimension, self.description.layout.apart
        for name, these in (("points", cloud), ("queries", asked)):
            if these is not None and (these.positions.ndim, these.positions.shape[1]) != (2, d):
                raise ValueError(
                    f"PointModel: {name} has shape {tuple(these.positions.shape)}, needs (n, {d})"
                )
        if apart != (asked is not None):
            raise ValueError(
                "PointModel: it was trained with outputs "
                + ("on points of their own, needs queries" if apart else "on the points of inputs, "
                   "takes no queries")
            )  # fmt: skip

    def _measure(self, data: PointData) -> None:
        """Take means and deviations from data."""
        for name, found in {**statistics(data), "output": target(data).statistics}.items():
            std, still = found.std, found.constant
            if name == "output":
                std = np.where(still, 0.0, std)
            else:  # constant columns become 0, roundings stay small
                std = np.where(still, np.where(found.scale > 0, found.scale, 1.0), std)
            getattr(self, f"{name}_mean").copy_(torch.from_numpy(found.mean))
            getattr(self, f"{name}_std").copy_(torch.from_numpy(std))
