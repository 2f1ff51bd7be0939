# SPDX-License-Identifier: MIT
"""Types of graphs that annotations name, up to 23.02."""

from gnograd.compat.pylibcugraphops.graph import Csc, HeteroCsc

__all__ = ["FgCsr", "FgCsrHg", "MfgCsr", "MfgCsrHg"]

FgCsr = MfgCsr = Csc
FgCsrHg = MfgCsrHg = HeteroCsc
