# SPDX-License-Identifier: Apache-2.0
"""A cost model that knows every latency: what a search lists, and the best schedule there is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate
from tvm_ios.measure.given import GivenBounds
from tvm_ios.search.cost_model import Promising, nothing
from tvm_ios.search.network import NetworkSearch

Latency = Callable[[Candidate], float]
"""The seconds of a stage."""


class KnownCost:
    """The cost model of a function of single stages.

    Parameters
    ----------
    latency : callable
        The function.

    Attributes
    ----------
    candidates : dict of Candidate to None
        The stages that were asked for, in their order.
    """

    equal_blocks_cost_the_same = True
    measurements = 0

    def __init__(self, latency: Latency) -> None:
        self._latency = latency
        self.candidates: dict[Candidate, None] = {}
        self.operator_seconds: Mapping[Hashable, float] = {}

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        return np.array([self._latency(c) for c in candidates], "float64")

    def partitioning(self, candidate: Candidate) -> str:
        raise AssertionError("a search does not ask for it")

    def latency_bounds(self, candidates: Sequence[Candidate]) -> GivenBounds:
        self.candidates.update(dict.fromkeys(candidates))
        return GivenBounds(self(candidates))

    def resolve(self, candidates: Sequence[Candidate], promising: Promising = nothing) -> int:
        return 0

    def agrees(self, candidates: Sequence[Candidate]) -> bool:
        return True

    def floors(self, ops: Sequence[int]) -> np.ndarray:
        return np.zeros(len(ops))


def network_search(scheduler: Scheduler) -> NetworkSearch:
    """Return the search of a network, with replacements."""
    lowered, replacements = scheduler.stage_builder.lowered, scheduler.stage_builder.replacements
    return NetworkSearch(lowered, replacements, scheduler.results, scheduler.options)


def all_candidates(scheduler: Scheduler) -> list[Candidate]:
    """Return the stages of all blocks of the network, also those that cannot run."""
    listed = KnownCost(lambda candidate: 1.0)
    every = replace(scheduler.options, measure_all=True)  # without stages across the cuts
    network_search(replace(scheduler, options=every)).run(listed)
    return list(listed.candidates)
