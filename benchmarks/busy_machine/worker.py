# SPDX-License-Identifier: Apache-2.0
"""The process of one runtime with one network; see :mod:`.process`.

It is started as ``python -m busy_machine.worker REQUEST`` with the request as JSON. On standard
output it says one JSON object a line: first that it is ready or what failed, then one for each
line that it reads, a JSON object, too. It ends when standard input does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any, TextIO

import numpy as np

from busy_machine.calls import Callers
from busy_machine.runtimes import RUNTIMES, Program
from peer.contender import Task


def main() -> None:
    """Serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator says when to end
    channel = _private_stdout()
    request = json.loads(sys.argv[1])
    try:
        programs = _prepare(request)
        _say(channel, {"ready": True})
        _serve(programs, channel)
    except Exception as error:  # whatever a package raises is its answer
        text = " ".join(str(error).split())[:200]
        _say(channel, {"error": f"{type(error).__name__}: {text}"})


def _prepare(request: dict[str, Any]) -> list[Program]:
    """Load the networks, run each once and save what the first computed."""
    programs = []
    for model, inputs in request["models"]:
        with np.load(inputs) as file:
            arrays = {name: file[name] for name in file.files}
        task = Task(model, arrays, request["threads"])
        programs.append(RUNTIMES[request["runtime"]].load(task))
    runner = programs[0]()
    np.savez(request["outputs"], *runner.arrays(runner.run()))
    return programs


def _serve(programs: list[Program], channel: TextIO) -> None:
    """Call for a slice of time for each line; callers are made when they are first needed."""
    made: dict[int, Callers] = {}
    program, companions = programs[0], programs[1:]
    for line in sys.stdin:
        wanted = json.loads(line)
        count = wanted["callers"]
        if count not in made:
            companion = companions[0]().run if companions else None
            made[count] = Callers([program().run for _ in range(count)], companion)
        _say(channel, asdict(made[count].slice(wanted["seconds"], wanted["least"])))


def _private_stdout() -> TextIO:
    """Return standard output for us alone: what a package prints goes to standard error."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return channel


def _say(channel: TextIO, message: dict[str, Any]) -> None:
    print(json.dumps(message), file=channel, flush=True)


if __name__ == "__main__":
    main()
