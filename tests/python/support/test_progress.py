# SPDX-License-Identifier: Apache-2.0
"""What is under way is told on a terminal, and nowhere else."""

from __future__ import annotations

import io
from time import sleep

import pytest

from tvm_ios.support import progress as shown
from tvm_ios.support.progress import COMPILING, counting, numbering, progress, working
from tvm_ios_entry import command


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def standing_in(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in place of standard error, which is a pipe here."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    return terminal


def test_what_is_done_is_shown_while_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = standing_in(monkeypatch)
    with working("linking the library"):
        shown = terminal.getvalue()
    assert "linking the library" in shown
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is erased


def test_a_bar_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = standing_in(monkeypatch)
    with progress("measuring stages", 3) as advance:
        advance(2)
    assert "2/3" in terminal.getvalue()


def test_loading_is_shown_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = standing_in(monkeypatch)
    with command.telling("loading TVM"):
        assert terminal.getvalue() == "loading TVM"
    assert terminal.getvalue().rsplit("\r", 2)[1].isspace()


def test_pipes_stay_clean(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("measuring stages", 3) as advance:
        advance(1)
    with working("linking the library"), command.telling("loading TVM"):
        pass
    assert capsys.readouterr() == ("", "")


def test_steps_are_numbered_and_what_they_count_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = standing_in(monkeypatch)
    with numbering(COMPILING), working("compiling the kernels"):
        for item in counting("abc", 3, "kernels"):
            if item == "c":
                inner = list(counting([1, 2], 2, "others"))
                sleep(0.3)  # the line is written ten times a second
    assert "compiling the kernels (step 3 of 5)" in terminal.getvalue()
    assert "2 of 3 kernels" in terminal.getvalue()
    assert inner == [1, 2]
    assert "others" not in terminal.getvalue()


def test_steps_of_a_search_have_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = standing_in(monkeypatch)
    with numbering(()), working("compiling the kernels"):
        assert list(counting("ab", 2, "kernels")) == ["a", "b"]
    assert "step" not in terminal.getvalue()


def test_what_is_counted_elsewhere_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = standing_in(monkeypatch)
    assert list(counting("ab", 2, "kernels")) == ["a", "b"]
    assert terminal.getvalue() == ""


def test_nothing_is_shown_in_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = standing_in(monkeypatch)
    monkeypatch.setattr(shown, "_quiet", False)  # and again at the end
    shown.silence()
    with progress("measuring stages", 3) as advance, working("linking the library"):
        advance(1)
        assert list(counting("ab", 2, "kernels")) == ["a", "b"]
    assert terminal.getvalue() == ""
