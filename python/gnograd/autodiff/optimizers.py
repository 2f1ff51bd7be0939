# SPDX-License-Identifier: MIT
"""Optimizers, which move the parameters of a tape along their gradients."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnograd import _core
from gnograd.autodiff.arrays import Array, Handle
from gnograd.backends.cpu import address, check_status
from gnograd.notation.static import integer, number

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]


class Optimizer(Handle):
    """Base of `Adam`, `AdamW` and `SGD`."""

    _instead = "keep its state_dict and load that into another optimizer"

    lr: float
    """Learning rate; may be changed between steps."""
    _slots: tuple[str, ...]

    _create: Callable[..., Any]
    """Function of the library: tape, number and handles of the parameters, learning rate, settings,
    and where the optimizer's handle goes."""

    def __init__(self, params: Sequence[Array], lr: float, *settings: float) -> None:
        self.lr = number("optimizer: lr", lr)
        if isinstance(params, Array):  # which would be taken as a sequence of its rows
            raise TypeError("optimizer: params is an Array, needs a list of Arrays")
        self.params = tuple(params)
        if not self.params:
            raise ValueError("optimizer: needs at least one parameter")
        tape = self.params[0].tape
        if any(array.tape is not tape for array in self.params):
            raise ValueError("optimizer: the parameters are on different tapes")
        handles = np.array([array._handle for array in self.params], np.int64)
        made = tape._handle, handles.size, address(handles), lr, *settings, tape._address
        check_status(int(self._create(*made)))
        self._handle = int(tape._scratch[0])
        weakref.finalize(self, _core.gnograd_optimizer_free, self._handle).atexit = False

    def step(self) -> None:
        """Move the parameters along the gradients of the last `Array.backward`.

        Raises
        ------
        ValueError
            The last `backward` has failed. No parameter moves then.
        """
        check_status(_core.gnograd_optimizer_step(self._handle, self.lr))

    def clip_gradients(self, max_norm: float) -> float:
        """Shorten the gradients of all parameters together, before a step.

        They are multiplied by ``max_norm / (norm + 1e-6)`` if that is less than 1, as
        ``torch.nn.utils.clip_grad_norm_`` does.

        Parameters
        ----------
        max_norm : float
            Largest norm of all gradients together.

        Returns
        -------
        norm : float
            Norm of all gradients together before; gradients with a NaN or an infinity stay as they
            are.

        Raises
        ------
        ValueError
            The last `Array.backward` has failed.
        """
        norm = np.empty(1)
        check_status(
            _core.gnograd_optimizer_clip_gradients(self._handle, max_norm, 1e-6, address(norm))
        )
        return float(norm[0])

    def state_dict(self) -> dict[str, Any]:
        """State from which to continue: learning rate, number of steps, running averages."""
        state: dict[str, Any] = {
            "lr": self.lr,
            "steps": int(_core.gnograd_optimizer_steps(self._handle)),
        }
        for slot, name in enumerate(self._slots):
            state[name] = [np.empty(array.shape, array.dtype) for array in self.params]
            self._exchange(slot, state[name], write=False)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`."""
        loaded = {}
        for name in ("lr", "steps", *self._slots):
            if name not in state:
                raise ValueError(f"optimizer: the state has no '{name}'")
        lr = number("optimizer: lr", state["lr"])
        steps = integer("optimizer: steps", state["steps"])
        for name in self._slots:
            if len(state[name]) != len(self.params):
                raise ValueError(
                    f"optimizer: {name} has {len(state[name])} arrays, needs {len(self.params)}"
                )
            loaded[name] = [
                np.ascontiguousarray(values, array.dtype)
                for values, array in zip(state[name], self.params, strict=True)
            ]
            for k, (values, array) in enumerate(zip(loaded[name], self.params, strict=True)):
                if values.shape != array.shape:
                    raise ValueError(
                        f"optimizer: {name}[{k}] has shape {values.shape}, "
                        f"its parameter {array.shape}"
                    )
        for slot, name in enumerate(self._slots):
            self._exchange(slot, loaded[name], write=True)
        self.lr = lr
        _core.gnograd_optimizer_set_steps(self._handle, steps)

    def _exchange(self, slot: int, arrays: Sequence[NDArray[Any]], write: bool) -> None:
        for k, values in enumerate(arrays):
            check_status(
                _core.gnograd_optimizer_slot(self._handle, slot, k, int(write), address(values))
            )


class Adam(Optimizer):
    """Adam: steps of the running mean of the gradient over its root mean square.

    Parameters
    ----------
    params : sequence of Array
        Parameters of one tape.
    lr : float
        Learning rate.
    betas : tuple of float
        Decay of the running averages of the gradient and of its square.
    eps : float
        Constant added to the root mean square.
    weight_decay : float
        Factor of the parameter, which is added to the gradient.

    References
    ----------
    Kingma and Ba, Adam: A Method for Stochastic Optimization, ICLR 2015.
    """

    _slots = ("mean", "mean_square")
    _create = staticmethod(_core.gnograd_adam_create)

    def __init__(
        self,
        params: Sequence[Array],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if len(betas) != 2:
            raise ValueError(f"optimizer: betas has {len(betas)} numbers, needs 2")
        given = {"beta1": betas[0], "beta2": betas[1], "eps": eps, "weight_decay": weight_decay}
        settings = [number(f"optimizer: {name}", value) for name, value in given.items()]
        super().__init__(params, lr, *settings)


class AdamW(Adam):
    """Adam with a decay that moves the parameters themselves, not their gradients.

    Parameters
    ----------
    params, lr, betas, eps
        As for `Adam`.
    weight_decay : float
        A step takes ``lr * weight_decay`` times of every parameter.

    References
    ----------
    Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019.
    """

    _create = staticmethod(_core.gnograd_adamw_create)

    def __init__(
        self,
        params: Sequence[Array],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


class SGD(Optimizer):
    """Gradient descent; with momentum along the decaying sum of gradients.

    Parameters
    ----------
    params : sequence of Array
        Parameters of one tape.
    lr : float
        Learning rate.
    momentum : float
        Decay of the sum.
    """

    _slots = ("momentum",)
    _create = staticmethod(_core.gnograd_sgd_create)

    def __init__(self, params: Sequence[Array], lr: float, momentum: float = 0.0) -> None:
        super().__init__(params, lr, number("optimizer: momentum", momentum))
