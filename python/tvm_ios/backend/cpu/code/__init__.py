# SPDX-License-Identifier: Apache-2.0
"""A scheduled function for a CPU: stages as functions, and the network that calls them."""
