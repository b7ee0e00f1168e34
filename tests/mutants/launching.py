# SPDX-License-Identifier: Apache-2.0
"""Mutants of the code of launches, and of what is noted of them."""

from __future__ import annotations

from .mutant import Mutant

_CODE = "python/tvm_ios/backend/cpu/code"
_LAUNCH = "backend/cpu/code/test_launch.py"
_WAITS = "backend/cpu/code/test_waits.py"
_TIMELINE = "backend/cpu/measure/test_timeline.py"
_CORE_CLAIMS = "backend/cpu/code/test_core_claims.py::test_a_task_leaves_a_claimed_core"

MUTANTS = (
    Mutant(
        "a timeline tells of waits for whom comes first",
        "python/tvm_ios/backend/cpu/measure/timeline.py",
        "cause = max(self._before(part)",
        "cause = min(self._before(part)",
        (f"{_TIMELINE}::test_a_worker_without_tiles_waits_through",),
    ),
    Mutant(
        "a timeline tells of a wait for what was computed later",
        "python/tvm_ios/backend/cpu/measure/timeline.py",
        "                yield self._last[column, completed - 1]",
        "                yield self._last[max(self._last)]",
        (f"{_TIMELINE}::test_what_another_one_did_in_the_meantime_was_not_waited_for",),
    ),
    Mutant(
        "only the first unit of a part is in a timeline",
        f"{_CODE}/recorder.py",
        "for n in range(len(part.units)) if table[first + n][0]]",
        "for n in range(1) if table[first + n][0]]",
        ("schedule/test_timeline.py::test_row_strips_are_in_it_one_by_one",),
    ),
    Mutant(
        "a task stays on a core that another one has claimed",
        f"{_CODE}/core_claims.py",
        "%again = icmp ne i8 %marked, 0",
        "%again = icmp eq i8 %marked, 0",
        (_CORE_CLAIMS,),
    ),
    Mutant(
        "a task may move to a core that is claimed",
        f"{_CODE}/core_claims.py",
        "store i{8 * _BYTES} %left, ptr %free",
        "store i{8 * _BYTES} %may, ptr %free",
        (_CORE_CLAIMS,),
    ),
    Mutant(
        "spilled vectors are not aligned",
        f"{_CODE}/c_functions.py",
        "        with aligned_stack(phase.sources):\n",
        "        if aligned_stack:\n",
        ("backend/cpu/code/test_aligned_stack.py::test_spilled_vectors_are_aligned",),
    ),
    Mutant(
        "a part waits for one part less",
        f"{_CODE}/launch_tables.py",
        "tuple((other, count) for other, count in needed if count)",
        "tuple((other, count - 1) for other, count in needed if count)",
        (f"{_WAITS}::test_a_delayed_worker_changes_nothing",),
    ),
    Mutant(
        "what is read after the last stage is overwritten",
        f"{_CODE}/workspace.py",
        "for root in kept}",
        "for root in ()}",
        (
            "backend/cpu/code/test_workspace.py"
            "::test_tensors_share_memory_unless_they_are_live_in_one_stage",
        ),
    ),
    Mutant(
        "drivers do not look at what a check of indices has found",
        f"{_CODE}/driver.py",
        "with T.If(read(0) != 0), T.Then():",
        "with T.If(read(0) == 2), T.Then():",
        ("rewrite/test_indices.py::test_several_checks_in_one_launch",),
    ),
    Mutant(
        "generated code does not look at what a part waits for",
        f"{_CODE}/launch_loop.py",
        "  %enough = icmp uge i32 %completed, %needed\n",
        "  %enough = icmp uge i32 %needed, 0\n",
        (f"{_LAUNCH}::test_one_thread_claims_the_same_units_in_the_same_order",),
    ),
    Mutant(
        "generated code passes over barriers",
        f"{_CODE}/launch_loop.py",
        "%free = icmp slt i32 %row, 0",
        "%free = icmp sge i32 %row, -1",
        (f"{_LAUNCH}::test_one_thread_claims_the_same_units_in_the_same_order",),
    ),
    Mutant(
        "the last barrier before a part is left out where several come before it",
        f"{_CODE}/launch_tables.py",
        "return between[-1] if between else -1",
        "return between[0] if between else -1",
        (f"{_LAUNCH}::test_a_part_waits_for_the_last_barrier_before_it",),
    ),
    Mutant(
        "what is read is not checked before",
        f"{_CODE}/wait_check.py",
        "        self._each(step, 0, current)\n",
        "",
        (f"{_WAITS}::test_a_missing_wait_is_noticed",),
    ),
    Mutant(
        "a kernel's own weights are prefetched after it",
        f"{_CODE}/prefetch_target.py",
        "launched[number + 1 : number + 1 + _REACH]",
        "launched[number : number + _REACH]",
        ("backend/cpu/code/test_prefetch_target.py::test_the_next_weights_follow",),
    ),
    Mutant(
        "views of tensors are not followed",
        f"{_CODE}/accessed.py",
        "        if source in tensor:\n",
        "        if source in function.params:\n",
        (f"{_WAITS}::test_both_synchronizations_compute_the_same",),
    ),
)
