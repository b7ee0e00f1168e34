# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled in this process, without a linker: there are many of them."""

from __future__ import annotations

from collections.abc import Mapping

import tvm

from tvm_ios.backend.cpu.code.c_functions import calling_function
from tvm_ios.backend.cpu.code.functions import KernelFunctions, build_functions
from tvm_ios.backend.cpu.code.pipeline import SYMBOL
from tvm_ios.backend.cpu.kernels.kernel import Kernel


def kernel_module(
    phases: Mapping[str, tuple[Kernel, int]], target: tvm.target.Target
) -> tvm.runtime.Module:
    """Functions ``f(*tensors, begin, end)`` by name, each a phase of a kernel."""
    functions = KernelFunctions(target)
    callers = {
        name: calling_function(kernel, phase, functions.get(kernel, phase), name)
        for name, (kernel, phase) in phases.items()
    }
    called = {
        symbol: item.function().with_attr(SYMBOL, symbol)
        for symbol, item in functions.objects.items()
    }
    return build_functions(called | callers, target).mod
