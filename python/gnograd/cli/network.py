# SPDX-License-Identifier: MIT
"""A graph neural operator, written on the tape."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import gnograd as gg
import gnograd.autodiff as ad

Array = npt.NDArray[Any]


class Network:
    """Lift, some graph neural operator layers, projection.

    A layer is::

        h_i <- h_i + gelu(W h_i + b + mean_{j -> i} h_j . kappa(c_ij))

    with a kernel network of one hidden layer per layer. Width and edge geometry ``c`` are
    free; the same parameters work on any graph.

    Parameters
    ----------
    tape : gnograd.autodiff.Tape
    node_features, edge_features : int
    width : int
        Channels of ``h``.
    hidden : int
        Hidden width of the kernel networks.
    layers : int
    rng : numpy.random.Generator
        Draws the initial parameters.

    Attributes
    ----------
    parameters : dict of str to gnograd.autodiff.Array
    """

    def __init__(
        self,
        tape: ad.Tape,
        node_features: int,
        edge_features: int,
        width: int,
        hidden: int,
        layers: int,
        rng: np.random.Generator,
    ) -> None:
        self.layers = layers
        self.parameters: dict[str, ad.Array] = {}

        def parameter(name: str, *shape: int, bound: float) -> None:
            values = rng.uniform(-bound, bound, shape).astype(np.float32)
            self.parameters[name] = tape.parameter(values)

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
        linear("projection", 2 * width, 1)

    def __call__(self, nodes: ad.Array, edges: ad.Array, graph: gg.Graph) -> ad.Array:
        """One value per node.

        Parameters
        ----------
        nodes : gnograd.autodiff.Array, (n_nodes, node_features)
        edges : gnograd.autodiff.Array, (n_edges, edge_features)
        graph : gnograd.Graph

        Returns
        -------
        gnograd.autodiff.Array, (n_nodes, 1)
        """
        p = self.parameters
        h = self._linear("lift", nodes)
        for layer in range(self.layers):
            integral = ad.gno(
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
            h = h + ad.gelu(self._linear(f"{layer}", h) + integral)
        return self._linear("projection", ad.gelu(self._linear("inner", h)))

    def _linear(self, name: str, x: ad.Array) -> ad.Array:
        return ad.matmul(x, self.parameters[f"{name}.weight"]) + self.parameters[f"{name}.bias"]
