# SPDX-License-Identifier: Apache-2.0
"""The back end of CUDA devices."""
