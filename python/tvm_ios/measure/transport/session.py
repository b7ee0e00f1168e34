# SPDX-License-Identifier: Apache-2.0
"""Sessions, in which stages run: in this process, or on the other side of TVM's RPC.

Both sides have the same C++ functions and call them by the same names.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import tvm
import tvm_ffi

from ...database.identity import cpu_identity
from ...support import _ffi_api  # noqa: F401  (loads the library whose functions are looked up below)
from ...support.errors import DeviceError
from ..protocol import Library

_PREFIX = "tvm_ios.runtime."
_PROTOCOL, _HEADER = "1", 3  # version and header lines of src/runtime/describe.cc

_PATIENCE = 60.0  # seconds for other calls, such as uploads of libraries or weights
_GRACE = 5.0  # seconds beyond a stage's time limit in which a device aborts it
_ANSWERED = "Error caught from RPC call"  # the prefix of errors that a server reports


class DeviceLost(Exception):
    """An error: the connection to a device broke, or the device does not answer."""


class DeviceUnavailable(DeviceLost):
    """An error: a device lacks memory or belongs to another program; no stage is to blame."""


class KernelFault(Exception):
    """An error: a kernel cannot be compiled, or computes something else than its operators."""


class Session(Protocol):
    """A process in which stages run."""

    limit: float
    """Seconds after which a stage is aborted; 0 if that is not possible, as in this process."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the C++ library, by its name without the prefix."""

    def load(self, library: Library) -> tvm.runtime.Module:
        """Load a library in the session."""


class LocalSession:
    """The session of this process."""

    limit = 0.0

    def __init__(self) -> None:
        self._loaded: dict[Path, tvm.runtime.Module] = {}

    def call(self, name: str, *arguments: Any) -> Any:
        return tvm_ffi.get_global_func(_PREFIX + name)(*arguments)

    def load(self, library: Library) -> tvm.runtime.Module:
        if library.path not in self._loaded:
            self._loaded[library.path] = tvm.runtime.load_module(str(library.path))
        return self._loaded[library.path]


class RemoteSession:
    """A session of TVM's RPC server that has loaded the library of this package.

    Parameters
    ----------
    connection : tvm.rpc.RPCSession
        The connection.
    limit : float
        Time limit of a stage, in seconds.

    Attributes
    ----------
    connection : tvm.rpc.RPCSession
        The connection.
    cpu : str
        The identity of the server's processor.
    cores : int
        The number of cores that the server may use.
    deadline : float
        The time, by ``time.monotonic``, by which the call in progress should return; infinity if
        there is none.

    Raises
    ------
    DeviceError
        If the server has not loaded the library, or another version of it.
    DeviceLost
        If the connection breaks, also in the methods.
    """

    def __init__(self, connection: Any, limit: float) -> None:
        self.connection, self.limit, self.deadline = connection, limit, float("inf")
        self._functions: dict[str, Callable[..., Any]] = {}
        self._loaded: dict[str, tvm.runtime.Module] = {}
        self.cores, self.cpu = self._describe()

    def call(self, name: str, *arguments: Any) -> Any:
        patience = arguments[-1] + _GRACE if name.endswith("OnRunner") else _PATIENCE
        return self.watched(lambda: self._function(name)(*arguments), patience)

    def close(self) -> None:
        """Close the connection, so that the server can serve others."""
        with suppress(DeviceLost):
            self.watched(lambda: self.connection.get_function("CloseRPCConnection")())

    def llvm_name(self) -> str | None:
        """Return LLVM's name of the CPU; None if the server has no compiler to ask.

        A target that names neither CPU nor triple means a CPU of this machine's architecture.
        """
        try:
            ask = self.watched(lambda: self.connection.get_function("target.llvm_get_system_cpu"))
        except AttributeError:
            return None
        return self.watched(ask)

    def load(self, library: Library) -> tvm.runtime.Module:
        return self.load_file(str(library.path), library.path.name)

    def load_file(self, path: str, name: str) -> tvm.runtime.Module:
        """Upload a shared library as ``name``, and load it."""
        if name not in self._loaded:
            self.watched(lambda: self.connection.upload(path, name))
            self._loaded[name] = self.watched(lambda: self.connection.load_module(name))
        return self._loaded[name]

    def watched(self, action: Callable[[], Any], patience: float = _PATIENCE) -> Any:
        """Return ``action()``, which calls the server, and set a deadline that other threads check.

        An error that the server reports is raised unchanged, because it is an error of this
        package.
        """
        self.deadline = time.monotonic() + patience
        try:
            return action()
        except RuntimeError as error:
            if _ANSWERED in str(error):
                raise
            raise DeviceLost(str(error).strip().splitlines()[-1]) from error
        finally:
            self.deadline = float("inf")

    def _function(self, name: str) -> Callable[..., Any]:
        if name not in self._functions:
            self._functions[name] = self.connection.get_function(_PREFIX + name)
        return self._functions[name]

    def _describe(self) -> tuple[int, str]:
        """Return the server's number of cores and its processor; see ``src/runtime/describe.h``."""
        try:
            description = str(self.call("Describe"))
        except AttributeError as error:
            raise DeviceError(
                "The RPC server has not loaded the library of tvm_ios; start it on the device with "
                "--load-library $(python -c 'import tvm_ios; print(tvm_ios.library_path())')."
            ) from error
        try:
            header = dict(line.split(": ", 1) for line in description.splitlines()[:_HEADER])
            if header["protocol"] == _PROTOCOL and int(header["cores"]) > 0:
                return int(header["cores"]), cpu_identity(description)
        except (KeyError, ValueError):
            pass  # another version may use another format
        raise DeviceError(
            "The RPC server has loaded the library of another version of tvm_ios; install the "
            "same version there and here."
        )
