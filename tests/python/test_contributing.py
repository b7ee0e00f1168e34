# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING names every file of the package; documents name no file that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
GROUPS = ("tvm_ios/relay/operators/", "tvm_ios/zoo/")
"""Folders that are described by their kind of file."""

ADDED_BY_THE_READER = {
    "backend/x/backend.py",
    "backend/x/kind.py",
    "tests/python/backend/cpu/test_dilated_pool.py",
}


def test_every_file_is_named() -> None:
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", TEXT))))
    files = [file.relative_to(ROOT / "python") for file in (ROOT / "python").rglob("*.py")]
    unnamed = {
        file.as_posix()
        for file in files
        if not file.as_posix().startswith(GROUPS) and file.stem not in named | {"__init__"}
    }
    assert not unnamed


def missing(text: str) -> set[str]:
    """The files that a text names and that do not exist."""
    below = ("", "python", "python/tvm_ios", "tests/python")
    named = set(re.findall(r"`([\w/]+/\w+\.(?:py|cc|h))`", text))
    return {name for name in named if not any((ROOT / at / name).exists() for at in below)}


def test_every_named_file_exists() -> None:
    assert missing(TEXT) == ADDED_BY_THE_READER


@pytest.mark.parametrize("path", [ROOT / "README.md", *DOCUMENTS], ids=lambda path: path.name)
def test_documents_name_files_that_exist(path: Path) -> None:
    assert missing(path.read_text(encoding="utf-8")) == set()
