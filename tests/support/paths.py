# SPDX-License-Identifier: Apache-2.0
"""Where the checkout is, and environments in which processes find this package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent


def with_path(
    *directories: Path, of: Mapping[str, str] = os.environ, variable: str = "PYTHONPATH"
) -> dict[str, str]:
    """Return an environment with directories in front of those of a variable."""
    others = filter(None, [of.get(variable)])
    return {**of, variable: os.pathsep.join([*map(str, directories), *others])}
