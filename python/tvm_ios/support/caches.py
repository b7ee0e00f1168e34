# SPDX-License-Identifier: Apache-2.0
"""The directory of what is kept between runs, and costs time to make again."""

from __future__ import annotations

import os
from pathlib import Path

OBJECTS = "TVM_IOS_OBJECTS"
"""The environment variable that names the directory of object code; empty for none."""


def cache_directory() -> Path | None:
    """Return the package's directory, as the XDG base directory specification has it.

    None if the user has no home, as in some containers.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "tvm-ios"


def object_directory() -> Path | None:
    """Return the directory of object code; None if none is to be kept."""
    named = os.environ.get(OBJECTS)
    if named is not None:
        return Path(named) if named else None
    directory = cache_directory()
    return None if directory is None else directory / "objects"
