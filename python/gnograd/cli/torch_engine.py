# SPDX-License-Identifier: MIT
"""PyTorch as the engine of a training."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import gnograd as gg
import gnograd.torch
from gnograd.backends import has_cuda
from gnograd.cli.errors import DeviceError
from gnograd.distributed import Communicator

Array = npt.NDArray[Any]


class TorchEngine:
    """Tensors on one device.

    Parameters
    ----------
    device : {"cpu", "cuda"}
    threads : int
        Number of threads; 0 leaves it to PyTorch.
    dtype : {"float32", "float64"}
    place : int
        Number of this process on its machine, which chooses the GPU.

    Raises
    ------
    DeviceError
        ``"cuda"`` without a GPU that PyTorch can use, or without the CUDA kernels.
    """

    gelu = staticmethod(torch.nn.functional.gelu)
    gno = staticmethod(gnograd.torch.gno)
    gno_with_laplacian = staticmethod(gnograd.torch.gno_with_laplacian)

    def __init__(
        self,
        device: str,
        threads: int = 0,
        dtype: npt.DTypeLike = np.float32,
        place: int = 0,
    ) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise DeviceError("--device cuda: PyTorch finds no GPU that it can use")
        if device == "cuda" and not has_cuda():
            raise DeviceError(
                "--device cuda: gnograd was built without CUDA kernels; "
                "install it again where nvcc is"
            )
        if threads:
            torch.set_num_threads(threads)
        self.device = torch.device(device)
        if device == "cuda":
            self.device = torch.device(device, place % torch.cuda.device_count())
        self.dtype = np.dtype(dtype)
        self._kind = torch.from_numpy(np.empty(0, self.dtype)).dtype

    def parameter(self, values: Array) -> Tensor:
        """Array whose gradient is wanted."""
        return self.constant(values).requires_grad_()

    def constant(self, values: Array) -> Tensor:
        """Array without gradient."""
        return torch.tensor(values, dtype=self._kind, device=self.device)

    def value(self, array: Tensor) -> Array:
        """Copy of an array for NumPy."""
        return np.array(array.detach().cpu().numpy())

    def assign(self, array: Tensor, values: Array) -> None:
        """Set the values of a parameter."""
        with torch.no_grad():
            array.copy_(torch.from_numpy(values))

    def step(self) -> AbstractContextManager[None]:
        """Context of a training step; PyTorch frees memory by itself."""
        return nullcontext()

    def evaluation(self) -> AbstractContextManager[None]:
        """Context of an evaluation without derivatives."""
        return torch.no_grad()

    def adam(self, parameters: Sequence[Tensor], lr: float) -> "Adam":
        """Optimiser of the parameters."""
        return Adam(parameters, lr)

    def sum_gradients(self, comm: Communicator, parameters: Sequence[Tensor]) -> None:
        """Replace the gradients of the last ``backward`` by their sums over processes."""
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        for p, gradient in zip(parameters, gg.distributed.sum_gradients(comm, parts), strict=True):
            p.grad = gradient

    def norm(self, x: Tensor) -> Tensor:
        """Euclidean norm along the last axis."""
        norm: Tensor = torch.linalg.vector_norm(x, dim=-1)
        return norm


class Adam:
    """PyTorch's Adam, with the state of `gnograd.autodiff.Adam`."""

    _names = {"mean": "exp_avg", "mean_square": "exp_avg_sq"}  # noqa: RUF012

    def __init__(self, parameters: Sequence[Tensor], lr: float) -> None:
        self.parameters = list(parameters)
        self.optimiser = torch.optim.Adam(self.parameters, lr=lr)

    @property
    def lr(self) -> float:
        """Learning rate; may be changed between steps."""
        return float(self.optimiser.param_groups[0]["lr"])

    @lr.setter
    def lr(self, lr: float) -> None:
        self.optimiser.param_groups[0]["lr"] = lr

    def step(self) -> None:
        """Move the parameters along the gradients, and drop the gradients."""
        self.optimiser.step()
        self.optimiser.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """Learning rate, steps taken, running averages."""
        states = [self.optimiser.state[p] for p in self.parameters]
        return {
            "lr": self.lr,
            "steps": int(states[0]["step"]),
            **{
                ours: [state[theirs].cpu().numpy() for state in states]
                for ours, theirs in self._names.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self.lr = float(state["lr"])
        for k, p in enumerate(self.parameters):
            self.optimiser.state[p] = {
                "step": torch.tensor(float(state["steps"])),
                **{
                    theirs: torch.tensor(state[ours][k], dtype=p.dtype, device=p.device)
                    for ours, theirs in self._names.items()
                },
            }
