# SPDX-License-Identifier: Apache-2.0
"""A process to which the stand-in is CUDA, and in which kernels run on the CPU.

:class:`cuda_support.Emulated` starts it, with ``fake_cuda`` on its path. It calls what it is told
to call, until nobody asks more.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import traceback
from multiprocessing.connection import Connection


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
