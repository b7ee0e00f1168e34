# SPDX-License-Identifier: Apache-2.0
"""Work partitioning: how the threads of a CPU share the work of a stage."""
