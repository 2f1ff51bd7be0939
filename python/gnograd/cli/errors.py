# SPDX-License-Identifier: MIT
"""Errors that end a job early."""


class JobError(Exception):
    """Error that ends a job; the message says in one line where, why, and what helps."""

    common = False
    """True if all processes of the job raise it together."""


class DeviceError(JobError):
    """Error about a missing device; the message says what to do."""
