# SPDX-License-Identifier: MIT
"""A graph neural operator."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import gnograd as gg
from gnograd.cli.engine import Engine, Variable

Array = npt.NDArray[Any]


class Network:
    """Lift, some graph neural operator layers, projection.

    A layer is::

        h_i <- h_i + gelu(W h_i + b + mean_{j -> i} h_j . kappa(c_ij))

    with a kernel network of one hidden layer per layer. Width and edge geometry ``c`` are
    free; the same parameters work on any graph.

    Parameters
    ----------
    engine : Engine
    node_features, edge_features : int
    width : int
        Channels of ``h``.
    hidden : int
        Hidden width of the kernel networks.
    layers : int
    outputs : int
        Number of values at a node.
    rng : numpy.random.Generator
        Generator of the initial parameters.

    Attributes
    ----------
    parameters : dict of str to Variable
    """

    def __init__(
        self,
        engine: Engine,
        node_features: int,
        edge_features: int,
        width: int,
        hidden: int,
        layers: int,
        outputs: int,
        rng: np.random.Generator,
    ) -> None:
        self.engine = engine
        self.layers = layers
        self.parameters: dict[str, Variable] = {}

        def parameter(name: str, *shape: int, bound: float) -> None:
            values = rng.uniform(-bound, bound, shape).astype(np.float32)
            self.parameters[name] = engine.parameter(values)

        def linear(name: str, inputs: int, outputs: int) -> None:
            bound = 1.0 / math.sqrt(inputs)
            parameter(f"{name}.weight", inputs, outputs, bound=bound)
            parameter(f"{name}.bias", outputs, bound=bound)

        linear("lift", node_features, width)
        for layer in range(layers):
            linear(f"{layer}", width, width)
            linear(f"{layer}.kernel", edge_features, hidden)
            # variance 1 / (width * hidden)
            bound = math.sqrt(3.0 / (width * hidden))
            parameter(f"{layer}.kernel.V", hidden, width, width, bound=bound)
            parameter(f"{layer}.kernel.b_v", width, width, bound=bound)
        linear("inner", width, 2 * width)
        linear("projection", 2 * width, outputs)

    def __call__(
        self, nodes: Variable, edges: Variable, graph: gg.Graph | gg.DistributedGraph
    ) -> Variable:
        """Values of the nodes.

        Parameters
        ----------
        nodes : Variable, (n_nodes, node_features)
        edges : Variable, (n_edges, edge_features)
        graph : gnograd.Graph or gnograd.DistributedGraph

        Returns
        -------
        Variable, (n_nodes, outputs)
        """
        engine, p = self.engine, self.parameters
        h = self._linear("lift", nodes)
        for layer in range(self.layers):
            integral = engine.gno(
                h,
                edges,
                p[f"{layer}.kernel.weight"],
                p[f"{layer}.kernel.bias"],
                p[f"{layer}.kernel.V"],
                p[f"{layer}.kernel.b_v"],
                graph=graph,
                activation="gelu",
                reduction="mean",
            )
            h = h + engine.gelu(self._linear(f"{layer}", h) + integral)
        return self._linear("projection", engine.gelu(self._linear("inner", h)))

    def _linear(self, name: str, x: Variable) -> Variable:
        return x @ self.parameters[f"{name}.weight"] + self.parameters[f"{name}.bias"]
