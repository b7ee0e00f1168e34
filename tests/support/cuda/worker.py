# SPDX-License-Identifier: Apache-2.0
"""A process to which the fake driver is CUDA, and in which kernels run on the CPU.

:class:`support.cuda.fake_driver.Emulated` starts it, with ``fake`` on its path. It calls what it is
told to call, until nobody asks more.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import pickle
import sys
import traceback
from multiprocessing.connection import Connection
from types import ModuleType


def serve(connection: Connection) -> None:
    """Call functions, each named by its module, its file and its name; answer what they return."""
    while True:
        try:
            request, arguments = connection.recv_bytes(), connection.recv_bytes()
        except EOFError:
            return
        try:
            module, file, name = pickle.loads(request)
            function = getattr(_import(module, file), name)
            reply = pickle.dumps((True, function(*pickle.loads(arguments))))
        except Exception:  # whatever it is, whoever has asked is told
            reply = pickle.dumps((False, traceback.format_exc()))
        connection.send_bytes(reply)


def _import(name: str, file: str) -> ModuleType:
    """Import a module; pytest's names of tests' modules are no packages on the path."""
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
