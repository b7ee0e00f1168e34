# SPDX-License-Identifier: Apache-2.0
"""Kernels as TIR functions of their tensors and a range of tiles.

The same code is timed and deployed, by two calling conventions. A runner composes stages from
functions of tensors. The driver of a region calls functions of plain pointers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ..kernels.footprint import Accessed
from ..kernels.kernel import Kernel, Phase
from .accessed import accessed_tensors
from .aligned_stack import aligned_stack
from .pipeline import LARGE_BUFFERS, PIPELINE


def kernel_function(kernel: Kernel, phase: int, name: str) -> tirx.PrimFunc:
    """Build one phase of a kernel as a public function: ``f(*tensors, begin, end)``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    phase : int
        Index of the phase.
    name : str
        Name of the function.

    Returns
    -------
    tvm.tirx.PrimFunc
        Computes the tiles ``begin`` to ``end``.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr(_attributes(kernel.phases[phase]))
        buffers = [
            T.arg(f"t{i}", T.buffer(spec.shape, spec.dtype, layout=None))
            for i, spec in enumerate(kernel.tensors)
        ]
        _emit_phase(kernel.phases[phase], buffers, *_range())
    return builder.get()


def pointer_function(kernel: Kernel, phase: int, name: str) -> tirx.PrimFunc:
    """Build one phase of a kernel as a private function: ``f(*pointers, begin, end)``.

    If the phase prefetches weights, ``following`` is a further argument. The function returns 0; if
    memory runs out, TVM's code returns -1.

    The body is a compute scope, which LLVM does not inline. TVM gives every buffer a type of its
    own, and thereby tells LLVM that no two buffers overlap. That holds inside a kernel. But
    different tensors use the same bytes of a region's workspace one after another, so LLVM would
    reorder kernels that it inlined into the driver.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    phase : int
        Index of the phase.
    name : str
        Name of the function.

    Returns
    -------
    tvm.tirx.PrimFunc
        Computes the tiles ``begin`` to ``end``.
    """
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name(name)
        T.func_attr(_attributes(kernel.phases[phase]))
        T.func_ret(tvm.ir.PrimType("int32"))
        pointers = [T.arg(f"p{i}", T.handle(s.dtype)) for i, s in enumerate(kernel.tensors)]
        begin, end = _range()
        following = [_number("following")] if kernel.phases[phase].prefetches else []
        buffers = [
            T.decl_buffer(spec.shape, spec.dtype, data=pointer, layout=None)
            for pointer, spec in zip(pointers, kernel.tensors, strict=True)
        ]
        # TVM adds this to public functions: the device of local memory.
        cpu = tirx.const(tvm.cpu().dlpack_device_type(), "int32")
        with (
            T.attr("default", "device_id", tirx.const(0, "int32")),
            T.attr("default", "device_type", cpu),
            T.attr("default", "compute_scope", tvm.ir.StringImm(f"{name}_compute")),
        ):
            _emit_phase(kernel.phases[phase], buffers, begin, end, *following)
        T.Return(tirx.const(0, "int32"))
    return builder.get()


def _attributes(phase: Phase) -> dict[str, bool]:
    needed = {LARGE_BUFFERS: True} if phase.large_buffers else {}
    return {"tirx.noalias": True, **needed}


def _range() -> tuple[tirx.Var, tirx.Var]:
    return _number("begin"), _number("end")


def _number(name: str) -> tirx.Var:
    return T.arg(name, tirx.Var(name, "int32"))


def _emit_phase(
    phase: Phase, buffers: Sequence[Any], begin: tirx.Var, end: tirx.Var, *following: tirx.Var
) -> None:
    with T.sblock("root"):
        T.reads()
        T.writes()
        with aligned_stack(phase.sources):
            phase.emit(buffers, begin, end - begin, *following)


@dataclass
class KernelFunctions:
    """The private functions of a module; kernels with equal keys share theirs.

    Attributes
    ----------
    functions : dict of GlobalVar to PrimFunc
    """

    functions: dict[tvm.ir.GlobalVar, tirx.PrimFunc] = field(default_factory=dict)
    _known: dict[tuple[Hashable, int], tvm.ir.GlobalVar] = field(default_factory=dict)
    _accessed: dict[tvm.ir.GlobalVar, Accessed] = field(default_factory=dict)

    def get(self, kernel: Kernel, phase: int) -> tvm.ir.GlobalVar:
        """Return the function of one phase of a kernel, and build it if it is new."""
        key = (kernel.key, phase)
        if key not in self._known:
            name = f"{kernel.name}_{len(self._known)}"
            variable = tvm.ir.GlobalVar(name)
            self.functions[variable] = pointer_function(kernel, phase, name)
            self._known[key] = variable
        return self._known[key]

    def accessed(self, kernel: Kernel, phase: int) -> Accessed:
        """Return the tensors that one phase of a kernel reads and writes."""
        variable = self.get(kernel, phase)
        if variable not in self._accessed:
            self._accessed[variable] = accessed_tensors(self.functions[variable])
        return self._accessed[variable]


def build_functions(
    functions: dict[str | tvm.ir.GlobalVar, tirx.PrimFunc], target: tvm.target.Target
) -> tvm.runtime.Executable:
    """Compile plain TIR functions into one runtime module."""
    return tvm.compile(tvm.IRModule(functions), target=target, tir_pipeline=PIPELINE)
