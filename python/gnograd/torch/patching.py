# SPDX-License-Identifier: MIT
"""Patches that make the models of other packages use the layers of gnograd."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType, TracebackType
from typing import Any, ClassVar, TypeVar

from gnograd.torch import physicsnemo
from gnograd.torch.neighbors import NeighborSearch
from gnograd.torch.neuralop import GNOBlock, IntegralTransform

__all__ = ["patch_neuraloperator", "patch_physicsnemo"]


P = TypeVar("P", bound="_Patch")


class _Patch:
    """Replacement of classes in all modules of a package, until `undo`."""

    _package: ClassVar[str]
    """Module of the package."""
    _project: ClassVar[str]
    """Name of the package."""
    _install: ClassVar[str]
    """Name that pip installs it by."""
    _layers: ClassVar[Mapping[type, str]]
    """Modules of the classes of the same names that the layers of gnograd replace."""
    _models: ClassVar[Sequence[str]]
    """Modules of the package that have these classes and are imported first."""

    def __init__(self) -> None:
        self._replaced: list[tuple[ModuleType, str, Any]] = []
        for module, name, theirs, ours in self._places():
            self._replaced.append((module, name, theirs))
            setattr(module, name, ours)

    def undo(self) -> None:
        """Restore the package's own layers; a second call does nothing."""
        while self._replaced:
            setattr(*self._replaced.pop())

    def __enter__(self: P) -> P:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()

    def _places(self) -> list[tuple[ModuleType, str, Any, type]]:
        """All places of the classes in the package's modules: module, name, theirs, ours."""
        try:
            importlib.import_module(self._package)
            pairs = [
                (getattr(importlib.import_module(origin), ours.__name__), ours)
                for ours, origin in self._layers.items()
            ]
            for model in self._models:
                importlib.import_module(f"{self._package}.models.{model}")
        except ImportError as error:
            raise ImportError(
                f"{type(self).__name__}: needs {self._project}, which cannot be imported "
                f"({error}); install it with: pip install {self._install}"
            ) from error
        modules = [
            m for n, m in list(sys.modules.items()) if f"{n}.".startswith(f"{self._package}.")
        ]
        return [
            (module, name, theirs, ours)
            for module in modules
            for name, value in list(vars(module).items())
            for theirs, ours in pairs
            if theirs is not ours and value is theirs
        ]


class patch_neuraloperator(_Patch):
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

    _package, _project, _install = "neuralop", "neuraloperator", "neuraloperator"
    _layers: ClassVar[Mapping[type, str]] = {
        GNOBlock: "neuralop.layers.gno_block",
        IntegralTransform: "neuralop.layers.integral_transform",
        NeighborSearch: "neuralop.layers.neighbor_search",
    }
    _models = "gino", "fnogno"


class patch_physicsnemo(_Patch):
    """Make PhysicsNeMo's models on points use the layers of gnograd.

    ``PhysicsAttentionIrregularMesh``, ``FLARE`` (the layer), ``GALE`` and ``GALE_FA`` are replaced
    by gnograd's in all modules of PhysicsNeMo: ``Transolver``, ``FLARE`` and ``GeoTransolver`` are
    then built of them, with the same arguments and names of parameters, and have second
    derivatives. Existing models do not change, nor do names that other modules have imported from
    PhysicsNeMo before.

    Raises
    ------
    ImportError
        PhysicsNeMo is not installed.

    Notes
    -----
    Call it, with effect until `undo`, or use it as a context manager around the construction of
    models. Models need ``use_te=False``, irregular meshes (others keep PhysicsNeMo's layers), and
    one process for a cloud of points.

    Examples
    --------
    >>> from gnograd.torch import patch_physicsnemo
    >>> with patch_physicsnemo():  # doctest: +SKIP
    ...     model = Transolver(functional_dim=1, embedding_dim=3, out_dim=1, use_te=False)
    >>> model.load_state_dict(checkpoint)  # doctest: +SKIP
    """

    _package, _project, _install = "physicsnemo", "PhysicsNeMo", "nvidia-physicsnemo"
    _layers: ClassVar[Mapping[type, str]] = {
        physicsnemo.PhysicsAttentionIrregularMesh: "physicsnemo.nn.module.physics_attention",
        physicsnemo.FLARE: "physicsnemo.nn.module.flare_attention",
        physicsnemo.GALE: "physicsnemo.nn.module.gale",
        physicsnemo.GALE_FA: "physicsnemo.nn.module.gale",
    }
    _models = "transolver", "flare", "geotransolver"
