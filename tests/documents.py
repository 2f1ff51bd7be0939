# SPDX-License-Identifier: MIT
"""Every block of code in the Markdown pages is run: ``pytest -p tests.documents PAGE...``.

A page is a session at a terminal. Its Python blocks share a namespace, its commands an environment
and a folder that is empty at first, and what follows a command or ``>>>`` is compared with what
comes out. Comments, which readers do not see, say what is not obvious:

``<!-- file: NAME -->``
    the block is the file NAME in that folder, which commands further down compile or run
``<!-- declarations ... -->``
    what a fragment of Fortran or C needs to be compiled: it is put in front of it
``<!-- skip: next "REASON" -->``, ``start`` and ``end``
    not run here, and why. `gpu` and `installed` are there to ask:
    ``<!-- skip: next if(not gpu(), reason="needs a GPU") -->``

A block in a language that none of this knows fails. Pictures that a page shows from ``pictures/``
must be among the files that it has made; ``PICTURES=1`` puts them there.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from PIL import Image
from sybil import Document, Example, Region, Sybil
from sybil.evaluators.doctest import NUMBER, OutputChecker
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

import gnograd as gg
from gnograd.cli.app import app

ROOT = Path(__file__).parents[1]
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | NUMBER
MARK = re.compile(r"<!--\s*(file:|declarations)((?:(?!-->).)*)-->\s*\Z", re.DOTALL)
GNOGRAD = re.compile(r"(?:(?:mpiexec|srun|torchrun)\b.* )?gnograd( +[a-z].*)")
PICTURE = re.compile(r"\]\((pictures/[^)]+)\)")
COMPILERS = {"fortran": ("gfortran", ".f90"), "c": ("gcc", ".c")}
PROGRAM = {"fortran": r"^program\b", "c": r"\bint main\b"}
USES = {
    "fortran": re.compile(r"(?:use\b.*\n(?: *&.*\n)*)*"),
    "c": re.compile(r"(?:#include.*\n)*"),
}
WHOLE_INTERFACE = {"fortran": "use gnograd", "c": "#include <gnograd.h>"}
PROCEDURES = {"fortran": r"^(?=(?:pure )?(?:subroutine|function)\b)", "c": r"^(?=static\b)"}
WRAPPED = {
    # a fragment of statements, and one that defines procedures
    "fortran": (
        "program fragment\n{}\nimplicit none\n{}\n{}\nend program\n",
        "module fragment\n{}\nimplicit none\n{}\n{}\ncontains\n{}\nend module\n",
    ),
    "c": (
        "#include <stdlib.h>\n{}\n{}\nvoid fragment(void) {{\n{}\n}}\n",
        "#include <stdlib.h>\n{}\n{}\n{}\n{}\n",
    ),
}


class Terminal:
    """A folder, and the environment that commands leave to those behind them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMP_WAIT_POLICY": "passive",
        }

    def run(self, command: str) -> str:
        """Output of a command, which must not fail."""
        after = self.folder / ".environment"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{command}\nenv -0 > {after}"],
            cwd=self.folder, env=self.environment, text=True, timeout=300, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(f"{command}\nends with status {done.returncode}:\n{done.stdout}")
        entries = after.read_text().rstrip("\0").split("\0")
        self.environment = dict(entry.split("=", 1) for entry in entries)
        return done.stdout


# ---- what is done with a block, by its language ----


def shell(example: Example) -> None:
    """All lines of ``sh``; of ``console`` each after a ``$``, with what it prints below."""
    terminal: Terminal = example.namespace["terminal"]
    if not example.parsed.lstrip().startswith("$ "):
        terminal.run(example.parsed)
        return
    for part in re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)[1:]:
        command, expected = re.fullmatch(r"((?:.*\\\n)*.*)\n?((?s:.*))", part).groups()
        got = terminal.run(command)
        compare = OutputChecker()
        if expected.strip() and not compare.check_output(expected, got, LENIENT):
            raise AssertionError(f"{command}\nprints\n{got}\nnot\n{expected}")


def compiled(example: Example) -> None:
    """A program is compiled and run, a fragment compiled, as a reader would by pkg-config."""
    language, source, declarations = example.region.lexemes.values()
    compiler, suffix = COMPILERS[language]
    terminal: Terminal = example.namespace["terminal"]
    name = f"block{example.line}"
    complete = re.search(PROGRAM[language], source, re.MULTILINE)
    if not complete:
        uses = USES[language].match(source)[0]
        parts = re.split(PROCEDURES[language], source[len(uses) :], maxsplit=1, flags=re.MULTILINE)
        source = WRAPPED[language][len(parts) - 1].format(
            uses or WHOLE_INTERFACE[language], declarations, *parts
        )
    (terminal.folder / (name + suffix)).write_text(source)
    flags = f"$(PKG_CONFIG_PATH={gg.get_pkgconfig_dir()} pkg-config --cflags --libs gnograd)"
    if complete:
        terminal.run(f"{compiler} {name}{suffix} {flags} -o {name} && ./{name}")
    else:
        terminal.run(f"{compiler} -c {name}{suffix} {flags}")


def unknown(example: Example) -> None:
    """Nothing checks such a block."""
    raise AssertionError(f"nobody knows how to run {example.region.lexemes['language']!r}")


def write(example: Example) -> None:
    """The block is a file."""
    path = example.namespace["terminal"].folder / example.region.lexemes["mark"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(example.parsed)


LANGUAGES: dict[str, Callable[[Example], None]] = {
    "sh": shell, "console": shell, "fortran": compiled, "c": compiled,
}  # fmt: skip
FENCED = RawFencedCodeBlockLexer(re.compile(r"(?P<language>[^\n]*)\n"))
NOT_CODE = {"", "text", "bibtex"}


def blocks(document: Document) -> Iterable[Region]:
    """Blocks that are files, and all others but Python's and directives of MyST."""
    for region in FENCED(document):
        language, source = region.lexemes["language"].strip(), region.lexemes["source"]
        if language in NOT_CODE or re.match(r"\{(?!code|sourcecode)", language):
            continue
        kind, mark = "", ""
        if found := MARK.search(document.text, 0, region.start):
            kind, mark = found[1], found[2].strip()
        if kind == "file:":
            evaluator = write
        elif re.search(r"(^|\} *)python$", language):
            continue
        else:
            evaluator = LANGUAGES.get(language, unknown)
        lexemes = {"language": language, "source": source, "mark": mark}
        yield Region(region.start, region.end, source, evaluator, lexemes)


class Python(PythonCodeBlockParser):
    """Python that is run in the page, which is all that is not a file."""

    def __call__(self, document: Document) -> Iterable[Region]:
        files = {r.start: r.end for r in blocks(document) if r.evaluator is write}
        for region in super().__call__(document):
            if not any(start <= region.start < end for start, end in files.items()):
                yield region


class Skip(SkipParser):
    """Parser of skipped blocks, which have to give a reason."""

    def __call__(self, document: Document) -> Iterable[Region]:
        for region in super().__call__(document):
            action, reason = region.parsed
            if action != "end" and not reason:
                line = document.line_column(region.start)
                raise AssertionError(f"{document.path}, {line}: skip gives no reason")
            yield region


# ---- what holds for a page as a whole ----


def options_exist(example: Example) -> None:
    """Each ``gnograd`` command of the page is one, and has the options, run or not."""
    for words in example.parsed:
        part, known = typer.main.get_command(app), {"--help", "--version"}
        arguments = shlex.split(re.split(r"[|&;<>]", words)[0], comments=True)
        while hasattr(part, "commands") and arguments and not arguments[0].startswith("-"):
            if arguments[0] not in part.commands:
                raise AssertionError(f"gnograd{words}: there is no {arguments[0]!r}")
            part = part.commands[arguments.pop(0)]
        for parameter in part.params:
            known.update(parameter.opts, parameter.secondary_opts)
        given = {word.split("=")[0] for word in arguments if word.startswith("--")}
        if given - known:
            raise AssertionError(f"gnograd{words} has no {sorted(given - known)}")


def commands(document: Document) -> Iterable[Region]:
    """All ``gnograd`` commands, at the end of the page; also those of indented blocks."""
    lines = re.findall(r"^ {4,}(.*)$", document.text, re.MULTILINE)
    for region in FENCED(document):
        if LANGUAGES.get(region.lexemes["language"].strip()) is shell:
            source = region.lexemes["source"].replace("\\\n", " ")
            lines += [line.removeprefix("$ ") for line in source.splitlines()]
    if found := [match[1] for line in lines if (match := GNOGRAD.fullmatch(line.strip()))]:
        yield Region(document.end, document.end, found, options_exist)


class Page(Document):
    """Markdown with a terminal."""

    def __init__(self, text: str, path: str) -> None:
        super().__init__(text, path)
        self.namespace.update(document=self, gpu=gpu, installed=installed)


def gpu() -> bool:
    """True if there is a GPU, and kernels for it."""
    return not str(gg.get_config()["gpus"]).startswith("none")


def installed(*modules: str) -> bool:
    """True if all modules can be imported."""
    return all(find_spec(module) for module in modules)


def begin(namespace: dict[str, Any]) -> None:
    """Python works in the folder of the page's commands."""
    namespace["terminal"] = Terminal()
    namespace["__name__"] = "__main__"
    namespace["came_from"] = Path.cwd()
    os.chdir(namespace["terminal"].folder)


def end(namespace: dict[str, Any]) -> None:
    """The page has made the pictures that it shows."""
    page, folder = namespace["document"], namespace["terminal"].folder
    os.chdir(namespace["came_from"])
    missing = []
    for name in PICTURE.findall(page.text):
        made = folder / Path(name).name
        if not made.exists():
            missing.append(name)
        elif os.environ.get("PICTURES"):
            (Path(page.path).parent / "pictures").mkdir(exist_ok=True)
            few_colors = Image.open(made).convert("RGB").quantize(128)
            few_colors.save(Path(page.path).parent / name, optimize=True)
    shutil.rmtree(folder)
    if missing:
        raise AssertionError(f"{page.path} shows pictures that it does not make: {missing}")


PAGES = Sybil(
    parsers=[Python(doctest_optionflags=NUMBER), Skip(), blocks, commands],
    pattern="*.md",
    exclude="generated/*",
    path=str(ROOT),
    setup=begin,
    teardown=end,
    document_types={".md": Page},
)
pytest_collect_file = PAGES.pytest()
