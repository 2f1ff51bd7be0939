# SPDX-License-Identifier: MIT
"""Declarations of the operators, one module a family."""
