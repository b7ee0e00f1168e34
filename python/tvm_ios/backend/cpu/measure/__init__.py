# SPDX-License-Identifier: Apache-2.0
"""Stages and models that are run and timed on a CPU."""
