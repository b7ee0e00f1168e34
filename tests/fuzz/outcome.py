# SPDX-License-Identifier: Apache-2.0
"""What is asked of a trial, and what comes of it; neither needs TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

AGREES, REFUSED, FOREIGN = "agrees", "refused", "TVM's own"
DIFFERS, FAILS, CRASHES, HANGS = "differs", "fails", "crashes", "hangs"
FINDINGS = (DIFFERS, FAILS, CRASHES, HANGS)
"""What ends with an exit status of 1; what the front end refuses, or TVM's own lowering of the
whole network computes otherwise, too, is counted only."""


@dataclass(frozen=True)
class Reduction:
    """What of a seed's network is left, and what is chosen otherwise.

    Attributes
    ----------
    outputs : sequence of str
        All where none is named.
    cut : sequence of str
        Values that become inputs.
    chosen : dict of str to str
        Choices by name; ``variant`` is a number that another schedule is drawn with.
    """

    outputs: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    chosen: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> str:
        """As the command line takes it."""
        parts = [f" --outputs {','.join(self.outputs)}"] if self.outputs else []
        parts += [f" --cut {','.join(self.cut)}"] if self.cut else []
        parts += [f" --set {key}={value}" for key, value in self.chosen.items()]
        return "".join(parts)


@dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Attributes
    ----------
    seed : int
    status : str
        :data:`AGREES`, :data:`REFUSED` (by the front end), :data:`FOREIGN` (TVM's own lowering of
        the whole network is wrong, too), or one of :data:`FINDINGS`.
    detail : str
        What is wrong.
    operators : sequence of str
        Of the network; none where the process did not answer.
    choices : str
        How it was compiled.
    kind : str
        The network's, see :attr:`~fuzz.network.Network.kind`.
    """

    seed: int
    status: str
    detail: str = ""
    operators: tuple[str, ...] = ()
    choices: str = ""
    kind: str = ""

    @property
    def found(self) -> bool:
        return self.status in FINDINGS

    @property
    def symptom(self) -> str:
        """One line by which equal findings can be told."""
        lines = [line for line in self.detail.splitlines() if line.strip()]
        return f"{self.status}: {lines[-1].strip() if lines else ''}"
