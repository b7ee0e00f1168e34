# SPDX-License-Identifier: Apache-2.0
"""Kernels for a CUDA device compiled at once: one host module, and one module of device code.

A network has dozens of kernels, and what the CUDA compiler takes for a small one is mostly taken
by the headers. Functions as TVM schedules them, and fused ones, which are halfway through TVM's
lowering, are therefore brought to one state and go on together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import tvm
from tvm import tirx
from tvm.s_tir.pipeline import finalize_device_passes, finalize_host_passes

from ..kernels.kernel import CudaKernel
from ..kernels.lowering import divide_host_and_device, lower_to_statements
from .toolchain import compile_sources, cuda_compiler

_PIPELINE = "tvm_ios_cuda_kernels"


@dataclass
class KernelNames:
    """Kernels and the names of the functions that they are to become; equal kernels share one.

    Attributes
    ----------
    prefix : str
        What all names begin with: those of two modules that are linked must differ.
    kernels : dict of str to CudaKernel
        By name.
    """

    prefix: str
    kernels: dict[str, CudaKernel] = field(default_factory=dict)
    _known: dict[Hashable, str] = field(default_factory=dict)

    def name_of(self, kernel: CudaKernel) -> str:
        """The name of a kernel's function, which is new where no equal one had it."""
        if kernel.key not in self._known:
            name = f"{self.prefix}_{kernel.name}_{len(self._known)}"
            self.kernels[name] = kernel
            self._known[kernel.key] = name
        return self._known[kernel.key]


def build_kernels(
    kernels: Mapping[str, CudaKernel], target: tvm.target.Target
) -> tvm.runtime.Executable:
    """Compile kernels to packed functions of their tensors, inputs first.

    Parameters
    ----------
    kernels : mapping of str to CudaKernel
        By the names of the functions.
    target : tvm.target.Target
        The CUDA device and its host.

    Raises
    ------
    OptionError
        When there is no compiler for device code.
    """
    functions = {name: kernel.function for name, kernel in kernels.items()}
    lowered = lower_to_statements(functions, target)
    with target, cuda_compiler():  # the second half asks for the target
        executable = tvm.compile(tvm.IRModule(lowered), target, tir_pipeline=_PIPELINE)
        compile_sources(executable.mod)
    return executable


def _second_half() -> tuple[tvm.transform.Pass, ...]:
    """TVM's pipeline from where lowered functions are, with what TVM has follow it."""

    @tvm.transform.module_pass(opt_level=0)
    def divide(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        return divide_host_and_device(mod, tvm.target.Target.current())

    return divide, finalize_host_passes, finalize_device_passes


tirx.register_tir_pipeline(_PIPELINE, _second_half)
