# SPDX-License-Identifier: MIT
"""Why a job ends early."""


class JobError(Exception):
    """A job that cannot go on; the message says in one line where, why, and what helps."""

    common = False
    """Whether all processes of the job raise it together."""


class DeviceError(JobError):
    """A device that is not there; the message says what to do."""
