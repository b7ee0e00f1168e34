# SPDX-License-Identifier: Apache-2.0
"""A cost model that measures only stages that could change the schedule.

A stage that was not measured gets a lower confidence bound of its latency, from a model of the
measured stages. The schedule that is cheapest by these bounds contains stages that promise much, or
of which the model is unsure. These stages are measured, the model is fitted again, and the search
is repeated. It ends when the bounds promise next to nothing over the best schedule of measured
stages. This is the principle of optimism in the face of uncertainty (Lai and Robbins,
*Asymptotically Efficient Adaptive Allocation Rules*, 1985), applied to the edges of a shortest path
as in LazySP (Dellin and Srinivasa, *A Unifying Formalism for Shortest Path Problems with Expensive
Edge Evaluations*, 2016).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain, islice

import numpy as np

from ...graph.dag import Candidate
from ...lowering.stages import AnyStageBuilder
from ...search.cost_model import BestThrough, Promising, nothing
from ..cost import MeasuredCost
from ..timing.speed import MachineSpeed
from .calibration import HeldBack
from .examples import Examples
from .features import StageFeatures
from .latency_model import STATED, LatencyModel
from .operator_table import OperatorTable

_logger = logging.getLogger(__name__)

_HELD_BACK = 0.1  # random stages that are measured with the promising ones, as a share of those
_DRAWS = 8  # attempts to draw a stage that was not measured
_FIRST = 0.007  # share of the stages in the first random sample
_FEWEST, _MOST_FIRST = 24, 400  # limits of the size of that sample
_TAUGHT = 12  # the same if the model has learned from other networks
_FEW = 128  # up to this many stages, all are measured
_NEAR = 1.05  # schedules are near-optimal up to this ratio of bounds
_MOST = 2000  # stages looked up per block
_BESIDE = 4  # stages that are measured beside fewer than these
_GROWTH = 1.1  # the model is fitted again when the examples grew by this factor


class LearnedCost:
    """A cost model that measures the stages of promising schedules and bounds the others.

    Parameters
    ----------
    measured : MeasuredCost
        The cost model that measures.
    features : StageFeatures
        The feature extractor, which depends on the latency of each operator alone.
    examples : Examples
        The training data.
    model : LatencyModel
        The model. Equal examples and models give equal bounds.
    seed : int
        The seed that selects the stages that are measured first.
    coverage : float
        The share of the stages that are to lie above the bounds that the search uses.

    Attributes
    ----------
    revision : int
        A counter that increases whenever known bounds or latencies change.
    held_back : HeldBack
        How many measurements lay above the bound that was stated before they were taken.
    """

    equal_blocks_cost_the_same = True

    def __init__(
        self,
        measured: MeasuredCost,
        features: StageFeatures,
        examples: Examples,
        model: LatencyModel,
        seed: int,
        coverage: float,
    ) -> None:
        self._random = np.random.default_rng(seed)
        self._coverage, self.held_back = coverage, HeldBack()
        self._measured, self._features = measured, features
        self.examples, self._model = examples, model
        self._fitted = 0  # number of examples in the last fit
        self.resolved: dict[Candidate, None] = {}  # a set in insertion order
        self.revision = 0
        self._priced: list[Candidate] = []
        self._first: list[Candidate] | None = None
        self._sampled: set[Candidate] = set()  # stages that were chosen at random

    @classmethod
    def begin(
        cls,
        measured: MeasuredCost,
        stage_builder: AnyStageBuilder,
        examples: Examples,
        model: LatencyModel,
        seed: int,
        coverage: float,
    ) -> LearnedCost:
        """Measure every operator, and fit ``model`` to the examples.

        Parameters
        ----------
        measured : MeasuredCost
        stage_builder : StageBuilder
        examples : Examples
        model : LatencyModel
        seed : int
        coverage : float
        """
        lowered = stage_builder.lowered
        alone = [Candidate((i,), "concurrent") for i in range(len(lowered.implementations))]
        seconds = measured(alone).tolist()
        table = OperatorTable.of(lowered, seconds, measured.operator_seconds)
        features = StageFeatures(table, stage_builder.machine)
        cost = cls(measured, features, examples, model, seed, coverage)
        cost.resolved.update(dict.fromkeys(alone))
        model.learn(examples.others())
        cost._fit()
        return cost

    @property
    def speed(self) -> MachineSpeed:
        """The speed of the machine that all latencies are scaled to."""
        return self._measured.speed

    @property
    def operator_seconds(self) -> Mapping[Hashable, float]:
        return self._measured.operator_seconds

    @property
    def measurements(self) -> int:
        return self._measured.measurements

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        return self._measured(candidates)

    def partitioning(self, candidate: Candidate) -> str:
        return self._measured.partitioning(candidate)

    def latency_bounds(self, candidates: Sequence[Candidate]) -> LearnedBounds:
        self._priced += candidates
        features, serial = self._features(candidates), self._features.serial(candidates)
        return LearnedBounds(self, candidates, features, serial)

    def resolve(self, candidates: Sequence[Candidate], promising: Promising = nothing) -> int:
        """Measure candidates of which only a bound is known, else refine the known ones.

        If some of them can be looked up in the database, nothing is measured, because their
        latencies may already change the schedule. Otherwise promising candidates that share no
        operators with the others are measured in the same runs of the network.
        """
        if self._first is None:
            self._first = [] if self._fitted else self._first_look()
            self._sampled.update(self._first)
        wanted = dict.fromkeys([*candidates, *self._first])
        unknown = [c for c in wanted if c not in self.resolved]
        if not unknown:
            return self._fit_rest() or self._measure_again(candidates)
        known = self._measured.looked_up(unknown)
        self._price(known or [*unknown, *self._beside(unknown, promising())])
        if len(self.examples) > _GROWTH * self._fitted:
            self._fit()
        return len(known or unknown)

    @property
    def can_look_up(self) -> bool:
        """Return whether the database has stages that this search has not looked up."""
        return self.examples.looked_up

    def lookup(self, candidates: Sequence[Candidate]) -> None:
        """Look up the latencies of those candidates that need no measuring."""
        unknown = [c for c in dict.fromkeys(candidates) if c not in self.resolved]
        self._price(self._measured.looked_up(unknown))

    def runnable(self, candidate: Candidate) -> bool:
        return self._measured.runnable(candidate)

    def least(self, features: np.ndarray, coverage: float | None = None) -> np.ndarray:
        """Return lower bounds of latencies, relative to the operators in serial order.

        Parameters
        ----------
        features : numpy.ndarray
            float32 [n, features].
        coverage : float, optional
            The share of latencies that lie above the bounds; by default that of the search.
        """
        return np.exp(self._model.least(features, coverage or self._coverage))

    def _price(self, candidates: Sequence[Candidate]) -> None:
        """Determine the latencies of candidates, and add the measured ones to the examples."""
        bounds = self.stated_bounds(candidates)
        self._measured(candidates)
        self.resolved.update(dict.fromkeys(candidates))
        for candidate in candidates:
            observation = self._measured.observation(candidate)
            if observation is not None and len(candidate.ops) > 1:
                self.examples.add(candidate, observation, candidate in self._sampled)
                if candidate in bounds:
                    self.held_back.add(observation.seconds >= bounds[candidate])

    def stated_bounds(self, candidates: Sequence[Candidate]) -> dict[Candidate, float]:
        """Return the 90% bounds of candidates in seconds, without entries until the first fit."""
        if not self._model.fitted or not candidates:
            return {}
        least = np.exp(self._model.least(self._features(candidates)))
        bounds = self._features.serial(candidates) * least
        return dict(zip(candidates, bounds.tolist(), strict=True))

    def _first_look(self) -> list[Candidate]:
        """Return random stages of all sizes, for the first fit of the model.

        For a small network these are all stages: measuring them takes less time than fitting a
        model.
        """
        sizes: dict[int, list[Candidate]] = {}
        for candidate in dict.fromkeys(self._priced):
            if len(candidate.ops) > 1 and self.runnable(candidate):
                sizes.setdefault(len(candidate.ops), []).append(candidate)
        count = sum(map(len, sizes.values()))
        if count <= _FEW and not self._model.taught:
            return [candidate for stages in sizes.values() for candidate in stages]
        wanted = min(max(_FEWEST, round(_FIRST * count)), _MOST_FIRST)
        wanted = min(wanted, _TAUGHT) if self._model.taught else wanted
        each = wanted // max(len(sizes), 1) + 1
        return [
            stages[i]
            for stages in sizes.values()
            for i in self._random.permutation(len(stages))[:each]
        ]

    def _random_stages(self, taken: Collection[int]) -> list[Candidate]:
        """Return random stages that calibrate the bounds, without operators that are taken."""
        due = math.ceil(_HELD_BACK * len(self.resolved)) - len(self._sampled)
        if due <= 0:
            return []
        drawn = self._random.integers(0, len(self._priced), _DRAWS)
        fresh = (c for c in (self._priced[i] for i in drawn) if self._unknown(c))
        chosen = list(islice((c for c in fresh if not set(taken) & set(c.ops)), 1))
        self._sampled.update(chosen)
        return chosen

    def _unknown(self, candidate: Candidate) -> bool:
        """Return whether a stage of several operators could be measured, but was not."""
        single = len(candidate.ops) == 1
        return not single and candidate not in self.resolved and self.runnable(candidate)

    def _fit_rest(self) -> int:
        """Fit the model to the examples that it has not seen; return their number."""
        missing = len(self.examples) - self._fitted
        if missing:
            self._fit()
        return missing

    def _fit(self) -> None:
        self.examples.describe(self._features)
        if not self._priced or any(c not in self.resolved for c in self._priced):
            self._model.fit(self.examples.own(self._features, self._measured))
        self._fitted = len(self.examples)
        self.revision += 1
        _logger.debug("fitted to %d stages", self._fitted)

    def _beside(
        self, wanted: Sequence[Candidate], promising: Iterable[Candidate]
    ) -> list[Candidate]:
        """Return candidates that can be timed beside the wanted ones: promising or random."""
        taken = {op for candidate in wanted for op in candidate.ops}
        beside: list[Candidate] = []
        for candidate in chain(self._random_stages(taken), promising):
            if len(beside) >= max(len(wanted), _BESIDE):
                break
            if taken.isdisjoint(candidate.ops) and self._unknown(candidate):
                beside.append(candidate)
                taken.update(candidate.ops)
        return beside

    def agrees(self, candidates: Sequence[Candidate]) -> bool:
        if self._measured.agrees(candidates):
            return True
        self._fit()
        return False

    def in_network(self, candidates: Sequence[Candidate]) -> np.ndarray:
        return self._measured.in_network(candidates)

    def _measure_again(self, candidates: Sequence[Candidate]) -> int:
        changed = self._measured.resolve(candidates)
        if changed:
            self._fit()
        elif self.held_back.count:
            _logger.info(
                "%d of %d measured stages lay above the %d%% bounds that were stated before",
                self.held_back.above,
                self.held_back.count,
                round(100 * STATED),
            )
        return changed

    def floors(self, ops: Sequence[int]) -> np.ndarray:
        return self._measured.floors(ops)


class LearnedBounds:
    """Latencies of candidates, and bounds of those that were not measured.

    Parameters
    ----------
    cost : LearnedCost
        The cost model.
    candidates : sequence of Candidate
        The candidates.
    features : numpy.ndarray
        float32 [n, features]: the features of the candidates.
    serial : numpy.ndarray
        float64 [n]: seconds of their operators in serial order.
    """

    def __init__(
        self,
        cost: LearnedCost,
        candidates: Sequence[Candidate],
        features: np.ndarray,
        serial: np.ndarray,
    ) -> None:
        self._cost, self._candidates = cost, candidates
        self._rows, self._serial = features, serial
        self._place = {candidate: i for i, candidate in enumerate(candidates)}
        self._impossible = np.array([not cost.runnable(c) for c in candidates], bool)
        self._revision = -1
        self._seen = 0  # entries of cost.resolved that were applied
        self._bounds = np.zeros(0)
        self._known = np.zeros(len(candidates), bool)

    def bounds(self) -> np.ndarray:
        """Return latencies or bounds in seconds, float64 [n]; infinity if a stage cannot run."""
        if self._revision != self._cost.revision:
            self._revision, self._seen = self._cost.revision, 0
            self._bounds = self._serial * self._cost.least(self._rows)
            self._bounds[self._impossible] = np.inf
        new = [c for c in islice(self._cost.resolved, self._seen, None) if c in self._place]
        self._seen = len(self._cost.resolved)
        if new:
            places = [self._place[c] for c in new]
            self._bounds[places] = self._cost(new)
            self._known[places] = True
        return self._bounds

    def known(self) -> np.ndarray:
        self.bounds()
        return self._known

    def stated(self) -> np.ndarray:
        stated = self._serial * self._cost.least(self._rows, STATED)
        stated[self._impossible] = np.inf
        return np.where(self.known(), self._bounds, stated)

    def lookup(self, through: BestThrough) -> None:
        """Look up the stages of near-optimal schedules, or all stages if they are few.

        A stage that an earlier search chose was faster than its bound predicted. By its bound
        alone, this search might not consider it again.
        """
        if not self._cost.can_look_up:
            return
        latency = through(self.bounds())
        near = np.arange(len(latency))
        if len(near) > _MOST:
            near = np.flatnonzero(latency <= _NEAR * latency.min())
        first = near[np.argsort(latency[near], kind="stable")[:_MOST]]
        self._cost.lookup([self._candidates[i] for i in first])
