# SPDX-License-Identifier: MIT
"""Calls at random, with and without sense, and what must be true of the answers.

    python tests/fuzz                       two minutes, from a seed of its own
    python tests/fuzz --seconds 600 --seed 7
    python tests/fuzz --only mha_gat        one subject
    python tests/fuzz --repeat mha_gat:123  one trial again, every call printed

Files of every format are damaged, too (`--only file.mat model`). Every call must raise one of the
documented exceptions, or give what is right; nothing else may happen. Trials run in other
processes: one that ends or hangs is reported, and the next ones go on.
"""

import argparse
import importlib.util
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
LONGEST = 120 if SANITIZED else 60
"""Seconds that a trial may take on a busy machine."""
MEMORY = 6 << 30
"""Bytes of address space, so that absurd sizes are a MemoryError."""


def subjects():
    """Subjects of trials, by name."""
    import correct
    import files
    import fronts
    import hostile
    import tape

    import operators

    table = {**tape.SUBJECTS, **fronts.SUBJECTS, **files.SUBJECTS}
    if importlib.util.find_spec("torch"):
        import torch_data
        import transforms

        table |= transforms.SUBJECTS | torch_data.SUBJECTS
    programs = correct.valid, correct.valid, correct.not_a_number, *[hostile.hostile] * 3

    def of(operator):
        return lambda trial: trial.pick(*programs)(trial, operator)

    return {**{name: of(name) for name in operators.NAMES}, **table}


def trial_of(table, name, seed, **more):
    """Run one trial."""
    import numpy as np
    from trial import Enough, Trial

    trial = Trial(seed, name, **more)
    try:
        with np.errstate(all="ignore"):
            trial.threads()
            table[name](trial)
    except Enough:
        pass
    except Exception:
        trial.find("the trial itself failed\n" + traceback.format_exc())
    return trial


def work(names, seeds, log, seconds):
    """Trials in this process; what is found goes to stdout, line by line."""
    import faulthandler
    import warnings

    if not SANITIZED:  # which tells more
        faulthandler.enable()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    table = subjects()
    chosen = names or list(table)
    maps = Path("/proc/self/maps").read_text()
    print(json.dumps({"library": re.search(r"\S+/libgnograd\S*", maps)[0]}), flush=True)
    until = time.time() + seconds
    for seed in seeds:
        if time.time() > until:
            break
        name = random.Random(seed).choice(chosen)
        trial = trial_of(table, name, seed, log=log)
        print(json.dumps([seed, name, trial.counts, trial.findings]), flush=True)
    print("done", flush=True)


class Workers:
    """Processes that share the seeds among them."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.counts, self.findings, self.lock = {}, [], threading.Lock()
        self.library = "no library"
        # counted from the first process that has imported all it needs
        self.until = None

    def run(self):
        n = self.arguments.processes
        threads = [threading.Thread(target=self._one, args=(k, n)) for k in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self, k, n):
        """One worker after another, as long as they end before their time."""
        next_seed = self.arguments.seed + k
        while (seconds := self._left()) > 0:
            with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as errors:
                process = subprocess.Popen(
                    [
                        sys.executable, str(HERE), "--worker", f"{next_seed}:{n}:{log.fileno()}",
                        "--seconds", str(seconds),
                        "--only", *self.arguments.only,
                    ],
                    stdout=subprocess.PIPE, stderr=errors, text=True, pass_fds=[log.fileno()],
                    env={"OMP_WAIT_POLICY": "passive", **os.environ},
                )  # fmt: skip
                watch = Watch(process)
                done = False
                for line in process.stdout:
                    watch.alive()
                    if line == "done\n":
                        done = True
                        continue
                    told = json.loads(line)
                    if "library" in told:
                        self.library = told["library"]
                        with self.lock:
                            self.until = self.until or time.time() + seconds
                        continue
                    seed, name, counts, found = told
                    next_seed = seed + n
                    with self.lock:
                        self.counts.setdefault(name, Counter()).update(counts, trials=1)
                        self.findings += found
                process.wait()
                watch.cancel()
                if done:
                    return
                what = "hangs" if watch.fired else f"ends with status {process.returncode}"
                self._ended(log, errors, what, next_seed)
                if self.until is None:
                    return
                next_seed += n

    def _left(self):
        """Seconds that are left."""
        return self.arguments.seconds if self.until is None else self.until - time.time()

    def _ended(self, log, errors, what, seed):
        """Record a finding: a process that hung or ended, its last call, and lines of stderr."""
        text = os.pread(log.fileno(), 4096, 0).rstrip(b"\0").decode(errors="replace")
        place, _, call = text.partition(": ")
        errors.seek(0)
        told = [line.decode(errors="replace").strip() for line in errors if _tells(line)]
        name = place.partition(" ")[2] or "start"
        what = f"the process {what}" + "".join(f"\n      {line}" for line in told[-6:])
        with self.lock:
            self.findings.append({"seed": seed, "subject": name, "what": what, "call": call})


def _tells(line):
    """True if a line of stderr says why a process ended."""
    words = (
        b"ERROR: Add",
        b"SUMMARY",
        b"runtime error",
        b"Fatal",
        b"Error",
        b"#1 ",
        b"#2 ",
        b"libgomp",
    )
    return any(word in line for word in words)


class Watch:
    """Ends a process that has been silent for too long."""

    def __init__(self, process):
        self.process, self.fired, self.timer = process, False, None
        self.alive()

    def alive(self):
        self.cancel()
        self.timer = threading.Timer(LONGEST, self._fire)
        self.timer.daemon = True
        self.timer.start()

    def cancel(self):
        if self.timer:
            self.timer.cancel()

    def _fire(self):
        self.fired = True
        self.process.kill()


def report(workers, seed):
    """Print counts and findings; true if there are no findings."""
    groups = {}
    for finding in workers.findings:
        groups.setdefault((finding["subject"], finding["what"]), []).append(finding)
    for (subject, what), found in groups.items():
        first = min(found, key=lambda finding: len(finding["call"]))
        print(f"\n{subject}: {what} ({len(found)} times)")
        print("    " + " ".join(first["call"].split())[:700])
        print(f"    again: python tests/fuzz --repeat {subject}:{first['seed']}")
    columns = "trials", "calls", "computed", "refused"
    print(f"\n{workers.library}\n{'':24}" + "".join(f"{c:>10}" for c in (*columns, "findings")))
    total = Counter()
    for name in sorted({*workers.counts, *(subject for subject, _ in groups)}):
        counts = Counter(workers.counts.get(name, {}))
        counts["findings"] = sum(f["subject"] == name for f in workers.findings)
        total.update(counts)
        print(f"{name:24}" + "".join(f"{counts[c]:10}" for c in (*columns, "findings")))
    print(f"{'seed ' + str(seed):24}" + "".join(f"{total[c]:10}" for c in (*columns, "findings")))
    return not workers.findings and total["computed"] > 0


def main():
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6 * 1000)
    parser.add_argument("--only", nargs="*", default=[], metavar="SUBJECT")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--repeat", metavar="SUBJECT:SEED")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        first, step, log = map(int, arguments.worker.split(":"))
        seeds = range(first, sys.maxsize, step)
        work(arguments.only, seeds, log, arguments.seconds)
        return
    if arguments.repeat:
        name, _, seed = arguments.repeat.partition(":")
        if not SANITIZED:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        trial = trial_of(subjects(), name, int(seed), verbose=True)
        sys.exit(1 if trial.findings else 0)
    workers = Workers(arguments)
    workers.run()
    sys.exit(0 if report(workers, arguments.seed) else 1)


if __name__ == "__main__":
    main()
