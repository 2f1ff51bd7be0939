# SPDX-License-Identifier: MIT
"""Independent random numbers for every purpose, from one seed."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What random numbers are for."""

    TRAINING_SAMPLE = 0
    TEST_SAMPLE = 1
    PARAMETERS = 2
    EPOCH = 3
    EVALUATION = 4


def generator(seed: int, stream: Stream, number: int = 0) -> np.random.Generator:
    """Generator of the `number`-th sequence of a stream.

    What needs the sequence of one sample or epoch can ask for it without
    having drawn those before, in a continued run for example.
    """
    return np.random.default_rng((seed, stream, number))
