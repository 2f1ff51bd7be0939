# SPDX-License-Identifier: MIT
"""A package of fpm that depends on gnograd by git, built and run as docs/howto/fpm.md says.

usage: fpm.py TREE FOLDER    what `expand.py TREE` has written, and where to work
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/howto/fpm.md"
# By the names that fpm gives them, that of the package for app/main.f90: arguments and what is
# printed.
# run_darcy is built with them, but wants what a training in Python has left.
PROGRAMS = {
    "threads": ("", r"threads 3\b"),
    "consumer": ("", r"derivative  -0\.08999504  quotient  -0\.08999504"),
    "train_gno": ("", r"step 400  relative error  0\.0[0-4]\d+"),
    "train_meshes": ("30", r"after:  relative error 0\.[0-4]\d+"),
    "ensemble": ("", r"-0\.500   -0\.6\d+    0\.00\d+   -0\.5985"),
    "assimilate_heat": ("5", r"differences: +(-1\.98508\d+E-03) +-1\.98508"),
}


def run(*command: str, cwd: Path) -> str:
    """Output of a command, which must not fail."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | {"OMP_NUM_THREADS": "3"}, text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_branch(tree: Path, repository: Path) -> None:
    """A repository whose branch fpm has the tree."""
    shutil.copytree(tree, repository, ignore=shutil.ignore_patterns(".git", "build"))
    run("git", "init", "-q", "-b", "fpm", cwd=repository)
    run("git", "add", "--all", cwd=repository)
    run("git", "-c", "user.name=gnograd", "-c", "user.email=none", "commit", "-q", "-m", "fpm",
        cwd=repository)  # fmt: skip


# How many threads the library has, in a program of another package
THREADS = """program threads
  use, intrinsic :: iso_c_binding, only: c_int
  use gnograd, only: tape_type
  implicit none
  interface
    function n_threads() result(n) bind(c, name="gnograd_num_threads")
      import :: c_int
      integer(c_int) :: n
    end function n_threads
  end interface
  print "(a, i0)", "threads ", n_threads()
end program threads
"""


def main() -> None:
    """Build, run, compare."""
    tree, folder = (Path(path).resolve() for path in sys.argv[1:])
    if folder.exists():
        shutil.rmtree(folder)
    make_branch(tree, folder / "gnograd")
    text = DOCUMENT.read_text()
    (manifest,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    command = re.findall(r"```sh\n(fpm run .*?)\n```", text)[0]
    # results are those of the page's options, in a third of the compiler's time
    command = re.sub(r'--profile release --flag "[^"]*"', '--flag "-O0"', command)
    consumer = folder / "consumer"
    (consumer / "app").mkdir(parents=True)
    url = (folder / "gnograd").as_uri()
    (consumer / "fpm.toml").write_text(re.sub(r'https://[^"]*', url, manifest))
    shutil.copy(ROOT / "tests/consumer/derivative.f90", consumer / "app/main.f90")
    (consumer / "app/threads.f90").write_text(THREADS)
    listed = run("sh", "-c", "fpm run --example --list 2>&1", cwd=folder / "gnograd").split()
    for example in (folder / "gnograd/example").glob("*.f90"):
        if not any(Path(path).name == example.stem for path in listed):
            raise SystemExit(f"fpm does not find {example.stem} in {listed}")
        shutil.copy(example, consumer / "app")
    for program, (arguments, result) in PROGRAMS.items():
        printed = run(
            *shlex.split(command), "--target", program, "--", *arguments.split(), cwd=consumer
        )
        if not re.search(result, printed):
            raise SystemExit(f"{program} prints\n{printed}")
        print(f"{program}: {printed.strip().splitlines()[-1]}")


if __name__ == "__main__":
    main()
