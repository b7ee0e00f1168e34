# SPDX-License-Identifier: Apache-2.0
"""A mutant: one wrong line, and the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """A change that breaks the package.

    Attributes
    ----------
    name : str
        What is wrong with it.
    file : str
        Relative to the root of the repository: below ``python`` or ``src``.
    old, new : str
        A part of the file that occurs once, and what replaces it.
    tests : tuple of str
        The tests that fail, below ``tests/python``. Of a parametrised test one case has to.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """Change the file below ``root``.

        Raises
        ------
        ValueError
            If the old text does not occur exactly once.
        """
        path = root / self.file
        path.write_text(self.changed(path.read_text()))

    def changed(self, text: str) -> str:
        """Return the text of the file with the change.

        Raises
        ------
        ValueError
            If the old text does not occur exactly once.
        """
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.file} has {self.old!r} {count} times; mend the list")
        return text.replace(self.old, self.new)
