# SPDX-License-Identifier: Apache-2.0
"""Dataclasses that benchmarks write to files, with the name and the version of their format."""

from __future__ import annotations

from typing import Any


def fields_of(kind: Any, data: dict[str, Any], name: str, version: int) -> dict[str, Any]:
    """Return what a file says of the fields of a dataclass.

    Raises
    ------
    ValueError
        When the file has another format, or another version of it.
    """
    if (data.get("format"), data.get("version")) != (name, version):
        raise ValueError(f"no {name} of version {version}")
    return {field: data[field] for field in kind.__dataclass_fields__}
