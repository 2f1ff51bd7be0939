# SPDX-License-Identifier: MIT
"""Operations and memory of the sum with a full kernel, both ways, by the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np


def draw(figure: Any, colours: Any) -> None:
    """Left operations, right memory, over the mean number of neighbours."""
    figure.set_size_inches(8.4, 2.9)
    work, memory = figure.subplots(1, 2)
    degree, F, H, nodes = np.geomspace(1, 256, 100), 32, 64, 10_000
    edges = nodes * degree
    plain = 2 * edges * F * F * H + 2 * edges * F * F
    factorised = 2 * edges * F * (H + 1) + 2 * nodes * F * F * (H + 1)
    work.loglog(degree, plain / 1e9, color=colours.second, label="a matrix an edge")
    work.loglog(degree, factorised / 1e9, color=colours.first, label="factorised")
    work.set(xlabel="neighbours of a node", title="operations in $10^9$", ylim=(1, None))
    work.legend(frameon=False)

    memory.loglog(degree, edges * F * F * 4 / 2**20, color=colours.second)
    tile = (F * F * (H + 1) + 2**16) * 4 / 2**20  # the reordered layer, and a thread's tile
    memory.loglog(degree, np.full_like(degree, tile), color=colours.first)
    memory.set(xlabel="neighbours of a node", title="temporary memory of forward in MiB")
    for axes in (work, memory):
        axes.grid(color=colours.faint, alpha=0.3)
    figure.tight_layout()
