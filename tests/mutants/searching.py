# SPDX-License-Identifier: Apache-2.0
"""Mutants of the search."""

from __future__ import annotations

from .mutant import Mutant

_SEARCH = "python/tvm_ios/search"

MUTANTS = (
    Mutant(
        "ties are decided for more stages",
        "src/search/dp.cc",
        "a.num_stages < b.num_stages",
        "a.num_stages > b.num_stages",
        (
            "search/test_search.py::test_schedule_is_the_best_of_all",
            "search/test_search.py::test_ties_are_broken_always_alike",
        ),
    ),
    Mutant(
        "ties are decided for the last candidate",
        "src/search/dp.cc",
        "a.num_stages < b.num_stages",
        "a.num_stages <= b.num_stages",
        ("search/test_search.py::test_concurrent_stages_win_ties_with_merged_ones",),
    ),
    Mutant(
        "stages across cuts are not searched again",
        f"{_SEARCH}/network.py",
        "return better if after < before else stages",
        "return stages",
        (
            "search/test_network.py::test_stages_around_cuts_are_searched_again",
            "search/test_templates.py::test_a_small_network_is_searched_as_a_whole",
        ),
    ),
    Mutant(
        "stages across cuts are taken even if they are slower",
        f"{_SEARCH}/cuts.py",
        "results.append(better if cost(better).sum() < cost(window).sum() else window)",
        "results.append(better)",
        ("search/test_cuts.py::test_every_cut_is_searched",),
    ),
    Mutant(
        "blocks are equal if they differ in merge classes only",
        f"{_SEARCH}/templates.py",
        "self._add_merge_class(self.replacements.classes[op], node)",
        "pass",
        ("search/test_templates.py::test_what_may_merge_is_part_of_a_template",),
    ),
    Mutant(
        "blocks are equal if they differ in replaceable sets only",
        f"{_SEARCH}/templates.py",
        "self._add_replacement(ops, position)",
        "pass",
        ("search/test_templates.py::test_what_may_be_replaced_is_part_of_a_template",),
    ),
    Mutant(
        "blocks are equal if they differ in their layout in memory only",
        f"{_SEARCH}/templates.py",
        '("lies in", slot.offset)',
        '("lies in", 0)',
        (
            "search/test_templates.py"
            "::test_places_in_a_result_that_another_block_writes_are_part_of_a_template",
        ),
    ),
    Mutant(
        "promises are not determined",
        f"{_SEARCH}/block.py",
        "if known.seconds - promised.seconds > _WORTH * known.seconds:",
        "if known.seconds < promised.seconds:",
        ("search/test_best_first.py::test_prices_that_become_known_end_near_the_optimum",),
    ),
    Mutant(
        "the schedule that was found is not run",
        f"{_SEARCH}/network.py",
        "if number == _ROUNDS or cost.agrees(stages):",
        "if stages:",
        ("search/test_network.py::test_a_search_is_repeated_by_corrected_prices",),
    ),
)
