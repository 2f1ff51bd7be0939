# SPDX-License-Identifier: MIT
"""Options of commands from the fields of classes of settings, and files of options."""

import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, field, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from gnograd.notation.text import read_text

__all__ = ["from_file", "grouped", "kept", "one_of", "option", "plain"]


def option(default: Any, help: str, *names: str, **settings: Any) -> Any:
    """Field with an option of its name, or, for flags, of other names."""
    return field(default=default, metadata={"option": typer.Option(*names, help=help, **settings)})


def one_of(*known: str) -> dict[str, Any]:
    """Arguments of an option that takes one of some words."""

    def check(option: typer.CallbackParam, value: str | None) -> str | None:
        if value is not None and value not in known:
            flag = option.opts[0] if option.opts[0].startswith("-") else option.opts[0].upper()
            raise typer.BadParameter(f"needs one of {', '.join(known)}", param_hint=flag)
        return value

    return {"callback": check, "metavar": "|".join(known)}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameters of a command that are classes of settings by their fields.

    ``Annotated[Settings, {"name": value}]`` gives fields other defaults.
    """
    parameters: list[Parameter] = []
    groups: dict[str, Any] = {}
    for name, given in signature(command).parameters.items():
        kind, *defaults = get_args(given.annotation) or (given.annotation,)
        if not is_dataclass(kind):
            parameters.append(given.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        groups[name] = kind
        known = {f.name: f.default for f in fields(kind) if f.default is not MISSING}
        known |= dict(*defaults)
        parameters += [
            Parameter(
                f.name,
                Parameter.KEYWORD_ONLY,
                default=known.get(f.name, Parameter.empty),
                annotation=Annotated[f.type, f.metadata["option"]],
            )
            for f in fields(kind)
        ]

    @wraps(command)
    def call(**values: Any) -> None:
        made = {
            name: kind(**{f.name: values.pop(f.name) for f in fields(kind)})
            for name, kind in groups.items()
        }
        command(**values, **made)

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    return call


def plain(config: Any) -> dict[str, Any]:
    """Settings as JSON has them."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return found


def kept(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a command as a file for ``--config`` has them."""
    there = {
        name: value
        for name, value in options.items()
        if name not in ("config", "fresh") and value not in (None, [], ())
    }
    found: dict[str, Any] = json.loads(json.dumps(there, default=str))
    return found


def from_file(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take the settings of a file as defaults of the other options."""
    if path is None:
        return None
    try:
        found = json.loads(read_text(path), object_pairs_hook=partial(_once, path))
    except (OSError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{path} cannot be read, needs JSON") from error
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{path} needs names of options with their values")
    known = {str(p.name): p for p in ctx.command.params if p.name not in ("config", "help")}
    if odd := sorted(found.keys() - known.keys()):
        raise typer.BadParameter(f"{path} has '{odd[0]}', which is no option of this command")
    for name, value in found.items():
        several = isinstance(value, list) and getattr(known[name], "multiple", False)
        one = type(value) in (str, int, float)
        one |= type(value) is bool and getattr(known[name], "is_flag", False)
        if not one and not (several and all(isinstance(item, str) for item in value)):
            raise typer.BadParameter(f"{path}: '{name}' has a value that is not of an option")
    ctx.default_map = {**(ctx.default_map or {}), **found}
    return path


def _once(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Values by the names of options, each of which may be there once."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        name = name.replace("-", "_")
        if name in found:
            raise typer.BadParameter(f"{path} has '{name}' twice")
        found[name] = value
    return found
