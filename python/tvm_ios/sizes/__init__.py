# SPDX-License-Identifier: Apache-2.0
"""Sizes that are known only when a network runs, and what can be proven of them."""
