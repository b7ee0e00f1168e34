# SPDX-License-Identifier: Apache-2.0
"""A learned model that predicts the latencies of stages from those that were measured."""

from .active import LearnedCost
from .examples import Examples
from .latency_model import LatencyModel

__all__ = ["Examples", "LatencyModel", "LearnedCost"]
