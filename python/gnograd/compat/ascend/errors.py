# SPDX-License-Identifier: MIT
"""Errors of Ascend's operators, by their codes."""

from __future__ import annotations

__all__ = ["ERRORS", "InvalidParameterError", "NullPointerError"]


class NullPointerError(ValueError):
    """An argument is None that must not be."""

    code = 161001


class InvalidParameterError(ValueError):
    """An argument is outside its limits, or not supported."""

    code = 161002


ERRORS: dict[int, type[Exception]] = {
    error.code: error for error in (NullPointerError, InvalidParameterError)
}
"""Errors by their codes."""
