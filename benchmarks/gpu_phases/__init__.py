# SPDX-License-Identifier: Apache-2.0
"""A benchmark of a GPU in steps that fit into whatever time there is; see ``gpu.py``."""
