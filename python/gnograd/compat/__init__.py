# SPDX-License-Identifier: MIT
"""Interfaces of other libraries over gnograd's kernels, so that codes change one import."""
