# SPDX-License-Identifier: Apache-2.0
"""Kernels of row-major tensors that work along their rows."""
