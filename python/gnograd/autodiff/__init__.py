# SPDX-License-Identifier: MIT
"""Reverse-mode automatic differentiation on the Fortran tape.

A `Tape` keeps arrays and how they were computed; an `Array` is a handle on one of them. The
gradient of a loss is one sweep back over the tape. Gradients can themselves be differentiated
(``create_graph=True``), as often as wanted; through the operators of gnograd once.

Arrays are float32 or float64, have up to four axes, and follow NumPy's broadcasting.

Examples
--------
Least squares by gradient descent; nothing of a step stays on the tape:

>>> import numpy as np
>>> import gnograd.autodiff as ad
>>> tape = ad.Tape("float64")
>>> x = np.linspace(0, 1, 20)[:, None]
>>> w, b = tape.parameter([[0.0]]), tape.parameter([0.0])
>>> descent = ad.SGD([w, b], lr=0.1, momentum=0.9)
>>> for _ in range(300):
...     with tape.step():
...         loss = ad.mean((x @ w + b - (3 * x + 1)) ** 2)
...         loss.backward()
...     descent.step()
>>> w.value.round(3), b.value.round(3)
(array([[3.]]), array([1.]))
"""

from gnograd.autodiff import arrays, linear_maps, operators, optimizers
from gnograd.autodiff.arrays import *
from gnograd.autodiff.distributed import halo
from gnograd.autodiff.linear_maps import *
from gnograd.autodiff.operators import *
from gnograd.autodiff.optimizers import *

__all__ = ["halo", *arrays.__all__, *linear_maps.__all__, *operators.__all__, *optimizers.__all__]
