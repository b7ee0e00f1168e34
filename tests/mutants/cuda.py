# SPDX-License-Identifier: Apache-2.0
"""Mutants of how stages of CUDA devices are ordered and checked."""

from __future__ import annotations

from .mutant import Mutant

_CUDA = "python/tvm_ios/backend/cuda"
_ORDERING, _CHECK = f"{_CUDA}/stage/ordering.py", f"{_CUDA}/measure/check.py"
_ORDERS = "backend/cuda/stage/test_ordering.py"
_IN_PLACE = "backend/cuda/rules/test_inplace.py"
_LEAN = "backend/cuda/stage/test_lean.py"
_ISOLATED = "backend/cuda/measure/test_isolated.py"

MUTANTS = (
    Mutant(
        "a launch does not wait for another stream",
        _ORDERING,
        "waited.append(producer)",
        "pass",
        (f"{_ORDERS}::test_the_edges_are_those_of_the_data",),
    ),
    Mutant(
        "a launch waits for what others wait for",
        _ORDERING,
        "if not covered >> producer & 1:",
        "if True:",
        (f"{_ORDERS}::test_the_edges_are_those_of_the_data",),
    ),
    Mutant(
        "a launch follows another one on its stream for nothing",
        _ORDERING,
        "if len(last) < _MOST_STREAMS:",
        "if not last:",
        (f"{_ORDERS}::test_the_edges_are_those_of_the_data",),
    ),
    Mutant(
        "memory is used again while it is read",
        _ORDERING,
        "[p for p in placed if p[2] & ~done]",
        "[p for p in placed if not p[2] & done]",
        (f"{_ORDERS}::test_memory_is_used_again_when_it_is_free",),
    ),
    Mutant(
        "a reader of a concatenation waits for one of its parts",
        _ORDERING,
        "written.setdefault(holder(value, slots), []).append(",
        "written[holder(value, slots)] = [(number, bytes_of(value, slots))]; [].append(",
        (f"{_ORDERS}::test_the_edges_are_those_of_the_data",),
    ),
    Mutant(
        "a part waits for the other parts of its tensor",
        _ORDERING,
        "if own.start < theirs.stop and theirs.start < own.stop:",
        "if True:",
        (f"{_ORDERS}::test_the_edges_are_those_of_the_data",),
    ),
    Mutant(
        "the memory of a concatenation is free when its first part begins",
        _ORDERING,
        "free[key] = free.get(key, done) & done",
        "free.setdefault(key, done)",
        (f"{_ORDERS}::test_memory_is_used_again_when_it_is_free",),
    ),
    Mutant(
        "a stage waits for one stream of the stage before",
        _ORDERING,
        "tuple(n for s, n in ends.items() if first and s != stream)",
        "tuple(n for s, n in ends.items() if first and s != stream)[:1]",
        (f"{_ORDERS}::test_barriers_are_between_stages",),
    ),
    Mutant(
        "slices are accessed in vectors across their ends",
        f"{_CUDA}/rules/inplace.py",
        "return offset % widest == 0 and _pixel_bytes(root) % widest == 0",
        "return True",
        (f"{_IN_PLACE}::test_what_is_copied",),
    ),
    Mutant(
        "what lies between two copied parts is not copied",
        f"{_CUDA}/rules/inplace.py",
        "span = range(copied[0], copied[-1] + 1) if copied else ()",
        "span = tuple(copied)",
        (f"{_IN_PLACE}::test_what_is_copied",),
    ),
    Mutant(
        "a merged kernel writes each part from the begin of its tensor",
        f"{_CUDA}/kernels/epilogue_store.py",
        "shift = result.first - result.begin",
        "shift = -result.begin",
        (f"{_IN_PLACE}::test_merged_kernels_write_slices",),
    ),
    Mutant(
        "NaN is taken for a number",
        _CHECK,
        "if not np.isfinite(result[finite]).all():",
        "if False:",
        (f"{_ISOLATED}::test_the_error_of_a_result",),
    ),
    Mutant(
        "a kernel takes the whole device",
        f"{_CUDA}/measure/tune.py",
        "return seconds * min(1.0, kernel.num_tiles / multiprocessors)",
        "return seconds",
        (f"{_LEAN}::test_what_a_kernel_takes",),
    ),
    Mutant(
        "a lean kernel may take any time",
        f"{_CUDA}/measure/tune.py",
        "if entry[1] <= _SLOWEST * fastest[1]]",
        "]",
        (f"{_LEAN}::test_what_a_kernel_takes",),
    ),
    Mutant(
        "lean stages have the fastest kernels",
        f"{_CUDA}/stage/build.py",
        "replace(i, kernel=i.kernel.lean or i.kernel)",
        "replace(i, kernel=i.kernel)",
        (f"{_LEAN}::test_stages_try_lean_kernels",),
    ),
    Mutant(
        "samples of other lean kernels are a stage's own",
        "python/tvm_ios/lowering/stages.py",
        "*([others] if shared else ())",
        "*()",
        (f"{_LEAN}::test_stages_are_told_apart_by_their_lean_kernels",),
    ),
)
