# SPDX-License-Identifier: Apache-2.0
"""A back end of an interpreter: operators are computed by NumPy, and a clock is simulated.

The device that it stands for has four processors. An operator runs on one of them: it takes 10
microseconds to start, and then a thousand million operations a second.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import numpy as np
import tvm
import tvm_ffi
from numpy.lib.stride_tricks import sliding_window_view
from tvm import relax

from tvm_ios.database import DeviceIdentity, MeasurementDatabase
from tvm_ios.errors import ScheduleError
from tvm_ios.graph.operators import Operator, OperatorGraph
from tvm_ios.lowering.emitter import Emitter, Library, LoweredSchedule, Network, emit_networks
from tvm_ios.lowering.implementation import Implementation, LoweredGraph
from tvm_ios.lowering.kernel import Kernel
from tvm_ios.lowering.stages import Stage, StageBuilder
from tvm_ios.measure.cache import MeasurementCache
from tvm_ios.measure.protocol import TimedRuns
from tvm_ios.measure.timing.models import Timers, Variants
from tvm_ios.measure.transport.locations import LocalRunner, Runner
from tvm_ios.measure.transport.pool import LocalPool, RunnerPool
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios.options import Options
from tvm_ios.relax_ir.constants import constant_array
from tvm_ios.schedule.options import Precision

T = TypeVar("T")

KIND = "test"  # a kind of target that TVM has for such purposes
PROCESSORS, FLOPS, LAUNCH = 4, 1e9, 1e-5
_numbers = count()

MakeTimer = Callable[[str, float], Callable[[], float]]
"""Returns the timer of a whole model, by its name and the seconds that it takes."""


def conv2d(call: relax.Call, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
    top, left, bottom, right = (int(p) for p in call.attrs.padding)
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_window_view(padded, weights.shape[2:], (2, 3))
    rows, columns = (int(s) for s in call.attrs.strides)
    return np.einsum("nchwrs,kcrs->nkhw", windows[:, :, ::rows, ::columns], weights, optimize=True)


OPERATORS: Mapping[str, Callable[..., np.ndarray]] = {
    "relax.nn.conv2d": conv2d,
    "relax.nn.relu": lambda _, x: np.maximum(x, 0),
    "relax.add": lambda _, x, y: x + y,
    "relax.multiply": lambda _, x, y: x * y,
    "relax.concat": lambda call, *parts: np.concatenate(parts, int(call.attrs.axis)),
}
"""What is known; TVM computes the others."""


@dataclass(frozen=True)
class NumpyKernel(Kernel):
    """An operator's bindings, and the name of the function that computes them."""

    function: str
    seconds: float

    num_tiles, num_phases = 1, 1


def implement(op: Operator) -> Implementation | None:
    """The operator as an interpreted function; None if something of it is not known."""
    calls = [binding.value for binding in op.bindings]
    known = all(isinstance(c, relax.Call) and str(c.op.name) in OPERATORS for c in calls)
    if op.opaque or not known or len(op.outputs) != 1:
        return None

    def run(*tensors: Any) -> None:
        *given, result = tensors
        arrays = (tensor.numpy() for tensor in given)
        values: dict[Any, np.ndarray] = dict(zip(op.inputs, arrays, strict=True))

        def value(expr: relax.Expr) -> list[np.ndarray]:
            if isinstance(expr, relax.Tuple):
                return [array for field in expr.fields for array in value(field)]
            return [values[expr] if isinstance(expr, relax.Var) else constant_array(expr)]

        for binding in op.bindings:
            call = binding.value
            operands = [array for argument in call.args for array in value(argument)]
            values[binding.var] = OPERATORS[call.op.name](call, *operands)
        result.copyfrom(np.ascontiguousarray(values[op.outputs[0]], "float32"))

    name = f"tests.numpy.{next(_numbers)}"
    tvm_ffi.register_global_func(name, run)
    inputs, outputs = (tuple(map(_spec, values)) for values in (op.inputs, op.outputs))
    kernel = NumpyKernel(
        op.kind, ("numpy", op.signature), inputs, outputs, name, LAUNCH + op.flops / FLOPS
    )
    return Implementation((op.index,), kernel, op.inputs, op.outputs)


def _spec(value: relax.Var) -> TensorSpec:
    return TensorSpec(tuple(int(extent) for extent in value.ty.shape), str(value.ty.dtype))


@dataclass(frozen=True)
class NumpyStage(Stage):
    """A stage with the processor of each operator."""

    processors: tuple[int, ...]

    @property
    def seconds(self) -> float:
        busy = [0.0] * PROCESSORS
        for implementation, processor in zip(self.implementations, self.processors, strict=True):
            busy[processor] += implementation.kernel.seconds
        return max(busy)


class NumpyStageBuilder(StageBuilder):
    """Gives each group of a stage a processor."""

    default_partitioning, cache_bytes = "processors", 1 << 20

    def partition(
        self, stage: Stage, partitioning: str, costs: Mapping[Hashable, float]
    ) -> NumpyStage:
        if partitioning != self.default_partitioning:
            raise ScheduleError(f"Work is divided by processors only, not {partitioning!r}.")
        processors = tuple(group % PROCESSORS for group in stage.groups)
        return NumpyStage(stage.implementations, stage.groups, stage.after, processors)


class NumpyStageRunner:
    """The simulated clock; also what would compile kernels."""

    def compile(self, kernels: Iterable[NumpyKernel]) -> None:
        """They are interpreted."""

    def prepare(self) -> None:
        """There is nothing to load."""

    def time_alone(self, implementations: Sequence[Implementation], repeat: int) -> TimedRuns:
        return TimedRuns.steady(np.tile([i.kernel.seconds for i in implementations], (repeat, 1)))

    def time(self, stages: Sequence[NumpyStage], repeat: int) -> TimedRuns:
        return TimedRuns.steady(np.tile([stage.seconds for stage in stages], (repeat, 1)))


class NumpyEmitter(Emitter):
    """Calls the interpreted functions one after another."""

    def begin(self) -> None:
        """There is nothing to set up."""

    def call(self, stages: tuple[NumpyStage, ...], visible: set[relax.Var]) -> None:
        for implementation in (i for stage in stages for i in stage.implementations):
            (result,) = implementation.outputs
            inputs = relax.Tuple([self.values[value] for value in implementation.inputs])
            function = implementation.kernel.function
            call = relax.call_dps_packed(function, inputs, out_ty=result.ty)
            self._define(result, self.builder.emit(call))


class NoLibrary(Library):
    """The functions are Python's."""

    def emitter(self, name: str, original: relax.Function, _: LoweredSchedule) -> NumpyEmitter:
        return NumpyEmitter(relax.BlockBuilder())

    def compile(self) -> None:
        return None


@dataclass
class NumpyVariants:
    """Whole models, timed by the simulated clock."""

    machine: relax.VirtualMachine
    clock: Mapping[str, float]
    timer: MakeTimer

    def time(self, work: Callable[[Timers], T]) -> T:
        return work({name: self.timer(name, seconds) for name, seconds in self.clock.items()})

    def __call__(self, name: str, arguments: Sequence[Any]) -> Any:
        return self.machine[name](*arguments)

    def shared_rounds(self) -> None:
        """Nobody else runs on a simulated clock."""


def steady(name: str, seconds: float) -> Callable[[], float]:
    """The timer of a clock on which a model always takes as long."""
    return lambda: seconds


class NumpyBackend:
    workers, checks_indices, attention_depth, recurrences = 1, False, 0, False
    halves, transposed = True, True

    def __init__(self, timer: MakeTimer = steady) -> None:
        self._clock: dict[str, float] = {}
        self._timer = timer

    def stage_builder(
        self, graph: OperatorGraph, results: Sequence[relax.Var]
    ) -> NumpyStageBuilder:
        implementations = tuple(map(implement, graph.operators))
        return NumpyStageBuilder(LoweredGraph(graph, implementations), PROCESSORS)

    def identity(self) -> DeviceIdentity:
        return DeviceIdentity.of("a simulated clock", tvm.target.Target(KIND))

    def pool(self, stage_builder: NumpyStageBuilder, seed: int) -> RunnerPool:
        device = NumpyStageRunner()
        return LocalPool(device, device)

    def conditions(self, stage_builder: NumpyStageBuilder) -> Hashable:
        return "simulated"

    def tune(
        self, stage_builder: NumpyStageBuilder, pool: RunnerPool, cache: MeasurementCache
    ) -> NumpyStageBuilder:
        return stage_builder

    def emit(self, networks: Sequence[Network]) -> tvm.IRModule:
        for network in networks:
            for name, lowered in network.variants.items():
                self._clock[name] = sum(getattr(stage, "seconds", 0.0) for stage in lowered.stages)
        return emit_networks(networks, NoLibrary())

    def compile(
        self, variants: tvm.IRModule, names: Sequence[str], inputs: Sequence[Any], pool: RunnerPool
    ) -> Variants:
        machine = relax.VirtualMachine(tvm.compile(variants, "llvm"), tvm.cpu())
        return NumpyVariants(machine, {name: self._clock[name] for name in names}, self._timer)


@dataclass
class NumpyKind:
    """The kind of target, and the clock by which whole models are timed."""

    timer: MakeTimer = steady
    name = device = KIND

    def check_options(
        self,
        target: str | tvm.target.Target,
        options: Options,
        threads: int | None,
        device_id: int = 0,
    ) -> None:
        """It has a use for all of them."""

    def runner(self, device_id: int) -> Runner:
        return LocalRunner(device_id)

    def given(self, target: str | tvm.target.Target, runner: Runner) -> tvm.target.Target:
        return tvm.target.Target(target)

    def resolve(
        self, target: str | tvm.target.Target, threads: int | None, runner: Runner
    ) -> tvm.target.Target:
        return tvm.target.Target(target)

    def check(self, target: tvm.target.Target, device_id: int) -> None:
        """It runs everywhere."""

    check_loaded = check

    def create(
        self,
        target: tvm.target.Target,
        runner: Runner,
        options: Options,
        database: MeasurementDatabase | None,
    ) -> NumpyBackend:
        return NumpyBackend(self.timer)

    def precision(self, target: tvm.target.Target, function: relax.Function) -> Precision:
        return "fp32"

    def pipeline(self, target: tvm.target.Target) -> tvm.transform.Pass:
        return relax.get_default_pipeline(tvm.target.Target("llvm"))

    def build(self, mod: tvm.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
        return tvm.compile(mod, "llvm")
