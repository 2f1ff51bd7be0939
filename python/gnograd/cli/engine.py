# SPDX-License-Identifier: MIT
"""Engines of a training: the tape of `gnograd.autodiff`, or PyTorch on a CPU or GPU.

A network is written once, with the functions of an engine and the operations that arrays of both
share: ``+ - * / ** @``, ``reshape``, slices, ``sum``, ``mean``, ``backward``, ``float``.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

import gnograd as gg
import gnograd.autodiff as ad
from gnograd.cli.config import Device
from gnograd.cli.errors import DeviceError
from gnograd.distributed import Communicator

if TYPE_CHECKING:
    from gnograd.cli.torch_engine import TorchEngine

Array = npt.NDArray[Any]

Engine: TypeAlias = "TapeEngine | TorchEngine"
"""Operations that networks, losses and the training loop need."""

Variable: TypeAlias = Any
"""An array of an engine: `gnograd.autodiff.Array` or a tensor."""


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

    def parameter(self, values: Array) -> Variable:
        """Array whose gradient is wanted."""
        return self.tape.parameter(values.astype(self.dtype, copy=False))

    def constant(self, values: Array) -> Variable:
        """Array without gradient."""
        return self.tape.constant(values.astype(self.dtype, copy=False))

    def value(self, array: ad.Array) -> Array:
        """Copy of an array for NumPy."""
        return array.value

    def assign(self, array: ad.Array, values: Array) -> None:
        """Set the values of a parameter."""
        array.value = values

    def adam(self, parameters: Sequence[ad.Array], lr: float, *settings: float) -> "TapeAdam":
        """Optimiser of the parameters, with the further arguments of `TapeAdam`."""
        return TapeAdam(parameters, lr, *settings)

    def sum_gradients(self, comm: Communicator, parameters: Sequence[ad.Array]) -> None:
        """Replace the gradients of the last ``backward`` by their sums over processes."""
        sums = gg.distributed.sum_gradients(comm, [array.grad for array in parameters])
        for array, gradient in zip(parameters, sums, strict=True):
            array.grad = gradient

    def norm(self, x: Variable) -> Variable:
        """Euclidean norm along the last axis."""
        return ad.norm(x, axis=-1)


class TapeAdam(ad.AdamW):
    """The tape's AdamW, with clipped gradients and a running average.

    Parameters
    ----------
    parameters : sequence of Array
    lr : float
    weight_decay : float
    clip : float
        Largest norm of all gradients together; 0 is any.
    ema : float
        Decay of the running average of the parameters; 0 is none.
    """

    def __init__(
        self,
        parameters: Sequence[ad.Array],
        lr: float,
        weight_decay: float = 0.0,
        clip: float = 0.0,
        ema: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, weight_decay=weight_decay)
        self.clip, self.ema = clip, ema
        self.average = [p.value for p in self.params] if ema else []

    def backward(self, loss: ad.Array) -> None:
        """Gradients of the parameters."""
        loss.backward()

    def step(self) -> None:
        """Move the parameters along the gradients of the last `backward`."""
        if self.clip:
            self.clip_gradients(self.clip)
        super().step()
        for average, p in zip(self.average, self.params, strict=self.ema > 0):
            average += (1.0 - self.ema) * (p.value - average)

    def state_dict(self) -> dict[str, Any]:
        """State from which to continue."""
        average = {"average": [a.copy() for a in self.average]} if self.ema else {}
        return super().state_dict() | average

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""
        super().load_state_dict(state)
        self.average = [np.array(a) for a in state.get("average", [])]


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
