# SPDX-License-Identifier: Apache-2.0
"""What a driver says of tensors that are not those that it was compiled for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T
from tvm_ffi import dtype

from support.networks import NATIVE
from tvm_ios.backend.cpu.code.arguments import READ_SOURCE, expected, reader_source
from tvm_ios.backend.cpu.code.functions import build_functions
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios.ops.tir_function import on_stack

SPECS = [
    TensorSpec((3, 1, 5)),
    TensorSpec((), "int64"),
    TensorSpec((0, 4), "bool"),
    TensorSpec((2, 3), "bfloat16"),
]


class Tensor(ctypes.Structure):
    """A DLTensor, as the header of DLPack declares it."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


def numbers(values: list[int]) -> ctypes.Array:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


class Passed:
    """A tensor that fits a spec, whose fields a test may change."""

    def __init__(self, spec: TensorSpec) -> None:
        kind, shape = dtype(spec.dtype), list(spec.shape)
        strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        self.memory = np.zeros(spec.num_bytes + 1, "uint8")
        self.shape, self.strides = numbers(shape), numbers(strides)
        self.fields = Tensor(
            self.memory.ctypes.data,
            1,
            0,
            len(shape),
            kind.type_code,
            kind.bits,
            1,
            ctypes.addressof(self.shape),
            ctypes.addressof(self.strides),
            0,
        )


@pytest.fixture(scope="module")
def read() -> Callable[..., object]:
    """Read the arguments, and add up what is wrong and where they are."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("begin")
        tensors = [T.arg(f"t{n}", T.handle()) for n in range(len(SPECS))]
        places = T.arg("places", T.buffer((len(SPECS),), "int64", layout=None))
        source = "\n".join((READ_SOURCE, reader_source("read", SPECS)))
        arguments = on_stack([len(SPECS)], "int64")
        with T.attr(0, "pragma_import_llvm", tvm.ir.StringImm(source)):
            wrong = T.call_extern("int32", "read", arguments.data, *tensors)
            with T.Assert(wrong == 0, expected(SPECS), "ValueError"):
                pass
            with T.serial(len(SPECS)) as n:
                T.buffer_store(places, arguments[n], [n])
    return build_functions({"begin": builder.get()}, NATIVE).mod["begin"]


def call(read: Callable[..., object], passed: list[Passed]) -> list[int]:
    places = tvm.runtime.tensor(np.zeros(len(SPECS), "int64"))
    read(*(ctypes.c_void_p(ctypes.addressof(its.fields)) for its in passed), places)
    return places.numpy().tolist()


def test_their_elements_are_found(read) -> None:
    passed = [Passed(spec) for spec in SPECS]
    assert call(read, passed) == [its.fields.data for its in passed]


def test_strides_that_do_not_matter_are_any(read) -> None:
    passed = [Passed(spec) for spec in SPECS]
    passed[0].strides[1] = 77  # of the only row
    passed[3].fields.strides = None
    passed[2].fields.data = None  # no element lies there
    passed[3].fields.device_id = 1
    call(read, passed)


def change_size(its: Passed) -> None:
    its.shape[0] += 1


def change_stride(its: Passed) -> None:
    its.strides[0] += 1


def field(name: str, value: int | None) -> Callable[[Passed], None]:
    return lambda its: setattr(its.fields, name, value)


CHANGES: dict[str, tuple[int, Callable[[Passed], None]]] = {
    "size": (0, change_size),
    "last size": (3, lambda its: its.shape.__setitem__(1, 4)),
    "stride": (3, change_stride),
    "rank": (0, field("ndim", 2)),
    "scalar": (1, field("ndim", 1)),
    "kind": (3, field("code", 2)),
    "bits": (1, field("bits", 32)),
    "lanes": (0, field("lanes", 2)),
    "offset": (0, field("byte_offset", 4)),
    "memory": (0, field("device_type", 2)),
    "nowhere": (0, field("data", None)),
    "no size": (2, change_size),
}


@pytest.mark.parametrize("change", CHANGES)
def test_others_are_refused(read, change: str) -> None:
    passed = [Passed(spec) for spec in SPECS]
    number, apply = CHANGES[change]
    apply(passed[number])
    with pytest.raises(ValueError, match=r"takes: float32 \[3, 1, 5\], int64 \[\], bool \[0, 4\]"):
        call(read, passed)


def test_no_tensor_is_refused(read) -> None:
    passed = [Passed(spec) for spec in SPECS]
    places = tvm.runtime.tensor(np.zeros(len(SPECS), "int64"))
    with pytest.raises(ValueError, match="another tensor"):
        read(None, *(ctypes.c_void_p(ctypes.addressof(p.fields)) for p in passed[1:]), places)
