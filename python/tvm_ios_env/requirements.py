# SPDX-License-Identifier: Apache-2.0
"""The versions that tvm_ios supports, checked before TVM is loaded: a wrong one may crash."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import metadata, util

PYTHON = (3, 10)  # the oldest supported version


@dataclass(frozen=True)
class Requirement:
    """A distribution and its supported versions, as in ``pyproject.toml``.

    Attributes
    ----------
    name, module : str
        The name of the distribution and of its module.
    least, below : str
        The first version that is supported, and the first later one that is not.
    why : str
        What is wrong with later versions.
    """

    name: str
    module: str
    least: str
    below: str
    why: str

    @property
    def specifier(self) -> str:
        return f"{self.name}>={self.least},<{self.below}"

    def problem(self) -> str | None:
        """Return what is wrong with the installed version and what to do; None if nothing is."""
        found = version(self.name)
        if found is None:
            # TVM built from source has no version here; it is accepted.
            if util.find_spec(self.module) is not None:
                return None
            return f"{self.name} is not installed; run: pip install '{self.specifier}'."
        if _numbers(self.least) <= _numbers(found) < _numbers(self.below):
            return None
        reason = "is too old" if _numbers(found) < _numbers(self.least) else self.why
        return f"{self.name} {found} {reason}; run: pip install '{self.specifier}'."


REQUIREMENTS = (
    Requirement("apache-tvm", "tvm", "0.27", "0.28", "is too new for this release of tvm_ios"),
    Requirement(
        "apache-tvm-ffi",
        "tvm_ffi",
        "0.1.14.post0",
        "0.1.15",
        "crashes with apache-tvm 0.27 when a graph of objects is saved",
    ),
)


def problems() -> list[str]:
    """Return a sentence for each problem that prevents tvm_ios from working."""
    found = [requirement.problem() for requirement in REQUIREMENTS]
    if sys.version_info < PYTHON:
        own, least = sys.version.split()[0], ".".join(map(str, PYTHON))
        found.insert(0, f"Python {own} is too old; install tvm-ios for Python {least} or newer.")
    return [sentence for sentence in found if sentence is not None]


def check() -> None:
    """Raise ImportError with the first of :func:`problems`, if any."""
    for sentence in problems():
        raise ImportError(sentence)


def version(name: str) -> str | None:
    """Return the version of a distribution without importing it; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    """Return a version as numbers; a pre-release such as 0.28.dev0 counts as the release."""
    return tuple(map(int, re.findall(r"\d+", text.partition("+")[0])))
