# SPDX-License-Identifier: Apache-2.0
"""The functions of kernels that drivers call, and modules of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tvm
from tvm import tirx

from tvm_ios_runtime.helpers import SET_LAUNCHER

from ....lowering.export import export
from ....support.caches import object_directory
from ....support.object_store import ObjectStore, shared_store
from ..kernels.footprint import Accessed
from ..kernels.kernel import Kernel
from .c_functions import calling_function
from .objects import (
    KernelObject,
    drivers_code,
    ir_code,
    kernel_object,
    module_of,
    static_libraries,
    static_library,
)
from .pipeline import PIPELINE


@dataclass
class KernelFunctions:
    """The functions of kernels that drivers call; kernels with equal keys share theirs.

    Attributes
    ----------
    target : tvm.target.Target
    objects : dict of str to KernelObject
        By their symbols.
    store : ObjectStore
        What is known of kernels, and their object code.
    """

    target: tvm.target.Target
    objects: dict[str, KernelObject] = field(default_factory=dict)
    store: ObjectStore = field(default_factory=lambda: shared_store(object_directory()))
    _known: dict[tuple[Hashable, int], str] = field(default_factory=dict)

    def get(self, kernel: Kernel, phase: int) -> str:
        """Return the symbol of one phase of a kernel; its function is built if it is new.

        Its tensors begin where :attr:`.Kernel.code` says.
        """
        code, _ = kernel.code
        phase = code.code_of(phase)
        key = (code.key, phase)
        if key not in self._known:
            made = kernel_object(code, phase, self.target, self.store)
            self.objects[made.symbol] = made
            self._known[key] = made.symbol
        return self._known[key]

    def accessed(self, kernel: Kernel, phase: int) -> Accessed:
        """Return the tensors that one phase of a kernel reads and writes."""
        return self.objects[self.get(kernel, phase)].accessed


def build_functions(
    functions: dict[str, tirx.PrimFunc], target: tvm.target.Target
) -> tvm.runtime.Executable:
    """Compile plain TIR functions into one runtime module."""
    return tvm.compile(tvm.IRModule(functions), target=target, tir_pipeline=PIPELINE)


def build_drivers(
    drivers: dict[str, tirx.PrimFunc],
    kernels: KernelFunctions,
    data: Iterable[Callable[[bytes], tvm.runtime.Module]] = (),
    inner: Mapping[str, tirx.PrimFunc] | None = None,
    launches: str = "",
) -> tvm.runtime.Module:
    """Return the object code of drivers, of the kernels that they call and of the data they read.

    Code that the store has is not compiled. The module runs once it is linked, as
    :meth:`tvm.runtime.Executable.jit` and ``export_library`` do.

    Parameters
    ----------
    drivers : dict of str to tirx.PrimFunc
    kernels : KernelFunctions
    data : iterable of callable
        Each returns a module of data, given some object code for the same target.
    inner : mapping of str to tirx.PrimFunc, optional
        Functions that the drivers call by their names in C.
    launches : str
        LLVM IR that the drivers call, too.
    """
    code = drivers_code({**drivers, **(inner or {})}, kernels.target, kernels.store)
    root = module_of(code, list(drivers))
    for module in data:
        root.import_module(module(code))
    if launches:
        code = ir_code(launches, kernels.target, kernels.store)
        root.import_module(module_of(code, [SET_LAUNCHER]))
    for library in static_libraries([*kernels.objects.values()], kernels.target, kernels.store):
        root.import_module(library)
    return root


def link_kernels(
    kernels: Mapping[str, tuple[Kernel, int]],
    target: tvm.target.Target,
    path: Path,
    compiler: str | None = None,
) -> None:
    """Link phases of kernels as a shared library of functions of tensors.

    One thread compiles what is not in the store of object code.

    Parameters
    ----------
    kernels : mapping of str to (Kernel, int)
        Kernels and the index of a phase, by the names of the functions.
    target : tvm.target.Target
    path : Path
    compiler : str, optional
        What links it, for another architecture than this machine's.
    """
    functions = KernelFunctions(target)
    callers = {
        name: calling_function(kernel, phase, functions.get(kernel, phase), name)
        for name, (kernel, phase) in kernels.items()
    }
    executable = build_functions(callers, target)
    for item in functions.objects.values():
        executable.mod.import_module(static_library(item, target, functions.store))
    export(executable, path, compiler)
