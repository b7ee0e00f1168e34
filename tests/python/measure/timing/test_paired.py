# SPDX-License-Identifier: Apache-2.0
"""The interval of a speed-up: it covers the truth, and is not told by too few or split samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tvm_ios.measure.timing.paired import FEWEST, speedup
from tvm_ios.schedule.speedup import Speedup


@pytest.mark.parametrize("count", range(FEWEST, 60))
def test_the_ends_are_those_of_the_binomial_distribution(count: int) -> None:
    ratios = list(np.linspace(1.0, 1.05, count))
    rank = int(stats.binom.ppf(0.025, count, 0.5))  # the least k with P(X <= k) >= 2.5%
    found = speedup(ratios[::-1])
    assert found == Speedup(float(np.median(ratios)), ratios[rank - 1], ratios[-rank])


@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_the_interval_covers_the_truth(noise: str) -> None:
    draw = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        errors = draw.standard_normal(25) if noise == "normal" else draw.exponential(size=25)
        center = 0.0 if noise == "normal" else np.log(2)
        found = speedup(list(1.1 * np.exp(0.02 * (errors - center))))
        assert found is not None
        covered += found.low <= 1.1 <= found.high
    assert covered >= 0.93 * 400


def test_too_few_pairs_tell_nothing() -> None:
    assert speedup([]) is None
    assert speedup([1.2] * (FEWEST - 1)) is None
    assert speedup([1.2] * FEWEST) == Speedup(1.2, 1.2, 1.2)


def test_a_few_ratios_far_away_are_left_out() -> None:
    """The slowed half of a pair would move the median towards itself."""
    near = [1.0 + 0.001 * i for i in range(-5, 6)]
    assert speedup([*near, 2.0, 2.1, 2.0, 10.0]) == speedup(near)


def test_two_crowds_tell_nothing() -> None:
    assert speedup([1.0] * 12 + [2.0] * 10) is None


@pytest.mark.parametrize(
    ("speedup", "text"),
    [
        (Speedup(1.07, 1.05, 1.09), "1.07x, 95% interval 1.05-1.09"),
        (Speedup(1.0712, 1.0651, 1.0749), "1.071x, 95% interval 1.065-1.075"),
        (Speedup(1.02, 1.0021, 1.05), "1.020x, 95% interval 1.002-1.050"),
    ],
)
def test_text(speedup: Speedup, text: str) -> None:
    assert str(speedup) == text
    assert speedup.verdict(kept=False) == text


@pytest.mark.parametrize(
    ("speedup", "verdict"),
    [
        (
            Speedup(1.01, 0.97, 1.06),
            "no difference found: sequential (1.01x, 95% interval 0.97-1.06)",
        ),
        (Speedup(1.0, 1.0, 1.0), "no difference found: sequential"),
        (Speedup(1.0 + 1e-9, 1.0 + 1e-9, 1.0 + 1e-9), "no difference found: sequential"),
        (Speedup(0.8, 0.7, 0.9), "no gain found: sequential (0.80x, 95% interval 0.70-0.90)"),
    ],
)
def test_what_is_no_gain(speedup: Speedup, verdict: str) -> None:
    assert not speedup.faster
    assert speedup.verdict(kept=True) == verdict
    assert speedup.verdict(kept=False) == verdict.replace(": sequential", "")
