# SPDX-License-Identifier: Apache-2.0
"""Where stages run: in this process, or on the other side of TVM's RPC.

Both sides have the same functions, those of the C++ library, and call them by the same names.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import tvm
import tvm_ffi
from tvm.libinfo import find_libtvm_runtime

from ..database.identity import cpu_name
from ..support import _ffi_api  # noqa: F401  (loads the library whose functions are looked up below)
from ..support.errors import DeviceError
from .device import Library

_PREFIX = "tvm_ios.runtime."
_PROTOCOL, _HEADER = "1", 3  # of src/runtime/describe.cc: its version, and lines of its own

_PATIENCE = 60.0  # seconds for what is no stage: a library or weights travel
_GRACE = 5.0  # seconds that a device has beyond a stage's time limit to end itself
_ANSWERED = "Error caught from RPC call"  # how TVM begins what a server reports


class DeviceLost(Exception):
    """The connection to a device broke, or the device is silent."""


class Session(Protocol):
    """A place where stages run."""

    limit: float
    """Seconds after which a stage is given up; 0 where it cannot be, as it is in this process."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Call one of the library's functions, by its name without the prefix."""

    def load(self, library: Library) -> tvm.runtime.Module:
        """The library, where the stages run."""


class LocalSession:
    """This process."""

    limit = 0.0

    def __init__(self) -> None:
        self.call("SetRuntimeLibrary", find_libtvm_runtime())

    def call(self, name: str, *arguments: Any) -> Any:
        return tvm_ffi.get_global_func(_PREFIX + name)(*arguments)

    def load(self, library: Library) -> tvm.runtime.Module:
        return library.executable.mod


class RemoteSession:
    """A session of TVM's RPC server that has loaded the library of this package.

    Parameters
    ----------
    connection : tvm.rpc.RPCSession
    limit : float
        Seconds that a stage may take.

    Attributes
    ----------
    connection : tvm.rpc.RPCSession
    cpu : str
        The name of its processor.
    cores : int
        Those that it may run on.
    deadline : float
        When, by ``time.monotonic``, the call in progress should have returned; infinity while there
        is none.

    Raises
    ------
    DeviceError
        When the server has not loaded the library, or another version of it.
    DeviceLost
        Also from the methods.
    """

    def __init__(self, connection: Any, limit: float) -> None:
        self.connection, self.limit, self.deadline = connection, limit, float("inf")
        self._functions: dict[str, Callable[..., Any]] = {}
        self._loaded: dict[str, tvm.runtime.Module] = {}
        self.cores, self.cpu = self._describe()
        self.call("SetRuntimeLibrary", "libtvm_runtime.so")

    def call(self, name: str, *arguments: Any) -> Any:
        patience = self.limit + _GRACE if name == "TimeOnBench" else _PATIENCE
        return self.watched(lambda: self._function(name)(*arguments), patience)

    def close(self) -> None:
        """Leave the server to others; nothing is called any more."""
        with suppress(DeviceLost):
            self.watched(lambda: self.connection.get_function("CloseRPCConnection")())

    def llvm_name(self) -> str | None:
        """What LLVM calls the CPU; None where the server has no compiler to ask, or another kind.

        A CPU of the same architecture as this machine's is meant by a target that names neither.
        """
        try:
            ask = self.watched(lambda: self.connection.get_function("target.llvm_get_system_cpu"))
        except AttributeError:
            return None
        return self.watched(ask)

    def load(self, library: Library) -> tvm.runtime.Module:
        assert library.path is not None, "what travels is linked"
        return self.load_file(str(library.path), library.path.name)

    def load_file(self, path: str, name: str) -> tvm.runtime.Module:
        """A shared library of this machine's, there by the name ``name``."""
        if name not in self._loaded:
            self.watched(lambda: self.connection.upload(path, name))
            self._loaded[name] = self.watched(lambda: self.connection.load_module(name))
        return self._loaded[name]

    def watched(self, action: Callable[[], Any], patience: float = _PATIENCE) -> Any:
        """``action()``, which calls the server, with a deadline for others to see.

        An error that the server reports is raised as it is: it is one of this package.
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
        """Cores and processor, as the machine says, see ``src/runtime/describe.h``."""
        try:
            lines = str(self.call("Describe")).splitlines()
        except AttributeError as error:
            raise DeviceError(
                "The RPC server has not loaded the library of tvm_ios; start it on the device with "
                "--load-library $(python -c 'import tvm_ios; print(tvm_ios.library_path())')."
            ) from error
        try:
            fields = dict(line.split(": ", 1) for line in lines[:_HEADER])
            if fields["protocol"] == _PROTOCOL and int(fields["cores"]) > 0:
                machine = fields["machine"]
                return int(fields["cores"]), cpu_name(machine, lines) or machine
        except (KeyError, ValueError):
            pass  # another version may say it otherwise
        raise DeviceError(
            "The RPC server has loaded the library of another version of tvm_ios; install the "
            "same version there and here."
        )
