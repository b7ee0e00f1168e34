# SPDX-License-Identifier: Apache-2.0
"""Measuring and predicting the latencies of stages."""
