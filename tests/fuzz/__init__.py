# SPDX-License-Identifier: Apache-2.0
"""Compare random networks, compiled in random ways, with other implementations."""
