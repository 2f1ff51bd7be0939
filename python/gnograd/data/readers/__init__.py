# SPDX-License-Identifier: MIT
"""Readers, one module a format; each imports its library when it is first used.

``contents(path)`` of each returns the arrays of a file or raises `gnograd.data.DataError`. Nothing
in a file is executed, and memory is limited by the size of the file. Formats with parsers of other
projects (all but .npz, safetensors and PyTorch's) are read through `process`, in a separate process
that may crash; ``LIBRARIES`` names the modules that are imported there first.
"""
