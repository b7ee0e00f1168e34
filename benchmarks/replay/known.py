# SPDX-License-Identifier: Apache-2.0
"""A cost model that knows every latency: what a search lists, and the best schedule there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate
from tvm_ios.measure.given import GivenBounds, GivenCost
from tvm_ios.search.network import NetworkSearch

Latency = Callable[[Candidate], float]
"""The seconds of a stage."""


class KnownCost(GivenCost):
    """The cost model of a function of single stages.

    Parameters
    ----------
    latency : callable
        The function.
    scheduler : Scheduler
        The network.

    Attributes
    ----------
    candidates : dict of Candidate to None
        The stages that were asked for, in their order.
    """

    equal_blocks_cost_the_same = True

    def __init__(self, latency: Latency, scheduler: Scheduler) -> None:
        super().__init__(lambda _, stages: [latency(c) for c in stages], scheduler.stage_builder)
        self.candidates: dict[Candidate, None] = {}

    def latency_bounds(self, candidates: Sequence[Candidate]) -> GivenBounds:
        self.candidates.update(dict.fromkeys(candidates))
        return super().latency_bounds(candidates)


def network_search(scheduler: Scheduler) -> NetworkSearch:
    """Return the search of a network within its blocks, with replacements.

    Which stages across the cuts a search considers depends on what it found before, so that no
    table has them. Options to measure all stages leave them out.
    """
    lowered, replacements = scheduler.stage_builder.lowered, scheduler.stage_builder.replacements
    options = replace(scheduler.options, measure_all=True)
    return NetworkSearch(lowered, replacements, scheduler.results, options)


def all_candidates(scheduler: Scheduler) -> list[Candidate]:
    """Return the stages of all blocks of the network, also those that cannot run."""
    listed = KnownCost(lambda candidate: 1.0, scheduler)
    network_search(scheduler).run(listed)
    return list(listed.candidates)
