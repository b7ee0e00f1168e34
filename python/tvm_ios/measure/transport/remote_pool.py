# SPDX-License-Identifier: Apache-2.0
"""The pool of stage runners across RPC: all devices do jobs, again if a device is lost."""

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

from ...lowering.kernel import K
from ...support.errors import DeviceError
from ..protocol import AnyStageRunner, KernelBuilder, StageRunner
from .providers import SessionProvider
from .session import DeviceLost, DeviceUnavailable, KernelFault, RemoteSession

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


@dataclass(eq=False)
class RemotePool(Generic[K, S]):
    """A runner pool of all devices of a session provider, with one thread for each.

    If a device is lost, another one repeats its job. A job that takes down two devices in turn
    fails.
    """

    _builder: KernelBuilder[K]
    _pool: _Pool
    _patience: float
    _workers: list[_Worker]

    @classmethod
    def open(
        cls,
        provider: SessionProvider,
        first: RemoteSession,
        make: Callable[[RemoteSession], StageRunner[K, S]],
        builder: KernelBuilder[K],
    ) -> RemotePool[K, S]:
        """Start the thread of the first device; others follow when there are jobs for them.

        Parameters
        ----------
        provider : SessionProvider
            The session provider.
        first : RemoteSession
            A session of the provider.
        make : callable
            Returns the stage runner of a session.
        builder : KernelBuilder
            The kernel builder.
        """
        pool = _Pool(provider, make, first.cpu)
        patience = _PATIENCE * first.limit + _STARTING
        return cls(builder, pool, patience, [_Worker.spawn(pool, first)])

    def compile(self, kernels: Iterable[K]) -> None:
        """Compile the kernels that later jobs need."""
        self._builder.compile(kernels)

    def each(
        self,
        items: Sequence[T],
        work: Callable[[StageRunner[K, S], T], R],
        done: Callable[[T, R | None], None],
    ) -> None:
        """Call ``work(runner, item)`` for every item.

        Raises
        ------
        DeviceError
            If no device was available for three times the time limit of a stage plus 5 seconds.
        """
        batch = _Batch(work, done, len(items))
        for item in items:
            self._pool.jobs.put(_Job(item, batch))
        self._spawn(len(items))
        try:
            self._collect(batch)
        finally:
            with suppress(queue.Empty):
                while True:
                    self._pool.jobs.get_nowait()

    def close(self) -> None:
        """Release the devices.

        The threads are joined: one that returned from a device during interpreter shutdown would
        abort the process.
        """
        for worker in self._workers:
            worker.cancelled = True
            self._pool.jobs.put(None)
        self._pool.provider.close()
        for worker in self._workers:
            worker.thread.join(_LEAVING)
        self._pool.provider.close()  # of what a thread opened in the meantime

    def _spawn(self, most: int) -> None:
        """Spawn a worker for each device, but not more than there are jobs."""
        try:
            count = min(self._pool.provider.count(), most)
        except DeviceLost:  # the tracker is gone, but its devices may still answer
            count = 0
        self._workers += [_Worker.spawn(self._pool) for _ in range(count - len(self._workers))]

    def _collect(self, batch: _Batch) -> None:
        """Pass results on until every item has one."""
        seen = time.monotonic()
        while batch.open:
            try:
                worker, job, result, error = batch.outcomes.get(timeout=_PAUSE)
            except queue.Empty:
                for worker in [w for w in self._workers if w.overdue]:
                    self._replace(worker)
            else:
                if job.worker is worker:
                    self._finish(job, result, error)
            if any(worker.ready for worker in self._workers):
                seen = time.monotonic()
            elif time.monotonic() - seen > self._patience:
                raise DeviceError(
                    f"No device of {self._pool.provider.name} could be used for "
                    f"{self._patience:g} s ({self._pool.reason}); restart its RPC server: what "
                    "is in the database will not be measured again."
                )

    def _finish(self, job: _Job, result: Any, error: BaseException | None) -> None:
        job.worker = None
        if isinstance(error, DeviceLost):
            _logger.info("a device of %s was lost: %s", self._pool.provider.name, error)
            job.failures += 1
            if job.failures < _ATTEMPTS:
                self._pool.jobs.put(job)
                return
            if isinstance(error, DeviceUnavailable):
                raise DeviceError(str(error)) from error
        elif isinstance(error, KernelFault):
            _logger.warning("%s.", error)
        elif error is not None:
            raise error
        job.batch.open -= 1
        job.batch.done(job.item, result)

    def _replace(self, worker: _Worker) -> None:
        """Abandon a silent device, together with the worker that waits for it."""
        worker.cancelled = True
        job = worker.job
        if job is not None and worker.connecting:
            self._pool.jobs.put(job)
        elif job is not None:
            self._finish(job, None, DeviceLost("it is silent"))
        self._workers[self._workers.index(worker)] = _Worker.spawn(self._pool)


@dataclass(eq=False)
class _Batch:
    """A batch of items that share one function."""

    work: Callable[[AnyStageRunner, Any], Any]
    done: Callable[[Any, Any], None]
    open: int
    outcomes: queue.Queue[tuple[_Worker, _Job, Any, BaseException | None]] = field(
        default_factory=queue.Queue
    )


@dataclass(eq=False)
class _Job:
    """An item, the worker that has it, and the number of devices that it has taken down."""

    item: Any
    batch: _Batch
    worker: _Worker | None = None
    failures: int = 0


class _Pool:
    """The state that the workers of a pool share."""

    def __init__(
        self, provider: SessionProvider, make: Callable[[RemoteSession], AnyStageRunner], cpu: str
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
    """A worker: a thread that takes jobs, and the stage runner of its device.

    Attributes
    ----------
    job : _Job or None
        The current job.
    cancelled : bool
        Whether the worker is cancelled.
    thread : threading.Thread
        The thread.
    """

    def __init__(self, pool: _Pool, session: RemoteSession | None = None) -> None:
        self._pool, self._session = pool, session
        self._runner: AnyStageRunner | None = None
        self._failures = 0  # consecutive failures to prepare
        self._connecting = math.inf
        self.job: _Job | None = None
        self.cancelled = False
        self.thread = threading.Thread(target=self._serve, name="tvm_ios-device", daemon=True)

    @classmethod
    def spawn(cls, pool: _Pool, session: RemoteSession | None = None) -> _Worker:
        """Return a worker whose thread has started; it gets a session if it has none."""
        worker = cls(pool, session)
        worker.thread.start()
        return worker

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
            job = self._pool.jobs.get()
            if job is not None:
                self.job, job.worker = job, self
                self._do(job)
                self.job = None
        if self._session is not None:
            self._session.close()
        self._session = self._runner = None

    def _do(self, job: _Job) -> None:
        result, failure = None, None
        try:
            runner = self._ready_runner()
        except (DeviceError, DeviceLost) as error:  # not caused by the job
            if isinstance(error, DeviceUnavailable) and self._failures + 1 >= _ATTEMPTS:
                job.batch.outcomes.put((self, job, None, DeviceError(str(error))))
            elif not self.cancelled:
                self._pool.jobs.put(job)  # before this worker pauses, so that another one takes it
            self._lose(error)
            return
        except BaseException as error:
            job.batch.outcomes.put((self, job, None, error))
            return
        try:
            result = job.batch.work(runner, job.item)
        except BaseException as error:  # the waiting thread must see every failure
            failure = error
        if isinstance(failure, DeviceLost):
            self._session = self._runner = None
        job.batch.outcomes.put((self, job, result, failure))

    def _ready_runner(self) -> AnyStageRunner:
        if self._runner is None:
            if self._session is None:
                self._connecting = time.monotonic() + _CONNECTING
                self._session = self._pool.connect()
                self._connecting = math.inf
            runner = self._pool.make(self._session)
            runner.prepare()
            self._runner, self._failures = runner, 0
        return self._runner

    def _lose(self, error: Exception) -> None:
        if self._session is not None:
            self._failures += 1
        self._connecting = math.inf
        self._session = self._runner = None
        self._pool.reason = str(error).rstrip(".")
        time.sleep(_PAUSE)
