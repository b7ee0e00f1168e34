# SPDX-License-Identifier: Apache-2.0
"""Replacement of several operators by one larger operator on a CUDA device."""
