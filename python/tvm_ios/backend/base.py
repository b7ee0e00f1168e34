# SPDX-License-Identifier: Apache-2.0
"""What the scheduler asks of a back end."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol, TypeVar

import tvm
from tvm import relax

from ..database import DeviceIdentity, MeasurementDatabase
from ..graph.operators import OperatorGraph
from ..lowering.emitter import Network
from ..lowering.kernel import K
from ..lowering.stages import AnyStageBuilder, S
from ..measure.cache import MeasurementCache
from ..measure.timing.models import Variants
from ..measure.transport.locations import Runner
from ..measure.transport.pool import RunnerPool
from ..schedule.options import Options, Precision
from ..schedule.timeline import Timeline

A = TypeVar("A", bound=AnyStageBuilder)
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
    attention_depth : int
        The largest size of the heads of an attention that is one operator. Products and a softmax
        stay apart otherwise; 0 keeps all apart.
    recurrences : bool
        Whether a recurrent layer is one operator, and so is the search for a grid.
    halves : bool
        Whether networks of 16-bit floating-point numbers are computed in these, not in float32.
    transposed : bool
        Whether a transposed convolution is one operator; otherwise it is an ordinary one, whose
        channels become pixels.
    """

    workers: int
    checks_indices: bool
    attention_depth: int
    recurrences: bool
    halves: bool
    transposed: bool

    def stage_builder(self, graph: OperatorGraph, results: Sequence[relax.Var]) -> A:
        """Choose every operator's kernel, and return what builds stages of them.

        Parameters
        ----------
        graph : OperatorGraph
        results : sequence of relax.Var
            The values that leave the function.
        """

    def identity(self) -> DeviceIdentity:
        """Whose latencies are measured."""

    def pool(self, stage_builder: A, seed: int) -> RunnerPool[K, S]:
        """Return the pool that stages are timed by."""

    def conditions(self, stage_builder: A) -> Hashable:
        """Return what besides the device and the stage decides how long a stage takes."""

    def tune(self, stage_builder: A, pool: RunnerPool[K, S], cache: MeasurementCache) -> A:
        """Time kernels where operators have a choice, and return a builder with the fastest.

        Parameters
        ----------
        stage_builder : A
        pool : RunnerPool
            Where kernels are timed.
        cache : MeasurementCache
            Latencies that are known, and where new ones go.
        """

    def emit(self, networks: Sequence[Network[S]]) -> tvm.IRModule:
        """Return one module with a function for each variant of each network.

        Parameters
        ----------
        networks : sequence of Network
            One network, or one for several shapes.
        """

    def compile(
        self,
        variants: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[Any],
        pool: RunnerPool[K, S],
    ) -> Variants:
        """Compile whole models that can be timed and run.

        Parameters
        ----------
        variants : tvm.IRModule
            Made by :meth:`emit`: a function for each variant; equal kernels are shared.
        names : sequence of str
            The functions to compile.
        inputs : sequence of tensors
            What they are timed on.
        pool : RunnerPool
            Where they are timed.
        """

    def trace(
        self, network: Network[S], inputs: Sequence[Any], pool: RunnerPool[K, S], repeat: int
    ) -> Timeline:
        """Run a schedule, and return when each worker computes what.

        Operators that are left to TVM's default lowering are not in the timeline.

        Parameters
        ----------
        network : Network
            A function with one variant.
        inputs : sequence of tensors
            What it computes.
        pool : RunnerPool
            Where it runs.
        repeat : int
            Runs, of which the fastest counts.

        Raises
        ------
        ScheduleError
            When no stage has a kernel to run.
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
        self,
        target: str | tvm.target.Target,
        options: Options,
        threads: int | None,
        device_id: int = 0,
    ) -> None:
        """Raise OptionError or TargetError for options that a target has no use for.

        Parameters
        ----------
        target : str or tvm.target.Target
        options : Options
        threads : int or None
            The number that the user wants.
        device_id : int
            The device that the user wants.
        """

    def runner(self, device_id: int) -> Runner:
        """Return where a search measures unless the user says otherwise."""

    def given(self, target: str | tvm.target.Target, runner: Runner) -> tvm.target.Target:
        """Return the target as it is given, but of another machine with the number of its cores."""

    def resolve(
        self, target: str | tvm.target.Target, threads: int | None, runner: Runner
    ) -> tvm.target.Target:
        """Return the target, completed with the processor and the cores of a machine.

        Parameters
        ----------
        target : str or tvm.target.Target
        threads : int or None
            Worker threads; None for all cores.
        runner : Runner
            Which machine.

        Raises
        ------
        TargetError, OptionError, DeviceError
        """

    def check(self, target: tvm.target.Target, device_id: int) -> None:
        """Raise TargetError unless code for the target runs in this process."""

    def check_loaded(self, target: tvm.target.Target, device_id: int) -> None:
        """Raise TargetError unless a library that was loaded on a device can run."""

    def create(
        self,
        target: tvm.target.Target,
        runner: Runner,
        options: Options,
        database: MeasurementDatabase | None,
    ) -> Backend[K, S, A]:
        """Return the back end of a target that was resolved.

        Parameters
        ----------
        target : tvm.target.Target
        runner : Runner
            Where stages are measured.
        options : Options
        database : MeasurementDatabase or None
            Where measurements are kept.

        Raises
        ------
        OptionError
            For options that the target has no use for.
        """

    def precision(self, target: tvm.target.Target, function: relax.Function) -> Precision:
        """Return the precision of a function's factors unless the user names one.

        Parameters
        ----------
        target : tvm.target.Target
            One that was resolved.
        function : relax.Function
            As it was read, with the types of the network.
        """

    def pipeline(self, target: tvm.target.Target) -> tvm.transform.Pass:
        """Return TVM's own pipeline for what is left after a function was scheduled."""

    def build(self, mod: tvm.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
        """Compile a module whose function was scheduled."""


AnyKind = TargetKind[Any, Any, Any]
"""A kind of target of whatever kernels and stages."""
