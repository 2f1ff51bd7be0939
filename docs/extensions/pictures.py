# SPDX-License-Identifier: MIT
"""Pictures that scripts in ``figures`` draw when the documentation is built: light and dark.

A script has a function ``draw(figure, colours)``. Its pictures are
``figures/generated/<script>-light.svg`` and ``-dark.svg``.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from sphinx.application import Sphinx


class Colours(NamedTuple):
    """Colours of a picture on a light or dark page."""

    text: str
    faint: str
    first: str
    second: str
    third: str


THEMES = {
    "light": Colours("#1f2933", "#9aa5b1", "#1a6aa3", "#d9720b", "#3a8f4f"),
    "dark": Colours("#d9e2ec", "#627282", "#6db3e8", "#ffa45c", "#7fcf93"),
}


def settings(colours: Colours) -> dict[str, Any]:
    """Settings of Matplotlib for a theme; the salt makes SVG the same every time."""
    text = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
    return {
        "svg.hashsalt": "gnograd",
        "font.size": 10,
        "axes.edgecolor": colours.faint,
        "axes.spines.top": False,
        "axes.spines.right": False,
        **dict.fromkeys(text, colours.text),
    }


def draw(app: Sphinx) -> None:
    """Run the scripts whose pictures are older than they are."""
    out = Path(app.srcdir, "figures/generated")
    out.mkdir(exist_ok=True)
    for script in sorted(Path(app.srcdir, "figures").glob("*.py")):
        for theme, colours in THEMES.items():
            path = out / f"{script.stem}-{theme}.svg"
            if path.exists() and path.stat().st_mtime > script.stat().st_mtime:
                continue
            with matplotlib.rc_context(settings(colours)):
                figure = Figure()
                runpy.run_path(str(script))["draw"](figure, colours)
                figure.savefig(path, transparent=True, metadata={"Date": None})


def setup(app: Sphinx) -> dict[str, bool]:
    """Draw the pictures before Sphinx reads any page."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
