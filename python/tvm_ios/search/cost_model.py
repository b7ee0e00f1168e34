# SPDX-License-Identifier: Apache-2.0
"""What answers "how long does this stage take"."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

import numpy as np

from ..graph.dag import Candidate

Through = Callable[[np.ndarray], np.ndarray]
"""From the candidates' latencies to that of the cheapest schedule with each of them."""


class Prices(Protocol):
    """What is known of the latencies of some candidates; more with every stage that is settled."""

    def bounds(self) -> np.ndarray:
        """Float64 [n]: the latency where it is known, else a bound that it is thought to exceed."""

    def recall(self, through: Through) -> None:
        """Look up what a database has of the stages that schedules near the cheapest rest on."""


class CostModel(Protocol):
    """A cost model, as the scheduler uses it."""

    @property
    def operator_seconds(self) -> Mapping[Hashable, float]:
        """Time of operators on one worker, by kernel key: what work is divided by."""

    equal_blocks_cost_the_same: bool
    """Whether blocks of the same kernels have the same prices, so that one is searched for all."""

    @property
    def measurements(self) -> int:
        """Stages that were measured."""

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Latency in seconds per candidate."""

    def prices(self, candidates: Sequence[Candidate]) -> Prices:
        """What is known of candidates without finding out more."""

    def settle(self, candidates: Sequence[Candidate]) -> int:
        """Find out what the stages of a schedule take; returns how many prices are new."""

    def division(self, candidate: Candidate) -> str:
        """How the work of a candidate is divided best."""
