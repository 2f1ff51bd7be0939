# SPDX-License-Identifier: MIT
"""Print the dependencies of gnograd with the extras named on the command line."""

import re
import sys
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]


def expand(requirement: str) -> list[str]:
    """Replace gnograd[a,b] by what these extras need."""
    own = re.fullmatch(r"gnograd\[(.*)\]", requirement)
    if not own:
        return [requirement.replace(" ", "")]
    return [r for extra in own[1].split(",") for e in extras[extra] for r in expand(e)]


wanted = project["dependencies"] + [f"gnograd[{','.join(sys.argv[1:])}]"]
print(" ".join(r for requirement in wanted for r in expand(requirement)))
