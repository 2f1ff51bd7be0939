# SPDX-License-Identifier: MIT
"""Formulas as MathML, which browsers draw themselves: no script, no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)


def inline(translator: Any, node: nodes.math) -> None:
    """A formula in a line."""
    translator.body.append(converted(node, as_block=False))
    raise nodes.SkipNode


def display(translator: Any, node: nodes.math_block) -> None:
    """A formula of its own."""
    translator.body.append(f'<div class="math-block">{converted(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def converted(node: nodes.Element, as_block: bool) -> str:
    """MathML of a formula."""
    # parentheses grow by themselves in MathML
    text = re.sub(r"\\[bB]igg?[lmr]?(?![a-zA-Z])", "", node.astext())
    try:
        return str(tex2mathml(text, as_block=as_block))
    except MathError as error:
        LOG.warning("formula %r: %s", node.astext(), error, location=node)
        return node.astext()


def setup(app: Sphinx) -> dict[str, bool]:
    """Make it the renderer of HTML."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
