# SPDX-License-Identifier: Apache-2.0
"""General utilities for files, processes, threads and text."""
