# SPDX-License-Identifier: Apache-2.0
"""What is under way is told on a terminal, and nowhere else."""

from __future__ import annotations

import io

import pytest

from tvm_ios.support.progress import progress, working
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
