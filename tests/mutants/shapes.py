# SPDX-License-Identifier: Apache-2.0
"""Mutants of libraries of several shapes."""

from __future__ import annotations

from .mutant import Mutant

_RUNTIME = "python/tvm_ios_runtime"
_COMPILER = "python/tvm_ios/compiler"
_DISPATCH = "runtime/test_dispatch.py"
_SIGNATURES = "compiler/test_signatures.py"
_PROBE = "compiler/test_probe.py"
_DEPENDENCE = "compiler/test_dependence.py"

MUTANTS = (
    Mutant(
        "padding holds what was in memory",
        f"{_RUNTIME}/dispatch.py",
        "padded[...] = 0",
        "padded[...] = 7",
        (f"{_DISPATCH}::test_each_part_gets_its_rows_and_zeros",),
    ),
    Mutant(
        "a batch is covered by the cheapest size as often as it goes",
        f"{_RUNTIME}/dispatch.py",
        "repeated = max(0, rows - step * max(size for size, _ in costs)) // step",
        "repeated = rows // step",
        (f"{_DISPATCH}::test_a_cover_costs_least",),
    ),
    Mutant(
        "a size is cut to a smaller one",
        f"{_RUNTIME}/dispatch.py",
        "number in self._pads and size > sizes[number]",
        "number in self._pads and size < sizes[number]",
        (f"{_DISPATCH}::test_parts_take_the_least_measured_time",),
    ),
    Mutant(
        "a batch is split although its rows depend a little on each other",
        f"{_COMPILER}/probe.py",
        "and all(self._rows_are_apart(axis, larger) for larger in {pair[0] for pair in pairs})",
        "",
        (f"{_PROBE}::test_rows_that_meet_are_not_split",),
    ),
    Mutant(
        "a batch is split although rows are counted",
        f"{_COMPILER}/probe.py",
        "and all(self._agree(axis, *pair) for pair in pairs)",
        "",
        (f"{_PROBE}::test_rows_that_are_counted_are_not_split",),
    ),
    Mutant(
        "few different tokens hide that padding is attended to",
        f"{_COMPILER}/probe.py",
        "return 2**valid if invalid < limit else 2",
        "return 2",
        (f"{_PROBE}::test_padding_that_few_tokens_would_hide",),
    ),
    Mutant(
        "only what random numbers show keeps a batch from being split",
        f"{_COMPILER}/signatures.py",
        "probe(draft, scheduler, _servable(networks))",
        "probe(draft, scheduler, Servable(True, frozenset()))",
        (f"{_SIGNATURES}::test_rows_that_meet_where_random_numbers_do_not_show_it",),
    ),
    Mutant(
        "a constant of each row may be another one",
        f"{_COMPILER}/dependence/value.py",
        "if self.rows and any(",
        "if not self.rows and any(",
        (f"{_DEPENDENCE}::test_rows_that_meet",),
    ),
    Mutant(
        "functions of two sizes may differ",
        f"{_COMPILER}/dependence/servable.py",
        "for results in functions}) > 1:",
        "for results in functions}) > 9:",
        (f"{_DEPENDENCE}::test_rows_that_meet", f"{_DEPENDENCE}::test_padding_that_would_be_read"),
    ),
    Mutant(
        "a sum may be over positions of padding that are not 0",
        f"{_COMPILER}/dependence/combine.py",
        '"sum": padding == ZERO,',
        '"sum": True,',
        (f"{_DEPENDENCE}::test_padding_that_would_be_read",),
    ),
    Mutant(
        "scores are hidden by a small mask",
        f"{_COMPILER}/dependence/ranges.py",
        "HIDDEN = 9999.0",
        "HIDDEN = 99.0",
        (f"{_DEPENDENCE}::test_padding_that_would_be_read",),
    ),
    Mutant(
        "a mask may show a position the next one",
        f"{_COMPILER}/dependence/value.py",
        "behind = (array[order > 0], array[order < 0])",
        "behind = (array[order > 1], array[order < -1])",
        (f"{_DEPENDENCE}::test_padding_that_would_be_read",),
    ),
    Mutant(
        "main runs the function of a smaller shape",
        f"{_COMPILER}/dispatcher.py",
        "equal = tirx.all(equal, variable == size)",
        "equal = tirx.all(equal, variable >= size)",
        (f"{_SIGNATURES}::test_main_takes_every_shape_without_our_runtime",),
    ),
    Mutant(
        "functions of two shapes are exported under one name",
        "python/tvm_ios/lowering/emitter.py",
        'return function.with_attr("global_symbol", name) if exported else function',
        "return function",
        (f"{_SIGNATURES}::test_lengths_and_batches",),
    ),
)
