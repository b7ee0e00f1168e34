# SPDX-License-Identifier: Apache-2.0
"""The text of LLVM IR: names and constants."""

from __future__ import annotations

from collections.abc import Iterable


def symbol(name: str) -> str:
    """Return the global symbol of a name, which may have any characters."""
    quoted = "".join(
        c if c.isascii() and (c.isalnum() or c in "_.") else "".join(_escaped(c)) for c in name
    )
    return f'@"{quoted}"'


def _escaped(character: str) -> Iterable[str]:
    return (f"\\{byte:02X}" for byte in character.encode())


def constant_array(numbers: Iterable[int]) -> str:
    """Return the elements of a constant array of 32-bit integers."""
    return ", ".join(f"i32 {number}" for number in numbers)


def declared_once(source: str) -> str:
    """Return IR without repeated declarations, which LLVM refuses."""
    seen: set[str] = set()
    kept = []
    for line in source.splitlines():
        if line.startswith("declare "):
            if line in seen:
                continue
            seen.add(line)
        kept.append(line)
    return "\n".join(kept)
