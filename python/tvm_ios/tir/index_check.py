# SPDX-License-Identifier: Apache-2.0
"""A function that checks indices, for one thread of a CPU.

What it raises names the index, which no assertion of TVM's can. So a function in LLVM IR of our own
makes the sentence, and TVM compiles it into the module: the library needs nothing but TVM's
runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from .emit import ON_STACK, tile_scope

SMALLEST_EXTENT = "tvm_ios.smallest_extent"
"""An attribute of the function: the length of the shortest axis that it checks indices of."""

_LONGEST = 1024  # bytes of a sentence


@dataclass(frozen=True)
class Bounds:
    """What indices may be.

    Attributes
    ----------
    extents : tuple of int
        The length of the axis that all of them index; or, where their last axis holds coordinates,
        of as many axes as that has places.
    negative : bool
        Whether they may count from the end: -1 is the last.
    """

    extents: tuple[int, ...]
    negative: bool

    def first(self, extent: int) -> int:
        return -extent if self.negative else 0


def index_check(
    name: str, shape: Sequence[int], dtype: str, bounds: Bounds, what: str
) -> tirx.PrimFunc:
    """The function ``name(indices, checked)``, which counts them from the beginning.

    It raises IndexError with one that is out of bounds. That is looked for only when there is one:
    the loop over all has no branch, so that LLVM makes vectors of it.

    Parameters
    ----------
    name : str
        Of the function; another in the module has another.
    shape : sequence of int
    dtype : str
        An integer type.
    bounds : Bounds
    what : str
        Whose indices they are, for the error.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr(
            {
                "tirx.is_scheduled": True,
                "tirx.noalias": True,
                SMALLEST_EXTENT: min(bounds.extents, default=0),
            }
        )
        indices = T.arg("indices", T.buffer(shape, dtype))
        checked = T.arg("checked", T.buffer(shape, dtype))
        with tile_scope():  # TVM looks for a block
            found = _local("int32")
            T.buffer_store(found, T.int32(0), [0])
            for extent, at in _loops(shape, bounds):
                value = T.Cast("int64", indices[at])
                outside = T.Cast("int32", _is_outside(value, bounds, extent))
                T.buffer_store(found, found[0] | outside, [0])
                if bounds.negative:
                    value = tirx.Select(value < 0, value + T.int64(extent), value)
                T.buffer_store(checked, T.Cast(dtype, value), at)
            with T.If(found[0] != 0), T.Then():
                _raise(f"{name}_raise", indices, bounds, what)
    return builder.get()


def _raise(function: str, indices: Any, bounds: Bounds, what: str) -> None:
    """Leave with the last index that is out of bounds; TVM takes a single call of ``function``."""
    wrong, first, last = _local("int64"), _local("int64"), _local("int64")
    for extent, at in _loops(indices.shape, bounds):
        value = T.Cast("int64", indices[at])
        with T.If(_is_outside(value, bounds, extent)), T.Then():
            T.buffer_store(wrong, value, [0])
            T.buffer_store(first, T.int64(bounds.first(extent)), [0])
            T.buffer_store(last, T.int64(extent - 1), [0])
    source = tvm.ir.StringImm(_raise_in_llvm(function))
    with T.attr(tirx.const(0, "int32"), "pragma_import_llvm", source):
        T.evaluate(T.call_cpacked(function, what, first[0], last[0], wrong[0]))


def _local(dtype: str) -> Any:
    return T.alloc_buffer((1,), dtype, scope="local", layout=None, annotations=ON_STACK)


def _loops(shape: Sequence[int], bounds: Bounds) -> Iterator[tuple[int, list[Any]]]:
    """Loops over all indices of an axis, with its length; what is emitted meanwhile is inside."""
    several = len(bounds.extents) > 1
    for number, extent in enumerate(bounds.extents):
        with ExitStack() as loops:
            axes = shape[:-1] if several else shape
            at = [loops.enter_context(T.serial(length)) for length in axes]
            yield extent, [*at, number] if several else at


def _is_outside(value: Any, bounds: Bounds, extent: int) -> Any:
    return tirx.Or(value < T.int64(bounds.first(extent)), value >= T.int64(extent))


def _raise_in_llvm(name: str) -> str:
    """A packed function of a sentence and three numbers that always raises IndexError.

    By TVM's calling convention (tvm/ffi/c_api.h) an argument takes 16 bytes, with its value in the
    second half, and a result other than 0 ends the caller, too.
    """
    values = [
        line
        for i, kind in enumerate(["ptr", "i64", "i64", "i64"])
        for line in (
            f"  %at{i} = getelementptr i8, ptr %arguments, i64 {16 * i + 8}",
            f"  %v{i} = load {kind}, ptr %at{i}, align 8",
        )
    ]
    form = "%s must be from %lld to %lld, got %lld."
    return "\n".join(
        [
            f'@{name}_kind = private constant [11 x i8] c"IndexError\\00"',
            f'@{name}_form = private constant [{len(form) + 1} x i8] c"{form}\\00"',
            "declare i32 @snprintf(ptr, i64, ptr, ...)",
            "declare extern_weak void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)",
            f"define i32 @{name}(ptr %self, ptr %arguments, i32 %count, ptr %result) {{",
            f"  %text = alloca [{_LONGEST} x i8], align 16",
            *values,
            "  %length = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %text, i64 "
            f"{_LONGEST}, ptr @{name}_form, ptr %v0, i64 %v1, i64 %v2, i64 %v3)",
            f"  call void @TVMFFIErrorSetRaisedFromCStr(ptr @{name}_kind, ptr %text)",
            "  ret i32 -1",
            "}",
        ]
    )
