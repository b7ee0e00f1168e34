# SPDX-License-Identifier: Apache-2.0
"""The device that latencies are filed under."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from support.networks import NATIVE
from tvm_ios.backend.cpu.backend import CpuBackend
from tvm_ios.database import DeviceIdentity, cpu_model
from tvm_ios.measure.transport.locations import Machine
from tvm_ios.options import Options


def identity(machine: Machine | None) -> DeviceIdentity:
    runner: Any = SimpleNamespace(machine=machine, provider=None, compiler=None)
    return CpuBackend(NATIVE, runner, Options(), None).identity()


def test_latencies_belong_to_the_cpu_that_measures() -> None:
    here, there = identity(None), identity(Machine("another CPU", None, 2))
    assert (here.cpu, there.cpu) == (cpu_model(), "another CPU")
    assert (here.target, here.threads) == (there.target, there.threads)
