# SPDX-License-Identifier: Apache-2.0
"""What kernels for CPUs are written in: vectors, functions, and processors' instructions."""
