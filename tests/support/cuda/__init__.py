# SPDX-License-Identifier: Apache-2.0
"""A fake of CUDA, and what runs on it."""
