# SPDX-License-Identifier: MIT
"""A graph and the two orders of its edges: who writes what."""

from __future__ import annotations

from typing import Any

EDGES = [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (0, 2)]
"""(source, destination)"""


def draw(figure: Any, colours: Any) -> None:
    """Left the graph; right its edges by destination (forward) and by source (gradients)."""
    figure.set_size_inches(8.4, 2.9)
    graph, forward, back = figure.subplots(1, 3, width_ratios=[1.1, 1.4, 1.4])
    palette = [colours.first, colours.second, colours.third, colours.faint]
    for axes in (graph, forward, back):
        axes.set_axis_off()

    for j, i in EDGES:
        graph.annotate(
            "", (1, 2.2 - i * 1.1), (0, 3 - j), size=8,
            arrowprops={"arrowstyle": "-|>", "color": colours.faint, "shrinkA": 11, "shrinkB": 11},
        )  # fmt: skip
    for j in range(4):
        graph.scatter(0, 3 - j, 320, colours.faint, zorder=3)
        graph.text(0, 3 - j, f"{j}", ha="center", va="center", zorder=4)
    for i in range(3):
        graph.scatter(1, 2.2 - i * 1.1, 320, palette[i], zorder=3)
        graph.text(1, 2.2 - i * 1.1, f"{i}", ha="center", va="center", color="white", zorder=4)
    graph.set(xlim=(-0.5, 1.65), ylim=(-0.8, 3.9))
    graph.text(0, 3.62, "sources j", ha="center")
    graph.text(1, 3.62, "destinations i", ha="center")

    by_destination = sorted(EDGES, key=lambda edge: edge[1])
    by_source = sorted(EDGES, key=lambda edge: edge[0])
    sides = (
        (forward, by_destination, 1, "forward: edges by destination", "out[%d]", palette),
        (back, by_source, 0, "gradients: edges by source", "dx[%d]", [colours.faint] * 4),
    )
    for axes, edges, end, title, result, colour in sides:
        axes.set(xlim=(-0.3, 7.3), ylim=(-0.8, 3.9))
        axes.text(3.5, 3.62, title, ha="center")
        for k, edge in enumerate(edges):
            axes.add_patch(_box(k, 2.2, 0.92, 0.8, colour[edge[end]]))
            axes.text(k + 0.46, 2.6, f"{edge[0]}→{edge[1]}", ha="center", va="center", size=8)
        for node in sorted({edge[end] for edge in edges}):
            places = [k for k, edge in enumerate(edges) if edge[end] == node]
            middle = (places[0] + places[-1] + 0.92) / 2
            for k in places:
                axes.plot([k + 0.46, middle], [2.15, 1.15], color=colour[node], lw=1.6)
            axes.text(middle, 0.75, result % node, ha="center", size=8)
        axes.text(3.5, -0.1, "every row has one writer", ha="center", size=9, style="italic")
    figure.tight_layout(pad=0.3)


def _box(x: float, y: float, width: float, height: float, colour: str) -> Any:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.12"
    return FancyBboxPatch((x, y), width, height, style, fc=colour, ec="none", alpha=0.45)
