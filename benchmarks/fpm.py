# SPDX-License-Identifier: MIT
"""Gain by the options of docs/howto/fpm.md: a package of fpm with them and without.

usage: fpm.py FOLDER    what `make fpm` has left, build/fpm-consumer
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = 3


def main() -> None:
    """Build both, run them by turns on one thread, print the ratio of the shortest times."""
    consumer = Path(sys.argv[1]).resolve() / "consumer"
    shutil.copy(ROOT / "benchmarks/fpm.f90", consumer / "app/speed.f90")
    text = (ROOT / "docs/howto/fpm.md").read_text()
    (told,) = re.findall(r"```sh\n(fpm run .*?)\n```", text)
    options = shlex.split(told)[2:]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    best: list[list[float]] = [[], []]
    for _ in range(RUNS):
        for k, chosen in enumerate((options, options[:2])):
            done = subprocess.run(
                ["fpm", "run", *chosen, "--target", "speed"],
                cwd=consumer, env=environment, capture_output=True, text=True, check=True,
            )  # fmt: skip
            times = [float(word) for word in done.stdout.splitlines()[-1].split()]
            best[k] = [min(pair) for pair in zip(times, best[k] or times, strict=True)]
    for name, fast, slow in zip(("gno", "agg_weighted and gelu"), *best, strict=True):
        print(f"{name}: {slow / fast:.1f} times as long without {' '.join(options[3:])}")


if __name__ == "__main__":
    main()
