# SPDX-License-Identifier: MIT
"""PyTorch as the engine of a training."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.optim.adamw import adamw
from torch.optim.swa_utils import get_ema_multi_avg_fn

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
    precision : {"float32", "bfloat16", "float16"}
        Precision of the products inside of `autocast`.

    Raises
    ------
    DeviceError
        ``"cuda"`` without a GPU that PyTorch can use, or without the CUDA kernels; ``"float16"``
        without ``"cuda"``.
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
        precision: str = "float32",
    ) -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise DeviceError("--device cuda: PyTorch finds no GPU that it can use")
        if device == "cuda" and not has_cuda():
            raise DeviceError(
                "--device cuda: gnograd was built without CUDA kernels; "
                "install it again where nvcc is"
            )
        if device != "cuda" and precision == "float16":
            raise DeviceError("--precision float16 needs --device cuda; bfloat16 does not")
        if threads:
            torch.set_num_threads(threads)
        self.device = torch.device(device)
        if device == "cuda":
            self.device = torch.device(device, place % torch.cuda.device_count())
        self.dtype, self.precision = np.dtype(dtype), precision
        self._kind = torch.from_numpy(np.empty(0, self.dtype)).dtype

    def parameter(self, values: Array) -> Any:
        """Array whose gradient is wanted."""
        return self.constant(values).requires_grad_()

    def constant(self, values: Array) -> Any:
        """Array without gradient."""
        return torch.tensor(values, dtype=self._kind, device=self.device)

    def value(self, array: Tensor) -> Array:
        """Copy of an array for NumPy."""
        return np.array(array.detach().cpu().numpy())

    def assign(self, array: Tensor, values: Array) -> None:
        """Set the values of a parameter."""
        with torch.no_grad():
            array.copy_(torch.tensor(values))

    def step(self) -> AbstractContextManager[None]:
        """Context of a training step; PyTorch frees memory by itself."""
        return nullcontext()

    def evaluation(self) -> AbstractContextManager[None]:
        """Context of an evaluation without derivatives."""
        return torch.no_grad()

    def autocast(self) -> AbstractContextManager[Any]:
        """Context of a network whose products are in the engine's precision."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self.precision))

    def adam(self, parameters: Sequence[Tensor], lr: float, *settings: float) -> "Adam":
        """Optimiser of the parameters, with the further arguments of `TapeAdam`."""
        scaler = torch.amp.GradScaler(self.device.type, enabled=self.precision == "float16")
        return Adam(scaler, parameters, lr, *settings)

    def sum_gradients(self, comm: Communicator, parameters: Sequence[Tensor]) -> None:
        """Replace the gradients of the last ``backward`` by their sums over processes."""
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        for p, gradient in zip(parameters, gg.distributed.sum_gradients(comm, parts), strict=True):
            p.grad = gradient

    def norm(self, x: Tensor) -> Any:
        """Euclidean norm along the last axis."""
        return torch.linalg.vector_norm(x, dim=-1)


class Adam:
    """PyTorch's AdamW, with the state of the tape's.

    Any method of `torch.optim.Optimizer` would import the compiler, which takes as long as all of
    PyTorch.
    """

    def __init__(
        self,
        scaler: torch.amp.GradScaler,
        parameters: Sequence[Tensor],
        lr: float,
        weight_decay: float = 0.0,
        clip: float = 0.0,
        ema: float = 0.0,
    ) -> None:
        self.scaler, self.parameters, self.lr = scaler, list(parameters), lr
        self.weight_decay, self.clip, self.ema = weight_decay, clip, ema
        self.mean = [torch.zeros_like(p) for p in self.parameters]
        self.mean_square = [torch.zeros_like(p) for p in self.parameters]
        self.steps = [torch.tensor(0.0) for _ in self.parameters]
        self.average = [p.detach().clone() for p in self.parameters] if ema else []
        # what a scaler asks of an optimiser
        groups = [{"params": self.parameters}]
        self._move_by = cast(
            torch.optim.Optimizer, SimpleNamespace(param_groups=groups, step=self._move)
        )

    def backward(self, loss: Tensor) -> None:
        """Gradients of the parameters."""
        self.scaler.scale(loss).backward()

    def step(self) -> None:
        """Move the parameters along the gradients, and drop the gradients."""
        for p in self.parameters:
            if p.grad is None:  # as on the tape, so that all have equally many steps
                p.grad = torch.zeros_like(p)
        if self.clip:
            self.scaler.unscale_(self._move_by)
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.scaler.step(self._move_by)
        self.scaler.update()
        for p in self.parameters:
            p.grad = None
        if self.ema:
            now = [p.detach() for p in self.parameters]
            get_ema_multi_avg_fn(self.ema)(self.average, now, 0)

    @torch.no_grad()
    def _move(self) -> None:
        """Move the parameters."""
        adamw(
            self.parameters, [cast(Tensor, p.grad) for p in self.parameters],
            self.mean, self.mean_square, [], self.steps,
            amsgrad=False, beta1=0.9, beta2=0.999, lr=self.lr, weight_decay=self.weight_decay,
            eps=1e-8, maximize=False,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """Numbers, running averages of the gradients, and the average of the parameters."""
        state: dict[str, Any] = {"lr": self.lr, "steps": int(self.steps[0])}
        lists = {"mean": self.mean, "mean_square": self.mean_square, "average": self.average}
        state |= {name: [x.cpu().numpy().copy() for x in xs] for name, xs in lists.items() if xs}
        if self.scaler.is_enabled():
            found = self.scaler.state_dict()
            state |= {"scale": found["scale"], "growth": found["_growth_tracker"]}
        return state

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self.lr = float(state["lr"])
        for steps in self.steps:
            steps.fill_(float(state["steps"]))
        lists = {"mean": self.mean, "mean_square": self.mean_square, "average": self.average}
        for name, tensors in lists.items():
            for tensor, values in zip(tensors, state.get(name, []), strict=True):
                tensor.copy_(torch.tensor(values))
        if self.scaler.is_enabled():
            changed = {"scale": state["scale"], "_growth_tracker": int(state["growth"])}
            self.scaler.load_state_dict({**self.scaler.state_dict(), **changed})
