# SPDX-License-Identifier: MIT
"""Why a job ends early."""


class JobError(Exception):
    """A job that cannot go on; the message says in one line where, why, and what helps."""


class DeviceError(JobError):
    """A device that is not there; the message says what to do."""
