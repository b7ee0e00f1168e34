# SPDX-License-Identifier: Apache-2.0
"""The code of a scheduled function for a CUDA device, and the compiler of its kernels."""
