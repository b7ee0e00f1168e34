# SPDX-License-Identifier: Apache-2.0
"""A scheduled function for a CUDA device, and the compiler of its kernels."""
