# SPDX-License-Identifier: Apache-2.0
"""A pool of devices that are no processes: which of them measures."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from tvm_ios.measure.transport.remote_pool import RemotePool


@dataclass
class Session:
    cpu: str
    limit: float = 1.0
    deadline: float = float("inf")

    def close(self) -> None: ...


@dataclass
class Device:
    session: Session

    def prepare(self) -> None: ...


@dataclass
class TwoDevices:
    """A provider whose second device has this CPU."""

    second: str
    name: str = "two devices"
    connected: threading.Event = field(default_factory=threading.Event)

    def count(self) -> int:
        return 2

    def connect(self) -> Session:
        self.connected.set()
        return Session(self.second)

    def close(self) -> None: ...


@pytest.mark.parametrize(("second", "used"), [("a CPU", True), ("another CPU", False)])
def test_a_device_with_another_cpu_measures_nothing(second: str, used: bool) -> None:
    provider, first, made = TwoDevices(second), Session("a CPU"), []

    def make(session: Session) -> Device:
        made.append(session)
        return Device(session)

    def work(device: Device, item: int) -> str:
        provider.connected.wait(5.0)
        return device.session.cpu

    found: dict[int, str | None] = {}
    with closing(RemotePool.open(provider, first, make, None)) as pool:
        pool.each(range(4), work, found.__setitem__)
    assert found == dict.fromkeys(range(4), "a CPU")
    assert any(session is not first for session in made) == used
