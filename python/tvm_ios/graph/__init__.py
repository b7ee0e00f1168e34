# SPDX-License-Identifier: Apache-2.0
"""Conversion of a Relax function into an operator graph."""
