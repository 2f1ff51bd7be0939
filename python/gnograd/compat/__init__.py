# SPDX-License-Identifier: MIT
"""Interfaces of other libraries over gnograd's kernels, so that codes change one import, or none."""

from gnograd.compat.install import install_pylibcugraphops

__all__ = ["install_pylibcugraphops"]
