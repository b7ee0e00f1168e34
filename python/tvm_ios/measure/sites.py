# SPDX-License-Identifier: Apache-2.0
"""Where a search measures: in its own process, in another one of this machine, or elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import tvm

from ..support.errors import DeviceError, OptionError
from ..target import resolve
from .session import DeviceLost, RemoteSession
from .sources import Loopback, Source, Tracker

TIME_LIMIT = 10.0  # seconds that a stage may take elsewhere, before it counts as hanging
_BUSY = 60.0  # seconds to wait for a device that is there and not free
_PAUSE = 0.1


@dataclass(frozen=True)
class Machine:
    """Another machine.

    Attributes
    ----------
    cpu : str
        The processor's name.
    llvm_name : str or None
        What LLVM calls it.
    cores : int
    """

    cpu: str
    llvm_name: str | None
    cores: int


class Site(Protocol):
    """Where a search measures.

    Attributes
    ----------
    device_id : int
        Which of this machine's GPUs a target means that is one.
    compiler : str or None
        What links code for it, where it is not this machine's compiler.
    machine : Machine or None
        Another machine, where whole models are timed, too; None for this one.
    source : Source or None
        What has sessions in other processes; None for this process.
    """

    @property
    def device_id(self) -> int: ...

    @property
    def compiler(self) -> str | None: ...

    @property
    def machine(self) -> Machine | None: ...

    @property
    def source(self) -> Source | None: ...

    def connect(self) -> RemoteSession:
        """Return a session of the source; wait while all devices are busy."""


class Here:
    """This process: nothing has to be started, and a kernel that crashes ends the search.

    Parameters
    ----------
    device_id : int
        Which of the machine's GPUs a target of CUDA means.
    """

    compiler: str | None = None
    machine: Machine | None = None
    source: Source | None = None

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = device_id

    def connect(self) -> RemoteSession:
        raise AssertionError("this process needs no connection")


class _Elsewhere:
    """Where sessions are in other processes."""

    device_id = 0
    compiler: str | None = None
    machine: Machine | None = None

    def resolve(
        self, target: str | tvm.target.Target, threads: int | None = None
    ) -> tvm.target.Target:
        """Return the target with the CPU and the cores that a device has, where it names none.

        Parameters
        ----------
        target : str or tvm.target.Target
            Of kind ``llvm``.
        threads : int, optional
            By default all cores of a device.

        Raises
        ------
        TargetError
            When TVM does not know the target, or it is no CPU.
        """
        return resolve_at(self.machine, target, threads)


class Isolated(_Elsewhere):
    """Another process of this machine: a stage that crashes or hangs costs only itself.

    Parameters
    ----------
    timeout : float
        Seconds that a stage may take.
    """

    def __init__(self, timeout: float = TIME_LIMIT) -> None:
        _check_timeout(timeout)
        self.source: Source = Loopback(timeout)  # starts, while the network is prepared

    def connect(self) -> RemoteSession:
        return _connect(self.source)


class Rpc(_Elsewhere):
    """The devices that a tracker of TVM's RPC has by one key, which are of one kind.

    Each of them runs ``python -m tvm.exec.rpc_server`` with the library of this package loaded.

    Parameters
    ----------
    tracker : str
        ``HOST:PORT``.
    key : str
    timeout : float
        Seconds that a stage may take.
    cross_compiler : str, optional
        What links code for the devices, where they have another architecture.

    Raises
    ------
    OptionError
    DeviceError
        When there is no tracker, no device, or a device without the library.
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
        self.source: Source = Tracker(tracker, key, timeout)
        first = _connect(self.source)
        self.machine = Machine(first.cpu, first.llvm_name(), first.cores)
        self._first: RemoteSession | None = first

    def connect(self) -> RemoteSession:
        first, self._first = self._first or _connect(self.source), None
        return first


def resolve_at(
    machine: Machine | None, target: str | tvm.target.Target, threads: int | None
) -> tvm.target.Target:
    """Return a CPU's target with what a machine has, where it names none; None is this machine."""
    if machine is None:
        return resolve(target, threads=threads)
    return resolve(target, threads=threads, cpu=machine.llvm_name, cores=machine.cores)


def _connect(source: Source) -> RemoteSession:
    """Return a session; wait while all devices are busy."""
    end = time.monotonic() + _BUSY
    while True:
        try:
            return source.connect()
        except DeviceLost as error:
            if time.monotonic() > end:
                raise DeviceError(
                    f"No device of {source.name} could be had for {_BUSY:g} s ({error}); see "
                    "'python -m tvm.exec.query_rpc_tracker' for who has them."
                ) from error
            time.sleep(_PAUSE)


def _check_timeout(timeout: float) -> None:
    if not 0 < timeout < float("inf"):
        raise OptionError(f"The time limit of a stage must be above 0 seconds, got {timeout}.")
