# SPDX-License-Identifier: MIT
"""Common frame of all commands: processes, threads, locks, and messages of errors."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

import gnograd as gg
from gnograd.cli.config import Computing, Parallel, Place
from gnograd.cli.errors import JobError
from gnograd.cli.files import BusyError, FileError, atomic, locked
from gnograd.cli.log import EXAMPLES, HISTORY, RESULTS
from gnograd.cli.options import kept
from gnograd.cli.processes import ALONE, Processes, connected
from gnograd.data.contents import DataError
from gnograd.data.description import DESCRIPTION
from gnograd.distributed.launchers import launched
from gnograd.notation.text import printable, read_text


class _Terminal(Console):
    """Console that prints names from files as plain text, without control characters."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Render text with rich, without control characters other than line breaks."""
        lines = map(printable, text.split("\n"))
        return super().render_str("\n".join(lines), **options)


console = _Terminal(highlight=False)


CONFIG = "config.json"
"""File of a run with its options."""
_OF_RUNS = (DESCRIPTION, "model.safetensors", HISTORY, RESULTS, EXAMPLES)
"""Other files of runs."""


def _is_of_run(options: Path) -> bool:
    """Whether a file has the options of a run."""
    try:
        found = json.loads(read_text(options))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "out" in found


@dataclass(frozen=True)
class Run:
    """Place and surroundings of a training."""

    directory: Path
    console: Console = console
    fresh: bool = False
    """True to start anew even if there is a run in the directory."""
    log: str = "csv"
    """Format of the log, ``"csv"`` or ``"tensorboard"``."""
    processes: Processes = ALONE
    """Processes that share the work; the first one reads and writes files."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the command."""

    def need_free(self, directory: Path) -> None:
        """Raise JobError for files without a checkpoint, which the run would replace.

        The options of a run are there before its checkpoint.
        """
        there = [directory / name for name in _OF_RUNS if (directory / name).exists()]
        options = self.directory / CONFIG
        there += [options] if options.exists() and not _is_of_run(options) else []
        if there:
            raise JobError(
                f"{there[0]}: would be replaced, but is of no run that can be continued; choose "
                "another --out, or replace it with --fresh"
            )

    def save_options(self) -> None:
        """Write the options as a file for ``--config``, if there are any."""
        if self.options:
            with atomic(self.directory / CONFIG) as stream:
                stream.write((json.dumps(self.options, indent=1) + "\n").encode())

    def show(self, what: str, where: object) -> None:
        """Print a place in one line, to be copied."""
        self.console.print(f"{what + ':':9}{where}", markup=False, soft_wrap=True)


@contextmanager
def training(
    ctx: typer.Context, place: Place, computing: Computing, folders: Iterable[str] = ()
) -> Iterator[Run]:
    """Context of a training in a directory, and in folders there."""
    directories = [place.out, *(place.out / folder for folder in folders)]
    with job(computing.threads, directories, getattr(computing, "parallel", None)) as processes:
        options = kept(ctx.params)
        yield Run(place.out, console, place.fresh, place.log, processes, options)


@contextmanager
def job(
    threads: int, directories: Iterable[Path], parallel: Parallel | None = None
) -> Iterator[Processes]:
    """Context of a job that locks some directories; prints a `JobError` in one line.

    Without `parallel` the job has one process; starting several is an error.
    """
    first, directories = launched().rank == 0, list(directories)
    if parallel in (None, Parallel.NONE) and not first:
        raise typer.Exit  # with 0: what the first one says is not cut off
    if parallel is None and launched().size > 1:
        _say(
            f"{launched().size} processes were started, but this command divides nothing among "
            "them; start it once, without mpiexec, srun or torchrun (--threads is for cores)"
        )
        raise typer.Exit(1)
    parallel = Parallel.NONE if parallel is None else parallel
    try:
        gg.set_num_threads(threads)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--threads") from error
    processes = ALONE
    try:
        processes = connected(parallel)
        gg.set_num_threads(threads or processes.threads)
        with ExitStack() as stack:
            with processes.together():
                for directory in directories if first else ():
                    stack.enter_context(locked(directory))
            yield processes
    except JobError as error:
        if first or not error.common:
            _say(_explained(error))
        _end(processes, error.common)
        raise typer.Exit(1) from error
    except DataError as error:
        _say(str(error))
        raise typer.Exit(1) from error
    except RuntimeError as error:
        if not processes.lost(error):
            raise
        if first:
            _say("another process has ended, and with it this run; the same command continues it")
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        more = "; the same command, without --fresh, continues the run." if directories else "."
        console.print(f"\nStopped{more}")
        _end(processes, together=False)
        raise typer.Exit(130) from error
    finally:
        gg.set_num_threads(0)  # restore the default for callers in Python


def _end(processes: Processes, together: bool) -> None:
    """End the other processes, unless they end together: they would wait for this one."""
    if processes.size > 1 and not together:
        console.file.flush()
        processes.comm.abort()


def _explained(error: JobError) -> str:
    """Message of an error with advice."""
    if isinstance(error, BusyError):
        return f"{error}; wait for it, or choose another --out"
    if isinstance(error, FileError):
        return f"{error}; mend this, or choose another --out"
    return str(error)


def _say(message: str) -> None:
    line = printable(f"gnograd: {message}")
    Console(stderr=True, highlight=False, soft_wrap=True).print(line, markup=False)
