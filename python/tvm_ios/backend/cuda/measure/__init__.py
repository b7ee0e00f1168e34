# SPDX-License-Identifier: Apache-2.0
"""Runners that time stages and models on a CUDA device."""
