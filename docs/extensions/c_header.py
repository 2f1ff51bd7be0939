# SPDX-License-Identifier: MIT
"""The C interface: the header, section by section."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import gnograd
from operators import title

HEADER = Path(gnograd.get_include()) / "gnograd.h"
SECTION = re.compile(r"^/\* ---- (?P<name>.*?) ----(?P<text>.*?)\*/\n", re.M | re.S)


def pages() -> Iterator[tuple[str, str]]:
    """Path in the reference, without suffix, and content."""
    source = HEADER.read_text()
    about = re.match(r"/\*(.*?)\*/", source, re.S)
    assert about
    text = plain(about[1]).split("\n\n")
    parts = [title("C: ``gnograd.h``"),
             "The functions of the header, in its order. Functions ``_r32`` have twins ``_r64`` "
             "with ``double`` for ``float``, which are not shown for operators.\n",
             code("\n\n".join(text[1:-1]), "text")]  # fmt: skip
    borders = [*SECTION.finditer(source)]
    ends = [*(m.start() for m in borders[1:]), len(source)]
    first = source[about.end() : borders[0].start()]
    parts += [title("Status", "-"), code(first[first.index("enum") :])]
    for match, end in zip(borders, ends, strict=True):
        name = match["name"]
        is_code = "_" in name.split()[0] or name.startswith("gno")
        parts.append(title(name if is_code else name[0].upper() + name[1:], "-"))
        if match["text"].strip():
            parts.append(code(plain(match["text"]), "text"))
        parts.append(code(without_twins(source[match.end() : end])))
    yield "c", "\n".join(parts)


def plain(comment: str) -> str:
    """Text of a comment."""
    lines = [re.sub(r"^ ?\* ?", "", line) for line in comment.splitlines()]
    return "\n".join(lines).strip("\n")


def without_twins(source: str) -> str:
    """Declarations but those for real64 that have a twin for real32."""
    source = source.partition("#ifdef __cplusplus")[0]

    def keep(match: re.Match[str]) -> str:
        return "" if f"{match[1]}_r32(" in source else match[0]

    return re.sub(r"^int (gnograd_\w+)_r64\([^;]*;[^\n]*\n", keep, source, flags=re.M)


def code(text: str, language: str = "c") -> str:
    body = textwrap.indent(text.strip("\n"), "   ")
    return f".. code-block:: {language}\n\n{body}\n" if body.strip() else ""
