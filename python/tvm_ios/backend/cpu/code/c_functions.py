# SPDX-License-Identifier: Apache-2.0
"""Kernels as functions of their tensors and a range of tiles.

A kernel is a C function of plain pointers, which the driver of a region calls. A runner composes
stages from functions of tensors that call the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ..kernels.kernel import Kernel, Phase
from .aligned_stack import aligned_stack
from .pipeline import LARGE_BUFFERS


def pointer_function(kernel: Kernel, phase: int, name: str) -> tirx.PrimFunc:
    """Build one phase of a kernel as a C function: ``f(*pointers, begin, end)``.

    If the phase prefetches weights, ``prefetch_target`` is a further argument. All open dimensions
    follow, in 32 bits, if the kernel depends on any. The function returns 0; if memory runs out,
    TVM's code returns -1.

    The body is a compute scope, whose pointers TVM tells LLVM not to overlap. That holds inside a
    kernel. But different tensors use the same bytes of a region's workspace one after another:
    kernels must not be inlined into the driver, and as objects of their own are not.

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
        prefetch_target = [_number("following")] if kernel.phases[phase].prefetches else []
        for variable in _dimensions(kernel):
            T.arg(variable.name, variable)
        buffers = [
            T.decl_buffer(spec.shape, spec.dtype, pointer, spec.strides, layout=None)
            for pointer, spec in zip(pointers, kernel.tensors, strict=True)
        ]
        # TVM adds this to public functions: the device of local memory.
        cpu = tirx.const(tvm.cpu().dlpack_device_type(), "int32")
        with (
            T.attr("default", "device_id", tirx.const(0, "int32")),
            T.attr("default", "device_type", cpu),
            T.attr("default", "compute_scope", tvm.ir.StringImm(f"{name}_compute")),
        ):
            _emit_phase(kernel.phases[phase], buffers, begin, end, *prefetch_target)
        T.Return(tirx.const(0, "int32"))
    return builder.get()


def calling_function(kernel: Kernel, phase: int, symbol: str, name: str) -> tirx.PrimFunc:
    """Build a public function of tensors that calls a C function of their pointers.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    phase : int
        Index of the phase.
    symbol : str
        The C function, made by :func:`pointer_function`.
    name : str
        Name of the function.

    Returns
    -------
    tvm.tirx.PrimFunc
        ``f(*tensors, begin, end)`` computes the tiles ``begin`` to ``end``; no weights follow. All
        open dimensions are further arguments, if the kernel depends on any.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        buffers = [
            T.arg(f"t{i}", T.buffer(spec.shape, spec.dtype, layout=None))
            for i, spec in enumerate(kernel.tensors)
        ]
        bounds = _range()
        dimensions = [T.arg(variable.name, variable) for variable in _dimensions(kernel)]
        prefetch_target = [tirx.const(0, "int32")] if kernel.phases[phase].prefetches else []
        pointers = [
            T.handle_add_byte_offset(buffer.data, begin) if begin else buffer.data
            for buffer, begin in zip(buffers, kernel.code[1], strict=True)
        ]
        numbers = (*bounds, *prefetch_target, *dimensions)
        T.evaluate(T.call_extern("int32", symbol, *pointers, *numbers))
    return builder.get()


def _dimensions(kernel: Kernel) -> list[tirx.Var]:
    """Return the open dimensions that a kernel's functions are given."""
    return [] if kernel.opened is None else kernel.opened.short


def _attributes(phase: Phase) -> dict[str, bool]:
    needed = {LARGE_BUFFERS: True} if phase.large_buffers else {}
    return {"tirx.noalias": True, **needed}


def _range() -> tuple[tirx.Var, tirx.Var]:
    return _number("begin"), _number("end")


def _number(name: str) -> tirx.Var:
    return T.arg(name, tirx.Var(name, "int32"))


def _emit_phase(
    phase: Phase, buffers: Sequence[Any], begin: tirx.Var, end: tirx.Var, *prefetch_target: tirx.Var
) -> None:
    with T.sblock("root"):
        T.reads()
        T.writes()
        with aligned_stack(phase.sources):
            phase.emit(buffers, begin, end - begin, *prefetch_target)
