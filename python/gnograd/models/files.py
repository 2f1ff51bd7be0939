# SPDX-License-Identifier: MIT
"""Models on disk: weights as safetensors, and the description as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from gnograd.data.description import DESCRIPTION, FORMAT, description_of, no_model
from gnograd.models.point_model import PointModel
from gnograd.notation.text import printable
from gnograd.weights import load_weights, replaced, save_weights

__all__ = ["DESCRIPTION", "WEIGHTS", "load", "save"]

WEIGHTS = "model.safetensors"


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
    description, _ = description_of(directory)
    arrays = load_weights(directory / WEIGHTS)
    if (n_layers := description.options["layers"]) > len(arrays):
        raise no_model(directory / DESCRIPTION, f"{n_layers} layers")
    try:
        # first without memory: the description is not trusted
        with torch.device("meta"):
            shapes = {n: tuple(x.shape) for n, x in PointModel(description).state_dict().items()}
    except Exception as error:  # networks raise almost anything on options that make no sense
        raise no_model(directory / DESCRIPTION, error) from error
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
