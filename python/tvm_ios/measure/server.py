# SPDX-License-Identifier: Apache-2.0
"""The process that stages are isolated in: an RPC server on this machine, for one client.

It prints its port, serves one session at a time in a process of its own, and ends when its standard
input does, that is when the search ends, however it does. TVM's own server would stay behind.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import struct
import sys
import threading

from tvm.rpc import base
from tvm.rpc.server import _serve_loop
from tvm.support import utils

from ..libinfo import library_path


def main() -> None:
    """Serve whoever knows the key, which is the argument."""
    (key,) = sys.argv[1:]
    threading.Thread(target=_end_with_the_client, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                if _greet(connection, key):
                    _serve(connection)


def _end_with_the_client() -> None:
    # Not by sys.stdin: a session's process closes it, and would wait for the reader's lock.
    os.read(0, 1)
    os._exit(0)


def _greet(connection: socket.socket, key: str) -> bool:
    """The server's part of the handshake of TVM's RPC."""
    magic, size = struct.unpack("<ii", base.recvall(connection, 8))
    known = magic == base.RPC_MAGIC and base.recvall(connection, size) == f"client:{key}".encode()
    if not known:
        connection.sendall(struct.pack("<i", base.RPC_CODE_MISMATCH))
        return False
    name = b"server:tvm_ios"
    connection.sendall(struct.pack("<ii", base.RPC_CODE_SUCCESS, len(name)) + name)
    return True


def _serve(connection: socket.socket) -> None:
    folder = utils.tempdir()
    arguments = (connection, str(library_path()), folder)
    process = multiprocessing.get_context("fork").Process(target=_serve_loop, args=arguments)
    process.start()
    process.join()
    folder.remove()
