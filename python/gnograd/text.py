# SPDX-License-Identifier: MIT
"""Text of files as messages and terminals take it."""

__all__ = ["printable"]


def printable(text: str) -> str:
    """Text in one line, without what a terminal would obey: names in files may hold that."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
