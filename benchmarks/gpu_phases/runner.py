# SPDX-License-Identifier: Apache-2.0
"""Runs steps until the time is over, and keeps what came of each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from gpu_phases import cells
from gpu_phases.clocks import ClockLog
from gpu_phases.process import Process
from gpu_phases.results import CLOCKS, CUT, DONE, FAILED, Results
from gpu_phases.steps import SELFTEST, TOOLCHAIN, Step, Task

_MARGIN = 5.0  # seconds before the end that are for writing what came of the last step
_POLL = 0.1
_CUTS = 2  # at the full limit, after which others come first

_ALL_FAILED = "failed"
_LOST = "from tvm_ios_env.gpu import gpus; print(gpus().reason)"


class GpuLostError(Exception):
    """There is no GPU any more; the message says why."""


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
        self._clocks = ClockLog(results.state / CLOCKS, device_id)
        self._left_out: list[str] = []
        self._impossible: list[str] = []

    @property
    def left(self) -> float:
        """Seconds until all must be kept."""
        return self._end - time.monotonic()

    def run(self, tasks: Sequence[Task]) -> str:
        """Run the steps that are to be run; returns a sentence on what is left.

        Raises
        ------
        FolderError
            When the results cannot be kept.
        """
        said = ""
        pending = [Task(self._pending(task.steps), task.threads) for task in tasks]
        pending = [task for task in pending if not all(s.background for s in task.steps)]
        with self._clocks:
            try:
                for task in sorted(pending, key=lambda t: all(map(self._is_worn, t.steps))):
                    self._run(task)
            except GpuLostError as error:
                said = f"The GPU is lost ({error}); what was measured before is there."
        said = said or self._told()
        self._results.log(said)
        self._results.publish()
        return said

    def _told(self) -> str:
        if self._left_out:
            count = len(self._left_out)
            return f"The time is over with {count} steps left; run it again to go on."
        if self._impossible:
            count, reason = len(self._impossible), self._unusable()
            return f"{count} steps that need the GPU are left out, as {reason}."
        steps = self._results.steps.items()
        unfinished = [name for name, record in steps if record["status"] != DONE]
        if unfinished:
            return f"All steps are done but for {', '.join(unfinished)}."
        return "All is done."

    def _is_pending(self, step: Step) -> bool:
        record = self._results.steps.get(step.name)
        status = None if record is None else record["status"]
        if step.name in self._again or (status == FAILED and _ALL_FAILED in self._again):
            self._results.forget(step.name)
            return True
        return status in (None, CUT)

    def _pending(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Those that are to be run, in order."""
        return tuple(sorted(filter(self._is_pending, steps), key=self._is_worn))

    def _is_worn(self, step: Step) -> bool:
        """Whether it has had all of its time so often that others come first."""
        return self._cuts(step) >= _CUTS

    def _cuts(self, step: Step) -> int:
        return int(self._results.steps.get(step.name, {}).get("cuts", 0))

    def _run(self, task: Task) -> None:
        """Run those steps of a task for which everything is there."""
        steps = [step for step in task.steps if self._is_possible(step)]
        if not steps:
            return
        if self.left < max(step.least for step in steps):
            self._left_out += [step.name for step in steps]
            return
        names = ", ".join(step.name for step in steps)
        self._clocks.step = names.replace(", ", "+")
        self._results.log(f"{names}: {self.left:.0f} s are left")
        if task.threads is not None:
            self._left_out += [s.name for s in cells.run(self, steps, task.threads)]
        else:
            self._run_side_by_side(steps)
        self._clocks.step = ""
        self._check_gpu(steps)

    def _is_possible(self, step: Step) -> bool:
        if step.on_gpu and (reason := self._unusable()):
            self._results.log(f"{step.name}: left out, as {reason}")
            self._impossible.append(step.name)
            return False
        return step.needs is None or step.needs.exists()

    def _unusable(self) -> str:
        """Why nothing can run on the GPU; empty if that is not known."""
        steps = self._results.steps
        if steps.get(TOOLCHAIN, {}).get("status") == FAILED:
            return "no compiler works"
        checks = steps.get(SELFTEST, {}).get("result", {}).get("checks", {})
        if checks and not any(check["status"] == "ok" for check in checks.values()):
            return "no check of the self-test is ok"
        return ""

    def _run_side_by_side(self, steps: Sequence[Step]) -> None:
        """Run steps until all are done or have had their time, but for those in the background."""
        running: dict[Step, Process] = {}
        try:
            for step in steps:
                running[step] = self.start(step)
            while running:
                waited_for = any(not step.background for step in running)
                for step, process in list(running.items()):
                    full = process.seconds > step.most
                    if process.status is None and waited_for and not full and self.left > 0:
                        continue
                    cut = process.status is None
                    process.end()
                    said = f"took more than {process.seconds:.0f} s" if cut else None
                    self.keep(step, running.pop(step), cut=said, full=cut and full)
                time.sleep(_POLL)
        finally:
            for process in running.values():
                process.end()

    def start(self, step: Step, cores: Sequence[int] | None = None) -> Process:
        """Start a step; one that is bound to cores answers requests."""
        toolkit = self._results.steps.get(TOOLCHAIN, {}).get("result", {}).get("cuda_path")
        return Process(
            step.command,
            self._results.printed(step.name),
            self._results.said(step.name),
            {**os.environ, **({} if toolkit is None else {"CUDA_PATH": toolkit})},
            cores=cores,
            asked=cores is not None,
        )

    def keep(
        self,
        step: Step,
        process: Process,
        *,
        cut: str | None = None,
        failure: str | None = None,
        full: bool = False,
    ) -> None:
        """Keep what came of a step.

        Parameters
        ----------
        step : Step
        process : Process
        cut : str or None
            Why it was ended.
        failure : str or None
            What went wrong, where the process does not say it itself.
        full : bool
            Whether it was ended at its own limit.
        """
        result = process.result()
        failure = result.pop("failure", None) or failure
        if failure is None and process.status not in (0, None):
            failure = f"ended with status {process.status}: {process.last_words()}"
        record: dict[str, Any] = {"kind": step.kind, "command": step.command, "status": DONE}
        if cut is not None:
            record |= {"status": CUT, "failure": cut, "cuts": self._cuts(step) + full}
        elif failure is not None:
            record |= {"status": FAILED, "failure": failure}
        record |= {"seconds": round(process.seconds, 1), "result": result}
        said = f": {record['failure']}" if "failure" in record else ""
        self._results.log(f"{step.name}: {record['status']} in {record['seconds']} s{said}")
        self._results.keep(step.name, record)

    def _check_gpu(self, steps: Sequence[Step]) -> None:
        """Raise GpuLostError if a step has failed because there is no GPU any more."""
        known = self._results.steps
        if any(s.on_gpu and known.get(s.name, {}).get("status") == FAILED for s in steps):
            # A process that has found a GPU does not notice.
            done = subprocess.run(
                [sys.executable, "-c", _LOST], capture_output=True, text=True, check=False
            )
            reason = done.stdout if done.returncode == 0 else done.stderr[-200:]
            if reason.strip():
                raise GpuLostError(reason.strip())
