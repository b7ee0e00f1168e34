# SPDX-License-Identifier: Apache-2.0
"""Providers of RPC sessions: a tracker, or a server that the search starts itself."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Protocol

from tvm import rpc

from ...support.errors import DeviceError, OptionError
from ...support.folders import TemporaryFolder
from ...support.processes import piped, python_command
from .session import DeviceLost, RemoteSession

_logger = logging.getLogger(__name__)

_ANSWER = 5.0  # seconds in which a tracker must answer


class SessionProvider(Protocol):
    """A provider of RPC sessions."""

    name: str
    """The display name."""

    def count(self) -> int:
        """Return the number of devices."""

    def connect(self) -> RemoteSession:
        """Open a session; raise DeviceLost if no device is available now."""

    def close(self) -> None:
        """Close the provider; no session is requested afterwards."""


class TrackerProvider:
    """The provider of sessions on all devices that a tracker lists under one key.

    Parameters
    ----------
    address : str
        ``HOST:PORT``.
    key : str
        The key of the devices.
    limit : float
        Time limit of a stage, in seconds.

    Raises
    ------
    OptionError
        If the address is invalid.
    """

    def __init__(self, address: str, key: str, limit: float) -> None:
        host, colon, port = address.rpartition(":")
        if not (host and colon and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise OptionError(f"--rpc-tracker must be HOST:PORT, got {address!r}.")
        self.name = f"the key {key!r}"
        self._address, self._host, self._port = address, host, int(port)
        self.key, self._limit = key, limit

    def check(self) -> None:
        """Raise DeviceError if no tracker answers, or if it has no such device."""
        address, key = self._address, self.key
        try:
            count = self.count()
        except DeviceLost as error:
            raise DeviceError(
                f"No RPC tracker answers at {address} ({error}); start one there with "
                "'python -m tvm.exec.rpc_tracker'."
            ) from error
        if count == 0:
            raise DeviceError(
                f"The RPC tracker at {address} has no device of the key {key!r}; start "
                f"'python -m tvm.exec.rpc_server --tracker {address} --key {key}' on one."
            )

    def count(self) -> int:
        servers = self._summary()["server_info"]
        return sum(server["key"] == f"server:{self.key}" for server in servers)

    def connect(self) -> RemoteSession:
        queues = self._summary()["queue_info"]
        if queues.get(self.key, {"free": 0})["free"] == 0:  # a request would block
            raise DeviceLost("none is free")
        try:
            connection = self._open().request(self.key, max_retry=1)
        except (OSError, RuntimeError) as error:
            raise DeviceLost(str(error).strip().splitlines()[-1]) from error
        return RemoteSession(connection, self._limit)

    def close(self) -> None:
        """Do nothing: other clients use the tracker, too."""

    def _summary(self) -> dict[str, Any]:
        try:
            return self._open().summary()
        except (OSError, RuntimeError, ValueError) as error:
            raise DeviceLost(str(error)) from error

    def _open(self) -> rpc.TrackerSession:
        # TVM's own function retries for a minute.
        socket.create_connection((self._host, self._port), _ANSWER).close()
        return rpc.connect_tracker(self._host, self._port)


class LoopbackProvider:
    """The provider of sessions in a server on this machine, which stages may crash.

    It is started again when it does not answer. It ends with this process.

    Parameters
    ----------
    limit : float
        Time limit of a stage, in seconds.
    """

    name = "this machine"

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._running: list[LoopbackServer] = []  # including one that a thread connects to
        self.server: LoopbackServer | None = None

    def start(self) -> None:
        """Start the server, which takes seconds, and return at once."""
        with self._lock:
            self.server = self.server or self._begin()

    def count(self) -> int:
        return 1

    def connect(self) -> RemoteSession:
        with self._lock:
            server, self.server = self.server or self._begin(), None
        try:
            session = RemoteSession(server.connect(), self._limit)
        except (OSError, RuntimeError, ValueError, DeviceLost) as error:
            self._end(server)
            raise DeviceLost(str(error).strip().splitlines()[-1]) from error
        with self._lock:  # a server that never answers stays with the thread that waits for it
            self.server = server if server in self._running else None
        return session

    def close(self) -> None:
        """End every server, also one that a thread still connects to, whose connection breaks."""
        self.server = None
        for server in list(self._running):
            self._end(server)

    def _begin(self) -> LoopbackServer:
        server = LoopbackServer.start()
        self._running.append(server)
        return server

    def _end(self, server: LoopbackServer) -> None:
        with self._lock:
            if server in self._running:
                self._running.remove(server)
                server.close()


@dataclass(eq=False)
class LoopbackServer:
    """A child process that runs :mod:`tvm_ios.measure.transport.server`.

    Attributes
    ----------
    process : subprocess.Popen
    key : str
        Rejects other clients.
    port : int or None
        Known once it was connected to.
    """

    process: subprocess.Popen[bytes]
    key: str
    _log: IO[bytes]
    _folder: TemporaryFolder  # the process is killed and cannot clean up
    port: int | None = None

    @classmethod
    def start(cls) -> LoopbackServer:
        key, folder = secrets.token_hex(16), TemporaryFolder()
        log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        process = subprocess.Popen(
            python_command("tvm_ios.measure.transport.server"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | {"TMPDIR": str(folder.path)},
            start_new_session=True,  # Ctrl-C goes to the search, which ends the server
        )
        # Not as an argument, which every user of the machine can read.
        stdin = piped(process.stdin)
        stdin.write(f"{key}\n".encode())
        stdin.flush()
        return cls(process, key, log, folder)

    def connect(self) -> rpc.RPCSession:
        if self.port is None:
            self.port = int(piped(self.process.stdout).readline())
        return rpc.connect("127.0.0.1", self.port, self.key)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # including the session that it serves
        with suppress(BrokenPipeError):
            piped(self.process.stdin).close()
        piped(self.process.stdout).close()
        self.process.wait()
        self._folder.remove()
        self._log.seek(0)
        for line in self._log.read().decode(errors="replace").splitlines():
            _logger.info("the isolated process: %s", line)
        self._log.close()
