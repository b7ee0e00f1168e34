# SPDX-License-Identifier: Apache-2.0
"""Devices that answer what cannot be, or not at all: no such latency is kept."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from support import lying_device
from support.networks import NATIVE, conv, relax_module
from support.paths import TESTS
from tvm_ios import DeviceError
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import MeasurementDatabase
from tvm_ios.measure.transport import providers
from tvm_ios.measure.transport.locations import ProcessRunner
from tvm_ios.options import Options

QUICK = ("nan", "too few")  # one of each kind; each lie takes a process
LIMIT = 0.2  # seconds of a stage


@pytest.mark.parametrize(
    "lie",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in lying_device.LIES],
)
def test_a_device_that_lies(lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", lying_device.__name__, lie]
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    monkeypatch.setattr(providers, "python_command", lambda _module: command)
    database = tmp_path / "d.sqlite3"
    options = Options(winograd=False, database=database)
    mod = relax_module(lambda emit, x: emit(conv(x, 24)), (1, 8, 9, 9))
    made = Scheduler.prepare(mod, NATIVE, options=options, runner=ProcessRunner(LIMIT))
    with closing(made), pytest.raises(DeviceError):
        made.search()
    with closing(MeasurementDatabase(database)) as kept:
        assert not [row for row in kept.rows() if row.stage != "multiply-adds"]
