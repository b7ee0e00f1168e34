# SPDX-License-Identifier: Apache-2.0
"""A process to which the stand-in is CUDA, and in which kernels run on the CPU.

:class:`cuda_support.Emulated` starts it. It calls what it is told to call, until nobody asks more.
"""

from __future__ import annotations

import importlib
import importlib.abc
import os
import pickle
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path


class _NoTorch(importlib.abc.MetaPathFinder):
    """Hides torch: one that is built for CUDA would bring CUDA's own libraries in.

    ``sys.modules["torch"] = None`` would do for an import, but scipy looks there, too.
    """

    def find_spec(self, name: str, *_arguments: object) -> None:
        if name == "torch":
            raise ModuleNotFoundError("torch is hidden from this process", name=name)


sys.meta_path.insert(0, _NoTorch())

import tvm_ffi
from tvm.support import nvcc  # noqa: F401 - it registers what is overridden below

from cuda_compile import compile_kernels


@tvm_ffi.register_global_func("tvm_callback_cuda_compile", override=True)
def _compile(code: str, *_options: object) -> bytes:
    return compile_kernels(code, Path(os.environ["TVM_IOS_STANDIN"]))


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
        except Exception:  # whatever it is, whoever has asked is told
            reply = pickle.dumps((False, traceback.format_exc()))
        connection.send_bytes(reply)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
