# SPDX-License-Identifier: MIT
"""Patch that makes neuraloperator's models use the layers of gnograd."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, TracebackType
from typing import Any

from gnograd.torch.neighbors import NeighborSearch
from gnograd.torch.neuralop import GNOBlock, IntegralTransform

__all__ = ["patch_neuraloperator"]

_LAYERS: dict[str, tuple[str, type]] = {
    "GNOBlock": ("neuralop.layers.gno_block", GNOBlock),
    "IntegralTransform": ("neuralop.layers.integral_transform", IntegralTransform),
    "NeighborSearch": ("neuralop.layers.neighbor_search", NeighborSearch),
}


class patch_neuraloperator:
    """Make neuraloperator's models use the layers of gnograd.

    ``GNOBlock``, ``IntegralTransform`` and ``NeighborSearch`` are replaced by gnograd's in all
    modules of neuraloperator: ``GINO`` and ``FNOGNO`` are then built of them, with the same
    arguments and names of parameters. Existing models do not change, nor do names that other
    modules have imported from neuraloperator before.

    Raises
    ------
    ImportError
        neuraloperator is not installed.

    Notes
    -----
    Call it, with effect until `undo`, or use it as a context manager around the construction of
    models.
    Results agree with neuraloperator's but where ``docs/howto/neuraloperator.md`` says otherwise.

    Examples
    --------
    >>> from gnograd.torch import patch_neuraloperator
    >>> with patch_neuraloperator():  # doctest: +SKIP
    ...     model = neuralop.models.GINO(in_channels=3, out_channels=1)
    >>> model.load_state_dict(checkpoint)  # doctest: +SKIP
    """

    def __init__(self) -> None:
        self._replaced: list[tuple[ModuleType, str, Any]] = []
        for module, name, theirs in _places():
            self._replaced.append((module, name, theirs))
            setattr(module, name, _LAYERS[name][1])

    def undo(self) -> None:
        """Restore neuraloperator's own layers; a second call does nothing."""
        while self._replaced:
            setattr(*self._replaced.pop())

    def __enter__(self) -> patch_neuraloperator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()


def _places() -> list[tuple[ModuleType, str, Any]]:
    """All places of these layers in neuraloperator's modules: module, name, layer."""
    try:
        theirs = {
            name: getattr(importlib.import_module(origin), name)
            for name, (origin, _) in _LAYERS.items()
        }
        for model in ("gino", "fnogno"):
            importlib.import_module(f"neuralop.models.{model}")
    except ImportError as error:
        raise ImportError(
            f"patch_neuraloperator: needs neuraloperator, which cannot be imported ({error}); "
            "install it with: pip install neuraloperator"
        ) from error
    modules = [m for n, m in list(sys.modules.items()) if f"{n}.".startswith("neuralop.")]
    return [
        (module, name, layer)
        for module in modules
        for name, layer in theirs.items()
        if layer is not _LAYERS[name][1] and vars(module).get(name) is layer
    ]
