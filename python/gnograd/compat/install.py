# SPDX-License-Identifier: MIT
"""Import of packages in `gnograd.compat` under the names of packages not installed."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType
from typing import Any

__all__ = ["install_pylibcugraphops"]

PACKAGE = "pylibcugraphops"
HERE = f"{__package__}.{PACKAGE}"
EVERYTHING = DistributionFinder.Context()


def install_pylibcugraphops() -> None:
    """Make ``import pylibcugraphops`` import `gnograd.compat.pylibcugraphops` in this process.

    All its modules are found under that name, as the same objects. Both
    `importlib.util.find_spec` and `importlib.metadata.version` find the package, in version 24.12.
    Call this before codes that look for the package on import. A second call does nothing.

    Raises
    ------
    ImportError
        Another ``pylibcugraphops`` has been imported already.

    Examples
    --------
    >>> from gnograd.compat import install_pylibcugraphops
    >>> install_pylibcugraphops()
    >>> from pylibcugraphops.pytorch import CSC
    >>> CSC.__module__
    'gnograd.compat.pylibcugraphops.pytorch.graph'
    """
    imported = sys.modules.get(PACKAGE)
    if imported is not None and imported.__name__ != HERE:
        raise ImportError(f"{PACKAGE} has been imported already, from {imported.__file__}")
    if not any(isinstance(finder, _Alias) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Alias())


class _Alias(DistributionFinder, importlib.abc.Loader):
    """Finder of modules, and of the metadata of the package, under the other name."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        if package != PACKAGE:
            return None
        found = importlib.util.find_spec(f"{HERE}.{module}" if module else HERE)
        if found is None:
            return None
        return ModuleSpec(
            name, self, origin=found.origin, is_package=found.submodule_search_locations is not None
        )

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        name = module.__spec__.name
        # importers get the entry that sys.modules has after a module has been executed
        sys.modules[name] = importlib.import_module(HERE + name.removeprefix(PACKAGE))

    def find_distributions(
        self, context: DistributionFinder.Context = EVERYTHING
    ) -> Iterator[Distribution]:
        if context.name is None or context.name == PACKAGE:
            yield _Distribution()


class _Distribution(Distribution):
    """Metadata of the package for `importlib.metadata`."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        version = importlib.import_module(HERE).__version__
        return f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n"

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{PACKAGE} is part of gnograd, which knows its files: {path}")

    @property
    def files(self) -> Iterable[Any] | None:  # type: ignore[override]
        return None
