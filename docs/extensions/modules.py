# SPDX-License-Identifier: MIT
"""Pages of everything else that is public in Python: a page a module that defines it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import itertools
import pkgutil
import sys
import types
from collections.abc import Iterator
from typing import Any

import gnograd
from gnograd.faces.operator import Function
from operators import first_line, summary, table, title

PUBLIC = {
    "gnograd": "Python",
    "gnograd.torch": "PyTorch",
    "gnograd.jax": "JAX",
    "gnograd.autodiff": "Tape",
    "gnograd.distributed": "Many processes",
    "gnograd.data": "Samples in files",
    "gnograd.models": "Models",
    "gnograd.compat": "Other libraries' names",
    "gnograd.compat.ascend": "Ascend",
    "gnograd.compat.pylibcugraphops": "pylibcugraphops",
    "gnograd.compat.pylibcugraphops.operators": "pylibcugraphops.operators",
    "gnograd.compat.pylibcugraphops.dimenet": "pylibcugraphops.dimenet",
    "gnograd.compat.pylibcugraphops.pytorch": "pylibcugraphops.pytorch",
    "gnograd.compat.pylibcugraphops.typing": "pylibcugraphops.typing",
}
"""Packages whose ``__all__`` is public, and the titles of their pages."""

INTERNAL = {
    "gnograd.backends", "gnograd.cli", "gnograd.faces", "gnograd.graphs", "gnograd.neighbors",
    "gnograd.notation", "gnograd.operators",
}  # fmt: skip
"""Packages that are not public."""
OPERATORS = "/reference/generated/operators/index"
FOREIGN = "Module, tuple, dict, int, Exception, Enum, ReprEnum, object"
"""Bases whose members are documented elsewhere."""


def packages() -> dict[str, str]:
    """Packages of `PUBLIC` that are installed, by name."""
    return {name: text for name, text in PUBLIC.items() if importlib.util.find_spec(name)}


def unknown() -> list[str]:
    """Packages of gnograd that are neither in `PUBLIC` nor in `INTERNAL`."""
    found = [f"gnograd.{module.name}" for module in pkgutil.iter_modules(gnograd.__path__)
             if module.ispkg]  # fmt: skip
    return [name for name in found if name not in PUBLIC and name not in INTERNAL]


def path_of(package: str) -> str:
    """Path of a package's page."""
    return package.removeprefix("gnograd.").replace(".", "/")


def public(package: str) -> list[str]:
    """Public names of a package that are not packages of their own."""
    module = importlib.import_module(package)
    names = module.__all__
    return [name for name in names if not isinstance(getattr(module, name), types.ModuleType)]


def is_operator(package: str, name: str) -> bool:
    """True if the name has the page of an operator."""
    value = getattr(sys.modules[package], name)
    if isinstance(value, Function):
        return True
    same = getattr(gnograd, name, None)
    return isinstance(same, Function) and value.__module__ == package


def defined_in(value: Any) -> str:
    """Module that says what a value is."""
    return str(getattr(value, "__module__", type(value).__module__))


def groups(package: str) -> dict[str, list[str]]:
    """Names of a package, by the module that defines them, without operators."""
    found: dict[str, list[str]] = {}
    for name in public(package):
        if not is_operator(package, name):
            module = defined_in(getattr(sys.modules[package], name))
            found.setdefault(module, []).append(name)
    return found


def heading(names: list[str]) -> str:
    """Title of the page of some names."""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def directive(package: str, name: str) -> str:
    value = getattr(sys.modules[package], name)
    path = f"{package}.{name}"
    elsewhere = f"gnograd.{name}"
    if package != "gnograd" and getattr(gnograd, name, None) is value:
        kind = "class" if inspect.isclass(value) else "function"
        return f".. py:{kind}:: {name}\n\n   The same as `{elsewhere}`.\n"
    if inspect.isclass(value):
        return f".. autoclass:: {path}\n   :members:\n   :inherited-members: {FOREIGN}\n"
    if callable(value):
        return f".. autofunction:: {path}\n"
    return f".. py:data:: {name}\n\n   {documentation(package, name)}\n"


def documentation(package: str, name: str) -> str:
    """Docstring of a public name; for a constant, the string behind its assignment."""
    value = getattr(sys.modules[package], name)
    if inspect.isclass(value) or callable(value):
        return inspect.getdoc(value) or ""
    # those of the package come first
    modules = [m for path, m in list(sys.modules.items()) if path.partition(".")[0] == "gnograd"]
    modules.sort(key=lambda m: not f"{m.__name__}.".startswith(f"{package}."))
    for module in modules:
        if getattr(module, name, None) is not value:
            continue
        body = ast.parse(inspect.getsource(module)).body
        for statement, behind in itertools.pairwise(body):
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                text = getattr(getattr(behind, "value", None), "value", "")
                return inspect.cleandoc(text) if isinstance(text, str) else ""
    return ""


def silent(package: str, name: str) -> Iterator[str]:
    """A public name, and methods and properties of a class, that have no docstring."""
    if not documentation(package, name):
        yield f"{package}.{name}"
    value = getattr(sys.modules[package], name)
    for member, found in vars(value).items() if inspect.isclass(value) else ():
        speaks = callable(found) or isinstance(found, property | classmethod | staticmethod)
        if not member.startswith("_") and speaks and not inspect.getdoc(getattr(value, member)):
            yield f"{package}.{name}.{member}"


def pages() -> Iterator[tuple[str, str]]:
    """Paths in the reference, without suffix, and contents."""
    for package, text in packages().items():
        path = path_of(package)
        below = []
        if package != "gnograd":
            # the others of the first level stand in the reference's own list
            inner = [p for p in packages() if p.rpartition(".")[0] == package]
            below += [path_of(p) for p in inner]
        by_module = groups(package)
        names = [name for group in by_module.values() for name in group]
        parts = [title(f"{text}: ``{package}``"), f".. py:module:: {package}\n"]
        parts += [about(package)]
        if package == "gnograd":
            parts += [f"The operators have :doc:`pages of their own <{OPERATORS}>`.\n"]
        elif len(names) < len(public(package)):
            parts += [f"Operators are :doc:`those of gnograd <{OPERATORS}>`, by the same names.\n"]
        if len(by_module) > 4 and len(names) > 8:
            parts += [listing(package, by_module)]
            below += [f"{path}/{leaf(package, module)}" for module in by_module]
            for module, group in by_module.items():
                content = [title(heading(group)), f".. py:currentmodule:: {package}\n"]
                content += [directive(package, name) for name in group]
                yield f"{path}/{leaf(package, module)}", "\n".join(content)
        else:
            for module, group in by_module.items():
                if len(by_module) > 1:
                    parts.append(title(summary(sys.modules[module]).rstrip("."), "-"))
                parts += [directive(package, name) for name in group]
        if below:
            entries = [f"   /reference/generated/{page}" for page in below]
            parts.append("\n".join([".. toctree::", "   :hidden:", "", *entries]))
        yield path, "\n".join(parts) + "\n"


def leaf(package: str, module: str) -> str:
    """Name of the page for the definitions of a module."""
    return module.removeprefix(f"{package}.").replace(".", "_")


def about(package: str) -> str:
    """Docstring of a package before its examples."""
    text = inspect.getdoc(sys.modules[package]) or ""
    text = text.partition("Examples\n--------")[0]
    return text + "\n"


def listing(package: str, by_module: dict[str, list[str]]) -> str:
    """Table of all names, with the first line of their documentation."""
    return table(
        [],
        [
            [f":py:obj:`{name} <{package}.{name}>`", first_line(documentation(package, name))]
            for names in by_module.values()
            for name in names
        ],
        "30 70",
    )
