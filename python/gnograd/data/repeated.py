# SPDX-License-Identifier: MIT
"""Samples of one set that are in another one, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import pairwise

import numpy as np

from gnograd.data.samples import Array, PointData, Sample
from gnograd.data.stored import Columns

__all__ = ["repeated"]

_SIZE = 8
"""Bytes of a digest."""


def repeated(first: PointData, others: Mapping[str, PointData]) -> dict[str, dict[int, int]]:
    """Find samples that sets share with another one; of trajectories, those that share a step.

    Parameters
    ----------
    first : PointData
        Training data.
    others : mapping of str to PointData
        Sets by name.

    Returns
    -------
    dict of str to dict
        By set, the numbers of its samples with that of one of `first` that has the same numbers, in
        float32, in all roles; names of files and arrays do not count. A trajectory need only have
        one step, from a state to the next one, that the other one has; steps that change nothing do
        not count.
    """
    known, of = _digests(first)
    order = np.argsort(known, kind="stable")
    known, of = known[order], of[order]
    every = {}
    for name, data in others.items():
        digests, numbers = _digests(data)
        places = np.minimum(np.searchsorted(known, digests), max(len(known) - 1, 0))
        same = np.flatnonzero(known[places] == digests) if len(known) else np.zeros(0, int)
        every[name] = {int(numbers[k]): int(of[places[k]]) for k in same[::-1]}
        every[name] = dict(sorted(every[name].items()))
    return every


def _digests(data: PointData) -> tuple[Array, Array]:
    """Digests of samples or, of trajectories, of their steps, and the sample that each is of."""
    places: dict[int, bytes] = {}
    digests, numbers = [], []
    for k, (geometry, sample) in enumerate(zip(data.facts.geometry, data.samples, strict=True)):
        if geometry not in places:
            places[geometry] = _digest(sample.points, sample.queries)
        mine = np.frombuffer(b"".join(_of_sample(sample, places[geometry])), np.uint64)
        digests.append(mine)
        numbers.append(np.full(len(mine), k))
    return np.concatenate(digests), np.concatenate(numbers)


def _of_sample(sample: Sample, place: bytes) -> Iterator[bytes]:
    """Digest of a sample, or one for each of its steps, at points of the digest `place`."""
    in_time = sample.inputs.ndim == 3
    steady = place + _digest(sample.parameters, *([] if in_time else [sample.inputs]))
    if sample.states is None:
        yield _together(steady, _digest(*(a for a in (sample.outputs,) if a is not None)))
        return
    driving = map(_digest, _times(sample.inputs)) if in_time else None
    for before, after in pairwise(map(_digest, _times(sample.states))):
        now = b"" if driving is None else next(driving, b"")
        if before != after:
            yield _together(steady, now, before, after)


def _times(array: Array | Columns) -> Iterator[Array]:
    """Values at one time after the other."""
    for block in array.blocks() if isinstance(array, Columns) else [array]:
        yield from block


def _digest(*arrays: Array) -> bytes:
    """Digest of numbers in float32, of which zeros have one sign."""
    digest = sha256()
    for array in arrays:
        digest.update(f"{array.shape}".encode())
        digest.update((np.ascontiguousarray(array, np.float32) + 0.0).tobytes())
    return digest.digest()[:_SIZE]


def _together(*digests: bytes) -> bytes:
    """Digest of digests."""
    return sha256(b"".join(digests)).digest()[:_SIZE]
