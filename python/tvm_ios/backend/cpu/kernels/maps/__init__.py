# SPDX-License-Identifier: Apache-2.0
"""Kernels of blocked feature maps that treat each channel, or group of channels, on its own."""
