# SPDX-License-Identifier: Apache-2.0
"""A tracker of TVM's RPC and servers on loopback, in processes that the tests may kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from tvm import rpc

import tvm_ios
from support.paths import TESTS

_START = 180.0  # seconds


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_until(condition: Callable[[], bool], seconds: float = _START) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this takes too long"
        time.sleep(0.05)


class Cluster:
    """A tracker and the servers that are registered with it; each is a process group."""

    def __init__(self, keys: dict[str, int], without_library: str) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._tracker = self._start("tvm.exec.rpc_tracker", self.port, self.port + 1)
        wait_until(self._answers)
        self.servers = {
            key: [self._serve(key, key != without_library) for _ in range(count)]
            for key, count in keys.items()
        }
        wait_until(lambda: self._free() == keys)

    def close(self) -> None:
        for server in [self._tracker, *(s for servers in self.servers.values() for s in servers)]:
            kill(server)

    def _serve(self, key: str, with_library: bool) -> subprocess.Popen[bytes]:
        port = free_port()
        library = ["--load-library", str(tvm_ios.library_path())] if with_library else []
        tracker = ["--tracker", self.address, "--key", key]
        return self._start("tvm.exec.rpc_server", port, port + 1, *tracker, *library)

    def _start(self, module: str, port: int, end: int, *others: str) -> subprocess.Popen[bytes]:
        ports = ["--host", "127.0.0.1", "--port", str(port), "--port-end", str(end)]
        return subprocess.Popen(
            [sys.executable, "-m", module, *ports, *others],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=TESTS,
            start_new_session=True,
        )

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def _free(self) -> dict[str, int]:
        """Return how many servers wait for clients, by key."""
        queues = rpc.connect_tracker("127.0.0.1", self.port).summary()["queue_info"]
        return {key: queue["free"] for key, queue in queues.items()}


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process that a cluster started, with all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
