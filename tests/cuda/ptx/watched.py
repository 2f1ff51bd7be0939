#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""watched.py [--report TEXT] PROGRAM [ARGUMENT...]: run under PTX_RACES=1 and judge its reports.

Races are told on stderr and end nothing, so that one run tells all. Here a report is a failure;
with --report it is the other way round: one that says TEXT is required, and no other may be there.
"""

import argparse
import os
import subprocess
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--report")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    run = subprocess.run(
        options.command, env={**os.environ, "PTX_RACES": "1"}, stderr=subprocess.PIPE, text=True
    )
    reports = [line for line in run.stderr.splitlines() if line.startswith("ptx: ")]
    sys.stderr.write(run.stderr)
    if options.report is None:
        if reports:
            print(f"{len(reports)} reports of races where none may be")
        return run.returncode or bool(reports)
    other = [line for line in reports if options.report not in line]
    if not reports or other:
        print(f"'{options.report}' was to be told, and nothing else:", *reports or ["nothing was"])
    return run.returncode or not reports or bool(other)


if __name__ == "__main__":
    sys.exit(main())
