# SPDX-License-Identifier: Apache-2.0
"""Synchronisation of models on different streams of a device, which share memory.

Every run of a model reuses its tensors, and TVM has one memory pool per device, for all streams.
Runs on the same stream are ordered anyway.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import tvm_ffi


class StreamLock:
    """A lock that admits many runs on one stream at a time; a run on another stream waits.

    The device waits, too: the new stream is synchronised with the old one.

    Parameters
    ----------
    device : tvm_ffi.Device
        The device.
    """

    def __init__(self, device: tvm_ffi.Device) -> None:
        self._device = device
        self._changed = threading.Condition()
        self._stream, self._runs = 0, 0  # TVM copies weights on the default stream

    @contextmanager
    def on(self, stream: int) -> Iterator[None]:
        """Use a stream, and free memory, inside the ``with`` block.

        The stream is TVM's current stream of this thread meanwhile.

        Parameters
        ----------
        stream : int
            A handle of CUDA; 0 is the default stream.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._runs or self._stream == stream)
            if stream != self._stream:
                follow = tvm_ffi.get_global_func("runtime.Device_StreamSyncFromTo")
                follow(self._device, self._stream, stream)
                self._stream = stream
            self._runs += 1
        try:
            with tvm_ffi.use_raw_stream(self._device, stream):
                yield
        finally:
            with self._changed:
                self._runs -= 1
                self._changed.notify_all()


_locks: dict[int, StreamLock] = {}


def stream_lock(device_id: int) -> StreamLock:
    """Return the lock that all models of this process on a device share."""
    return _locks.setdefault(device_id, StreamLock(tvm_ffi.device("cuda", device_id)))
