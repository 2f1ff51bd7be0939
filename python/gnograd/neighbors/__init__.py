# SPDX-License-Identifier: MIT
"""Searches for neighbours: radius, k nearest, periodic cells; on CPUs and GPUs."""
