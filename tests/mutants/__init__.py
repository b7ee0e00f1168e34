# SPDX-License-Identifier: Apache-2.0
"""Known mistakes, each of which tests must notice: ``python -m mutants``."""
