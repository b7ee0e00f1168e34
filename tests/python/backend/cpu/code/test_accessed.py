# SPDX-License-Identifier: Apache-2.0
"""What the code of a kernel reads and writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from tvm_ios.backend.cpu.code.accessed import accessed_tensors
from tvm_ios.backend.cpu.kernels.footprint import Accessed


def load_and_store(a, b) -> None:
    T.buffer_store(b, a[1], [0])


def prefetch(a, b) -> None:
    T.evaluate(
        T.call_llvm_intrin("void", "llvm.prefetch", a.access_ptr("r"), *map(T.int32, (0, 2, 1)))
    )


def written_by_a_call(a, b) -> None:
    T.evaluate(T.call_extern("int32", "unknown", a.access_ptr("w")))


def read_by_a_call(a, b) -> None:
    T.evaluate(T.call_extern("int32", "unknown", b.access_ptr("r")))


def address(a, b) -> None:
    T.evaluate(T.call_extern("int32", "unknown", T.address_of(b[3])))


@pytest.mark.parametrize(
    ("body", "reads", "writes"),
    [
        (load_and_store, {0}, {1}),
        (prefetch, set(), set()),
        (written_by_a_call, {0}, {0}),
        (read_by_a_call, {1}, set()),
        (address, {1}, {1}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_accessed(body: Callable, reads: set[int], writes: set[int]) -> None:
    expected = Accessed(frozenset(reads), frozenset(writes))
    assert accessed_tensors(function(body)) == expected


def function(body: Callable) -> tirx.PrimFunc:
    with IRBuilder() as builder, T.prim_func():
        pointers = [T.arg(name, T.handle("float32")) for name in "ab"]
        a, b = (T.decl_buffer((16,), "float32", data=pointer) for pointer in pointers)
        body(a, b)
    return builder.get()
