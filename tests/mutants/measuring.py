# SPDX-License-Identifier: Apache-2.0
"""Mutants of what is measured, how often, and what is believed of it."""

from __future__ import annotations

from .mutant import Mutant

_MEASURE = "python/tvm_ios/measure"
_SPEED, _TIMING = f"{_MEASURE}/timing/speed.py", f"{_MEASURE}/timing/stages.py"
_COST, _TRIAL = f"{_MEASURE}/cost.py", f"{_MEASURE}/timing/in_network_trial.py"
_DECISION, _PAIRED, _ROUNDS = (
    f"{_MEASURE}/timing/{n}.py" for n in ("decision", "paired", "rounds")
)

MUTANTS = (
    Mutant(
        "latencies are not scaled to one speed",
        _SPEED,
        "runs.seconds * (self.base / speed)",
        "runs.seconds * 1.0",
        ("measure/timing/test_speed.py::test_latencies_are_scaled_to_one_speed",),
    ),
    Mutant(
        "samples of a preempted worker count",
        _SPEED,
        "[:, None] & ~runs.preempted",
        "[:, None] & (runs.seconds > 0)",
        ("measure/timing/test_speed.py::test_preempted_samples_are_left_out",),
    ),
    Mutant(
        "runs that warm up count",
        f"{_MEASURE}/protocol.py",
        "rest = slice(warm_up, None)",
        "rest = slice(None)",
        ("measure/timing/test_speed.py::test_the_run_that_warms_up_does_not_count",),
    ),
    Mutant(
        "runs are accepted at any speed",
        _SPEED,
        "return near and",
        "return True and",
        (
            "measure/timing/test_speed.py::test_a_slow_machine_is_waited_for",
            "measure/timing/test_speed.py::test_what_was_usual_was_a_busy_machine",
        ),
    ),
    Mutant(
        "the speed of copies is ignored",
        _SPEED,
        "if max(before, after) > min(before, after) * (1 + _EQUAL_COPIES):",
        "if False:",
        ("measure/timing/test_speed.py::test_runs_that_were_mostly_disturbed_are_timed_again",),
    ),
    Mutant(
        "runs during which the speed changed count",
        _SPEED,
        "slow <= fast * (1 + _EQUAL), bool",
        "slow >= fast, bool",
        ("measure/timing/test_speed.py::test_runs_during_which_the_speed_changed_are_left_out",),
    ),
    Mutant(
        "the machine is not looked at before the first runs that count",
        _SPEED,
        "_LOOKS = 2",
        "_LOOKS = 0",
        ("measure/timing/test_speed.py::test_a_machine_that_is_busy_at_the_beginning",),
    ),
    Mutant(
        "each search scales to a speed of its own",
        f"{_MEASURE}/measurer.py",
        "self.speed.base = self.speed.usual = known[0]",
        "pass",
        ("measure/test_simulated_cost.py::test_later_searches_scale_to_the_speed_of_the_first",),
    ),
    Mutant(
        "floors of one worker",
        _COST,
        "np.where(np.isfinite(seconds), seconds, 0.0) / self._stage_builder.workers",
        "np.where(np.isfinite(seconds), seconds, 0.0)",
        (
            "measure/test_simulated_cost.py"
            "::test_floors_are_even_shares_of_what_operators_take_on_one_worker",
        ),
    ),
    Mutant(
        "minima of samples for medians",
        _TIMING,
        "return float(np.median(times[-_NEWEST:]))",
        "return float(np.min(times[-_NEWEST:]))",
        ("measure/timing/test_timing.py::test_the_fastest_is_no_lucky_one",),
    ),
    Mutant(
        "old samples count as much as new ones",
        _TIMING,
        "return float(np.median(times[-_NEWEST:]))",
        "return float(np.median(times))",
        ("measure/timing/test_timing.py::test_old_samples_are_forgotten",),
    ),
    Mutant(
        "hopeless partitionings are timed again",
        _TIMING,
        "if typical(samples[name]) <= _HOPELESS * best",
        "if best",
        ("measure/timing/test_timing.py::test_a_slow_partitioning_is_timed_once",),
    ),
    Mutant(
        "refinement without a budget",
        _TIMING,
        "_ROUNDS, _REFINED_ROUNDS = 2, 4",
        "_ROUNDS, _REFINED_ROUNDS = 2, 0",
        (
            "measure/timing/test_timing.py::test_refining_times_what_is_nearly_fastest_more_often",
            "measure/test_simulated_cost.py::test_the_stages_of_a_schedule_are_measured_again",
        ),
    ),
    Mutant(
        "neighbours in a trial run in their default partitioning",
        _TIMING,
        "fastest(samples)[1] if samples else self",
        "fastest(samples)[1] if False else self",
        ("measure/timing/test_timing.py::test_other_stages_run_in_their_fastest_partitioning",),
    ),
    Mutant(
        "few samples are believed as much as many",
        _TIMING,
        "if len(logarithms) < _FEW:",
        "if False:",
        ("measure/timing/test_timing.py::test_few_samples_are_believed_less",),
    ),
    Mutant(
        "hopeless candidates are measured",
        _COST,
        "if f.key not in self._seconds and self.can_gain(f)]",
        "if f.key not in self._seconds]",
        (
            "measure/test_simulated_cost.py"
            "::test_what_cannot_gain_is_priced_above_its_operators_and_not_measured",
        ),
    ),
    Mutant(
        "the stages of a schedule are not measured again",
        _COST,
        'self._time("measuring again", fresh.values(), refined=True)',
        "fresh.clear()",
        (
            "measure/test_simulated_cost.py::test_the_stages_of_a_schedule_are_measured_again",
            "measure/test_learned.py::test_measuring_again_changes_the_bounds_of_other_stages",
        ),
    ),
    Mutant(
        "rows of the database are never contradicted",
        _COST,
        "and not self._cache.refined(stage.key)",
        "and stage.key in self._measurer.timed and not self._cache.refined(stage.key)",
        ("measure/test_simulated_cost.py::test_a_row_that_lies_is_contradicted",),
    ),
    Mutant(
        "prices are not corrected by the run of a schedule",
        _COST,
        "self._seconds[key], _ = fastest(self._cache.samples(key))",
        "pass",
        ("measure/test_simulated_cost.py::test_prices_are_corrected_by_the_whole_schedule",),
    ),
    Mutant(
        "a schedule always agrees with its price",
        _COST,
        "if not taken or abs(found - believed) <= AGREES * found:",
        "if found:",
        ("measure/test_simulated_cost.py::test_prices_are_corrected_by_the_whole_schedule",),
    ),
    Mutant(
        "trials without the stages before those that are timed",
        _TRIAL,
        "_LEAD = 4",
        "_LEAD = 0",
        ("measure/timing/test_in_network_trial.py::test_some_stages_run_before_one_that_is_timed",),
    ),
    Mutant(
        "trials in the reversed order",
        _TRIAL,
        "order.append(stages[number])",
        "order.insert(0, stages[number])",
        ("measure/timing/test_in_network_trial.py::test_stages_follow_those_that_they_read_from",),
    ),
    Mutant(
        "what launches nothing is timed",
        _TRIAL,
        "[stage for stage in ordered if not stage.is_noop]",
        "list(ordered)",
        ("measure/timing/test_in_network_trial.py::test_what_launches_nothing_is_left_out",),
    ),
    Mutant(
        "one stage a trial",
        _TRIAL,
        "if not others & ops), len(runs))",
        "if not others), len(runs))",
        (
            "measure/timing/test_in_network_trial.py::test_stages_of_different_operators_share_a_run",
        ),
    ),
    Mutant(
        "the fastest model is taken without proof",
        _DECISION,
        "if best is not None and proven is not None and proven.faster else baseline",
        "if best is not None else baseline",
        (
            "measure/timing/test_decision.py::test_equal_models_are_not_told_apart",
            "measure/timing/test_decision.py::test_a_machine_that_always_changes_tells_nothing",
        ),
    ),
    Mutant(
        "the fastest is proven by the samples that it was chosen by",
        _DECISION,
        "fresh: Ratios = {baseline: [], best: []}",
        "fresh: Ratios = {baseline: ratios[baseline] * 9, best: ratios[best] * 9}",
        ("measure/timing/test_decision.py::test_the_best_of_many_equal_models_gains_nothing",),
    ),
    Mutant(
        "half an interval",
        _PAIRED,
        "    rank = _rank(len(near))",
        "    rank = (_rank(len(near)) + len(near) // 2) // 2",
        (
            "measure/timing/test_paired.py::test_the_ends_are_those_of_the_binomial_distribution",
            "measure/timing/test_paired.py::test_the_interval_covers_the_truth",
        ),
    ),
    Mutant(
        "ratios far from the others count",
        _PAIRED,
        "if away <= limit]",
        "if away >= 0]",
        ("measure/timing/test_paired.py::test_a_few_ratios_far_away_are_left_out",),
    ),
    Mutant(
        "minima of ratios for medians",
        _PAIRED,
        "return Speedup(float(np.median(near)),",
        "return Speedup(near[0],",
        ("measure/timing/test_paired.py::test_the_ends_are_those_of_the_binomial_distribution",),
    ),
    Mutant(
        "minima of rounds for medians",
        _ROUNDS,
        "float(np.median(times)) for name, times",
        "float(np.min(times)) for name, times",
        ("measure/timing/test_rounds.py::test_a_lucky_sample_is_not_the_median",),
    ),
    Mutant(
        "rounds are not interleaved",
        _ROUNDS,
        "[{name: self._timers[name]() for name in order} for _ in range(2)]",
        "[*map(dict, zip(*([(n, self._timers[n]()) for _ in (0, 1)] for n in order)))]",
        ("measure/timing/test_rounds.py::test_the_samples_of_a_model_are_not_neighbours",),
    ),
    Mutant(
        "rounds always in one order",
        _ROUNDS,
        "return rotated[::-1] if number % 2 else rotated",
        "return list(names)",
        ("measure/timing/test_rounds.py::test_no_model_always_follows_the_same_one",),
    ),
    Mutant(
        "a model whose two samples differ is kept",
        _ROUNDS,
        "max(pair) <= (1 + _CHANGED) * min(pair)",
        "max(pair) >= min(pair)",
        ("measure/timing/test_rounds.py::test_a_model_whose_samples_differ_is_left_out",),
    ),
    Mutant(
        "cold weights lie at one place",
        "python/tvm_ios/lowering/cold.py",
        "self._next += size",
        "self._next += 0",
        (
            "measure/test_cost.py::test_places_of_the_ring_arena_do_not_overlap",
            "measure/test_cost.py::test_cold_weights_hold_more_than_the_network_has",
        ),
    ),
    Mutant(
        "stages are timed on warm weights",
        "python/tvm_ios/backend/cpu/measure/runner.py",
        "self._tensors.places(i, workspace, take)",
        "self._tensors.places(i, workspace, None)",
        ("backend/cpu/measure/test_runner.py::test_each_run_reads_its_weights_from_another_place",),
    ),
    Mutant(
        "tiles of timed stages are not divided into units",
        "python/tvm_ios/backend/cpu/measure/runner.py",
        "level, count, own)",
        "level, 1, own)",
        ("backend/cpu/measure/test_runner.py::test_stages_have_the_units_of_the_network",),
    ),
    Mutant(
        "timed row strips are no chains of units",
        "python/tvm_ios/backend/cpu/measure/runner.py",
        "units = 0  # those",
        "units = 1  # those",
        ("backend/cpu/measure/test_runner.py::test_stages_have_the_units_of_the_network",),
    ),
    Mutant(
        "models that are compiled to be timed run on TVM's threads",
        "python/tvm_ios/backend/cpu/measure/model.py",
        "use_helpers(library)  # as",
        "library  # as",
        ("backend/cpu/measure/test_model.py::test_they_run_on_the_helpers_as_deployed_ones",),
    ),
    Mutant(
        "devices with another CPU measure, too",
        f"{_MEASURE}/transport/remote_pool.py",
        "if session.cpu == self._cpu:",
        "if session.cpu:",
        ("measure/transport/test_remote.py::test_a_device_with_another_cpu_measures_nothing",),
    ),
)
