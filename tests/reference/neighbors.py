# SPDX-License-Identifier: MIT
"""Neighbours within a radius, and nearest ones, by all distances."""

import itertools

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
    """Squared distance to the nearest image, in float64, summed in the order of the axes."""
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


def images(points, radius, cell, periodic, full):
    """Rows (i, j, shift, distance, vector) of all images, of more cells than can be in reach."""
    n, d = points.shape
    diameter = np.linalg.norm(np.ptp(points, axis=0))
    most = (radius + diameter) * np.linalg.norm(np.linalg.inv(cell), axis=0) + 1
    axes = [
        range(-int(m), int(m) + 1) if flag else [0] for m, flag in zip(most, periodic, strict=True)
    ]
    shifts = np.array([*itertools.product(*axes)])
    moved = np.zeros(shifts.shape)
    for a in range(d):
        moved += shifts[:, a, None] * cell[a]
    rows = []
    for i, j in itertools.product(range(n), repeat=2):
        vectors = (points[j] - points[i]) + moved
        squares = np.zeros(len(shifts))
        for a in range(d):
            squares += vectors[:, a] ** 2
        for k in np.flatnonzero(squares <= radius * radius):
            shift = tuple(shifts[k])
            once = i < j or (i == j and shift > (0,) * d)
            if once if not full else i != j or any(shift):
                rows.append((i, j, shift, np.sqrt(squares[k]), vectors[k]))
    return rows
