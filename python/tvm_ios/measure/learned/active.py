# SPDX-License-Identifier: Apache-2.0
"""A cost model that measures only what could change the schedule.

A stage that was not measured is priced at the least that it may take, by a model of those that
were. A schedule that is cheapest by such prices rests on stages that promise much, or of which the
model is unsure; these are measured, the model is fitted again, and the search repeated. It ends
with a schedule whose stages were all measured, while no other could be faster even if every stage
that was not measured took as little as its bound says: the principle of optimism in the face of
uncertainty (Lai and Robbins, *Asymptotically Efficient Adaptive Allocation Rules*, 1985), applied
to the edges of a shortest path as in LazySP (Dellin and Srinivasa, *A Unifying Formalism for
Shortest Path Problems with Expensive Edge Evaluations*, 2016).
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from itertools import islice

import numpy as np

from ...backend.shared.stages import AnyAssembler
from ...graph.dag import Candidate
from ...search.cost_model import Through
from ..cost import MeasuredCost
from .examples import Examples
from .features import OperatorTable, StageFeatures
from .latency_model import LatencyModel

_logger = logging.getLogger(__name__)

_WORTH = 0.01  # share of its operators' time that a stage must promise to gain to be measured
_FIRST = 0.015  # share of the stages that is measured at first, where nothing was learned yet
_FEWEST, _MOST_FIRST = 24, 400  # but at least, and at most, so many
_FEW = 128  # stages that are all measured
_NEAR = 1.05  # what is no more than so much slower by its bounds may turn out to be the fastest
_MOST = 2000  # stages that are looked up for a block
_GROWTH = 1.1  # as much more must have been measured before the model is fitted again


class LearnedCost:
    """Measures stages when a schedule rests on them, and bounds the others.

    Parameters
    ----------
    measured : MeasuredCost
        Measures.
    assembler : Assembler
    examples : Examples
        What the model learns from.
    model : LatencyModel
        Equal examples and models give equal bounds.
    seed : int
        Of the stages that are measured first.

    Attributes
    ----------
    revision : int
        Grows whenever bounds or prices that were known change.
    """

    equal_blocks_cost_the_same = True

    def __init__(
        self,
        measured: MeasuredCost,
        assembler: AnyAssembler,
        examples: Examples,
        model: LatencyModel,
        seed: int,
    ) -> None:
        self._random = np.random.default_rng(seed)
        self._measured, self._assembler = measured, assembler
        self.examples, self._model = examples, model
        self._fitted = 0  # examples that the model has seen
        self.settled: dict[Candidate, None] = {}  # in the order in which they were
        self.revision = 0
        self._priced: list[Candidate] = []
        self._first: list[Candidate] | None = None
        self._features = self._describe_operators()
        self._fit()

    @property
    def operator_seconds(self) -> Mapping[Hashable, float]:
        return self._measured.operator_seconds

    @property
    def measurements(self) -> int:
        return self._measured.measurements

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        return self._measured(candidates)

    def division(self, candidate: Candidate) -> str:
        return self._measured.division(candidate)

    def prices(self, candidates: Sequence[Candidate]) -> LearnedPrices:
        self._priced += candidates
        features, apart = self._features(candidates), self._features.apart(candidates)
        return LearnedPrices(self, candidates, features, apart)

    def settle(self, candidates: Sequence[Candidate]) -> int:
        """Find out what only a bound is known of, or else measure what all rests on more often.

        Where something can be recalled nothing is measured: it may turn out not to matter.
        """
        if self._first is None:
            self._first = [] if self._fitted else self._first_look()
        wanted = dict.fromkeys([*candidates, *self._first])
        unknown = [c for c in wanted if c not in self.settled]
        if not unknown:
            return self._fit_rest() or self._measure_again(candidates)
        unknown = self._measured.recalled(unknown) or unknown
        self._price(unknown)
        if len(self.examples) > _GROWTH * self._fitted:
            self._fit()
        return len(unknown)

    @property
    def recalls(self) -> bool:
        """Whether the database has stages that this search has not asked for."""
        return self.examples.recalled

    def recall(self, candidates: Sequence[Candidate]) -> None:
        """Take the prices of candidates that need no measuring."""
        unknown = [c for c in dict.fromkeys(candidates) if c not in self.settled]
        self._price(self._measured.recalled(unknown))

    def runnable(self, candidate: Candidate) -> bool:
        return self._measured.runnable(candidate)

    def least(self, features: np.ndarray) -> np.ndarray:
        """What stages take at least over their operators apart, as far as the model knows."""
        return np.exp(self._model.least(features)) + _WORTH

    def _price(self, candidates: Sequence[Candidate]) -> None:
        """Find out what candidates take, and learn from those that were measured."""
        self._measured(candidates)
        self.settled.update(dict.fromkeys(candidates))
        for candidate in candidates:
            observation = self._measured.observation(candidate)
            if observation is not None and len(candidate.ops) > 1:
                self.examples.add(candidate, observation)

    def _first_look(self) -> list[Candidate]:
        """Stages of all sizes, drawn at random, for the model to begin with.

        Of a small network they are all: to measure them takes less than to fit a model.
        """
        sizes: dict[int, list[Candidate]] = {}
        for candidate in dict.fromkeys(self._priced):
            if len(candidate.ops) > 1 and self.runnable(candidate):
                sizes.setdefault(len(candidate.ops), []).append(candidate)
        count = sum(map(len, sizes.values()))
        if count <= _FEW:
            return [candidate for stages in sizes.values() for candidate in stages]
        wanted = min(max(_FEWEST, round(_FIRST * count)), _MOST_FIRST)
        each = wanted // max(len(sizes), 1) + 1
        return [
            stages[i]
            for stages in sizes.values()
            for i in self._random.permutation(len(stages))[:each]
        ]

    def _describe_operators(self) -> StageFeatures:
        """The features of stages, by what the operators take alone."""
        assembler, lowered = self._assembler, self._assembler.lowered
        alone = [Candidate((i,), "concurrent") for i in range(len(lowered.implementations))]
        table = OperatorTable.of(lowered, self._measured(alone).tolist(), self.operator_seconds)
        self.settled.update(dict.fromkeys(alone))
        return StageFeatures(table, assembler.workers, assembler.cache_bytes)

    def _fit_rest(self) -> int:
        """Fit the model to what it has not seen; returns how much that is."""
        missing = len(self.examples) - self._fitted
        if missing:
            self._fit()
        return missing

    def _fit(self) -> None:
        self.examples.describe(self._features)
        if not self._priced or any(c not in self.settled for c in self._priced):
            training = self.examples.training_set(self._features, self._measured)
            self._model.fit(training.features, training.log_ratio, training.error)
        self._fitted = len(self.examples)
        self.revision += 1
        _logger.debug("fitted to %d stages", self._fitted)

    def _measure_again(self, candidates: Sequence[Candidate]) -> int:
        changed = self._measured.settle(candidates)
        if changed:
            self._fit()
        return changed


class LearnedPrices:
    """Latencies of candidates, and bounds of those that were not measured.

    Parameters
    ----------
    cost : LearnedCost
    candidates : sequence of Candidate
    features : numpy.ndarray
        float32 [n, features]: theirs.
    apart : numpy.ndarray
        float64 [n]: seconds of their operators one after another.
    """

    def __init__(
        self,
        cost: LearnedCost,
        candidates: Sequence[Candidate],
        features: np.ndarray,
        apart: np.ndarray,
    ) -> None:
        self._cost, self._candidates = cost, candidates
        self._rows, self._apart = features, apart
        self._place = {candidate: i for i, candidate in enumerate(candidates)}
        self._impossible = np.array([not cost.runnable(c) for c in candidates], bool)
        self._revision = -1
        self._seen = 0  # of what is settled
        self._bounds = np.zeros(0)

    def bounds(self) -> np.ndarray:
        """Float64 [n]: seconds; infinity for a stage that cannot run."""
        if self._revision != self._cost.revision:
            self._revision, self._seen = self._cost.revision, 0
            self._bounds = self._apart * self._cost.least(self._rows)
            self._bounds[self._impossible] = np.inf
        new = [c for c in islice(self._cost.settled, self._seen, None) if c in self._place]
        self._seen = len(self._cost.settled)
        if new:
            self._bounds[[self._place[c] for c in new]] = self._cost(new)
        return self._bounds

    def recall(self, through: Through) -> None:
        """Look up the stages of schedules near the cheapest, or all where they are not too many.

        What was chosen before took less than was expected of it: by its bound alone it might not be
        looked at again.
        """
        if not self._cost.recalls:
            return
        latency = through(self.bounds())
        near = np.arange(len(latency))
        if len(near) > _MOST:
            near = np.flatnonzero(latency <= _NEAR * latency.min())
        first = near[np.argsort(latency[near], kind="stable")[:_MOST]]
        self._cost.recall([self._candidates[i] for i in first])
