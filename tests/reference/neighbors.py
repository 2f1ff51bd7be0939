# SPDX-License-Identifier: MIT
"""Neighbours within a radius, and nearest ones, by all distances."""

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
            if item_of[0][j] == item_of[1][i] and distance(x - y, period) <= radius:
                indices.append(j)
        offsets.append(len(indices))
    return np.array(offsets), np.array(indices, np.int32)


def distance(offset, period):
    images = [x + p * np.arange(-5, 6) for x, p in zip(offset, period, strict=True)]
    return np.sqrt(sum(np.min(np.square(x)) for x in images))


def nearest(sources, k, destinations, period, source_items, destination_items, radius=np.inf):
    """Offsets and indices of the k first ones, by squared distance and number."""
    offsets, indices = [0], []
    for i, x in enumerate(destinations):
        candidates = []
        for j, y in enumerate(sources):
            square = squared_distance(x, y, period)
            if item_of(source_items, j) == item_of(destination_items, i) and (
                square <= radius * radius
            ):
                candidates.append((square, j))
        indices += [j for _, j in sorted(candidates)[:k]]
        offsets.append(len(indices))
    return np.array(offsets), np.array(indices, np.int32)


def squared_distance(x, y, period):
    """To the nearest image, in float64 and in the order of the axes."""
    squares = np.float64(0)
    for a, b, length in zip(x, y, period, strict=True):
        if length > 0:
            offset = np.float64(a) % length - np.float64(b) % length
            if offset < -0.5 * length:
                offset = length + offset
            elif offset > 0.5 * length:
                offset = offset - length
        else:
            offset = np.float64(a) - np.float64(b)
        squares += offset * offset
    return squares


def item_of(items, point):
    return np.searchsorted(items, point, side="right")


def random_key(seed, i, j):
    """SplitMix64, in Python's integers."""
    for number in (i, j):
        z = (seed + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        seed = z ^ z >> 31
    return seed
