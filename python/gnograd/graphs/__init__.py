# SPDX-License-Identifier: MIT
"""Graphs as data: two orders of the edges, built from edges or points, on CPUs and GPUs."""
