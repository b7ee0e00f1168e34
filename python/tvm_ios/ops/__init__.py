# SPDX-License-Identifier: Apache-2.0
"""What operators mean: data that the graph, its rewrites and the back ends share."""
