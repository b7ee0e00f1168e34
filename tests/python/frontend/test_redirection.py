# SPDX-License-Identifier: Apache-2.0
"""Standard output and error stay where they are, whatever threads compile and import."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tvm_ios.backend.shared.export import export
from tvm_ios.frontend.importing import captured


def overlapping(first: Callable[[Callable], None], second: Callable[[Callable], None]) -> None:
    """Run two threads: the first begins and ends first, and the second begins in between."""
    begun, second_begun, first_ended = (threading.Event() for _ in range(3))

    def one() -> None:
        first(lambda: (begun.set(), second_begun.wait(10)))
        first_ended.set()

    def other() -> None:
        begun.wait(10)
        second(lambda: (second_begun.set(), first_ended.wait(10)))

    with ThreadPoolExecutor(2) as threads:
        for future in [threads.submit(one), threads.submit(other)]:
            future.result()


class Executable:
    """Something to export that takes its time, and says something."""

    def __init__(self, wait: Callable[[], object]) -> None:
        self._wait = wait

    def export_library(self, path: str, fcompile: object, workspace_dir: str) -> None:
        os.write(2, b"said while linking\n")
        self._wait()
        Path(path).touch()


def test_standard_error_is_not_lost(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = os.fstat(2)
    overlapping(
        lambda wait: export(Executable(wait), tmp_path / "one.so"),
        lambda wait: export(Executable(wait), tmp_path / "other.so"),
    )
    assert os.path.samestat(before, os.fstat(2))
    os.write(2, b"said afterwards\n")
    error = capfd.readouterr().err
    assert error.count("said while linking") == 2
    assert "said afterwards" in error


def test_warnings_of_linking_are_dropped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def noise() -> None:
        os.write(2, b"x executable.cc:12: Warning: Scope Saving: a constant\n")

    export(Executable(noise), tmp_path / "one.so")
    assert capfd.readouterr().err == "said while linking\n"


def test_standard_output_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    texts: dict[str, str] = {}

    def importing(name: str) -> Callable[[Callable], None]:
        def work(wait: Callable) -> None:
            with captured() as printed:
                print(f"said by {name}")
                wait()
                print(f"and again by {name}")
            texts[name] = printed.getvalue()

        return work

    before, filters = sys.stdout, list(warnings.filters)
    overlapping(importing("one"), importing("other"))
    assert sys.stdout is before
    assert warnings.filters == filters
    assert texts == {n: f"said by {n}\nand again by {n}\n" for n in ("one", "other")}
    print("said afterwards")
    assert capsys.readouterr().out == "said afterwards\n"


def test_others_print_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    with captured() as printed:
        thread = threading.Thread(target=lambda: print("somebody else"))
        thread.start()
        thread.join()
        with captured() as inner:
            print("within")
        print("mine")
    assert (printed.getvalue(), inner.getvalue()) == ("mine\n", "within\n")
    assert capsys.readouterr().out == "somebody else\n"


def test_warnings_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "tvm_ios")
    with captured():
        warnings.warn("take care", stacklevel=1)
    assert "take care" in caplog.text
