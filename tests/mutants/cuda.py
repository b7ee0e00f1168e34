# SPDX-License-Identifier: Apache-2.0
"""Mutants of how stages of CUDA devices are ordered and checked."""

from __future__ import annotations

from .mutant import Mutant

_CUDA = "python/tvm_ios/backend/cuda"
_ORDERING, _CHECK = f"{_CUDA}/stage/ordering.py", f"{_CUDA}/measure/check.py"
_ORDERS = "backend/cuda/stage/test_ordering.py"
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
        "NaN is taken for a number",
        _CHECK,
        "if not np.isfinite(result[finite]).all():",
        "if False:",
        (f"{_ISOLATED}::test_the_error_of_a_result",),
    ),
)
