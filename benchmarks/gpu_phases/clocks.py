# SPDX-License-Identifier: Apache-2.0
"""A log of the GPU's clock, temperature and power while steps run."""

from __future__ import annotations

import threading
import time
from dataclasses import astuple, fields
from pathlib import Path
from typing import TextIO

from tvm_ios_env.nvml import GpuMonitor, GpuState

_PERIOD = 0.5  # seconds


class ClockLog:
    """Writes a line twice a second, within a ``with``.

    Where the clock cannot be read, the first line says why, and there is no other.

    Parameters
    ----------
    path : Path
        Added to.
    device_id : int

    Attributes
    ----------
    step : str
        What the lines from here on belong to.
    """

    def __init__(self, path: Path, device_id: int) -> None:
        self._path, self._monitor = path, GpuMonitor(device_id)
        self._ended = threading.Event()
        self.step = ""
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        names = [field.name for field in fields(GpuState)]
        header = self._monitor.reason or ",".join(["time", *names, "step"])
        with open(self._path, "a") as file:
            print(header, file=file)
        if not self._monitor.reason:
            self._thread = threading.Thread(target=self._log, daemon=True)
            self._thread.start()

    def __exit__(self, *_exception: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _log(self) -> None:
        try:
            with open(self._path, "a") as file:
                while not self._ended.wait(_PERIOD):
                    self._write(file)
        except OSError:  # no room: the steps say so, and this is not worth ending for
            return

    def _write(self, file: TextIO) -> None:
        row = [f"{time.time():.1f}", *map(str, astuple(self._monitor.read())), self.step]
        print(",".join(row), file=file, flush=True)
