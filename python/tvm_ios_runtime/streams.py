# SPDX-License-Identifier: Apache-2.0
"""Runs of models on different streams of a device, which share memory.

A model has tensors that every run of it uses again, and TVM has one pool of memory for a device,
whatever stream is to write there. Runs on one stream follow each other anyhow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import tvm_ffi


class Turns:
    """Many runs on the same stream at a time; the first on another waits, on the device, too.

    Parameters
    ----------
    device : tvm_ffi.Device
    """

    def __init__(self, device: tvm_ffi.Device) -> None:
        self._device = device
        self._changed = threading.Condition()
        self._stream, self._runs = 0, 0  # TVM copies weights on the default stream

    @contextmanager
    def on(self, stream: int) -> Iterator[None]:
        """What is given to a stream, and memory that is given back, within a ``with``.

        TVM's current stream of this thread is this one meanwhile.

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


_turns: dict[int, Turns] = {}


def turns_of(device_id: int) -> Turns:
    """Those of all models of this process on a device."""
    return _turns.setdefault(device_id, Turns(tvm_ffi.device("cuda", device_id)))
