# SPDX-License-Identifier: Apache-2.0
"""A public model, as PyTorch exports it both ways."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from peer.contender import CONTENDERS, Contender
from peer.process import ContenderError, Worker
from public.catalogue import PublicModel
from public.record import Outcome
from public.trial import Plan, Trial

_PROGRAM = Contender(
    "torch.compile",
    "peer.torch_exported",
    ("torch",),
    "inductor in its default mode with frozen weights, of the exported program",
)


class ExportedTrial(Trial):
    """The trial of a public model."""

    def __init__(self, model: PublicModel, plan: Plan, directory: Path) -> None:
        super().__init__(Outcome(model.name, model.family, model.source), plan, directory)
        self._model = model
        self._missing: dict[str, str | None] = {}

    def prepare(self) -> None:
        """Export the model; what PyTorch computes is right."""
        self.plan.say("exporting")
        command = ["-m", "public.export", self._model.source, self._model.name]
        done = subprocess.run(
            [sys.executable, *command, str(self.directory)],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise ContenderError(f"it cannot be exported: {done.stderr.splitlines()[-1][:200]}")
        self._missing = json.loads(done.stdout.splitlines()[-1])

    def arguments(self, way: str) -> list[str]:
        return [str(self._exported(way))]

    def peer(self, name: str) -> Worker:
        if name != "torch":
            return self.start(name, CONTENDERS[name], self._exported("onnx"))
        first = self.start(name, _PROGRAM, self.directory / "model.pt2")
        first.close()
        again = self.start(name, _PROGRAM, self.directory / "model.pt2")
        run = self.outcome.entry(name)
        run.compile_s, run.again_s = first.ready["process_s"], again.ready["process_s"]
        return again

    def _exported(self, way: str) -> Path:
        if reason := self._missing[way]:
            raise ContenderError(f"PyTorch does not export it: {reason}")
        return self.directory / f"model.{way}"
