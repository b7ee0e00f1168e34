# SPDX-License-Identifier: Apache-2.0
"""From an operator graph and a schedule to Relax functions of fused TIR kernels."""
