# SPDX-License-Identifier: MIT
"""Independent random numbers for every purpose, from one seed."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Purposes of random numbers."""

    TRAINING_SAMPLE = 0
    TEST_SAMPLE = 1
    PARAMETERS = 2
    EPOCH = 3
    EVALUATION = 4


def generator(seed: int, stream: Stream, number: int = 0) -> np.random.Generator:
    """Generator of the `number`-th sequence of a stream.

    The sequence of a sample or epoch is available without drawing those before, for example in a
    continued run.
    """
    return np.random.default_rng((seed, stream, number))
