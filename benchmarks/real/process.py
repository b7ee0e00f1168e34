# SPDX-License-Identifier: Apache-2.0
"""A trial in a process of its own, with a time limit: what goes wrong costs one model.

python -m real.process TASK, as JSON; it prints the outcome.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peers import progress
from public.record import WAYS, Outcome, outcome_from
from public.trial import Plan
from real.catalogue import MODELS, RealModel
from real.trial import RealTrial, outcome_of


@dataclass(frozen=True)
class Task:
    """How each model is tried.

    Attributes
    ----------
    peers : list of str
    threads, rounds : int
    window, limit : float
        Seconds: of a contender's turn, and of a whole trial.
    wheels : str
        The folder of wheels.
    """

    peers: list[str]
    threads: int
    rounds: int
    window: float
    limit: float
    wheels: str

    def outcome(self, model: RealModel) -> Outcome:
        """Try a model; a trial that fails as a whole, or takes too long, says so."""
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "real.process",
                json.dumps({**asdict(self), "model": model.key}),
            ],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that what it has started can be ended with it
        )
        outcome = outcome_of(model)
        try:
            printed, _ = process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            outcome.failure = f"it took more than {self.limit:g} s"
            return outcome
        finally:
            _end(process)
        if process.returncode:
            outcome.failure = f"its trial ended with status {process.returncode}"
            return outcome
        return outcome_from(json.loads(printed))


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all have ended
    process.wait()


def main() -> None:
    """Try one model, and print what was found out."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    key = request.pop("model")
    (model,) = (known for known in MODELS if known.key == key)
    task = Task(**request)
    plan = Plan(task.peers, task.threads, task.rounds, task.window, progress(key), WAYS[:1])
    with tempfile.TemporaryDirectory() as directory:
        outcome = RealTrial(model, plan, Path(directory), Path(task.wheels)).run()
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
