# SPDX-License-Identifier: Apache-2.0
"""What the arguments of a launch's driver have to be, as a table, and the code that reads it.

TVM would compare every field of every argument by code of its own: a hundred lines of LLVM IR an
argument, which are most of a driver, and most of the time that it takes to compile one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ops.tensor import TensorSpec, encoded
from .llvm_ir import symbol


def expected(specs: Sequence[TensorSpec]) -> str:
    """Return the sentence about arguments that are other tensors than these."""
    described = ", ".join(f"{spec.dtype} [{', '.join(map(str, spec.shape))}]" for spec in specs)
    return (
        "A network was called with another tensor than it was compiled for, which is contiguous "
        f"and in the CPU's memory; it takes: {described}."
    )


def reader_source(name: str, specs: Sequence[TensorSpec]) -> str:
    """Return LLVM IR of a function ``name`` that reads the tensors that a driver is passed.

    The function is given room for pointers, and the tensors. It writes where their elements are,
    and returns 0, or another number if one of them is not as in ``specs``.
    """
    numbers = [number for spec in specs for number in encoded(spec)]
    table = symbol(f"{name}_expected")
    values = ", ".join(f"i64 {number}" for number in numbers)
    parameters = ", ".join(f"ptr %t{n}" for n in range(len(specs)))
    stores = (
        f"  %a{n} = getelementptr ptr, ptr %arguments, i32 {n}\n  store ptr %t{n}, ptr %a{n}"
        for n in range(len(specs))
    )
    return "\n".join(
        [
            f"{table} = internal constant [{len(numbers)} x i64] [{values}]",
            f"define hidden i32 {symbol(name)}(ptr %arguments, {parameters}) {{",
            *stores,
            f"  %wrong = call i32 @tvm_ios_read(ptr %arguments, ptr {table}, i32 {len(specs)})",
            "  ret i32 %wrong",
            "}",
        ]
    )


READ_SOURCE = """
; Data, device (its type, its number), rank, type (its code, its bits, lanes), sizes, strides,
; offset of the data in bytes: a DLTensor.
%Tensor = type { ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }

; Put the place of its elements instead of each tensor. Return 0, or 1 if a tensor is not expected.
; Expected are for each the code and the bits of its type, its rank and its sizes; -1 is any size.
define internal i32 @tvm_ios_read(ptr %arguments, ptr %table, i32 %count) {
entry:
  br label %argument
argument:
  %i = phi i32 [0, %entry], [%i_next, %take]
  %expected = phi ptr [%table, %entry], [%expected_next, %take]
  %more = icmp slt i32 %i, %count
  br i1 %more, label %look, label %fine
look:
  %place = getelementptr ptr, ptr %arguments, i32 %i
  %tensor = load ptr, ptr %place
  %none = icmp eq ptr %tensor, null
  br i1 %none, label %wrong, label %fields
fields:
  %device_place = getelementptr %Tensor, ptr %tensor, i32 0, i32 1
  %device = load i32, ptr %device_place
  %on_cpu = icmp eq i32 %device, 1
  %rank_place = getelementptr %Tensor, ptr %tensor, i32 0, i32 3
  %rank = load i32, ptr %rank_place
  %rank_wide = sext i32 %rank to i64
  %rank_expected_place = getelementptr i64, ptr %expected, i32 2
  %rank_expected = load i64, ptr %rank_expected_place
  %rank_same = icmp eq i64 %rank_wide, %rank_expected
  %code_place = getelementptr %Tensor, ptr %tensor, i32 0, i32 4
  %code = load i8, ptr %code_place
  %code_wide = zext i8 %code to i64
  %code_expected = load i64, ptr %expected
  %code_same = icmp eq i64 %code_wide, %code_expected
  %bits_place = getelementptr %Tensor, ptr %tensor, i32 0, i32 5
  %bits = load i8, ptr %bits_place
  %bits_wide = zext i8 %bits to i64
  %bits_expected_place = getelementptr i64, ptr %expected, i32 1
  %bits_expected = load i64, ptr %bits_expected_place
  %bits_same = icmp eq i64 %bits_wide, %bits_expected
  %lanes_place = getelementptr %Tensor, ptr %tensor, i32 0, i32 6
  %lanes = load i16, ptr %lanes_place
  %scalars = icmp eq i16 %lanes, 1
  %offset_place = getelementptr %Tensor, ptr %tensor, i32 0, i32 9
  %offset = load i64, ptr %offset_place
  %at_begin = icmp eq i64 %offset, 0
  %type_same = and i1 %code_same, %bits_same
  %elements_same = and i1 %type_same, %scalars
  %placed = and i1 %on_cpu, %at_begin
  %kind_same = and i1 %elements_same, %rank_same
  %same = and i1 %kind_same, %placed
  br i1 %same, label %begin, label %wrong
begin:
  %sizes_place = getelementptr %Tensor, ptr %tensor, i32 0, i32 7
  %sizes = load ptr, ptr %sizes_place
  %strides_place = getelementptr %Tensor, ptr %tensor, i32 0, i32 8
  %strides = load ptr, ptr %strides_place
  %plain = icmp eq ptr %strides, null
  %sizes_expected = getelementptr i64, ptr %expected, i32 3
  br label %axis
axis:
  %behind = phi i64 [%rank_wide, %begin], [%d, %stepped], [%d, %compact]
  %elements = phi i64 [1, %begin], [%elements_next, %stepped], [%elements_next, %compact]
  %left = icmp sgt i64 %behind, 0
  br i1 %left, label %size, label %data
size:
  %d = sub i64 %behind, 1
  %size_place = getelementptr i64, ptr %sizes, i64 %d
  %size_is = load i64, ptr %size_place
  %size_expected_place = getelementptr i64, ptr %sizes_expected, i64 %d
  %size_expected = load i64, ptr %size_expected_place
  %elements_next = mul i64 %elements, %size_is
  %equal = icmp eq i64 %size_is, %size_expected
  %open = icmp slt i64 %size_expected, 0
  %size_same = or i1 %equal, %open
  br i1 %size_same, label %compact, label %wrong
compact:
  %one = icmp eq i64 %size_is, 1
  %any_stride = or i1 %plain, %one
  br i1 %any_stride, label %axis, label %stepped
stepped:
  %stride_place = getelementptr i64, ptr %strides, i64 %d
  %stride = load i64, ptr %stride_place
  %stride_same = icmp eq i64 %stride, %elements
  br i1 %stride_same, label %axis, label %wrong
data:
  %pointer = load ptr, ptr %tensor
  %missing = icmp eq ptr %pointer, null
  %some = icmp ne i64 %elements, 0
  %lost = and i1 %missing, %some
  br i1 %lost, label %wrong, label %take
take:
  store ptr %pointer, ptr %place
  %i_next = add i32 %i, 1
  %fields_count = add i64 %rank_wide, 3
  %expected_next = getelementptr i64, ptr %expected, i64 %fields_count
  br label %argument
fine:
  ret i32 0
wrong:
  ret i32 1
}
"""
