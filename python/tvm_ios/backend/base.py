# SPDX-License-Identifier: Apache-2.0
"""What the scheduler asks of a back end."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import tvm
from tvm import relax

from ..database import DeviceIdentity, MeasurementDatabase
from ..graph.operators import Operator, OperatorGraph
from ..measure.devices import Devices
from ..measure.model import Ways
from ..measure.records import Records
from ..measure.sites import Site
from ..schedule.options import Options
from ..schedule.timeline import Span
from .shared.emitter import Stages
from .shared.kernel import K
from .shared.stages import AnyAssembler, S

A = TypeVar("A", bound=AnyAssembler)
"""What builds the stages of one back end, of its kernels."""


class Backend(Protocol[K, S, A]):
    """What a kind of target brings with it: its kernels, its stages, and what builds them.

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

    def assemble(self, graph: OperatorGraph, results: Sequence[relax.Var]) -> A:
        """Every operator's kernel, and stages of them; ``results`` leave the function."""

    def identity(self) -> DeviceIdentity:
        """Whose latencies are measured."""

    def devices(self, assembler: A, seed: int) -> Devices[K, S]:
        """What stages are given to, to be timed."""

    def conditions(self, assembler: A) -> Hashable:
        """What besides device and stage decides how long a stage takes."""

    def tune(self, assembler: A, devices: Devices[K, S], records: Records) -> A:
        """Where operators have a choice of kernels, the same with those that are fastest."""

    def emit(
        self, mod: tvm.IRModule, function: str, ways: Mapping[str, Stages[S]], assembler: A
    ) -> tvm.IRModule:
        """``mod`` with ``function`` replaced by one function for each way to run it."""

    def compile(
        self,
        ways: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[Any],
        devices: Devices[K, S],
    ) -> Ways:
        """Whole models that can be timed and run."""

    def trace(
        self, stages: Mapping[int, S | Operator], devices: Devices[K, S], repeat: int
    ) -> Sequence[Span]:
        """When each worker computes what of these stages, by their numbers.

        Raises
        ------
        ScheduleError
            When none of them has a kernel to run.
        """


class TargetKind(Protocol[K, S, A]):
    """A kind of target, and what is asked of it before and after a network is scheduled.

    Attributes
    ----------
    name : str
        As TVM has it.
    device : str
        As TVM names the devices that run its code.
    """

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> str: ...

    def check_options(
        self, target: str | tvm.target.Target, options: Options, threads: int | None
    ) -> None:
        """Raise OptionError or TargetError for options that a target has no use for."""

    def given(self, target: str | tvm.target.Target, site: Site) -> tvm.target.Target:
        """Return the target as it is given, but of another machine with the number of its cores."""

    def resolve(
        self, target: str | tvm.target.Target, threads: int | None, site: Site
    ) -> tvm.target.Target:
        """Return the target with what the site has of a processor, where it names none.

        Raises
        ------
        TargetError, OptionError, DeviceError
        """

    def check(self, target: tvm.target.Target, device_id: int) -> None:
        """Raise TargetError unless code for the target runs in this process."""

    def check_loaded(self, target: tvm.target.Target) -> None:
        """Raise TargetError unless a library that was loaded can run."""

    def create(
        self,
        target: tvm.target.Target,
        site: Site,
        options: Options,
        database: MeasurementDatabase | None,
    ) -> Backend[K, S, A]:
        """Return the back end of a target that was resolved.

        Raises
        ------
        OptionError
            For options that the target has no use for.
        """

    def pipeline(self, target: tvm.target.Target) -> tvm.transform.Pass:
        """Return TVM's own pipeline for what is left after a function was scheduled."""

    def build(self, mod: tvm.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
        """Compile a module whose function was scheduled."""


AnyKind = TargetKind[Any, Any, Any]
"""A kind of target of whatever kernels and stages."""
