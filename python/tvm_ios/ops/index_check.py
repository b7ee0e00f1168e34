# SPDX-License-Identifier: Apache-2.0
"""A function that checks indices, for one thread of a CPU.

Its error names the offending index, which no assertion of TVM's can do. A function in LLVM IR of
our own therefore builds the message, and TVM compiles it into the module, so that the library needs
nothing but TVM's runtime.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ..sizes.size import AnySize, Size
from .tir_function import on_stack, tile_scope

_ATTRIBUTE = "tvm_ios.index_check"

FUNCTION = "check_indices"
"""What the names of such functions begin with."""

_LONGEST = 1024  # bytes of a message


@dataclass(frozen=True)
class Bounds:
    """The valid range of indices.

    Attributes
    ----------
    extents : tuple of sizes
        The length of the axis that all of them index. If their last axis holds coordinates, the
        length of one axis per coordinate. A variable in a function that is given it.
    negative : bool
        Whether indices may count from the end: -1 is the last.
    """

    extents: tuple[Any, ...]
    negative: bool

    def first(self, extent: Any) -> Any:
        """Return the smallest valid index of an axis."""
        return -extent if self.negative else 0

    def exclude(self, index: Any, extent: Any) -> Any:
        """Return whether an index of type int64 is out of bounds, as an expression."""
        return tirx.Or(index < long(self.first(extent)), index >= long(extent))

    def from_begin(self, index: Any, extent: Any) -> Any:
        """Return a valid index of type int64, counted from the beginning, as an expression."""
        return tirx.Select(index < 0, index + long(extent), index) if self.negative else index

    def loops(self, shape: Sequence[AnySize]) -> Iterator[tuple[Any, list[Any]]]:
        """Yield each axis' length and the place of an index inside loops over all of its indices.

        ``shape`` is the shape of the tensor of indices.
        """
        several = len(self.extents) > 1
        for number, extent in enumerate(self.extents):
            with ExitStack() as loops:
                axes = shape[:-1] if several else shape
                at = [loops.enter_context(T.serial(length)) for length in axes]
                yield extent, [*at, number] if several else at


def long(size: Any) -> Any:
    """Return a size as an expression of type int64."""
    if isinstance(size, Size):
        return T.Cast("int64", size.short)
    return size if isinstance(size, tvm.ir.Expr) else T.int64(size)


def index_check(
    name: str, shape: Sequence[AnySize], dtype: str, bounds: Bounds, what: str, scope: str
) -> tirx.PrimFunc:
    """Build ``name(indices, checked)``, which makes negative indices count from the beginning.

    The lengths of axes that are open are further arguments, between them.

    The function raises IndexError with an index that is out of bounds. It searches for that index
    only if there is one: the loop over all indices has no branch, so that LLVM vectorises it.

    Parameters
    ----------
    name : str
        Name of the function, unique in the module.
    shape : sequence of sizes
        Shape of both tensors.
    dtype : str
        An integer type.
    bounds : Bounds
        The valid indices.
    what : str
        Description of the indices, for the error message.
    scope : str
        Letters and digits that distinguish functions of this name in one library.

    Returns
    -------
    tvm.tirx.PrimFunc
        A scheduled function.
    """
    known = [None if isinstance(e, Size) else e for e in bounds.extents]
    sizes = _variables("d", shape)
    extents = _variables("extent", bounds.extents)
    bounds = replace(bounds, extents=tuple(extents))
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr(
            {
                "tirx.is_scheduled": True,
                "tirx.noalias": True,
                _ATTRIBUTE: json.dumps(
                    {"extents": known, "negative": bounds.negative, "what": what}
                ),
            }
        )
        indices = T.arg("indices", T.buffer(sizes, dtype))
        for extent in extents:
            if isinstance(extent, tirx.Var):
                T.arg(extent.name, extent)
        checked = T.arg("checked", T.buffer(sizes, dtype))
        with tile_scope():  # TVM requires a block
            found = on_stack([1], "int32")
            T.buffer_store(found, T.int32(0), [0])
            for extent, at in bounds.loops(sizes):
                value = T.Cast("int64", indices[at])
                outside = T.Cast("int32", bounds.exclude(value, extent))
                T.buffer_store(found, found[0] | outside, [0])
                T.buffer_store(checked, T.Cast(dtype, bounds.from_begin(value, extent)), at)
            with T.If(found[0] != 0), T.Then():
                _raise(f"{name}_{scope}_raise", indices, bounds, what)
    return builder.get()


def _variables(name: str, sizes: Sequence[AnySize]) -> list[Any]:
    """Return sizes with a variable for each that is open."""
    return [
        tirx.Var(f"{name}{i}", "int64") if isinstance(size, Size) else size
        for i, size in enumerate(sizes)
    ]


def check_of(function: tirx.PrimFunc, opened: Iterable[AnySize] = ()) -> tuple[Bounds, str] | None:
    """Return what a function of :func:`index_check` checks, and how its error begins.

    None for any other function. ``opened`` are the lengths that it is given.
    """
    text = function.attrs.get(_ATTRIBUTE) if function.attrs else None
    if text is None:
        return None
    given = json.loads(str(text))
    rest = iter(opened)
    extents = tuple(next(rest, None) if e is None else e for e in given["extents"])
    return Bounds(extents, given["negative"]), given["what"]


def smallest_extent(mod: tvm.IRModule) -> float:
    """Return the smallest known length of an axis whose indices are checked; else infinity."""
    functions = (f for f in mod.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    checks = (check[0] for check in map(check_of, functions) if check is not None)
    known = ([e for e in bounds.extents if e is not None] for bounds in checks)
    return min((min(extents, default=0) for extents in known), default=math.inf)


def raise_index_error(function: str, what: str, first: Any, last: Any, wrong: Any) -> None:
    """Emit an IndexError of ``what``, with the bounds and the wrong index, numbers of type int64.

    TVM allows a single call of ``function`` in a library, which this defines.
    """
    source = tvm.ir.StringImm(_raise_in_llvm(function))
    with T.attr(tirx.const(0, "int32"), "pragma_import_llvm", source):
        T.evaluate(T.call_cpacked(function, what, first, last, wrong))


def _raise(function: str, indices: Any, bounds: Bounds, what: str) -> None:
    """Emit an error with the last index that is out of bounds."""
    wrong, first, last = on_stack([1], "int64"), on_stack([1], "int64"), on_stack([1], "int64")
    for extent, at in bounds.loops(indices.shape):
        value = T.Cast("int64", indices[at])
        with T.If(bounds.exclude(value, extent)), T.Then():
            T.buffer_store(wrong, value, [0])
            T.buffer_store(first, long(bounds.first(extent)), [0])
            T.buffer_store(last, long(extent - 1), [0])
    raise_index_error(function, what, first[0], last[0], wrong[0])


def _raise_in_llvm(name: str) -> str:
    """Return LLVM IR of a packed function of a message and three numbers that raises IndexError.

    In TVM's calling convention (tvm/ffi/c_api.h) an argument takes 16 bytes, with its value in the
    second half, and a result other than 0 makes the caller return, too.
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
