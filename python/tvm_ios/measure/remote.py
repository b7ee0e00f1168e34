# SPDX-License-Identifier: Apache-2.0
"""Runners across RPC: jobs are distributed to all devices, and again if a device is lost."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..backend.shared.kernel import K
from ..support.errors import DeviceError
from .providers import SessionProvider
from .session import DeviceLost, RemoteSession
from .stage_runner import KernelBuilder, PreparedRunner, StageRunner

_logger = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

_ATTEMPTS = 2  # devices in turn that a job may take down, or that may fail to prepare
_PAUSE = 0.1  # seconds between two checks of silent devices, or two attempts to connect
_CONNECTING = 30.0  # seconds, including the start of a server
_LEAVING = 2.0  # seconds that a cancelled worker gets to finish
_PATIENCE = 3  # the search ends after this many time limits of a stage without a device
_STARTING = 5.0  # plus these seconds, in which a server may restart


_AnyRunner = PreparedRunner[Any, Any]
"""The device of a worker, of any back end."""


class RemotePool(Generic[K, S]):
    """A runner pool of all devices of a session provider, with one thread for each.

    If a device is lost, another one repeats its job. A job that takes down two devices in turn
    fails.

    Parameters
    ----------
    provider : SessionProvider
        The session provider.
    first : RemoteSession
        A session of the provider.
    make : callable
        Returns the runner of a session.
    builder : KernelBuilder
        The kernel builder.
    """

    def __init__(
        self,
        provider: SessionProvider,
        first: RemoteSession,
        make: Callable[[RemoteSession], PreparedRunner[K, S]],
        builder: KernelBuilder[K],
    ) -> None:
        self._builder = builder
        self._crew = _Pool(provider, make, first.cpu)
        self._patience = _PATIENCE * first.limit + _STARTING
        self._hands = [_Worker(self._crew, first)]

    def compile(self, kernels: Iterable[K]) -> None:
        """Compile the kernels that later jobs need."""
        self._builder.compile(kernels)

    def each(
        self,
        items: Sequence[T],
        work: Callable[[StageRunner[K, S], T], R],
        done: Callable[[T, R | None], None],
    ) -> None:
        """Call ``work(device, item)`` for every item.

        Raises
        ------
        DeviceError
            If no device was available for three times the time limit of a stage plus 5 seconds.
        """
        deal = _Batch(work, done, len(items))
        for item in items:
            self._crew.jobs.put(_Job(item, deal))
        self._spawn(len(items))
        try:
            self._collect(deal)
        finally:
            with suppress(queue.Empty):
                while True:
                    self._crew.jobs.get_nowait()

    def close(self) -> None:
        """Release the devices.

        The threads are joined: one that returned from a device during interpreter shutdown would
        abort the process.
        """
        for hand in self._hands:
            hand.cancelled = True
            self._crew.jobs.put(None)
        self._crew.provider.close()
        for hand in self._hands:
            hand.thread.join(_LEAVING)

    def _spawn(self, most: int) -> None:
        """Spawn a worker for each device, but not more than there are jobs."""
        try:
            count = min(self._crew.provider.count(), most)
        except DeviceLost:  # the tracker is gone, but its devices may still answer
            count = 0
        self._hands += [_Worker(self._crew) for _ in range(count - len(self._hands))]

    def _collect(self, deal: _Batch) -> None:
        """Pass results on until every item has one."""
        seen = time.monotonic()
        while deal.open:
            try:
                hand, job, result, error = deal.outcomes.get(timeout=_PAUSE)
            except queue.Empty:
                for hand in [h for h in self._hands if h.overdue]:
                    self._replace(hand)
            else:
                if job.hand is hand:
                    self._finish(job, result, error)
            if any(hand.ready for hand in self._hands):
                seen = time.monotonic()
            elif time.monotonic() - seen > self._patience:
                raise DeviceError(
                    f"No device of {self._crew.provider.name} could be used for "
                    f"{self._patience:g} s ({self._crew.reason}); restart its RPC server: what "
                    "is in the database will not be measured again."
                )

    def _finish(self, job: _Job, result: Any, error: BaseException | None) -> None:
        job.hand = None
        if isinstance(error, DeviceLost):
            _logger.info("a device of %s was lost: %s", self._crew.provider.name, error)
            job.failures += 1
            if job.failures < _ATTEMPTS:
                self._crew.jobs.put(job)
                return
        elif error is not None:
            raise error
        job.deal.open -= 1
        job.deal.done(job.item, result)

    def _replace(self, hand: _Worker) -> None:
        """Abandon a silent device, together with the worker that waits for it."""
        hand.cancelled = True
        job = hand.job
        if job is not None and hand.connecting:
            self._crew.jobs.put(job)
        elif job is not None:
            self._finish(job, None, DeviceLost("it is silent"))
        self._hands[self._hands.index(hand)] = _Worker(self._crew)


@dataclass(eq=False)
class _Batch:
    """A batch of items that share one function."""

    work: Callable[[StageRunner[Any, Any], Any], Any]
    done: Callable[[Any, Any], None]
    open: int
    outcomes: queue.Queue[tuple[_Worker, _Job, Any, BaseException | None]] = field(
        default_factory=queue.Queue
    )


@dataclass(eq=False)
class _Job:
    """An item, the worker that has it, and the number of devices that it has taken down."""

    item: Any
    deal: _Batch
    hand: _Worker | None = None
    failures: int = 0


class _Pool:
    """The state that the workers of a pool share."""

    def __init__(
        self, provider: SessionProvider, make: Callable[[RemoteSession], _AnyRunner], cpu: str
    ) -> None:
        self.provider, self.make, self._cpu = provider, make, cpu
        self.jobs: queue.Queue[_Job | None] = queue.Queue()
        self.reason = "none is free"
        self._strange: list[RemoteSession] = []  # open, so that they are not offered again

    def connect(self) -> RemoteSession:
        """Open a session on a device with the same CPU as the others."""
        session = self.provider.connect()
        if session.cpu == self._cpu:
            return session
        self._strange.append(session)
        message = f"A device of {self.provider.name} is a {session.cpu}, the others are {self._cpu}"
        _logger.warning("%s; it is not used.", message)
        raise DeviceLost(message)


class _Worker:
    """A worker: a thread that takes jobs, and its device.

    Attributes
    ----------
    job : _Job or None
        The current job.
    cancelled : bool
        Whether the worker is cancelled.
    thread : threading.Thread
        The thread.
    """

    def __init__(self, crew: _Pool, session: RemoteSession | None = None) -> None:
        self._crew, self._session = crew, session
        self._device: _AnyRunner | None = None
        self._failures = 0  # consecutive failures to prepare
        self._connecting = math.inf
        self.job: _Job | None = None
        self.cancelled = False
        self.thread = threading.Thread(target=self._serve, name="tvm_ios-device", daemon=True)
        self.thread.start()

    @property
    def ready(self) -> bool:
        """Return whether the worker has a device or is about to get one."""
        return self._session is not None and self._failures < _ATTEMPTS

    @property
    def connecting(self) -> bool:
        """Return whether the worker has no device yet."""
        return self._session is None

    @property
    def overdue(self) -> bool:
        """Return whether the device has exceeded its deadline."""
        session = self._session
        deadline = self._connecting if session is None else session.deadline
        return time.monotonic() > deadline

    def _serve(self) -> None:
        while not self.cancelled:
            job = self._crew.jobs.get()
            if job is not None:
                self.job, job.hand = job, self
                self._do(job)
                self.job = None
        if self._session is not None:
            self._session.close()
        self._session = self._device = None

    def _do(self, job: _Job) -> None:
        result, failure = None, None
        try:
            device = self._ready_runner()
        except (DeviceError, DeviceLost) as error:  # not caused by the job
            if not self.cancelled:
                self._crew.jobs.put(job)
            self._lose(error)
            return
        except BaseException as error:
            job.deal.outcomes.put((self, job, None, error))
            return
        try:
            result = job.deal.work(device, job.item)
        except BaseException as error:  # the waiting thread must see every failure
            failure = error
        if isinstance(failure, DeviceLost):
            self._session = self._device = None
        job.deal.outcomes.put((self, job, result, failure))

    def _ready_runner(self) -> _AnyRunner:
        if self._device is None:
            if self._session is None:
                self._connecting = time.monotonic() + _CONNECTING
                self._session = self._crew.connect()
                self._connecting = math.inf
            device = self._crew.make(self._session)
            device.prepare()
            self._device, self._failures = device, 0
        return self._device

    def _lose(self, error: Exception) -> None:
        if self._session is not None:
            self._failures += 1
        self._connecting = math.inf
        self._session = self._device = None
        self._crew.reason = str(error).rstrip(".")
        time.sleep(_PAUSE)
