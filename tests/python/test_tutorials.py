# SPDX-License-Identifier: Apache-2.0
"""The notebooks are kept without what they printed; ``make tutorials`` runs them."""

from __future__ import annotations

import json

import pytest

from support.paths import ROOT

TUTORIALS = ROOT / "tutorials"


@pytest.mark.parametrize("name", sorted(path.name for path in TUTORIALS.glob("*.ipynb")))
def test_outputs_are_stripped(name: str) -> None:
    notebook = json.loads((TUTORIALS / name).read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert code
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)


def test_the_readme_lists_them_all() -> None:
    text = (TUTORIALS / "README.md").read_text()
    assert all(path.name in text for path in TUTORIALS.glob("*.ipynb"))
