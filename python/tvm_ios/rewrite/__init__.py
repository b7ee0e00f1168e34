# SPDX-License-Identifier: Apache-2.0
"""Rewrites of Relax, one pass a file; :mod: lists them in their order."""
