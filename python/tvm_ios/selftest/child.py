# SPDX-License-Identifier: Apache-2.0
"""The process that runs the checks of one group, from one of them on.

It is told what to run by a line of standard input, so that it can be started ahead of time, and
ends when standard input does, that is with the self-test. Outcomes go to a pipe of their own, as
lines of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pkgutil import resolve_name
from typing import TextIO

from .checks import FAILED, LEFT_OUT, OK, Check, LeftOut, Settings, WrongResult


def main() -> None:
    """Run what standard input says; arguments are the plan, its settings, and the pipe."""
    plan, settings, pipe = sys.argv[1:]
    groups = resolve_name(plan)(Settings(**json.loads(settings)))
    with os.fdopen(int(pipe), "w") as outcomes:
        print(json.dumps("ready"), file=outcomes, flush=True)
        assignment = os.read(0, 64).split()
        if assignment:
            threading.Thread(target=_end_with_the_self_test, daemon=True).start()
            group, first = map(int, assignment)
            _run(groups[group].checks[first:], outcomes)
    os._exit(0)  # a device that has failed may keep the interpreter from ending


def _run(checks: tuple[Check, ...], outcomes: TextIO) -> None:
    """Run checks until one of them leaves the process in doubt."""
    for check in checks:
        begin, sound = time.monotonic(), True
        try:
            status, detail = OK, check.run()
        except LeftOut as reason:
            status, detail = LEFT_OUT, str(reason)
        except WrongResult as error:
            status, detail = FAILED, str(error)
        except Exception as error:  # whatever it is, it is this line's
            status, detail, sound = FAILED, _sentence(error), False
        seconds = time.monotonic() - begin
        answer = {"status": status, "detail": detail, "seconds": seconds, "sound": sound}
        print(json.dumps(answer), file=outcomes, flush=True)
        if not sound:
            return


def _sentence(error: Exception) -> str:
    """The first line of what went wrong; the whole of it goes to standard error."""
    sys.excepthook(type(error), error, error.__traceback__)
    sys.stderr.flush()
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _end_with_the_self_test() -> None:
    os.read(0, 1)
    os._exit(1)
