# SPDX-License-Identifier: MIT
"""Calls of operators: every check, the four faces, and prepared calls."""
