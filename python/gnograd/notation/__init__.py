# SPDX-License-Identifier: MIT
"""Notation of declarations and graphs: shapes, static arguments, arrays of a graph."""
