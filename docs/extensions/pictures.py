# SPDX-License-Identifier: MIT
"""Pictures that scripts draw when the documentation is built: light and dark."""

from __future__ import annotations

import runpy
from pathlib import Path

from sphinx.application import Sphinx


def draw(app: Sphinx) -> None:
    """Run the scripts whose pictures are older than they are."""
    out = Path(app.srcdir, "figures/generated")
    out.mkdir(exist_ok=True)
    for script in sorted(Path(app.srcdir, "figures").glob("*.py")):
        done = out / f"{script.stem}.done"
        if not done.exists() or done.stat().st_mtime < script.stat().st_mtime:
            runpy.run_path(str(script))["draw"](out)
            done.touch()


def setup(app: Sphinx) -> dict[str, bool]:
    """Draw before anything is read."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
