# SPDX-License-Identifier: MIT
"""Descriptions of models on points, and their JSON, which can be read without PyTorch."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gnograd.data.samples import Field, Layout
from gnograd.notation.text import printable, read_text

__all__ = ["DESCRIPTION", "FORMAT", "NAMES", "Description", "description_of", "no_model"]

DESCRIPTION = "model.json"

FORMAT = 1
"""Format of the description; files of later formats are refused."""

NAMES = ("gno", "gino", "magno", "mgn", "bsa", "transolver")
"""Kinds of models, as commands and files name them."""

_LARGEST = 1 << 16
"""Largest number in a description, which is not trusted."""
_LARGEST_GRID = 1 << 22
"""Largest number of points of a latent grid, whose memory does not depend on the weights."""


@dataclass(frozen=True)
class Description:
    """Description of a model without its weights."""

    name: str
    """Name of the network, one of `gnograd.models.MODELS`."""
    options: Mapping[str, Any]
    """Arguments of the network."""
    layout: Layout
    """Quantities of the inputs and outputs."""
    adds: int | None = None
    """First of the input columns that the network's results are added to, one for each output; None
    if these are the outputs."""

    @property
    def widths(self) -> tuple[int, int, int]:
        """Numbers of input channels, parameters and output channels; a state is an input, too."""
        inputs, parameters, outputs = (
            sum(f.width for f in fields)
            for fields in (self.layout.inputs, self.layout.parameters, self.layout.outputs)
        )
        return inputs + (outputs if self.layout.in_time else 0), parameters, outputs


def description_of(directory: str | os.PathLike[str]) -> tuple[Description, dict[str, Any]]:
    """Description of a stored model, and further facts about it.

    Raises
    ------
    FileNotFoundError, ValueError
        As `gnograd.load`.
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
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(printable(f"{path}: describes no model that is known"))
    if text.get("format") != FORMAT:
        raise ValueError(
            printable(
                f"{path}: has format {text.get('format')}, but this gnograd reads {FORMAT}; "
                "a newer one may read it"
            )
        )
    return dict(text)


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
        raise no_model(path, error) from error


def no_model(path: Path, why: object) -> ValueError:
    """Error for a description of nothing."""
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
