# SPDX-License-Identifier: Apache-2.0
"""Mutants of the code that is emitted."""

from __future__ import annotations

from .mutant import Mutant

_CODE = "python/tvm_ios/backend/cpu/code"
_SEPARATION = "backend/cpu/code/test_separation.py::test_a_task_leaves_a_taken_core"

MUTANTS = (
    Mutant(
        "a task stays on a core that another one has taken",
        f"{_CODE}/separation.py",
        "%again = icmp ne i8 %marked, 0",
        "%again = icmp eq i8 %marked, 0",
        (_SEPARATION,),
    ),
    Mutant(
        "a task may move to a core that is taken",
        f"{_CODE}/separation.py",
        "store i{8 * _BYTES} %left, ptr %free",
        "store i{8 * _BYTES} %may, ptr %free",
        (_SEPARATION,),
    ),
    Mutant(
        "spilled vectors are not aligned",
        f"{_CODE}/functions.py",
        "        with aligned_stack():\n",
        "        if aligned_stack:\n",
        ("backend/cpu/code/test_aligned_stack.py::test_spilled_vectors_are_aligned",),
    ),
    Mutant(
        "subnormal reciprocals are used",
        "python/tvm_ios/graph/reciprocals.py",
        "if _is_subnormal(divisor) or _is_subnormal(factor):",
        "if _is_subnormal(divisor):",
        ("graph/test_reciprocals.py::test_one_such_element_is_enough",),
    ),
)
