# SPDX-License-Identifier: Apache-2.0
"""Kernels for CUDA devices: TIR functions that are bound to blocks and threads."""
