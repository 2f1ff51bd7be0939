# SPDX-License-Identifier: MIT
"""Names in backquotes become links where they name something of the package.

In docstrings single backquotes may also hold an argument, so a name that is not found is shown
unchanged; a name that begins with ``gnograd.`` must exist. In pages, ``gg.gno`` or
``gnograd.torch.GNO`` as code also becomes a link, and the role ``repo`` names a file of the
repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.roles import XRefRole
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole
from sphinx.util.nodes import make_refnode

LOG = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[2]
ALIASES = {
    "gg": "gnograd", "gt": "gnograd.torch", "gj": "gnograd.jax", "ad": "gnograd.autodiff"
}  # fmt: skip


class NameRole(XRefRole):
    """Something of the package, or an argument."""

    def process_link(
        self, env: Any, refnode: Any, has_explicit_title: bool, title: str, target: str
    ) -> tuple[str, str]:
        refnode["refdomain"], refnode["reftype"] = "py", "obj"
        refnode["py:module"] = env.ref_context.get("py:module")
        refnode["py:class"] = env.ref_context.get("py:class")
        refnode["may_be_argument"] = True
        return title, target


class RepositoryRole(SphinxRole):
    """A file of the repository, which must be there."""

    def run(self) -> tuple[list[nodes.Node], list[Any]]:
        if not (ROOT / self.text).exists():
            message = self.inliner.reporter.error(f"no such file: {self.text}", line=self.lineno)
            return [], [message]
        code = nodes.literal("", self.text)
        url = self.config.repository_url
        if not url:
            return [code], []
        return [nodes.reference("", "", code, refuri=f"{url}/blob/main/{self.text}")], []


def unresolved(app: Sphinx, env: Any, node: Any, content: Any) -> Any:
    """Show a possible argument as code; find names of "See Also" in any package."""
    if node.get("reftype") != "obj":
        return None
    target = node["reftarget"]
    if node.get("may_be_argument") and not target.startswith("gnograd."):
        return content
    known = env.domains["py"].data["objects"]
    names = [name for name in known if name.endswith(f".{target}")]
    if not names:
        return None
    entry = known[min(names, key=lambda name: (len(name), name))]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content)


class LinkedCode(SphinxPostTransform):
    """Links to the reference, from code in pages that names something of the package."""

    default_priority = 5
    _name = re.compile(r"(\w+)((?:\.\w+)*)(?:\(\))?")

    def run(self, **kwargs: Any) -> None:
        known = self.env.domains["py"].data["objects"]
        for literal in list(self.document.findall(nodes.literal)):
            parent = literal.parent
            if isinstance(parent, nodes.reference | addnodes.pending_xref | nodes.title):
                continue
            if "xref" in literal.get("classes", ()):
                continue
            found = self._name.fullmatch(literal.astext())
            if not found:
                continue
            name = ALIASES.get(found[1], found[1]) + found[2]
            full = name if name in known else f"gnograd.{name}"
            if full not in known or (full == "gnograd.mean"):
                continue
            entry = known[full]
            if entry.docname == self.env.docname:
                continue
            link = make_refnode(
                self.app.builder, self.env.docname, entry.docname, entry.node_id, literal.deepcopy()
            )
            parent.replace(literal, link)


class Trimmed(SphinxPostTransform):
    """Examples without the empty line at their end, which only doctest needs."""

    default_priority = 6

    def run(self, **kwargs: Any) -> None:
        for block in list(self.document.findall(nodes.literal_block)):
            text = block.astext().rstrip()
            block[:] = [nodes.Text(text)]
            block.rawsource = text


class SourceLinks(SphinxPostTransform):
    """Warnings of links to the source of a page, which some directives leave as they are."""

    default_priority = 7
    _source = re.compile(r"(?!\w+:)[^#]*\.(md|rst)(#.*)?")

    def run(self, **kwargs: Any) -> None:
        for link in self.document.findall(nodes.reference):
            if self._source.fullmatch(link.get("refuri", "")):
                LOG.warning("a link to %s leads to no page", link["refuri"], location=link)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add roles and links."""
    app.add_config_value("repository_url", "", "env")
    app.add_role("name", NameRole(warn_dangling=True))
    app.add_role("repo", RepositoryRole())
    app.add_post_transform(LinkedCode)
    app.add_post_transform(Trimmed)
    app.add_post_transform(SourceLinks)
    app.connect("missing-reference", unresolved)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
