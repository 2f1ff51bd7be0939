# SPDX-License-Identifier: MIT
"""A module a format; each imports what it needs when it is asked to read.

``contents(path)`` of each gives the arrays of a file and raises `gnograd.data.DataError`. Nothing
that a file says is executed, and no memory is asked for that its bytes do not account for. What
parsers of other projects read (all but .npz, safetensors and PyTorch's) is read through `process`,
in a process that such a parser may bring down; ``LIBRARIES`` names what is imported there first.
"""
