# SPDX-License-Identifier: MIT
"""Write the pages of the reference that come from the sources, and miss no public name."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import c_header
import commands
import fortran_module
import modules
from sphinx.application import Sphinx
from sphinx.util import logging

import operators

LOG = logging.getLogger(__name__)
FOLDER = "reference/generated"


def write(app: Sphinx) -> None:
    """Write the pages that have changed, and remove those without a source."""
    folder = Path(app.srcdir, FOLDER)
    sources = (
        operators.pages(), modules.pages(), commands.pages(), c_header.pages(),
        fortran_module.pages(),
    )  # fmt: skip
    wanted = {folder / f"{path}.rst": text for path, text in itertools.chain(*sources)}
    for path in set(folder.rglob("*.rst")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def undocumented(app: Sphinx, env: Any) -> None:
    """Warn of public names without a place in the reference, or without a word about them."""
    known = env.domains["py"].data["objects"]
    for package in modules.unknown():
        LOG.warning("%s is neither public nor internal in docs/extensions/modules.py", package)
    for package in modules.packages():
        for name in modules.public(package):
            path = f"{package}.{name}"
            if path not in known:
                LOG.warning("%s is public, and not in the reference", path)
            for silent in modules.silent(package, name):
                LOG.warning("%s is public, and has no docstring", silent)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads any, and check names after it has."""
    app.connect("builder-inited", write)
    app.connect("env-check-consistency", undocumented)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
