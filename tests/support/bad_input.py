# SPDX-License-Identifier: Apache-2.0
"""Bad input to the command line: files that are made for it, and how it is refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support.cli import Compiled, assert_one_sentence
from tvm_ios.cli.main import main

Arguments = Sequence[str] | Callable[[Path], Sequence[str]]
"""Of a command, or what makes files in a directory and returns them."""


def assert_refused(
    arguments: Arguments, message: str, compiled: Compiled, capfd: pytest.CaptureFixture[str]
) -> None:
    """One sentence with the message, and no other file; the directory is the current one."""
    given = arguments(compiled.directory) if callable(arguments) else arguments
    before = set(os.listdir())
    assert main(given) == 4
    assert_one_sentence(capfd.readouterr(), message)
    assert set(os.listdir()) == before


def file_of(name: str, content: bytes, *arguments: str) -> Callable[[Path], list[str]]:
    def write(directory: Path) -> list[str]:
        (directory / name).write_bytes(content)
        return list(arguments)

    return write


def part_of(name: str, part: slice, *arguments: str) -> Callable[[Path], list[str]]:
    """A command whose last argument is a file that has a part of another one."""

    def write(directory: Path) -> list[str]:
        content = (directory / name).read_bytes()
        (directory / arguments[-1]).write_bytes(content[part])
        return list(arguments)

    return write
