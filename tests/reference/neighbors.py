# SPDX-License-Identifier: MIT
"""Neighbours within a radius, by all distances."""

import numpy as np


def neighbors(sources, radius, destinations, period, source_items, destination_items):
    """Offsets and indices; of all images of a source the nearest one counts."""
    item_of = [
        np.searchsorted(items, np.arange(items[-1]), side="right")
        for items in (source_items, destination_items)
    ]
    offsets, indices = [0], []
    for i, x in enumerate(destinations):
        for j, y in enumerate(sources):
            if item_of[0][j] == item_of[1][i] and nearest(x - y, period) <= radius:
                indices.append(j)
        offsets.append(len(indices))
    return np.array(offsets), np.array(indices, np.int32)


def nearest(offset, period):
    images = [x + p * np.arange(-5, 6) for x, p in zip(offset, period, strict=True)]
    return np.sqrt(sum(np.min(np.square(x)) for x in images))
