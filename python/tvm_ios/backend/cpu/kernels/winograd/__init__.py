# SPDX-License-Identifier: Apache-2.0
"""Convolutions by Winograd's minimal filtering."""
