# SPDX-License-Identifier: Apache-2.0
"""Stages, kernels and whole models timed on a CUDA device of this machine."""
