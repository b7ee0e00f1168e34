# SPDX-License-Identifier: Apache-2.0
"""Kernels by rule: TIR emitted tile by tile, free of Relax."""
