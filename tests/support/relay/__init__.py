# SPDX-License-Identifier: Apache-2.0
"""Saved Relay models, whole and in parts."""
