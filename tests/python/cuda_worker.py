# SPDX-License-Identifier: Apache-2.0
"""A process to which the stand-in is CUDA, and in which kernels run on the CPU.

:class:`cuda_support.Emulated` starts it. It calls what it is told to call, until nobody asks more.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

# A torch that is built for CUDA would bring CUDA's own libraries in before the stand-ins.
sys.modules["torch"] = None

import numpy as np
import tvm
import tvm_ffi

from cuda_compile import compile_kernels

CALL_ERRORS = (Exception, SystemExit)


@tvm_ffi.register_global_func("tvm_callback_cuda_compile", override=True)
def _compile(code: str, *_options: object) -> bytes:
    return compile_kernels(code, Path(os.environ["TVM_IOS_STANDIN"]))


def run_kernel(
    function: tvm.tirx.PrimFunc | tvm.IRModule,
    inputs: list[np.ndarray],
    target: tvm.target.Target,
    environment: dict[str, str],
) -> list[np.ndarray]:
    """See :meth:`cuda_support.Emulated.run_kernel`."""
    if isinstance(function, tvm.tirx.PrimFunc):
        function = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    with target:
        kernel = tvm.compile(function, target)["main"]
    parameters = function["main"].params[len(inputs) :]
    outputs = [tvm.runtime.empty(*_shape_and_type(p), tvm.cuda(0)) for p in parameters]
    device = [tvm.runtime.tensor(np.ascontiguousarray(array), tvm.cuda(0)) for array in inputs]
    os.environ.update(environment)
    try:
        kernel(*device, *outputs)
        return [output.numpy() for output in outputs]
    finally:
        for name in environment:
            del os.environ[name]


def _shape_and_type(parameter: tvm.tirx.Var) -> tuple[list[int], str]:
    return [int(extent) for extent in parameter.ty.shape], str(parameter.ty.dtype)


def serve(connection: Connection) -> None:
    """Call functions, each named by its module and its name; answer what they return."""
    while True:
        try:
            request = connection.recv_bytes()
        except EOFError:
            return
        try:
            module, name, arguments = pickle.loads(request)
            function = getattr(importlib.import_module(module), name)
            reply = pickle.dumps((True, function(*arguments)))
        except CALL_ERRORS:
            reply = pickle.dumps((False, traceback.format_exc()))
        connection.send_bytes(reply)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
