# SPDX-License-Identifier: Apache-2.0
"""Searches replayed on a simulated device, whose true latencies and best schedule are known."""
