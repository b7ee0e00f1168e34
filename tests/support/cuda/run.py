# SPDX-License-Identifier: Apache-2.0
"""What tests have done in a process to which the fake driver is CUDA, see ``worker.py``."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tvm

from support.cuda.compile import compile_kernels

MAX_DYNAMIC_SHARED_BYTES = 8  # a CUfunction_attribute


def run_kernel(
    function: tvm.tirx.PrimFunc | tvm.IRModule,
    inputs: list[np.ndarray],
    target: tvm.target.Target,
    order: str,
    options: dict[str, object],
) -> list[np.ndarray]:
    """See :meth:`support.cuda.fake_driver.Emulated.run_kernel`."""
    if isinstance(function, tvm.tirx.PrimFunc):
        function = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    with target, tvm.transform.PassContext(config=options):
        kernel = tvm.compile(function, target)["main"]
    parameters = function["main"].params[len(inputs) :]
    outputs = [tvm.runtime.empty(*_shape_and_type(p), tvm.cuda(0)) for p in parameters]
    device = [tvm.runtime.tensor(np.ascontiguousarray(array), tvm.cuda(0)) for array in inputs]
    with ordered(order):
        kernel(*device, *outputs)
        return [output.numpy() for output in outputs]


@contextmanager
def ordered(order: str) -> Iterator[None]:
    """The order of what CUDA promises none of, within a ``with``; see ``tests/cuda/order.h``."""
    os.environ["TVM_IOS_FAKE_DRIVER_ORDER"] = order
    try:
        yield
    finally:
        del os.environ["TVM_IOS_FAKE_DRIVER_ORDER"]


def _shape_and_type(parameter: tvm.tirx.Var) -> tuple[list[int], str]:
    return [int(extent) for extent in parameter.ty.shape], str(parameter.ty.dtype)


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("num_attributes", ctypes.c_uint),
    )


def run_source(
    source: str,
    arrays: list[np.ndarray],
    grid: int = 1,
    block: int = 32,
    shared_bytes: int = 0,
    order: str = "issued",
) -> list[np.ndarray]:
    """Launch the kernel ``k``, whose parameters are pointers to the arrays; what they then hold.

    Raises
    ------
    RuntimeError
        With what the driver says of the launch.
    """
    driver = ctypes.CDLL("libcuda.so.1")
    module, function, context = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    image = compile_kernels(source, Path(os.environ["TVM_IOS_FAKE_DRIVER"]))
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxPushCurrent_v2(context)
    assert driver.cuModuleLoadData(ctypes.byref(module), image) == 0
    assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"k") == 0
    driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED_BYTES, shared_bytes)
    pointers = [_upload(driver, array) for array in arrays]
    parameters = (ctypes.c_void_p * len(arrays))(*(ctypes.addressof(p) for p in pointers))
    launch = _Launch((grid, 1, 1), (block, 1, 1), shared_bytes)
    with ordered(order):
        result = driver.cuLaunchKernelEx(ctypes.byref(launch), function, parameters, None)
        result = result or driver.cuStreamSynchronize(None)
    arrays = [_download(driver, *both) for both in zip(pointers, arrays, strict=True)]
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    driver.cuModuleUnload(module)
    if result != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorName(result, ctypes.byref(text))
        raise RuntimeError((text.value or b"").decode())
    return arrays


def _upload(driver: ctypes.CDLL, array: np.ndarray) -> ctypes.c_void_p:
    memory = ctypes.c_void_p()
    assert driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(array.nbytes)) == 0
    ctypes.memmove(memory, array.ctypes.data, array.nbytes)
    return memory


def _download(driver: ctypes.CDLL, memory: ctypes.c_void_p, like: np.ndarray) -> np.ndarray:
    array = np.empty_like(like)
    ctypes.memmove(array.ctypes.data, memory, array.nbytes)
    driver.cuMemFree_v2(memory)
    return array
