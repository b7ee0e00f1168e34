# SPDX-License-Identifier: Apache-2.0
"""The target kind of CPUs."""

from __future__ import annotations

import os
from dataclasses import replace

import tvm
from tvm import relax

from ...database import MeasurementDatabase
from ...measure.transport.locations import LocalRunner, Runner, resolve_at
from ...rewrite.halves import multiplies_bfloat16
from ...schedule.options import Options, Precision
from ...support.errors import OptionError
from ...target import CPU, parse, resolve
from .backend import CpuBackend
from .core import Core, check_runnable, core_of

_PRECISIONS = ("fp32", "bf16", "auto", "model")
_EMULATION = "TVM_IOS_EMULATE_INSTRUCTIONS"


def emulated() -> bool:
    """Return whether processors without instructions for bfloat16 or bytes use others instead.

    That is slower than float32, and for tests.
    """
    return os.environ.get(_EMULATION) == "1"


class CpuKind:
    """The target kind of CPUs: the processor of this machine, or of those that RPC reaches."""

    name, device = CPU, "cpu"

    def check_options(
        self,
        target: str | tvm.target.Target,
        options: Options,
        threads: int | None,
        device_id: int = 0,
    ) -> None:
        _check_number(device_id)
        if options.cudnn:
            raise OptionError("cuDNN is for CUDA devices; leave it out for a CPU.")
        if options.precision not in _PRECISIONS:
            raise OptionError(
                f"A CPU does not multiply in {options.precision}; give one of "
                f"{', '.join(_PRECISIONS)} as the precision."
            )
        resolve(target, threads=threads)  # which raises what is wrong with them

    def runner(self, device_id: int) -> Runner:
        """Return this process."""
        return LocalRunner(device_id)

    def given(self, target: str | tvm.target.Target, runner: Runner) -> tvm.target.Target:
        """Return the target as it is given, with the number of cores of a remote machine."""
        _check_number(runner.device_id)
        if runner.machine is None:
            return parse(target)
        return resolve(target, cpu=None, cores=runner.machine.cores)

    def resolve(
        self, target: str | tvm.target.Target, threads: int | None, runner: Runner
    ) -> tvm.target.Target:
        """Return the target with the attributes of the measured processor that it does not name."""
        _check_number(runner.device_id)
        return resolve_at(runner.machine, target, threads)

    def check(self, target: tvm.target.Target, device_id: int) -> None:
        """Raise TargetError unless code for the target runs in this process."""
        _check_number(device_id)
        check_runnable(target)

    def check_loaded(self, target: tvm.target.Target, device_id: int) -> None:
        """Raise TargetError unless a loaded library can run."""
        self.check(target, device_id)

    def create(
        self,
        target: tvm.target.Target,
        runner: Runner,
        options: Options,
        database: MeasurementDatabase | None,
    ) -> CpuBackend:
        """Return the back end of a resolved target.

        Raises
        ------
        OptionError
            If ``precision`` is one that the processor cannot multiply in, or ``cudnn`` is set.
        """
        self.check_options(target, options, None)
        core = core_of(target)
        multiplies = _multiplies_bfloat16(core)
        if options.precision == "auto":
            options = replace(options, precision="bf16" if multiplies else "fp32")
        if options.precision == "bf16" and not multiplies:
            raise OptionError(
                f"{target.attrs.get('mcpu', 'This CPU')} has no instructions that multiply "
                "bfloat16 (AVX512_BF16 on x86-64, BF16 on AArch64); leave the precision at fp32."
            )
        int8 = core.int8_dot4 is not None or emulated()
        return CpuBackend(target, runner, options, database, int8)

    def precision(self, target: tvm.target.Target, function: relax.Function) -> Precision:
        """Return bf16 if that is what the function multiplies, and the processor can."""
        narrow = _multiplies_bfloat16(core_of(target)) and multiplies_bfloat16(function)
        return "bf16" if narrow else "fp32"

    def pipeline(self, target: tvm.target.Target) -> tvm.transform.Pass:
        """Return TVM's default pipeline for the rest of a scheduled module."""
        return relax.get_default_pipeline(target)

    def build(self, mod: tvm.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
        """Compile a module whose function was scheduled."""
        return tvm.compile(mod, target, relax_pipeline=self.pipeline(target))


def _multiplies_bfloat16(core: Core) -> bool:
    return core.bf16_dot2 is not None or emulated()


def _check_number(device_id: int) -> None:
    if device_id:
        raise OptionError("--device-id is the number of a GPU; leave it out for a CPU.")
