# SPDX-License-Identifier: Apache-2.0
"""Runs steps one after another until the time is over, and keeps what came of each."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu_phases.clocks import ClockLog
from gpu_phases.results import CUT, DONE, FAILED, Results
from gpu_phases.steps import OUT, SEARCH, TESTS, Step
from gpu_phases.tables import summary

_MARGIN = 3.0  # seconds before the end that are for writing what came of the last step
_CUTS = 2  # times that a step may be cut before it is given up
_RESUMED_CUTS = 5  # of a search and of tests, which go on where they were

_ALL_FAILED = "failed"

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl  # looked up here, as little is safe after a fork

_LOST = "from tvm_ios_env.gpu import gpus; print(gpus().reason)"


class Phase:
    """As many steps as fit into a budget of time.

    Parameters
    ----------
    results : Results
    seconds : float
    device_id : int
    again : sequence of str
        Steps to run once more from their beginning; ``failed`` for all that have failed.
    """

    def __init__(
        self, results: Results, seconds: float, device_id: int, again: Sequence[str] = ()
    ) -> None:
        self._results, self._again = results, set(again)
        self._end = time.monotonic() + seconds - _MARGIN
        self._seconds, self._clocks = seconds, ClockLog(results.folder / "clocks.csv", device_id)

    def run(self, steps: Sequence[Step]) -> str:
        """Run the steps that are to be run; returns a sentence on what is left.

        Raises
        ------
        FolderError
            When the results cannot be kept.
        """
        pending = [step for step in steps if self._is_pending(step)]
        with self._clocks:
            for number, step in enumerate(pending):
                left = self._end - time.monotonic()
                if left < step.least:
                    count = len(pending) - number
                    return f"The time is over with {count} steps left; run it again to go on."
                print(f"{step.name}: at most {min(left, step.most):.0f} s", flush=True)
                record = self._run(step, left)
                self._results.keep(step.name, record)
                self._results.write("summary.md", summary(self._results.about, self._results.steps))
                print(f"{step.name}: {_told(record)}", flush=True)
                if record["status"] == FAILED and step.on_gpu and (reason := _lost()):
                    return f"The GPU is lost ({reason}); what was measured before is there."
        failed = [name for name, record in self._results.steps.items() if record["status"] != DONE]
        return f"All steps are done but for {', '.join(failed)}." if failed else "All is done."

    def _is_pending(self, step: Step) -> bool:
        record = self._results.steps.get(step.name)
        status = None if record is None else record["status"]
        if step.name in self._again or (status == FAILED and _ALL_FAILED in self._again):
            self._results.forget(step.name)
            return True
        return status in (None, CUT)

    def _run(self, step: Step, left: float) -> dict[str, Any]:
        """Run a step's command, within the time that is left, and tell what came of it."""
        before = self._clocks.state(step.name)
        began, begin = time.time(), time.monotonic()
        seconds = min(left, step.most)
        status, printed = self._call(step, seconds)
        record: dict[str, Any] = {
            "command": list(step.command),
            **self._judge(step, status, printed),
        }
        if status is None:
            cuts = self._results.steps.get(step.name, {}).get("cuts", 0) + 1
            most_cuts = _RESUMED_CUTS if step.kind in (SEARCH, TESTS) else _CUTS
            exhausted = seconds >= step.most or cuts >= most_cuts
            record |= {"status": FAILED if exhausted else CUT, "cuts": cuts}
            record["failure"] = f"took more than {seconds:.0f} s"
        record["began"], record["seconds"] = began, round(time.monotonic() - begin, 1)
        record["gpu_before"], record["gpu_after"] = asdict(before), asdict(self._clocks.state(""))
        return record

    def _call(self, step: Step, seconds: float) -> tuple[int | None, str]:
        """The exit status of a command and what it printed; no status where it was ended."""
        folder = str(self._results.folder.resolve())
        command = [word.replace(OUT, folder) for word in step.command]
        log = self._results.folder / "stderr" / f"{step.name}.txt"
        with open(log, "ab") as errors:
            process = subprocess.Popen(
                command,
                cwd=step.directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # it is ended with all that it has started
                preexec_fn=_end_with_parent,
            )
            try:
                printed, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return process.returncode, printed.decode(errors="replace")

    def _judge(self, step: Step, status: int | None, printed: str) -> dict[str, Any]:
        """The step's result, or a sentence on why it has none."""
        if status not in step.statuses:
            return {"status": FAILED, "failure": self._last_words(step, status)}
        if not step.prints:
            return {"status": DONE}
        try:
            result = dict(json.loads(printed))
        except (ValueError, TypeError):
            return {"status": FAILED, "failure": f"printed no JSON object: {printed[-200:]!r}"}
        failure = result.get("failure")
        if step.tolerance is not None and not result["max_rel_error"] <= step.tolerance:  # NaN too
            failure = f"wrong by {result['max_rel_error']:.1e} of the largest output"
        if failure:
            return {"status": FAILED, "failure": failure, "result": result}
        return {"status": DONE, "result": result}

    def _last_words(self, step: Step, status: int | None) -> str:
        log: Path = self._results.folder / "stderr" / f"{step.name}.txt"
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        said = lines[-1].removeprefix("error: ") if lines else "nothing was said"
        return f"ended with status {status}: {said}"


def _end_with_parent() -> None:
    """Have the system end this process when its parent ends, were it by SIGKILL.

    What stays behind would keep the GPU busy while the next phase measures.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _told(record: dict[str, Any]) -> str:
    """What came of a step, for whoever waits."""
    said = record.get("failure", "")
    return f"{record['status']} in {record['seconds']} s{': ' if said else ''}{said}"


def _lost() -> str:
    """Why there is no GPU any more; a process that has found one does not notice."""
    done = subprocess.run(
        [sys.executable, "-c", _LOST], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()[-200:]
