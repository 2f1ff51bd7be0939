# SPDX-License-Identifier: MIT
"""Engines of a training: the tape of `gnograd.autodiff`, or PyTorch on a CPU or GPU.

A network is written once, with the functions of an engine and the operations that arrays of both
share: ``+ - * / ** @``, ``reshape``, slices, ``sum``, ``mean``, ``backward``, ``float``.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

import gnograd as gg
import gnograd.autodiff as ad
from gnograd.cli.config import Device
from gnograd.cli.errors import DeviceError
from gnograd.distributed import Communicator

Array = npt.NDArray[Any]

Variable: TypeAlias = Any
"""An array of an engine: `gnograd.autodiff.Array` or a tensor."""


class Optimiser(Protocol):
    """Adam, with the interface of `gnograd.autodiff.Adam`."""

    lr: float

    def step(self) -> None:
        """Move the parameters along the gradients of the last ``backward``."""

    def state_dict(self) -> dict[str, Any]:
        """``lr``, ``steps``, and a list of arrays for each of ``mean`` and ``mean_square``."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""


class Engine(Protocol):
    """Operations that networks, losses and the training loop need."""

    dtype: np.dtype[Any]
    """Type of all its arrays: float32 or float64."""

    def parameter(self, values: Array) -> Variable:
        """Array whose gradient is wanted."""

    def constant(self, values: Array) -> Variable:
        """Array without gradient."""

    def value(self, array: Variable) -> Array:
        """Copy of an array for NumPy."""

    def assign(self, array: Variable, values: Array) -> None:
        """Set the values of a parameter."""

    def step(self) -> AbstractContextManager[None]:
        """Context of a training step, at whose end arrays made inside may be freed."""

    def evaluation(self) -> AbstractContextManager[None]:
        """Context of an evaluation without derivatives."""

    def adam(self, parameters: Sequence[Variable], lr: float) -> Optimiser:
        """Optimiser of the parameters."""

    def sum_gradients(self, comm: Communicator, parameters: Sequence[Variable]) -> None:
        """Replace the gradients of the last ``backward`` by their sums over processes."""

    def gelu(self, x: Variable) -> Variable:
        """GELU in the erf form."""

    def norm(self, x: Variable) -> Variable:
        """Euclidean norm along the last axis."""

    def gno(self, *inputs: Variable, **static: Any) -> Variable:
        """Call `gnograd.gno`."""

    def gno_with_laplacian(
        self, *inputs: Variable, **static: Any
    ) -> tuple[Variable, Variable, Variable]:
        """Call `gnograd.gno_with_laplacian`."""


class TapeEngine:
    """The tape of `gnograd.autodiff`; the same bits for any number of threads."""

    gelu = staticmethod(ad.gelu)
    gno = staticmethod(ad.gno)
    gno_with_laplacian = staticmethod(ad.gno_with_laplacian)

    def __init__(self, dtype: npt.DTypeLike = np.float32) -> None:
        self.tape = ad.Tape(dtype)
        self.dtype = self.tape.dtype
        self.step = self.tape.step
        self.evaluation = self.tape.step

    def parameter(self, values: Array) -> ad.Array:
        """Array whose gradient is wanted."""
        return self.tape.parameter(values.astype(self.dtype, copy=False))

    def constant(self, values: Array) -> ad.Array:
        """Array without gradient."""
        return self.tape.constant(values.astype(self.dtype, copy=False))

    def value(self, array: ad.Array) -> Array:
        """Copy of an array for NumPy."""
        return array.value

    def assign(self, array: ad.Array, values: Array) -> None:
        """Set the values of a parameter."""
        array.value = values

    def adam(self, parameters: Sequence[ad.Array], lr: float) -> Optimiser:
        """Optimiser of the parameters."""
        return ad.Adam(parameters, lr)

    def sum_gradients(self, comm: Communicator, parameters: Sequence[ad.Array]) -> None:
        """Replace the gradients of the last ``backward`` by their sums over processes."""
        sums = gg.distributed.sum_gradients(comm, [array.grad for array in parameters])
        for array, gradient in zip(parameters, sums, strict=True):
            array.grad = gradient

    def norm(self, x: ad.Array) -> ad.Array:
        """Euclidean norm along the last axis."""
        return ad.norm(x, axis=-1)


def make_engine(
    device: Device = Device.CPU,
    torch: bool = False,
    threads: int = 0,
    dtype: npt.DTypeLike = np.float32,
    place: int = 0,
) -> Engine:
    """Engine for a device.

    Parameters
    ----------
    device : Device
    torch : bool
        Use PyTorch on the CPU too; it is always used on the GPU.
    threads : int
        Threads of PyTorch; 0 leaves it to PyTorch.
    dtype : {"float32", "float64"}
    place : int
        Number of this process on its machine, whose GPUs are assigned in turn.

    Raises
    ------
    DeviceError
        The device, or PyTorch, is missing.
    """
    if device == Device.CPU and not torch:
        return TapeEngine(dtype)
    need_torch("--torch" if device == Device.CPU else f"--device {device.value}")
    from gnograd.cli.torch_engine import TorchEngine

    return TorchEngine(device.value, threads, dtype, place)


def need_torch(what: str = "this command") -> None:
    """Raise `DeviceError` if PyTorch is not installed."""
    if not _has_torch():
        raise DeviceError(f"{what} needs PyTorch; install it with: pip install torch")


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None
