# SPDX-License-Identifier: MIT
"""Models on disk: weights as safetensors, and the description as JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from gnograd.data.samples import Field, Layout
from gnograd.models.factory import MODELS
from gnograd.models.point_model import Description, PointModel
from gnograd.notation.text import printable, read_text
from gnograd.weights import load_weights, replaced, save_weights

__all__ = ["DESCRIPTION", "WEIGHTS", "description_of", "load", "save"]

DESCRIPTION, WEIGHTS = "model.json", "model.safetensors"

FORMAT = 1
"""Format of the description; files of later formats are refused."""

_LARGEST = 1 << 16
"""Largest number in a description, which is not trusted."""
_LARGEST_GRID = 1 << 22
"""Largest number of points of a latent grid, whose memory does not depend on the weights."""


def save(
    model: PointModel,
    directory: str | os.PathLike[str],
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write a model, as ``model.json`` and ``model.safetensors``.

    Parameters
    ----------
    model : PointModel
    directory : path-like
    about : mapping, optional
        Further facts to store, as for JSON.
    """
    made = model.description
    text = {
        "format": FORMAT,
        "model": made.name,
        "options": dict(made.options),
        "layout": asdict(made.layout),
        "adds": made.adds,
        "about": dict(about or {}),
    }
    Path(directory).mkdir(parents=True, exist_ok=True)
    # settings for programs that read the weights only, such as gnograd's Fortran
    layout = {"in_time": made.layout.in_time, "apart": made.layout.apart}
    settings = {**made.options, **layout, "adds": -1 if made.adds is None else made.adds}
    metadata = {"model": made.name, **{name: json.dumps(x) for name, x in settings.items()}}
    save_weights(Path(directory) / WEIGHTS, model, metadata=metadata)
    with replaced(Path(directory) / DESCRIPTION) as stream:
        stream.write((json.dumps(text, indent=1) + "\n").encode())


def load(directory: str | os.PathLike[str], device: torch.device | str = "cpu") -> PointModel:
    """Read a model; nothing that the files say is executed.

    Parameters
    ----------
    directory : path-like
        Folder that `gnograd train points`, or `save`, has written.
    device : torch.device or str

    Returns
    -------
    PointModel
        In evaluation mode.

    Raises
    ------
    FileNotFoundError
        There is no model.
    ValueError
        A file is damaged, or the two do not belong together.
    """
    directory = Path(directory)
    description = _description(directory / DESCRIPTION, _parsed(directory / DESCRIPTION))
    arrays = load_weights(directory / WEIGHTS)
    if (n_layers := description.options["layers"]) > len(arrays):
        raise _no_model(directory / DESCRIPTION, f"{n_layers} layers")
    try:
        # first without memory: the description is not trusted
        with torch.device("meta"):
            shapes = {n: tuple(x.shape) for n, x in PointModel(description).state_dict().items()}
    except Exception as error:  # networks raise almost anything on options that make no sense
        raise _no_model(directory / DESCRIPTION, error) from error
    found = {name: array.shape for name, array in arrays.items()}
    if odd := sorted(n for n in shapes.keys() | found.keys() if shapes.get(n) != found.get(n)):
        raise ValueError(
            printable(
                f"{directory / WEIGHTS}: '{odd[0]}' has shape {found.get(odd[0])}, but the model "
                f"needs {shapes.get(odd[0])}"
            )
        )
    model = PointModel(description)
    load_weights(directory / WEIGHTS, model)
    return model.to(device).eval()


def description_of(directory: str | os.PathLike[str]) -> tuple[Description, dict[str, Any]]:
    """Description of a stored model, and further facts about it.

    Raises
    ------
    FileNotFoundError, ValueError
        As `load`.
    """
    path = Path(directory) / DESCRIPTION
    text = _parsed(path)
    about = text.get("about", {})
    return _description(path, text), about if isinstance(about, dict) else {}


def _parsed(path: Path) -> dict[str, Any]:
    try:
        text = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(printable(f"{path}: is no JSON, or damaged")) from error
    name = text.get("model") if isinstance(text, dict) else None
    if not isinstance(name, str) or name not in MODELS:
        raise ValueError(printable(f"{path}: describes no model that is known"))
    if text.get("format") != FORMAT:
        raise ValueError(
            printable(
                f"{path}: has format {text.get('format')}, but this gnograd reads {FORMAT}; "
                "a newer one may read it"
            )
        )
    return text


def _description(path: Path, text: Mapping[str, Any]) -> Description:
    try:
        about, options = dict(text["layout"]), dict(text["options"])
        for name in ("inputs", "outputs", "parameters"):
            about[name] = tuple(Field(str(n), _count(width)) for n, width in about[name])
        if about["period"] is not None:
            about["period"] = tuple(map(_number, about["period"]))
        if about.get("step") is not None:
            about["step"] = _number(about["step"])
            if not 0 < about["step"] < math.inf:
                raise ValueError(f"step is {about['step']}")
        about["units"] = {str(n): str(unit) for n, unit in dict(about.get("units", {})).items()}
        _check_size([options, about])
        layout = Layout(**about)
        if layout.dimension not in (1, 2, 3) or {type(layout.in_time), type(layout.apart)} != {
            bool
        }:
            raise ValueError("no such layout")
        _check_options(options, layout.dimension)
        made = Description(text["model"], options, layout)
        n_inputs, _, n_outputs = made.widths
        adds = text.get("adds", n_inputs - n_outputs if layout.in_time else None)
        if adds is not None and (type(adds) is not int or not 0 <= adds <= n_inputs - n_outputs):
            raise ValueError(f"adds is {adds}")
        return replace(made, adds=adds)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _no_model(path, error) from error


def _no_model(path: Path, why: object) -> ValueError:
    return ValueError(printable(f"{path}: describes no model ({str(why)[:200]})"))


def _count(value: Any) -> int:
    if type(value) is not int or value <= 0:
        raise ValueError(f"{value} is no number of anything")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{value} is no number")
    return float(value)


def _check_options(options: Mapping[str, Any], dimension: int) -> None:
    """Check the options that networks use unchecked: lengths, corners, and numbers."""
    if "layers" not in options:
        raise ValueError("it has no layers")
    for name, value in options.items():
        if name in ("period", "lower", "upper"):
            fits = value is None or len([_number(x) for x in value]) == dimension
        elif name in ("radius", "scales"):
            lengths = value if isinstance(value, list) else [value]
            fits = all(0 < _number(x) < math.inf for x in lengths)
        else:
            fits = _count(value) > 0
        if not fits:
            raise ValueError(f"{name} is {value}")
    if options.get("side", 1) ** dimension > _LARGEST_GRID:
        raise ValueError(f"side is {options['side']}")


def _check_size(value: Any) -> None:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        if len(value) > _LARGEST:
            raise ValueError("a list that is too long")
        for item in value:
            _check_size(item)
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise ValueError(f"{value} is too large")
