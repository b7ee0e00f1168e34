# SPDX-License-Identifier: Apache-2.0
"""Mutants of the learned cost model."""

from __future__ import annotations

from .mutant import Mutant

_LEARNED = "python/tvm_ios/measure/learned"
_ACTIVE, _MODEL = f"{_LEARNED}/active.py", f"{_LEARNED}/latency_model.py"

MUTANTS = (
    Mutant(
        "the coverage that is asked for is ignored",
        _ACTIVE,
        "coverage or self._coverage",
        "coverage or 0.5",
        ("measure/test_calibration.py::test_the_search_adds_nothing_to_a_bound",),
    ),
    Mutant(
        "bounds are tripled",
        _ACTIVE,
        "return np.exp(self._model.least(features,",
        "return 3 * np.exp(self._model.least(features,",
        ("measure/test_calibration.py::test_the_search_adds_nothing_to_a_bound",),
    ),
    Mutant(
        "a search ends without a fit and without measuring again",
        _ACTIVE,
        "return self._fit_rest() or self._measure_again(candidates)",
        "return 0",
        ("measure/test_learned.py::test_measuring_again_changes_the_bounds_of_other_stages",),
    ),
    Mutant(
        "the model is not fitted again",
        _ACTIVE,
        "any(c not in self.resolved for c in self._priced):",
        "(not self._fitted and self._priced):",
        ("measure/test_learned.py::test_measuring_again_changes_the_bounds_of_other_stages",),
    ),
    Mutant(
        "all measurements weigh the same",
        _MODEL,
        "return 1.0 / (training.error**2 + _TRUSTED**2)",
        "return np.ones(len(training))",
        ("measure/test_learned.py::test_precise_measurements_count_more",),
    ),
    Mutant(
        "features are zeros",
        f"{_LEARNED}/features.py",
        "return np.stack([known[name] for name in FEATURES], axis=1)",
        "return 0 * np.stack([known[name] for name in FEATURES], axis=1)",
        (
            "measure/test_learned.py::test_every_feature_distinguishes_stages",
            "measure/test_learned.py::test_features_are_those_of_each_stage_alone",
        ),
    ),
    Mutant(
        "the quantile without its correction for finite samples",
        f"{_LEARNED}/calibration.py",
        "math.ceil((count + 1) * coverage)",
        "math.ceil(count * coverage)",
        ("measure/test_calibration.py::test_the_quantile_has_the_correction_for_finite_samples",),
    ),
    Mutant(
        "promising stages calibrate the bounds",
        _MODEL,
        "used = own.sampled if own.sampled.sum() >= _ENOUGH else",
        "used = own.sampled if False else",
        (
            "measure/test_calibration.py"
            "::test_stages_that_were_chosen_for_their_promise_do_not_calibrate",
        ),
    ),
    Mutant(
        "examples calibrate that the members have seen",
        _MODEL,
        "left_out = self._own.left_out",
        "left_out = self._own.predict(own.features)",
        (
            "measure/test_calibration.py::test_so_many_new_measurements_lie_above_their_bounds",
            "measure/test_calibration.py::test_what_was_learned_elsewhere_does_not_calibrate",
        ),
    ),
    Mutant(
        "duplicates of an example are left out one by one",
        f"{_LEARNED}/ensemble.py",
        "return np.stack(splits, axis=1)[group.ravel()]",
        "return np.stack([random.permutation(len(group)) % _FOLDS for _ in splits], axis=1)",
        ("measure/test_calibration.py::test_duplicates_of_examples_do_not_narrow_the_bounds",),
    ),
    Mutant(
        "features of other code are learned from",
        f"{_LEARNED}/examples.py",
        "return found[0] == feature_layout() and found[2] > 0",
        "return found[2] > 0",
        ("measure/test_examples.py::test_other_networks_threads_and_cpus_are_examples",),
    ),
)
