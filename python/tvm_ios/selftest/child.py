# SPDX-License-Identifier: Apache-2.0
"""The child process that runs the checks of one group, from a given one on.

A line on standard input tells which checks to run, so that the process can be started in advance.
It ends when standard input closes, that is with the self-test. It writes outcomes as lines of JSON
to a separate pipe.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pkgutil import resolve_name
from typing import TextIO

from .checks import FAILED, LEFT_OUT, OK, Check, KernelFault, LeftOut, Settings


def main() -> None:
    """Run the checks given on standard input; arguments: the plan, its settings, and the pipe."""
    plan, settings, pipe = sys.argv[1:]
    groups = resolve_name(plan)(Settings(**json.loads(settings)))
    with os.fdopen(int(pipe), "w") as outcomes:
        print(json.dumps("ready"), file=outcomes, flush=True)
        assignment = os.read(0, 64).split()
        if assignment:
            threading.Thread(target=_end_with_the_self_test, daemon=True).start()
            group, first = map(int, assignment)
            _run(groups[group].checks[first:], outcomes)
    os._exit(0)  # a failed device may block the interpreter's shutdown


def _run(checks: tuple[Check, ...], outcomes: TextIO) -> None:
    """Run checks until one fails in a way that may have damaged the process."""
    for check in checks:
        begin, sound = time.monotonic(), True
        try:
            status, detail = OK, check.run()
        except LeftOut as reason:
            status, detail = LEFT_OUT, str(reason)
        except KernelFault as error:
            status, detail = FAILED, str(error)
        except Exception as error:  # any error counts as a failure of this check
            status, detail, sound = FAILED, _sentence(error), False
        seconds = time.monotonic() - begin
        answer = {"status": status, "detail": detail, "seconds": seconds, "sound": sound}
        print(json.dumps(answer), file=outcomes, flush=True)
        if not sound:
            return


def _sentence(error: Exception) -> str:
    """Return the first line of an error, and write all of it to standard error."""
    sys.excepthook(type(error), error, error.__traceback__)
    sys.stderr.flush()
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _end_with_the_self_test() -> None:
    os.read(0, 1)
    os._exit(1)
