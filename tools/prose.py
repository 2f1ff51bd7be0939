# SPDX-License-Identifier: MIT
"""Check that doc comments can stand alone.

python tools/prose.py [--list]       a folder a line; with --list every comment that is at fault

A doc comment is a noun phrase or an imperative that can be read without the code below it. One
that opens with a word of `OPENINGS` lacks its subject. Counted are strings of Python that stand as
statements, blocks of `!>` in Fortran, and comments on lines of their own in C, C++ and CUDA.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = "fortran", "cuda", "python", "tests", "tools", "docs", "benchmarks", "examples", ".ci"
OPENINGS = re.compile(r"(Of|What|As|Whether|Where|Which|How|That|Those|The same)\b")
LIMIT = 0.02  # share of the comments of a folder

Comment = tuple[int, str]  # line, text


def python_comments(source: str) -> Iterator[Comment]:
    """Docstrings, and strings behind assignments."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def line_comments(source: str, mark: str) -> Iterator[Comment]:
    """First lines of blocks of comment: a line with the mark right above goes on with its block."""
    above = -1
    for number, line in enumerate(source.splitlines(), 1):
        if "SPDX-License-Identifier" in line:
            continue
        column = line.find(mark)
        if column != above and line.lstrip().startswith(mark):
            yield number, line.lstrip().removeprefix(mark)
        above = column


def fortran_comments(source: str) -> Iterator[Comment]:
    """Blocks of `!>`, in templates, too."""
    return line_comments(source, "!>")


def c_comments(source: str) -> Iterator[Comment]:
    """Blocks of `//`, and `/* */` that begin a line."""
    yield from line_comments(source, "//")
    for found in re.finditer(r"^[ \t]*/\*(.*?)\*/", source, re.MULTILINE | re.DOTALL):
        text = re.sub(r"SPDX-License-Identifier.*|^[ \t]*\*", "", found[1], flags=re.MULTILINE)
        yield source.count("\n", 0, found.start()) + 1, text


LANGUAGES = {
    (".py", ".pyi"): python_comments,
    (".f90", ".fypp", ".inc"): fortran_comments,
    (".c", ".h", ".h.in", ".cpp", ".cpp.in", ".cu", ".cuh"): c_comments,
}


def comments(name: str) -> Iterator[Comment]:
    """Doc comments of a file, each from its first word."""
    source = Path(name).read_text(encoding="utf-8", errors="replace")
    for endings, find in LANGUAGES.items():
        if name.endswith(endings):
            for line, text in find(source):
                if words := text.strip():
                    yield line, words.splitlines()[0]


def main() -> int:
    """Print the table; 1 if a folder is at or above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the comments at fault")
    listing = parser.parse_args().list
    failed = 0
    for folder in FOLDERS:
        listed = subprocess.run(
            ["git", "ls-files", "-z", folder], capture_output=True, text=True, check=True
        )
        found = [
            (name, *comment)
            for name in listed.stdout.split("\0")
            if Path(name).is_file()
            for comment in comments(name)
        ]
        bad = [comment for comment in found if OPENINGS.match(comment[2])]
        share = len(bad) / max(len(found), 1)
        print(f"{folder:<10} {len(bad):5} of {len(found):5} ({share:.1%})")
        for name, line, text in bad if listing else ():
            print(f"  {name}:{line}: {text}")
        failed |= share >= LIMIT
    if failed:
        print("Comments that cannot stand alone: see Style in CONTRIBUTING.md, and --list")
    return failed


if __name__ == "__main__":
    sys.exit(main())
