# SPDX-License-Identifier: MIT
"""One trial: its random numbers, the calls it makes, and what it finds."""

import os
import re
from collections import Counter
from enum import Enum
from functools import cached_property

import numpy as np

import gnograd as gg
import gnograd.autodiff as ad

DOCUMENTED = (TypeError, ValueError, IndexError, MemoryError, NotImplementedError)
"""Exceptions that a call may raise."""


class Enough(Exception):
    """End of a trial whose last finding leaves nothing to expect."""


class Trial:
    """One trial, which its seed determines.

    Parameters
    ----------
    seed : int
    subject : str
        What is tried, for the table at the end.
    log : int, optional
        File that always tells the present call, for when the process ends in it.
    verbose : bool, optional
        Print every call.
    """

    def __init__(self, seed, subject, log=None, verbose=False):
        self.seed, self.subject, self.log, self.verbose = seed, subject, log, verbose
        self.rng = np.random.default_rng(seed)
        self.counts = Counter()
        self.findings = []
        self._now("")

    def attempt(self, name, function, *args, names=(), **kwargs):
        """Result of a call, or the documented exception that it raised.

        An exception that is not documented is a finding; so is a message without the name of the
        function or one of `names`.
        """
        self._now(f"{name}({_listed(args, kwargs)})")
        self.counts["calls"] += 1
        try:
            result = function(*args, **kwargs)
        except DOCUMENTED as error:
            self.counts["refused"] += 1
            words = {name.split(".")[0], name.split("_")[0], name.split(".")[-1], *names, *kwargs}
            told = re.search("|".join(map(re.escape, words)), str(error))
            if not told and not isinstance(error, MemoryError):
                self.find(f"message without a name, {type(error).__name__}: {_brief(error)}")
            return error
        except Exception as error:
            self.find(f"undocumented {type(error).__name__}: {_brief(error)}")
            return error
        self.counts["computed"] += 1
        return result

    def _now(self, call):
        """Say what comes next, for when nothing comes after it."""
        self.last = call
        if self.verbose and call:
            print(call)
        if self.log is not None:
            text = f"{self.seed} {self.subject}: {call}".encode()[:4000]
            os.pwrite(self.log, text.ljust(4096, b"\0"), 0)

    def find(self, what):
        """Report a fault of the last call."""
        self.findings.append(
            {"seed": self.seed, "subject": self.subject, "what": what, "call": self.last}
        )
        if self.verbose:
            print("  FOUND", what)

    def expect(self, holds, what):
        """Report a fault unless a condition holds."""
        if not holds:
            self.find(what)
        return holds

    def require(self, holds, what):
        """Report a fault unless a condition holds, and then end the trial."""
        if not self.expect(holds, what):
            raise Enough

    def pick(self, *choices):
        """One of them."""
        return choices[self.rng.integers(len(choices))]

    def chance(self, probability):
        """True with this probability."""
        return self.rng.random() < probability

    @cached_property
    def dtype(self):
        """Dtype of the floating-point arrays of this trial."""
        return np.dtype(self.pick("float64", "float64", "float32"))

    def threads(self):
        """Set a number of threads: results do not depend on it."""
        gg.set_num_threads(int(self.pick(1, 1, 2, 3)))


def _brief(error):
    """First line of a message, with numbers left out, so that equal findings look equal."""
    return re.sub(r"-?\d[\d.e+]*", "#", str(error).split("\n")[0])[:90]


def _listed(args, kwargs):
    words = [*map(shown, args), *(f"{name}={shown(value)}" for name, value in kwargs.items())]
    return ", ".join(words)


def shown(value):
    """A value in a few words."""
    if isinstance(value, np.ndarray):
        form = "" if value.flags.c_contiguous else " F" if value.flags.f_contiguous else " strided"
        form += "" if value.flags.writeable else " read-only"
        form += "" if value.flags.aligned else " misaligned"
        kind = "masked " if isinstance(value, np.ma.MaskedArray) else ""
        numbers = f" {value.tolist()}" if value.size < 9 and value.dtype.kind != "f" else ""
        numbers = f" {value!r}" if value.ndim == 0 else numbers
        return f"<{kind}{value.dtype}{list(value.shape)}{form}{numbers}>"
    if isinstance(value, gg.Graph):
        ends = f"{value.src.tolist()}, {value.dst.tolist()}"
        return f"Graph.from_edges({ends}, {value.n_src}, {value.n_dst})"
    if isinstance(value, ad.Array):
        return "Array"  # which may be gone
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return f"({', '.join(map(shown, value))})"
    return str(value) if isinstance(value, Enum) else repr(value)[:80]
