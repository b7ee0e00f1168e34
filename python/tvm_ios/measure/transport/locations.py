# SPDX-License-Identifier: Apache-2.0
"""Locations, where stages run: this process, a child process, or devices across RPC.

A user chooses one as the ``runner``. It is not what runs stages there: that is a
:class:`~tvm_ios.measure.protocol.StageRunner`, in a session that the location gives.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import tvm

from ...support.errors import DeviceError, OptionError
from ...target import resolve
from .providers import LoopbackProvider, SessionProvider, TrackerProvider
from .session import DeviceLost, RemoteSession

TIME_LIMIT = 10.0  # seconds after which a stage in another process counts as hanging
_BUSY = 60.0  # seconds to wait for a busy device
_PAUSE = 0.1


@dataclass(frozen=True)
class Machine:
    """Another machine.

    Attributes
    ----------
    cpu : str
        The processor's name.
    llvm_name : str or None
        LLVM's name of it.
    cores : int
        The number of its cores.
    """

    cpu: str
    llvm_name: str | None
    cores: int


class Runner(Protocol):
    """A location, where a search measures.

    Making one is cheap. It is reached when it is needed first.

    Attributes
    ----------
    device_id : int
        The GPU of this machine that a CUDA target refers to.
    compiler : str or None
        The cross-compiler that links code for the devices; None for this machine's compiler.
    machine : Machine or None
        The other machine, where whole models are timed, too; None for this machine.
    isolated : bool
        Whether it is another process of this machine.
    provider : SessionProvider or None
        The provider of sessions in other processes; None for this process.
    """

    @property
    def isolated(self) -> bool: ...

    @property
    def device_id(self) -> int: ...

    @property
    def compiler(self) -> str | None: ...

    @property
    def machine(self) -> Machine | None: ...

    @property
    def provider(self) -> SessionProvider | None: ...

    def start(self) -> None:
        """Begin what takes time before the first session; a second call does nothing.

        Raises
        ------
        DeviceError
            If there is nothing that could measure.
        """

    def connect(self) -> RemoteSession:
        """Return a session of the provider; wait while all devices are busy."""


class LocalRunner:
    """The location in this process: it starts at once, but a kernel that crashes ends the search.

    Parameters
    ----------
    device_id : int
        The GPU of this machine that a CUDA target refers to.
    """

    isolated = False
    compiler: str | None = None
    machine: Machine | None = None
    provider: SessionProvider | None = None

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = device_id

    def start(self) -> None:
        """Do nothing: this process runs."""

    def connect(self) -> RemoteSession:
        raise AssertionError("this process needs no connection")


class _Elsewhere:
    """A location whose sessions are in other processes."""

    isolated = False
    device_id = 0
    compiler: str | None = None

    @property
    def machine(self) -> Machine | None:
        return None

    def resolve(
        self, target: str | tvm.target.Target, threads: int | None = None
    ) -> tvm.target.Target:
        """Return the target, completed with a device's CPU and cores where it names none.

        Parameters
        ----------
        target : str or tvm.target.Target
            A target of kind ``llvm``.
        threads : int, optional
            The number of worker threads; by default one per core of a device.

        Raises
        ------
        TargetError
            If TVM does not know the target, or if it is not a CPU.
        DeviceError
            If there is no device.
        """
        return resolve_at(self.machine, target, threads)


class ProcessRunner(_Elsewhere):
    """The location in a child process of this machine.

    A stage that crashes or hangs does not end the search.

    Parameters
    ----------
    timeout : float
        Time limit of a stage, in seconds.
    device_id : int
        The GPU of this machine that a CUDA target refers to.
    """

    isolated = True

    def __init__(self, timeout: float = TIME_LIMIT, *, device_id: int = 0) -> None:
        _check_timeout(timeout)
        self.device_id = device_id
        self.provider = LoopbackProvider(timeout)

    def start(self) -> None:
        """Start the process, which imports TVM while the network is prepared."""
        self.provider.start()

    def connect(self) -> RemoteSession:
        return _connect(self.provider)


class RPCRunner(_Elsewhere):
    """The devices, all of one kind, that a tracker of TVM's RPC lists under one key.

    Each device runs ``python -m tvm.exec.rpc_server`` with the library of this package loaded. The
    first one is reached by :meth:`start`, or when its properties are needed. If there is no
    tracker, no device, or a device without the library, that raises DeviceError.

    Parameters
    ----------
    tracker : str
        ``HOST:PORT``.
    key : str
        The key of the devices.
    timeout : float
        Time limit of a stage, in seconds.
    cross_compiler : str, optional
        The compiler that links code for the devices if they have another architecture.

    Raises
    ------
    OptionError
        If the address or the timeout is invalid.
    """

    def __init__(
        self,
        tracker: str,
        key: str,
        *,
        timeout: float = TIME_LIMIT,
        cross_compiler: str | None = None,
    ) -> None:
        _check_timeout(timeout)
        self.compiler = cross_compiler
        self.provider = TrackerProvider(tracker, key, timeout)
        self._machine: Machine | None = None
        self._first: RemoteSession | None = None

    def start(self) -> None:
        """Reach the first device."""
        if self._machine is None:
            self.provider.check()
            self._first = _connect(self.provider)
            self._machine = Machine(self._first.cpu, self._first.llvm_name(), self._first.cores)

    @property
    def machine(self) -> Machine | None:
        self.start()
        return self._machine

    def connect(self) -> RemoteSession:
        self.start()
        first, self._first = self._first or _connect(self.provider), None
        return first


def resolve_at(
    machine: Machine | None, target: str | tvm.target.Target, threads: int | None
) -> tvm.target.Target:
    """Return a CPU target, completed with the properties of a machine where it names none.

    Parameters
    ----------
    machine : Machine or None
        The machine; None for this one.
    target : str or tvm.target.Target
        A target of kind ``llvm``.
    threads : int or None
        The number of worker threads; None for one per core.
    """
    if machine is None:
        return resolve(target, threads=threads)
    return resolve(target, threads=threads, cpu=machine.llvm_name, cores=machine.cores)


def _connect(provider: SessionProvider) -> RemoteSession:
    """Return a session; wait while all devices are busy."""
    end = time.monotonic() + _BUSY
    while True:
        try:
            return provider.connect()
        except DeviceLost as error:
            if time.monotonic() > end:
                raise DeviceError(
                    f"No device of {provider.name} became free within {_BUSY:g} s ({error}); see "
                    "'python -m tvm.exec.query_rpc_tracker' for the clients that use them."
                ) from error
            time.sleep(_PAUSE)


def _check_timeout(timeout: float) -> None:
    if not 0 < timeout < float("inf"):
        raise OptionError(f"The time limit of a stage must be above 0 seconds, got {timeout}.")
