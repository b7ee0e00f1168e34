# SPDX-License-Identifier: Apache-2.0
"""Stages of a CUDA device: groups launched on parallel streams, or in one launch."""
