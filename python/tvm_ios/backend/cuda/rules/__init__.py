# SPDX-License-Identifier: Apache-2.0
"""Which kernels an operator has on a CUDA device."""
