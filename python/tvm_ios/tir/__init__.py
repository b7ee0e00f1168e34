# SPDX-License-Identifier: Apache-2.0
"""The parts that TIR of kernels is built of."""
