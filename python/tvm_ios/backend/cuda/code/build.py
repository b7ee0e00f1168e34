# SPDX-License-Identifier: Apache-2.0
"""Compilation of many CUDA kernels at once: one host module and one module of device code.

A network has dozens of kernels, and the CUDA compiler spends most of its time for a small kernel on
the headers. Scheduled functions and fused functions are in different states of TVM's lowering. The
build brings them to the same state and compiles them together.
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
    """Kernels and the names of their functions; equal kernels share a name.

    Attributes
    ----------
    prefix : str
        Prefix of all names; linked modules need different ones.
    kernels : dict of str to CudaKernel
        The kernels, by name.
    """

    prefix: str
    kernels: dict[str, CudaKernel] = field(default_factory=dict)
    _known: dict[Hashable, str] = field(default_factory=dict)

    def name_of(self, kernel: CudaKernel) -> str:
        """Return the name of a kernel's function; register it if no equal kernel has one."""
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
        The kernels, by the names of their functions.
    target : tvm.target.Target
        The CUDA device and its host.

    Returns
    -------
    tvm.runtime.Executable
        Holds a function for each kernel.

    Raises
    ------
    OptionError
        If there is no compiler for device code.
    """
    functions = {name: kernel.function for name, kernel in kernels.items()}
    lowered = lower_to_statements(functions, target)
    with target, cuda_compiler():  # the second half reads the current target
        executable = tvm.compile(tvm.IRModule(lowered), target, tir_pipeline=_PIPELINE)
        compile_sources(executable.mod)
    return executable


def _second_half() -> tuple[tvm.transform.Pass, ...]:
    """Return TVM's pipeline from the state of lowered functions on, with its finalizers."""

    @tvm.transform.module_pass(opt_level=0)
    def divide(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
        return divide_host_and_device(mod, tvm.target.Target.current())

    return divide, finalize_host_passes, finalize_device_passes


tirx.register_tir_pipeline(_PIPELINE, _second_half)
