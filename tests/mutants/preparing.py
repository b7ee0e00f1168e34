# SPDX-License-Identifier: Apache-2.0
"""Mutants of how a network's operators are rewritten before they are scheduled."""

from __future__ import annotations

from .mutant import Mutant

_GRAPH = "python/tvm_ios/graph"

MUTANTS = (
    Mutant(
        "NaN equals itself",
        "python/tvm_ios/rewrite/definite.py",
        "return relax.op.logical_not(emit(relax.op.isnan(left)))",
        "return call",
        ("rewrite/test_definite.py::test_what_is_no_number_differs_from_itself",),
    ),
    Mutant(
        "NaN does not differ from itself",
        "python/tvm_ios/rewrite/definite.py",
        '    "not_equal": _difference,',
        "",
        ("rewrite/test_definite.py::test_what_is_no_number_differs_from_itself",),
    ),
    Mutant(
        "a loop takes a half of its steps twice",
        "python/tvm_ios/frontend/parts.py",
        "rest = relax.op.subtract(self.count, half)",
        "rest = half",
        ("frontend/onnx/test_running.py::test_a_loop_ends_by_its_count_or_its_condition",),
    ),
    Mutant(
        "a library lacks the constants of branches",
        "python/tvm_ios/backend/cpu/backend.py",
        "for n in (network, *network.parts)]",
        "for n in (network,)]",
        ("frontend/onnx/test_running.py::test_branches_and_loops_inside_of_each_other",),
    ),
    Mutant(
        "the keys of negative numbers fall",
        "python/tvm_ios/ops/order_key.py",
        "tirx.Select(bits < zero, bits ^ greatest, bits)",
        "bits",
        ("rewrite/test_orders.py::test_nan_is_the_largest",),
    ),
    Mutant(
        "the place of a maximum passes over NaN",
        "python/tvm_ios/backend/cpu/kernels/rows/reduce.py",
        "tirx.Or(x == _spread(extreme, width), tirx.isnan(x))",
        "x == _spread(extreme, width)",
        ("rewrite/test_definite.py::test_the_place_of_an_extreme_is_that_of_the_first_nan",),
    ),
    Mutant(
        "recurrent layers round what they read to 16 bits",
        "python/tvm_ios/rewrite/halves.py",
        "found.update(bound[v] for v in relax.analysis.free_vars(value) if v in bound)",
        "pass",
        (
            "rewrite/test_halves.py"
            "::test_recurrent_layers_are_not_rounded_between_their_products_and_steps",
        ),
    ),
    Mutant(
        "indices that go backwards are a slice",
        "python/tvm_ios/rewrite/takes.py",
        "np.diff(indices) != 1",
        "np.diff(indices) > 1",
        ("rewrite/test_takes.py::test_takes",),
    ),
    Mutant(
        "indices in any order are a range",
        "python/tvm_ios/rewrite/assignments.py",
        "if not np.array_equal(numbers, np.arange(len(places))):",
        "if False:",
        ("rewrite/test_assignments.py::test_assignments",),
    ),
    Mutant(
        "a tuple that is read elsewhere is inlined",
        "python/tvm_ios/rewrite/results.py",
        "if result not in tuples or not readers[result] <= inlined:",
        "if result not in tuples:",
        ("rewrite/test_results.py::test_tuples_of_results",),
    ),
)
