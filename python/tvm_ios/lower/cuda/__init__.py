# SPDX-License-Identifier: Apache-2.0
"""Lowering for CUDA devices: stages become launches on parallel streams, or one launch."""
