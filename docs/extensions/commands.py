# SPDX-License-Identifier: MIT
"""The command line, from the functions behind its commands."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from typer import Context, Typer
from typer.models import ArgumentInfo, OptionInfo

from gnograd.cli.app import app
from operators import table, title

NAMES = {Path: "path", int: "integer", float: "number", str: "text"}


def pages() -> Iterator[tuple[str, str]]:
    """Path in the reference, without suffix, and content."""
    about = (
        "``pip install '.[cli]'`` in a copy of the repository brings the command ``gnograd``; "
        "``python -m gnograd`` is the same.\n"
    )
    yield "commands", "\n".join([title("Command line"), about, *group(app, "gnograd")])


def group(below: Typer, path: str) -> Iterator[str]:
    """A program or a group of commands, and all that is below it."""
    if below.registered_callback and below.registered_callback.callback:
        yield from command(below.registered_callback.callback, f"{path} COMMAND")
    for one in below.registered_commands:
        assert one.callback
        yield from command(one.callback, f"{path} {one.name or one.callback.__name__}")
    for one in below.registered_groups:
        assert one.typer_instance
        yield from group(one.typer_instance, f"{path} {one.name}")


def command(function: Callable[..., Any], path: str) -> Iterator[str]:
    """A command: what it does, how it is called, its options."""
    parameters = inspect.signature(function).parameters
    hints = typing.get_type_hints(function, include_extras=True)
    rows, usage = [], [path]
    for name, parameter in parameters.items():
        if hints[name] is Context:  # what Typer passes on, no option
            continue
        kind, info = typing.get_args(hints[name])[:2]
        if isinstance(info, ArgumentInfo):
            usage.append(name.upper())
        rows.append([spelled(name, kind, info), info.help or "", default(parameter.default, info)])
    yield title(path.removesuffix(" COMMAND"), "-")
    yield f"{inspect.getdoc(function)}\n"
    yield f".. code-block:: text\n\n   {' '.join(usage)}{' [OPTIONS]' if rows else ''}\n"
    if rows:
        yield table(["option", "", "default"], rows, "30 52 18")


def spelled(name: str, kind: Any, info: OptionInfo | ArgumentInfo) -> str:
    """An option as it is written, and what it takes."""
    option = name.replace("_", "-")
    if isinstance(info, ArgumentInfo):
        return f"``{name.upper()}``"
    names = list(info.param_decls or ()) or [f"--{option}"]
    several = False
    while typing.get_args(kind):
        # list[Path] | None, and so on
        several = several or typing.get_origin(kind) in (list, tuple)
        kind = next(k for k in typing.get_args(kind) if k is not types.NoneType)
    text = ", ".join(f"``{one}``" for one in names)
    if kind is bool:
        return text if info.param_decls else f"{text}, ``--no-{option}``"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return text + " " + " | ".join(f"``{choice.value}``" for choice in kind)
    return f"{text} *{NAMES.get(kind, 'value')}*{' ...' if several else ''}"


def default(value: Any, info: OptionInfo | ArgumentInfo) -> str:
    """Default of an option, as the page shows it."""
    if isinstance(info.show_default, str):
        return info.show_default
    if value is inspect.Parameter.empty:
        return "needed"
    if value is None or value is False:
        return ""
    return f"``{getattr(value, 'value', value)}``"
