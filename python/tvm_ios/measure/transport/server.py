# SPDX-License-Identifier: Apache-2.0
"""The child process that stages are isolated in: an RPC server on this machine, for one client.

It prints its port, serves one session at a time in a process of its own, and ends when its standard
input closes, which happens whenever the search ends. TVM's own server would keep running.
"""

from __future__ import annotations

import hmac
import multiprocessing
import os
import resource
import socket
import struct
import sys
import threading

from tvm.rpc import base
from tvm.rpc.server import _serve_loop
from tvm.support import utils

from ...support.libinfo import library_path

_GREETING = 5.0  # seconds in which a client must send the key


def main() -> None:
    """Serve clients that know the key, which is the first line of standard input."""
    key = sys.stdin.buffer.readline().strip()
    # Stages are expected to crash, and each would leave gigabytes in the user's folder.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with_the_client, daemon=True).start()
    one_at_a_time = threading.Lock()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            # A silent client must not block others.
            arguments = (connection, key, one_at_a_time)
            threading.Thread(target=_admit, args=arguments, daemon=True).start()


def _end_with_the_client() -> None:
    # Not sys.stdin: a session's process closes it and would wait for the reader's lock.
    os.read(0, 1)
    os._exit(0)


def _admit(connection: socket.socket, key: bytes, one_at_a_time: threading.Lock) -> None:
    """Serve a client that knows the key; reject others."""
    with connection:
        connection.settimeout(_GREETING)
        try:
            known = _greet(connection, key)
        except OSError:  # the client disconnected or was too slow
            return
        connection.settimeout(None)
        if known:
            with one_at_a_time:
                _serve(connection)


def _greet(connection: socket.socket, key: bytes) -> bool:
    """Perform the server's part of the handshake of TVM's RPC."""
    wanted = b"client:" + key
    magic, size = struct.unpack("<ii", base.recvall(connection, 8))
    known = magic == base.RPC_MAGIC and size == len(wanted)
    # A comparison in constant time reveals nothing about the key.
    known = known and hmac.compare_digest(base.recvall(connection, size), wanted)
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
