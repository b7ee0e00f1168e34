# SPDX-License-Identifier: Apache-2.0
"""What is learned from measured stages about those that are not."""

from .active import LearnedCost
from .examples import Examples
from .latency_model import LatencyModel

__all__ = ["Examples", "LatencyModel", "LearnedCost"]
