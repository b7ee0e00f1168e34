# SPDX-License-Identifier: Apache-2.0
"""The checks of a self-test on a GPU."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial

import numpy as np
import tvm
from tvm import relax

from ..backend.cuda.code.toolchain import check_compiler, find_toolchain
from ..backend.cuda.kernels.kernel import CudaKernel
from ..backend.cuda.stage.stage import CudaStage, Launch
from ..backend.cuda.target import check_device, check_precision, describe, resolve_cuda
from ..lowering.implementation import Implementation
from ..lowering.stages import Stage
from ..measure.timing.stages import sensible
from ..schedule.options import PRECISIONS, Precision
from ..support.errors import OptionError, device_errors
from . import networks
from .cases import CASES, Builder, Case
from .checks import Check, Group, KernelFault, LeftOut, Settings
from .gpu_kernels import PRODUCT, KernelNetwork, KernelRunner
from .networks import TestedSchedules
from .reference import EXACT, TOLERANCE, compare, reference, relative_error

op = relax.op

_COPIED = 64 << 20  # bytes
_TENSOR_CORES = 1e-4  # their sums have fewer bits than float32
# Twice the largest error of a rounded factor: what one product hands to the next is rounded, too.
_BETWEEN = {"tf32": 2**-10, "fp16": 2**-10, "bf16": 2**-7}
_IMAGES = 4  # the first run warms up, the second captures a graph, the others replay it


def plan(settings: Settings) -> list[Group]:
    """Return the groups of checks, the cheapest first."""
    checks = _GpuChecks(settings)
    return [
        Group("device", checks.device(), required=True),
        Group("launches", checks.launches()),
        *(Group(f"kernels in {p}", checks.kernels(p)) for p in PRECISIONS),
        *([Group("cuDNN", checks.cudnn())] if settings.cudnn else []),
        Group("stages", checks.stages()),
        Group("network", checks.network()),
    ]


class _GpuChecks:
    """The checks, which create shared resources on first use.

    Parameters
    ----------
    settings : Settings
        The settings of the self-test.
    """

    def __init__(self, settings: Settings) -> None:
        self._named, self._device_id = settings.target, settings.device_id
        self.target = cache(lambda: resolve_cuda(self._named, self._device_id))
        self._runner = cache(lambda: KernelRunner(self.target(), self._device_id))
        self._networks = cache(self._compiled_networks)
        self._variants = cache(self._compiled_variants)

    def device(self) -> tuple[Check, ...]:
        """Return the checks that all others depend on."""
        return (
            Check("driver and device", self._describe),
            Check("compiler", self._compiler),
            Check("memory", self._memory),
        )

    def launches(self) -> tuple[Check, ...]:
        """Return the checks of kernel launches."""
        return (
            Check("one kernel", self._one_kernel),
            Check("fork and join of streams", self._fork_and_join),
            Check("capture and replay of a graph", self._replay),
            Check("times by events", self._times),
        )

    def kernels(self, precision: Precision) -> tuple[Check, ...]:
        """Return a check of each case, which runs all kernel families that it has."""
        cases = [case for case in CASES if case.product or precision == "fp32"]
        return tuple(Check(case.name, partial(self._families, case, precision)) for case in cases)

    def cudnn(self) -> tuple[Check, ...]:
        """Return the checks of cuDNN's convolution algorithms."""
        cases = [case for case in CASES if "convolution" in case.name]
        return tuple(Check(case.name, partial(self._cudnn_algorithms, case)) for case in cases)

    def stages(self) -> tuple[Check, ...]:
        """Return a check of each way to run a stage."""
        repartitioned = (
            ("a stream for each group", "streams"),
            ("two streams", "streams-2"),
            ("the widest group first", "streams-widest"),
            ("unequal kernels in one launch", "fused"),
        )
        return (
            *(self._stage_check(name, networks.UNEQUAL, d) for name, d in repartitioned),
            self._stage_check(networks.JOINED.name, networks.JOINED, "streams"),
            self._stage_check("the same in fewer launches", networks.JOINED, "fused"),
            *(self._stage_check(c.name, c, "merged") for c in networks.MERGED),
        )

    def network(self) -> tuple[Check, ...]:
        """Return the checks of a small network, in each kind of stage and each precision."""
        whole = networks.WHOLE
        return (
            self._stage_check("one operator a stage", whole, "sequential"),
            self._stage_check("parallel streams", whole, "streams"),
            self._stage_check("fused launches", whole, "fused"),
            *(self._stage_check(f"in {p}", whole, "streams", p) for p in PRECISIONS[1:]),
            Check("as a library", self._library),
        )

    def _describe(self) -> str:
        device = describe(self._device_id)
        check_device(self.target(), self._device_id)
        return (
            f"{device.name}, {device.arch}, {device.limits.multiprocessors} multiprocessors, "
            f"{device.limits.l2_bytes >> 20} MiB of L2, driver for CUDA {device.driver}"
        )

    def _compiler(self) -> str:
        check_compiler(self.target())
        self._runner().compile([KernelNetwork.of(_ELEMENTWISE, self.target(), self._device_id)])
        return str(find_toolchain())

    def _memory(self) -> str:
        sent = np.random.default_rng(0).integers(0, 256, _COPIED, "uint8")
        with device_errors(self._device_id):
            received = tvm.runtime.tensor(sent, tvm.cuda(self._device_id)).numpy()
        if not np.array_equal(sent, received):
            raise KernelFault("Data changed when it was copied to the device and back.")
        return f"{_COPIED >> 20} MiB there and back"

    def _one_kernel(self) -> str:
        return self._each_variant(KernelNetwork.of(_ELEMENTWISE, self.target(), self._device_id))

    def _fork_and_join(self) -> str:
        """Check that branches wait for the value that they read, and the join for all branches."""
        network = KernelNetwork.of(_FORK, self.target(), self._device_id)
        first, *branches, last = next(iter(network.variants.values()))
        stages = [_stage([first]), _stage(branches), _stage([last])]
        runner, said = self._runner(), ""
        for seed in range(_IMAGES):
            inputs = _FORK.inputs(seed)
            with device_errors(self._device_id):
                values = runner.upload(network, inputs)
                for stage in stages:
                    runner.run_stage(stage, values)
                (output,) = last.outputs
                result = network.in_relax(output, values[output].numpy())
            said = compare(result, reference(_FORK)(inputs))
        return f"{said}, {len(branches)} streams"

    def _replay(self) -> str:
        return self._compare(_FORK, "sequential")

    def _times(self) -> str:
        """Check that events give plausible times."""
        medians = []
        for case in (_ELEMENTWISE, _LARGE):
            network = KernelNetwork.of(case, self.target(), self._device_id)
            samples = self._runner().time(network, next(iter(network.variants.values())))
            if len(sensible(samples)) < len(samples):
                raise KernelFault(f"Events give impossible times: {samples}.")
            medians.append(1e6 * statistics.median(samples))
        return f"{medians[0]:.1f} µs for 10007 numbers, {medians[1]:.1f} µs for a convolution"

    def _families(self, case: Case, precision: Precision) -> str:
        reason = self._lacking(precision)
        if reason:
            raise LeftOut(reason)
        return self._each_variant(self._networks(precision)[case.name])

    def _cudnn_algorithms(self, case: Case) -> str:
        network = KernelNetwork.of(case, self.target(), self._device_id, cudnn=True)
        return self._each_variant(network, "cudnn")

    def _each_variant(self, network: KernelNetwork, prefix: str = "") -> str:
        """Run a kernel of every family; return the largest error.

        Raises
        ------
        KernelFault
            If kernels are wrong; the message names them.
        """
        case, inputs = network.case, network.case.inputs()
        right, wrong, worst = [], [], 0.0
        for variant, implementations in network.variants.items():
            if not variant.startswith(prefix):
                continue
            factors = variant.split("_")[1] if variant.startswith(PRODUCT) else "fp32"
            actual = self._runner().run(network, implementations, inputs)
            error = relative_error(actual, reference(case, factors)(inputs))
            if error <= _tolerance(network, factors):
                right.append(variant)
                worst = max(worst, error)
            else:
                wrong.append(f"{variant} is off by {error:.1e} of the largest value")
        if wrong:
            raise KernelFault(f"{', '.join(wrong)}; right: {', '.join(right) or 'none'}.")
        if not right:
            raise LeftOut("there is no kernel for it")
        return f"error {worst:.1e}: {', '.join(right)}"

    def _compiled_networks(self, precision: Precision) -> dict[str, KernelNetwork]:
        """Return the cases of a precision by name, with their kernels compiled together.

        A kernel that cannot be compiled is compiled again by its own check, which then reports the
        error.
        """
        cases = [case for case in CASES if case.product or precision == "fp32"]
        found = [
            KernelNetwork.of(case, self.target(), self._device_id, precision) for case in cases
        ]
        with suppress(Exception):  # the failing check reports the error
            self._runner().compile(found)
        return {network.case.name: network for network in found}

    def _lacking(self, precision: Precision) -> str:
        """Return why the device lacks a precision; empty if it has it."""
        try:
            check_precision(self.target(), precision)
        except OptionError as error:
            return str(error)
        return ""

    def _stage_check(
        self, name: str, case: Case, schedule: str, precision: Precision = "fp32"
    ) -> Check:
        return Check(name, lambda: self._compare(case, schedule, precision))

    def _compare(self, case: Case, schedule: str, precision: Precision = "fp32") -> str:
        reason = self._lacking(precision)
        if reason:
            raise LeftOut(reason)
        return self._variants(case.name, precision).check(schedule, _IMAGES, TOLERANCE[precision])

    def _library(self) -> str:
        """Check that a library can be linked, loaded, and captured as one CUDA graph."""
        return networks.check_library(networks.WHOLE, self.target(), self._device_id, _IMAGES)

    def _compiled_variants(self, name: str, precision: Precision) -> TestedSchedules:
        case, partitionings = _VARIANTS[name]
        merging = case in networks.MERGED
        return TestedSchedules.compile(
            case, self.target(), self._device_id, partitionings, merging, precision
        )


def _tolerance(network: KernelNetwork, factors: str) -> float:
    """Return the largest error of a right kernel, relative to the largest value.

    The reference rounds the factors that a network is given. What one product hands to another,
    kernels round too.
    """
    precision = network.lowered.config.precision
    if network.products > 1 and precision != "fp32":
        return _BETWEEN[precision]
    return EXACT if factors == "fp32" else _TENSOR_CORES


def _tanh(b: Builder, x: relax.Expr) -> relax.Var:
    return b.emit(op.tanh(x))


def _fork(b: Builder, x: relax.Expr) -> relax.Var:
    """Emit a value that three poolings read, and their concatenation."""
    x = b.emit(op.nn.softmax(x, axis=1))
    arms = [b.emit(op.nn.max_pool2d(x, (n, n), padding=(n // 2, n // 2))) for n in (3, 5, 7)]
    return b.emit(op.concat(arms, axis=1))


_ELEMENTWISE = Case("one kernel", _tanh, ((10007,),))
_LARGE = next(case for case in CASES if case.name == "wide convolution 3x3")
_FORK = Case("fork and join", _fork, ((1, 33, 61, 59),))

_VARIANTS: dict[str, tuple[Case, Sequence[str]]] = {
    _FORK.name: (_FORK, ()),
    networks.UNEQUAL.name: (
        networks.UNEQUAL,
        ("streams", "streams-2", "streams-widest", "fused"),
    ),
    networks.JOINED.name: (networks.JOINED, ("streams", "fused")),
    networks.WHOLE.name: (networks.WHOLE, ("streams", "fused")),
    **{case.name: (case, ()) for case in networks.MERGED},
}
"""Networks by name, with the work partitionings to check."""


def _stage(implementations: Sequence[Implementation[CudaKernel]]) -> CudaStage:
    """Return a stage that runs each operator on a stream of its own."""
    launches = (
        Launch(i.kernel, stream, i.inputs, i.outputs) for stream, i in enumerate(implementations)
    )
    count = len(implementations)
    stage = Stage(tuple(implementations), tuple(range(count)), ((),) * count)
    return CudaStage.of(stage, launches)
