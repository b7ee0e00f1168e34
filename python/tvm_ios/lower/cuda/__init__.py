# SPDX-License-Identifier: Apache-2.0
"""Networks as calls of kernels on a CUDA device."""
