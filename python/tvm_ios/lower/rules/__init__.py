# SPDX-License-Identifier: Apache-2.0
"""Which kernel an operator gets on a CPU: one rule per kind."""

from .base import Choice, Preferences, Rule
from .concat import concat
from .convolution import conv2d
from .dense import matmul
from .planes import depthwise_conv2d, elementwise, global_average, pool2d

RULES: dict[str, Rule] = {
    "conv2d": conv2d,
    "depthwise_conv2d": depthwise_conv2d,
    "max_pool2d": pool2d,
    "avg_pool2d": pool2d,
    "adaptive_avg_pool2d": global_average,
    "mean": global_average,
    "concat": concat,
    "matmul": matmul,
    "elementwise": elementwise,
}

__all__ = ["RULES", "Choice", "Preferences", "Rule"]
