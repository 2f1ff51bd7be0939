# SPDX-License-Identifier: MIT
"""Files of results, which the programs here write with `--json FILE`.

A file has the command, the machine and the versions it was made with, and a record for every case,
face and contestant. Lists hold a number a run, least and most where there were more than two:

seconds   of a call
ratio     to gnograd's time in the same run
share     of the rate that `share_of` names
memory    bytes at the peak of a call beside its inputs
kept      bytes that a forward pass keeps for the backward pass, inputs included
rows      that all parts of a graph need of others
ulp       largest error that was seen, in units in the last place of the result
error     of a trained model on test samples, `finer` on more points than it was trained on
steps     of its training, `seconds` each; `parameters` is how many it has

`make bench-report` makes tables and pictures of those in benchmarks/results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import gnograd as gg

__all__ = ["CLOCKS", "Results", "add_clock", "add_option"]

CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "processor": time.process_time,
}

PACKAGES = (
    "gnograd",
    "numpy",
    "scipy",
    "torch",
    "torch_geometric",
    "torch_scatter",
    "neuraloperator",
    "jax",
    "pymetis",
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a program's user ask for the file."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what is measured to FILE")


def add_clock(parser: argparse.ArgumentParser) -> None:
    """Let a program's user choose one of `CLOCKS`."""
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall",
        help="whose time: of the processor, with one thread, where other programs run",
    )  # fmt: skip


class Results:
    """Records of a run. Those of a program whose user wants no file are dropped.

    Parameters
    ----------
    path : Path or None
        Where to write.
    share_of : str
        What shares are of, for example ``"sgemm"``.
    """

    def __init__(self, path: Path | None, share_of: str = "") -> None:
        self.path, self.share_of = path, share_of
        self.records: list[dict[str, Any]] = []

    def add(
        self,
        case: str,
        face: str,
        contestant: str,
        *,
        threads: int,
        **measured: float | None,
    ) -> None:
        """Keep a record, and write all there are: a run that is stopped loses nothing."""
        record: dict[str, Any] = {
            "case": case, "face": face, "contestant": contestant, "threads": threads
        }  # fmt: skip
        record |= {name: [_rounded(x)] for name, x in measured.items() if x is not None}
        self.records.append(record)
        self.write()

    def resume(self) -> set[tuple[str, str]]:
        """Take the records that the file has; cases and contestants of these.

        Raises
        ------
        ValueError
            They were made by another command.
        """
        if self.path is None or not self.path.exists():
            return set()
        before = json.loads(self.path.read_text())
        if before["command"] != command():
            raise ValueError(f"{self.path} was made by '{before['command']}'; give another file")
        self.records = before["records"]
        return {(record["case"], record["contestant"]) for record in self.records}

    def write(self) -> None:
        """Write to a temporary file, then put it in place."""
        if self.path is None:
            return
        head = {
            "command": command(),
            "date": datetime.now(timezone.utc).date().isoformat(),
            "machine": machine(),
            "versions": versions(),
            "share_of": self.share_of,
        }
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(written(head, self.records))
        os.replace(temporary, self.path)


def written(head: dict[str, Any], records: list[dict[str, Any]]) -> str:
    """JSON with a line for every entry of the head, and one for every record."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    rows = ",\n".join(f" {json.dumps(record)}" for record in records)
    return "{" + ",\n".join([*lines, f'"records": [\n{rows}\n]']) + "}\n"


def _rounded(number: float) -> float:
    return number if isinstance(number, int) else float(f"{number:.4g}")


def command() -> str:
    """Command line of this run, without `--json`."""
    words = ["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]
    return re.sub(r" --json[ =]\S+", "", " ".join(words))


def machine() -> dict[str, Any]:
    """Processor and how much of it there is."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        found = re.search(r"model name\s*:\s*(.+)", text)
        processor = found[1] if found else processor
    return {"processor": processor, "cores": os.cpu_count(), "system": platform.system()}


def versions() -> dict[str, str]:
    """Versions of gnograd, of its compiler and BLAS, and of peers."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    config = gg.get_config()
    return found | {name: str(config[name]) for name in ("compiler", "blas") if name in config}
