# SPDX-License-Identifier: MIT
"""Names that files give the axes of their arrays, compared with the axes as they are read."""

from __future__ import annotations

from collections.abc import Mapping

from gnograd.data.contents import Contents, DataError
from gnograd.data.grid import SPACE

__all__ = ["check_dimensions"]

_USUAL = {
    "x": "x lon longitude rlon xc easting nx",
    "y": "y lat latitude rlat yc northing ny",
    "z": "z lev level height altitude depth plev nz",
    "times": "t time times nt n_times",
    "samples": "sample samples n_samples member ensemble realization",
    "channels": "channel channels n_channels component components",
}
_MEANINGS = {name: meaning for meaning, names in _USUAL.items() for name in names.split()}
"""Meanings of usual names of dimensions."""


def check_dimensions(
    contents: Contents, axes: Mapping[str, tuple[str, ...]], layout: tuple[str, ...] | None
) -> None:
    """Check the axes of arrays, as they are read, against the names of dimensions in the file.

    Parameters
    ----------
    contents : Contents
    axes : mapping of str to tuple of str
        Meaning of each axis of an array.
    layout : tuple of str, optional
        Layout that the user gave; with it, any axis may be that of samples or channels.

    Raises
    ------
    DataError
        A dimension is two things in two arrays, or has the usual name of another one.
    """
    way = "say what the axes are with --layout"
    if layout is not None:
        way = f"--layout is {','.join(layout)}: needs the axes in the order of the file"
    known: dict[str, tuple[str, str]] = {}
    for name, words in axes.items():
        names = tuple(contents.dimensions.get(name, ()))
        if len(names) != len(words) or len(set(names)) < len(names):
            continue
        of = f"{contents.path}: array '{name}' has the dimensions ({', '.join(names)})"
        for dimension, word in zip(names, words, strict=True):
            before, first = known.setdefault(dimension, (word, name))
            if before != word:
                raise DataError(
                    f"{of}, and '{dimension}' would be {word} here, but {before} in '{first}'; "
                    + (way if layout is None else f"{way}, and --points in the order x,y,z")
                )
            usual = _MEANINGS.get(dimension.lower())
            free = ("channels",) if layout is None else ("channels", "samples")
            in_space = usual in tuple(SPACE) and word in (*SPACE, "points")
            if usual not in (None, word) and word not in free and not in_space:
                raise DataError(f"{of}, and '{dimension}' would be {word}; {way}")
        places = {word: _MEANINGS.get(n.lower()) for n, word in zip(names, words, strict=True)}
        space = [usual for letter in SPACE if (usual := places.get(letter)) in tuple(SPACE)]
        if layout is not None and space != sorted(space):  # a section may have x and z as x and y
            called = ", ".join(
                f"'{n}' {w}" for n, w in zip(names, words, strict=True) if w in SPACE
            )
            raise DataError(f"{of}, and would call {called}; {way}")
