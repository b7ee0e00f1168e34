# SPDX-License-Identifier: Apache-2.0
"""The target kind of CUDA devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm
from tvm import relax

from ...database import MeasurementDatabase
from ...measure.transport.locations import ProcessRunner, Runner
from ...schedule.options import Options, Precision
from ...support.errors import OptionError
from ...target import CUDA, parse
from .code.pipeline import finish_pipeline
from .code.toolchain import check_compiler, compile_sources, cuda_compiler
from .target import check_device, resolve_cuda

if TYPE_CHECKING:
    from .backend import CudaBackend


class CudaKind:
    """The target kind of CUDA devices: the GPUs of this machine."""

    name, device = CUDA, "cuda"

    def check_options(
        self,
        target: str | tvm.target.Target,
        options: Options,
        threads: int | None,
        device_id: int = 0,
    ) -> None:
        if threads is not None:
            raise OptionError("The number of threads is for a CPU; leave it out for a CUDA device.")

    def runner(self, device_id: int) -> Runner:
        """Return another process: a device that a kernel makes fail is lost to its process."""
        return ProcessRunner(device_id=device_id)

    def given(self, target: str | tvm.target.Target, runner: Runner) -> tvm.target.Target:
        """Return the target as it is given."""
        _check_site(runner)
        return parse(target)

    def resolve(
        self, target: str | tvm.target.Target, threads: int | None, runner: Runner
    ) -> tvm.target.Target:
        """Return the target with the architecture of this machine's device, if it names none.

        Raises
        ------
        OptionError
            If ``threads`` is given, the runner is remote, or there is no compiler.
        DeviceError, TargetError
            If no device or no supported architecture is found.
        """
        _check_site(runner)
        self.check_options(target, Options(), threads)
        resolved = resolve_cuda(target, runner.device_id)
        check_compiler(resolved)
        return resolved

    def check(self, target: tvm.target.Target, device_id: int) -> None:
        """Raise TargetError unless the device runs code for the target, DeviceError without one."""
        check_device(target, device_id)

    def check_loaded(self, target: tvm.target.Target, device_id: int) -> None:
        """Do nothing: loading has found a device that runs the library."""

    def create(
        self,
        target: tvm.target.Target,
        runner: Runner,
        options: Options,
        database: MeasurementDatabase | None,
    ) -> CudaBackend:
        """Return the back end of a resolved target."""
        from .backend import CudaBackend  # which CPUs need not load

        if options.precision == "auto":
            raise OptionError("The precision auto is for a CPU; name one for a CUDA device.")
        return CudaBackend(target, runner, options)

    def precision(self, target: tvm.target.Target, function: relax.Function) -> Precision:
        """Return fp32: networks of 16-bit numbers are computed in these, whatever the option."""
        return "fp32"

    def pipeline(self, target: tvm.target.Target) -> tvm.transform.Pass:
        """Return TVM's own pipeline for the rest of a scheduled module."""
        return finish_pipeline(target)

    def build(self, mod: tvm.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
        """Compile a module whose function was scheduled, and its device code."""
        with target, cuda_compiler():
            executable = tvm.compile(mod, target, relax_pipeline=self.pipeline(target))
            compile_sources(executable.mod)
        return executable


def _check_site(runner: Runner) -> None:
    if runner.provider is not None and not runner.isolated:
        raise OptionError("A CUDA device is measured on this machine; leave --rpc-tracker out.")
