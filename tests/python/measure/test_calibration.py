# SPDX-License-Identifier: Apache-2.0
"""Nine of ten new measurements lie above a bound, whatever their errors are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tvm_ios.measure.learned import LatencyModel, LearnedCost
from tvm_ios.measure.learned.calibration import PRIOR, Calibration, HeldBack
from tvm_ios.measure.learned.features import FEATURES
from tvm_ios.measure.learned.training_set import TrainingSet

Errors = Callable[[np.ndarray, np.random.Generator], np.ndarray]
SEEDS = range(8)


def even(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return 0.05 * random.standard_normal(len(rows))


def uneven(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Errors that depend on the stage."""
    return (0.01 + 0.15 * (rows[:, 3] > 0)) * random.standard_normal(len(rows))


def skewed(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return 0.05 * random.exponential(size=len(rows))


def stages(count: int, random: np.random.Generator, errors: Errors) -> TrainingSet:
    rows = random.uniform(-1, 1, (count, len(FEATURES))).astype("float32")
    truth = 0.2 * rows[:, 1] * (rows[:, 0] > 0) - 0.1 * rows[:, 2]
    measured = truth + errors(rows, random)
    return TrainingSet(rows, measured, np.full(count, 0.02), np.ones(count, bool))


def covered(model: LatencyModel, new: TrainingSet, coverage: float) -> float:
    return float(np.mean(new.log_ratio >= model.least(new.features, coverage)))


@pytest.mark.parametrize("errors", [even, uneven, skewed])
@pytest.mark.parametrize("coverage", [0.7, 0.9])
def test_so_many_new_measurements_lie_above_their_bounds(errors: Errors, coverage: float) -> None:
    shares = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        model = LatencyModel(seed)
        model.fit(stages(150, random, errors))
        shares.append(covered(model, stages(1000, random, errors), coverage))
    assert np.mean(shares) == pytest.approx(coverage, abs=0.05)


def test_the_coverage_does_not_need_members_that_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deviation of the members is replaced by random numbers."""
    random = np.random.default_rng(0)

    def scale(_model: LatencyModel, members: np.ndarray) -> np.ndarray:
        return random.uniform(0.5, 2.0, len(members))

    monkeypatch.setattr(LatencyModel, "_scale", scale)
    shares = []
    for seed in SEEDS:
        drawn = np.random.default_rng(seed)
        model = LatencyModel(seed)
        model.fit(stages(150, drawn, uneven))
        shares.append(covered(model, stages(1000, drawn, uneven), 0.9))
    assert np.mean(shares) == pytest.approx(0.9, abs=0.05)


def test_duplicates_of_examples_do_not_narrow_the_bounds() -> None:
    """Each stage is measured three times: the members leave out all three."""
    random = np.random.default_rng(2)
    once = stages(120, random, even)
    thrice = once.joined(once).joined(once)
    new = stages(1000, random, even)
    model = LatencyModel(2)
    model.fit(thrice)
    assert covered(model, new, 0.9) > 0.85


def test_what_was_learned_elsewhere_does_not_calibrate() -> None:
    """The other networks have no errors at all; this one has."""
    shares = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        model = LatencyModel(seed)
        model.learn(stages(400, random, lambda rows, _: np.zeros(len(rows))))
        model.fit(stages(60, random, even))
        shares.append(covered(model, stages(1000, random, even), 0.9))
    assert np.mean(shares) == pytest.approx(0.9, abs=0.05)


def test_stages_that_were_chosen_for_their_promise_do_not_calibrate() -> None:
    """Promising stages turn out slower than predicted, so that their bounds always hold."""
    shares = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        promising, drawn = (stages(n, random, even) for n in (200, 60))
        slower = promising.log_ratio + random.uniform(0.2, 0.6, len(promising))
        chosen = np.zeros(len(promising), bool)
        model = LatencyModel(seed)
        model.fit(TrainingSet(promising.features, slower, promising.error, chosen).joined(drawn))
        shares.append(covered(model, stages(1000, random, even), 0.9))
    assert np.mean(shares) == pytest.approx(0.9, abs=0.05)


def test_all_stages_calibrate_where_few_were_chosen_at_random() -> None:
    shares = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        own = stages(150, random, even)
        chosen = np.arange(150) < 5
        model = LatencyModel(seed)
        model.fit(TrainingSet(own.features, own.log_ratio, own.error, chosen))
        shares.append(covered(model, stages(1000, random, even), 0.9))
    assert np.mean(shares) == pytest.approx(0.9, abs=0.05)


def test_bounds_are_as_near_as_the_errors_are_small() -> None:
    distances = []
    for error in (0.01, 0.1):
        random = np.random.default_rng(6)
        model = LatencyModel(0)
        own, new = (stages(n, random, lambda rows, _: np.zeros(len(rows))) for n in (400, 1000))
        noise = error * random.standard_normal(400)
        model.fit(TrainingSet(own.features, own.log_ratio + noise, own.error, own.sampled))
        distances.append(float(np.mean(model.predict(new.features) - model.least(new.features))))
    assert 0.1 < distances[1] / 1.2816 < 0.16
    assert 0 < distances[0] < 0.5 * distances[1]


def test_what_other_networks_taught_is_kept_where_it_is_right() -> None:
    random = np.random.default_rng(7)
    others, few, new = (
        stages(n, random, lambda rows, _: np.zeros(len(rows))) for n in (500, 20, 1000)
    )
    model = LatencyModel(0)
    model.learn(others)
    before = model.predict(new.features)
    for _ in range(3):
        model.fit(few)
        slope, offset = np.polyfit(before, model.predict(new.features), 1)
        assert slope == pytest.approx(1.0, abs=0.1)
        assert offset == pytest.approx(0.0, abs=0.02)


def test_other_networks_help() -> None:
    random = np.random.default_rng(3)
    others, few, new = (stages(n, random, even) for n in (500, 20, 1000))
    wrong = {}
    for name in ("alone", "taught"):
        model = LatencyModel(0)
        if name == "taught":
            model.learn(others)
        model.fit(few)
        wrong[name] = float(np.sqrt(np.mean((model.predict(new.features) - new.log_ratio) ** 2)))
    assert wrong["taught"] < 0.7 * wrong["alone"]


def test_networks_that_differ_by_a_factor_help_as_much() -> None:
    """All their stages take longer by the same factor."""
    random = np.random.default_rng(5)
    others, few, new = (stages(n, random, even) for n in (500, 20, 1000))
    wrong = []
    for more in (0.0, 0.4):
        model = LatencyModel(0)
        slower = others.log_ratio + more
        model.learn(TrainingSet(others.features, slower, others.error, others.sampled))
        model.fit(few)
        wrong.append(float(np.sqrt(np.mean((model.predict(new.features) - new.log_ratio) ** 2))))
    assert wrong[1] < 1.25 * wrong[0]


def test_networks_of_another_kind_do_little_harm() -> None:
    """What they teach is the opposite of the truth."""
    random = np.random.default_rng(4)
    others, own, new = (stages(n, random, even) for n in (500, 100, 1000))
    wrong = {}
    for sign in (0, -1):
        model = LatencyModel(0)
        if sign:
            model.learn(
                TrainingSet(others.features, -others.log_ratio, others.error, others.sampled)
            )
        model.fit(own)
        wrong[sign] = float(np.sqrt(np.mean((model.predict(new.features) - new.log_ratio) ** 2)))
    assert wrong[-1] < 1.2 * wrong[0]


def test_the_quantile_has_the_correction_for_finite_samples() -> None:
    scores = np.arange(1.0, 21.0)  # of 20 scores, (20 + 1) * 0.9 rounds up to the 19th
    bound = Calibration(scores).lower(np.zeros(1), np.ones(1), 0.9)
    assert bound == -19.0


def test_few_measurements_leave_the_prior() -> None:
    nothing = Calibration(np.zeros(0)).lower(np.zeros(1), np.ones(1), 0.9)
    assert nothing == pytest.approx(-1.2816 * PRIOR, rel=1e-4)
    few = Calibration(np.full(3, 2.0)).lower(np.zeros(1), np.ones(1), 0.9)
    assert few == -2.0
    model = LatencyModel(0)
    rows = np.zeros((4, len(FEATURES)), "float32")
    model.fit(TrainingSet(rows, np.zeros(4), np.full(4, 0.1), np.ones(4, bool)))
    assert model.least(rows) == pytest.approx(np.full(4, -1.2816 * PRIOR), rel=1e-4)
    assert not model.fitted


def test_equal_latencies_leave_bounds_that_are_numbers() -> None:
    rows = np.zeros((30, len(FEATURES)), "float32")
    model = LatencyModel(0)
    model.fit(TrainingSet(rows, np.zeros(30), np.full(30, 0.01), np.ones(30, bool)))
    assert model.least(rows) == pytest.approx(np.zeros(30), abs=0.01)


def test_measurements_are_counted_against_their_bounds() -> None:
    held = HeldBack()
    assert np.isnan(held.coverage)
    for above in (True, True, False, True):
        held.add(above)
    assert (held.above, held.count, held.coverage) == (3, 4, 0.75)


def test_the_search_adds_nothing_to_a_bound() -> None:
    class Known:
        def least(self, features: np.ndarray, coverage: float) -> np.ndarray:
            return np.full(len(features), np.log(coverage))

    cost = LearnedCost(None, None, None, Known(), 0, 0.8)
    assert cost.least(np.zeros((3, len(FEATURES)), "float32")) == pytest.approx([0.8] * 3, abs=1e-9)
