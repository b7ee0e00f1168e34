# SPDX-License-Identifier: Apache-2.0
"""From a Relax function to an operator graph."""
