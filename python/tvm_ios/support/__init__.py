# SPDX-License-Identifier: Apache-2.0
"""Files, processes, threads and text; nothing of networks."""
