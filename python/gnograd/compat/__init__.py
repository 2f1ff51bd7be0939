# SPDX-License-Identifier: MIT
"""Interfaces of other libraries with gnograd's kernels: codes change one import, or none."""

from gnograd.compat.install import install_pylibcugraphops

__all__ = ["install_pylibcugraphops"]
