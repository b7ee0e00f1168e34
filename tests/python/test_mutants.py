# SPDX-License-Identifier: Apache-2.0
"""The list of mutants fits the code, also those that CI does not try this time."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants.known import MUTANTS
from mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_a_line_and_names_tests(mutant: Mutant) -> None:
    before = (ROOT / mutant.file).read_text()
    assert mutant.changed(before) != before
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert not name or f"def {name}(" in (ROOT / "tests" / "python" / file).read_text()


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_line_that_has_moved() -> None:
    mutant = Mutant("moved", "python/f.py", "x = 1", "x = 2", ("f.py",))
    for text in ("", "x = 1\nx = 1\n"):
        with pytest.raises(ValueError, match="mend the list"):
            mutant.changed(text)
