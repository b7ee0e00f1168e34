# SPDX-License-Identifier: Apache-2.0
"""What the scheduler asks of a back end."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import tvm
from tvm import relax

from ..database import DeviceIdentity
from ..graph.operators import OperatorGraph
from ..lower.assemble import Assembler
from ..lower.emitter import Stages
from ..measure.device import Span
from ..measure.devices import Devices
from ..measure.model import Ways
from ..measure.records import Records


class Backend(Protocol):
    """What a kind of target brings with it.

    Attributes
    ----------
    workers : int
        Threads that a schedule is made for.
    checks_indices : bool
        Whether its code raises an error for an index out of bounds; where it cannot, the nearest is
        taken.
    """

    workers: int
    checks_indices: bool

    def assemble(self, graph: OperatorGraph, results: Sequence[relax.Var]) -> Assembler:
        """Every operator's kernel, and stages of them; ``results`` leave the function."""

    def identity(self) -> DeviceIdentity:
        """Whose latencies are measured."""

    def devices(self, assembler: Assembler, seed: int) -> Devices:
        """What stages are given to, to be timed."""

    def conditions(self, assembler: Assembler) -> Hashable:
        """What besides device and stage decides how long a stage takes."""

    def tune(self, assembler: Assembler, devices: Devices, records: Records) -> Assembler:
        """Where operators have a choice of kernels, the same with those that are fastest."""

    def emit(
        self, mod: tvm.IRModule, function: str, ways: Mapping[str, Stages], assembler: Assembler
    ) -> tvm.IRModule:
        """``mod`` with ``function`` replaced by one function for each way to run it."""

    def compile(
        self, ways: tvm.IRModule, names: Sequence[str], inputs: Sequence, devices: Devices
    ) -> Ways:
        """Whole models that can be timed and run."""

    def trace(self, stages: Mapping[int, object], devices: Devices, repeat: int) -> Sequence[Span]:
        """When each worker computes what of these stages, by their numbers.

        Raises
        ------
        ScheduleError
            When none of them has a kernel to run.
        """
