# SPDX-License-Identifier: Apache-2.0
"""A stand-in for CUDA, and what runs on it."""
