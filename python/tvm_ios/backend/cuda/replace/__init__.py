# SPDX-License-Identifier: Apache-2.0
"""Operators replaced by one larger operator on a CUDA device."""
