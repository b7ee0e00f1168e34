# SPDX-License-Identifier: Apache-2.0
"""Timing: how often stages, schedules and models run, and what the samples say."""
