# SPDX-License-Identifier: MIT
"""Print what ninja must build for some suites of tests, one target a line.

usage: suite_targets.py BUILD SUITE [SUITE ...]     ("default": those that belong to no suite)
"""

import json
import subprocess
import sys
from pathlib import Path

build, suites = Path(sys.argv[1]), sys.argv[2:]


def introspect(what: str) -> list[dict]:
    """A list that Meson keeps of a build folder."""
    command = ["meson", "introspect", f"--{what}", str(build)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


files = {t["id"]: [Path(f).relative_to(build.resolve()) for f in t["filename"]]
         for t in introspect("targets")}  # fmt: skip
wanted = {
    str(file)
    for test in introspect("tests")
    # a project without a suite has its name there
    if any(s.split(":")[-1] in suites for s in test["suite"])
    or ("default" in suites and all(":" not in s for s in test["suite"]))
    for target in test["depends"]
    for file in files[target]
}
print("\n".join(sorted(wanted)))
