# SPDX-License-Identifier: Apache-2.0
"""What each operator does along the axes of its operands; one file for each group of operators."""
