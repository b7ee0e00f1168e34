# SPDX-License-Identifier: Apache-2.0
"""Standard output and error stay where they are, whatever threads compile and import."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tvm import relax

from tvm_ios.frontend.importing import captured
from tvm_ios.support.messages import logged


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


def native_message() -> None:
    """Let TVM's C++ code warn: a builder that ends with an open block."""
    relax.BlockBuilder()._begin_binding_block()


def test_messages_of_tvm_go_to_the_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG", "tvm_ios")
    with logged():
        native_message()
        os.write(2, b"said by somebody else\n")
    assert "remaining blocks" in caplog.text
    assert capfd.readouterr().err == "said by somebody else\n"


def test_messages_outside_stay(capfd: pytest.CaptureFixture[str]) -> None:
    with logged():
        pass
    native_message()
    assert "remaining blocks" in capfd.readouterr().err


def test_messages_of_other_threads_stay(capfd: pytest.CaptureFixture[str]) -> None:
    with logged():
        thread = threading.Thread(target=native_message)
        thread.start()
        thread.join()
    assert "remaining blocks" in capfd.readouterr().err


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
