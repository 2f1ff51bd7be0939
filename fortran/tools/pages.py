# SPDX-License-Identifier: MIT
"""Write the pages of the Fortran interface with FORD, and say what has no documentation.

Only what the module gnograd exports is on them: sources are expanded, and what their modules export
for others of the library alone is made private.

usage: pages.py FORD WORK OUTPUT    the program, a folder to work in, the folder of the pages
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

FORTRAN = Path(__file__).resolve().parents[1]
PROJECT = FORTRAN.parent / "docs/ford.md"
sys.path.append(str(Path(__file__).parent))
from expand import expand_all  # noqa: E402

USE = re.compile(r"^ *use (\w+)(?:, only: *(.*))?$", re.MULTILINE)
PROCEDURE = r"(?:(?:pure|impure|elemental|recursive) )*(?:subroutine|function)"
GENERIC = re.compile(
    r"^  interface (?P<name>\S+)\n    module procedure(?: ::)? (?P<first>\w+)", re.MULTILINE
)
DEFINITION = re.compile(
    rf"^ {{2}}(?:interface|type(?:, [^:]*)? ::|{PROCEDURE}) (?P<name>operator\([^)]*\)|\w+)"
    r"|^ {4}(?:procedure|generic)(?:, (?!private)[^:]*)? :: (?P<bound>.*)"
)


def joined(text: str) -> str:
    """Source with continued lines in one."""
    return re.sub(r" *&\n *& *", " ", text)


def exported(module: Path) -> dict[str, list[str] | None]:
    """Modules that a module of `use` statements passes on, and which of their names."""
    return {
        name: re.split(r",\s*(?![^()]*\))", only.strip()) if only else None
        for name, only in USE.findall(joined(module.read_text()))
    }


def narrowed(text: str, names: list[str] | None) -> str:
    """A module that exports these names alone."""
    if names is None:
        return text
    kept, inside = [], False
    for line in text.splitlines():
        inside = inside or line.startswith("  public ::")
        if not inside:
            kept.append(line)
        inside = inside and line.endswith("&")
    text = "\n".join(kept) + "\n"
    line = "  public :: " + ", &\n    & ".join(names) + "\n"
    return re.sub(
        r"^  private *\n", lambda found: found[0] + line, text, count=1, flags=re.MULTILINE
    )


def with_generics(text: str) -> str:
    """Generic names get the lines of their first specific procedure, where they have none."""
    lines = text.splitlines()

    def before(pattern: str) -> list[str]:
        at = next((k for k, line in enumerate(lines) if re.match(pattern, line)), 0)
        first = at
        while first > 0 and lines[first - 1].lstrip().startswith("!>"):
            first -= 1
        return lines[first:at]

    def documented(found: re.Match[str]) -> str:
        if before(rf"  interface {re.escape(found['name'])}$"):
            return found[0]
        return "\n".join([*before(rf"  {PROCEDURE} {found['first']}\b"), found[0]])

    return GENERIC.sub(documented, text)


def undocumented(text: str, names: list[str] | None) -> list[str]:
    """Exported names and bound procedures that have no comment on the line before."""
    found, before, inside = [], "", None
    for line in text.splitlines():
        definition = DEFINITION.match(line)
        if definition and definition["name"]:
            inside = definition["name"]
        if (
            definition
            and (names is None or inside in names)
            and not before.lstrip().startswith("!>")
        ):
            found.append(definition["bound"] or inside)
        before = line
    return found


REMOTE = re.compile(
    r'<(?:link href|script src)="https?://[^"]*/(?P<file>[\w.-]+)(?:\?[^"]*)?"[^>]*>(?:</script>)?'
)
HEAD = """<script>
  const theme = localStorage.getItem("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.bsTheme = theme || (dark ? "dark" : "light");
</script>
<style>
  [data-bs-theme=dark] ol.hierarchy { background: none; }
  @media (max-width: 768px) { table { display: block; overflow-x: auto; } }
</style>
"""
"""Light or dark, as the other pages are, and on a phone tables that scroll by themselves."""
HOME = '<li class="nav-item"><a class="nav-link" href="{}../index.html">Documentation</a></li>'


def make_local(output: Path, bootstrap: Path) -> None:
    """Let pages take Bootstrap from beside them, and do without MathJax: no page has a formula.

    They get a way back to the documentation that they are a part of, and its theme.
    """
    for file in ("css/bootstrap.min.css", "js/bootstrap.bundle.min.js"):
        shutil.copy(bootstrap / file, output / file)
    for page in output.rglob("*.html"):
        up = "../" * len(page.relative_to(output).parents[:-1])

        def local(found: re.Match[str], up: str = up) -> str:
            name = found["file"]
            if name.endswith(".min.css"):
                return f'<link href="{up}css/{name}" rel="stylesheet">'
            if name.startswith("bootstrap"):
                return f'<script src="{up}js/{name}"></script>'
            return ""

        text = REMOTE.sub(local, page.read_text())
        text = text.replace("</title>\n", f"</title>\n{HEAD}", 1)
        text = text.replace("bg-light", "bg-body-tertiary")
        menu = '<ul class="navbar-nav">'
        page.write_text(text.replace(menu, menu + HOME.format(up), 1))


def main() -> None:
    """Sources, pages, what is missing."""
    ford, work, output = (Path(path).absolute() for path in sys.argv[1:])
    shutil.rmtree(work / "src", ignore_errors=True)
    expand_all(work / "expanded")
    by_name = {}
    for path in (work / "expanded").rglob("*.f90"):
        found = re.search(r"^module (\w+)", path.read_text(), re.MULTILINE)
        if found:
            by_name[found[1]] = path
    public = exported(FORTRAN / "gnograd.f90")
    public |= exported(by_name["gnograd_kernels"])
    (work / "src").mkdir(parents=True)
    missing = []
    for name, names in {"gnograd": None, **public}.items():
        text = with_generics(narrowed(by_name[name].read_text(), names))
        (work / "src" / f"{name}.f90").write_text(text)
        missing += [f"{name}: {entity}" for entity in undocumented(text, names)]
    shutil.rmtree(output, ignore_errors=True)
    done = subprocess.run(
        [ford, PROJECT, "--src_dir", work / "src", "--output_dir", output],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (work / "log").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    pages = {path.stem for path in (output / "module").glob("*.html")}
    if lost := {"gnograd", *public} - pages:
        raise SystemExit(f"FORD has made no page of {', '.join(sorted(lost))}: {work / 'log'}")
    home = subprocess.run(
        [ford.parent / "python", "-c", "import bootstrap; print(*bootstrap.__path__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    make_local(output, Path(home.stdout.strip()))
    print(f"{len(list(output.rglob('*.html')))} pages: {output / 'index.html'}")
    if missing:
        raise SystemExit("without documentation:\n" + "\n".join(missing))


if __name__ == "__main__":
    main()
