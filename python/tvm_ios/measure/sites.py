# SPDX-License-Identifier: Apache-2.0
"""Where a search measures: in its own process, in another one of this machine, or elsewhere."""

from __future__ import annotations

import time
from typing import Protocol

import tvm

from ..cuda_target import check_device, resolve_cuda
from ..database import DeviceIdentity, MeasurementDatabase
from ..errors import DeviceError, OptionError
from ..lower.cuda.toolchain import check_compiler
from ..lower.implement import LoweredGraph
from ..target import TYPICAL, Transfers, check_runnable, is_cuda, num_workers, parse, resolve
from .device import Device, present
from .devices import Devices, ThisProcess
from .libraries import KernelLibraries
from .remote import RemoteDevices
from .session import DeviceLost, LocalSession, RemoteSession
from .sources import Loopback, Source, Tracker
from .transfers import transfers_of

TIME_LIMIT = 10.0  # seconds that a stage may take elsewhere, before it counts as hanging
_BUSY = 60.0  # seconds to wait for a device that is there and not free
_PAUSE = 0.1


class Site(Protocol):
    """Where a search measures."""

    remote: bool
    """Whether it is another machine, where whole models are timed, too."""
    compiler: str | None
    """What links code for it, where it is not this machine's compiler."""

    def target(self, target: str | tvm.target.Target) -> tvm.target.Target:
        """The target as it is given, but of another machine with the number of its cores."""

    def resolve(self, target: str | tvm.target.Target, threads: int | None) -> tvm.target.Target:
        """The target with the CPU and the cores that the site has, where it names none."""

    def identity(self, target: tvm.target.Target) -> DeviceIdentity:
        """Whose latencies are measured."""

    def transfers(
        self, target: tvm.target.Target, database: MeasurementDatabase | None
    ) -> Transfers:
        """How far memory is away there."""

    def devices(self, lowered: LoweredGraph, target: tvm.target.Target, seed: int) -> Devices:
        """What stages of a network are given to."""


class Here:
    """This process: nothing has to be started, and a kernel that crashes ends the search.

    Parameters
    ----------
    device_id : int
        Which of the machine's GPUs a target of CUDA means.
    """

    remote = False
    compiler: str | None = None

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = device_id

    def target(self, target: str | tvm.target.Target) -> tvm.target.Target:
        return parse(target)

    def resolve(self, target: str | tvm.target.Target, threads: int | None) -> tvm.target.Target:
        if not is_cuda(target):
            return resolve(target, threads=threads)
        if threads is not None:
            raise OptionError("The number of threads is for a CPU; leave it out for a CUDA device.")
        resolved = resolve_cuda(target, self.device_id)
        check_compiler(resolved)
        return resolved

    def check(self, target: tvm.target.Target) -> None:
        """Raise TargetError unless code for the target runs here."""
        if is_cuda(target):
            check_device(target, self.device_id)
        else:
            check_runnable(target)

    def identity(self, target: tvm.target.Target) -> DeviceIdentity:
        return DeviceIdentity.here(target)

    def transfers(
        self, target: tvm.target.Target, database: MeasurementDatabase | None
    ) -> Transfers:
        return transfers_of(target, database)

    def devices(self, lowered: LoweredGraph, target: tvm.target.Target, seed: int) -> Devices:
        libraries = KernelLibraries(target, network(lowered))
        device = Device(lowered, libraries, LocalSession(), seed)
        return ThisProcess(device, libraries, num_workers(target))


class Isolated(Here):
    """Another process of this machine: a stage that crashes or hangs costs only itself.

    Parameters
    ----------
    timeout : float
        Seconds that a stage may take.
    """

    def __init__(self, timeout: float = TIME_LIMIT) -> None:
        _check_timeout(timeout)
        super().__init__()
        self._source = Loopback(timeout)  # starts, while the network is prepared

    def target(self, target: str | tvm.target.Target) -> tvm.target.Target:
        _refuse_cuda(target)
        return super().target(target)

    def resolve(self, target: str | tvm.target.Target, threads: int | None) -> tvm.target.Target:
        _refuse_cuda(target)
        return super().resolve(target, threads)

    def devices(self, lowered: LoweredGraph, target: tvm.target.Target, seed: int) -> Devices:
        libraries = KernelLibraries(target, network(lowered), linked=True)
        return _remote(self._source, _first(self._source), lowered, libraries, target, seed)


class Rpc:
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

    remote = True

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
        self._source = Tracker(tracker, key, timeout)
        self._first: RemoteSession | None = _first(self._source)
        self._cpu, self._cores = self._first.cpu, self._first.cores
        self._llvm_name = self._first.llvm_name()

    def target(self, target: str | tvm.target.Target) -> tvm.target.Target:
        return resolve(target, cpu=None, cores=self._cores)

    def resolve(self, target: str | tvm.target.Target, threads: int | None) -> tvm.target.Target:
        _refuse_cuda(target)
        return resolve(target, threads=threads, cpu=self._llvm_name, cores=self._cores)

    def identity(self, target: tvm.target.Target) -> DeviceIdentity:
        return DeviceIdentity.of(self._cpu, target)

    def transfers(
        self, target: tvm.target.Target, database: MeasurementDatabase | None
    ) -> Transfers:
        """What is typical: it only decides between kernels."""
        return TYPICAL

    def devices(self, lowered: LoweredGraph, target: tvm.target.Target, seed: int) -> Devices:
        first, self._first = self._first or _first(self._source), None
        libraries = KernelLibraries(target, network(lowered), linked=True, compiler=self.compiler)
        return _remote(self._source, first, lowered, libraries, target, seed)


def network(lowered: LoweredGraph) -> list:
    """The kernels of a network's operators."""
    return [implementation.kernel for implementation in present(lowered)]


def _remote(
    source: Source,
    first: RemoteSession,
    lowered: LoweredGraph,
    libraries: KernelLibraries,
    target: tvm.target.Target,
    seed: int,
) -> RemoteDevices:
    workers = num_workers(target)

    def make(session: RemoteSession) -> Device:
        session.call("UseWorkers", workers)
        return Device(lowered, libraries, session, seed)

    return RemoteDevices(source, first, make, libraries)


def _first(source: Source) -> RemoteSession:
    """A session, for which is waited while all devices are busy."""
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


def _refuse_cuda(target: str | tvm.target.Target) -> None:
    if is_cuda(target):
        raise OptionError(
            "A CUDA device is measured in this process only; leave --isolate or --rpc-tracker out."
        )


def _check_timeout(timeout: float) -> None:
    if not 0 < timeout < float("inf"):
        raise OptionError(f"The time limit of a stage must be above 0 seconds, got {timeout}.")
