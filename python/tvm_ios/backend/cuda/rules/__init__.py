# SPDX-License-Identifier: Apache-2.0
"""The kernels that an operator can have on a CUDA device."""
