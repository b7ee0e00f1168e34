# SPDX-License-Identifier: Apache-2.0
"""Samples are kept that a GPU took at its full clock, and its clock is read where it can be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cuda.compile import compiler
from tvm_ios.backend.cuda.measure.clock import WarmClock
from tvm_ios.backend.cuda.measure.rounds import take_timings
from tvm_ios_env.nvml import GpuMonitor

NEARLY = 0.06  # what a clock that is warm may still lack, as a share of a sample


class Gpu:
    """A GPU whose clock rises while it works, and falls while it rests."""

    def __init__(self, highest: int = 2000, cap: int = 2000) -> None:
        self.time, self.mhz, self.highest, self.cap = 0.0, 345.0, highest, cap

    def work(self, seconds: float = 0.01) -> float:
        """Work that takes so long at the highest clock; returns what it took."""
        taken = seconds * self.highest / self.mhz
        self.time += taken
        self.mhz = min(self.mhz + 10_000 * taken, self.cap)
        return taken

    def rest(self, seconds: float) -> None:
        self.time += seconds
        self.mhz = 345.0

    def clock(self) -> WarmClock:
        return WarmClock(lambda: int(self.mhz), self.highest, now=lambda: self.time)


def test_cold_samples_are_discarded() -> None:
    gpu = Gpu()
    clock = gpu.clock()
    assert clock.take(gpu.work) == (pytest.approx(0.01, rel=NEARLY), 2000)
    discarded = clock.discarded
    assert discarded > 0
    assert clock.take(gpu.work) == (pytest.approx(0.01), 2000)
    assert clock.discarded == discarded  # it is warm
    gpu.rest(1.0)
    assert clock.take(gpu.work) == (pytest.approx(0.01, rel=NEARLY), 2000)
    assert clock.discarded > discarded


def test_a_clock_that_stays_low_is_what_there_is() -> None:
    """Limited power or heat: all is measured at one clock all the same, and nobody waits long."""
    gpu = Gpu(cap=1400)
    clock = gpu.clock()
    taken, mhz = clock.take(gpu.work)
    assert mhz == clock.expected == 1400
    assert taken == pytest.approx(0.01 * 2000 / 1400)
    assert gpu.time < 1.0
    discarded = clock.discarded
    clock.take(gpu.work)
    assert clock.discarded == discarded
    gpu.cap = 2000  # it has cooled down
    clock.take(gpu.work)
    assert clock.take(gpu.work)[1] == clock.expected == 2000


@pytest.mark.parametrize("known", [(None, 2000), (2000, None)])
def test_without_a_clock_all_samples_are_kept(known: tuple[int | None, int | None]) -> None:
    read, expected = known
    calls: list[int] = []
    clock = WarmClock(lambda: read, expected)
    assert clock.take(lambda: calls.append(1)) == (None, read)
    assert (len(calls), clock.discarded) == (1, 0)


class Model:
    """A model on a :class:`Gpu`, which rests before each of its turns."""

    def __init__(self, gpu: Gpu, seconds: float) -> None:
        self.gpu, self.seconds, self.alone = gpu, seconds, 0

    def timer(self, number: int) -> Callable[[], float]:
        return lambda: self.gpu.work(number * self.seconds) / number

    def run_once(self) -> None:
        self.alone += 1


def test_models_in_turn() -> None:
    gpu = Gpu()
    models = {"fast": Model(gpu, 1e-3), "slow": Model(gpu, 3e-3)}
    timings = take_timings(models, gpu.clock())
    for name, model in models.items():
        timing = timings[name]
        expected = [model.seconds] * len(timing.back_to_back)
        assert timing.back_to_back == pytest.approx(expected, rel=NEARLY)
        assert min(timing.sm_mhz) >= 1900
        assert len(timing.latency) == model.alone == 5 * len(timing.back_to_back)
        told = timing.to_dict()["back_to_back_ms"]
        assert told["median"] == pytest.approx(1e3 * timing.seconds)
        assert told["p10"] <= told["median"] <= told["p90"]


_DRIVER = r"""
#include <string.h>
extern "C" {
int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = 10 + ordinal; return ordinal > 1 ? 101 : 0; }
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  strncpy(text, device == 11 ? "0000:1b:00.0" : "0000:1a:00.0", size);
  return 0;
}
}
"""

_MANAGEMENT = r"""
#include <string.h>
extern "C" {
static int one, other;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  *device = strcmp(id, "0000:1b:00.0") == 0 ? &other : &one;
  return 0;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  *mhz = (device == &other ? 1000 : 100) + type;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* mhz) { *mhz = 1980; return 0; }
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  *celsius = 40 + sensor;
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) { return 3; }
}
"""

_READ = """
import json, sys
from dataclasses import asdict
from tvm_ios_env.nvml import GpuMonitor
monitor = GpuMonitor(int(sys.argv[1]))
print(json.dumps([monitor.reason, monitor.max_sm_mhz, asdict(monitor.read())]))
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's two libraries, as far as the clock is concerned."""
    directory = tmp_path_factory.mktemp("nvml")
    for name, source in (("libcuda.so.1", _DRIVER), ("libnvidia-ml.so.1", _MANAGEMENT)):
        command = [compiler(), "-x", "c++", "-", "-shared", "-fPIC", "-o", str(directory / name)]
        subprocess.run(command, input=source, text=True, check=True)
    return directory


def read(libraries: Path, device_id: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(device_id)], capture_output=True, text=True, check=True,
        env={"LD_LIBRARY_PATH": str(libraries)},
    )  # fmt: skip
    return done.stdout.strip()


def test_the_clock_of_a_device(libraries: Path) -> None:
    """By its place on the bus; a device that does not tell its power has none."""
    state = '{"sm_mhz": 1001, "memory_mhz": 1002, "celsius": 40, "watts": null}'
    assert read(libraries, 1) == f'["", 1980, {state}]'
    assert '"sm_mhz": 101' in read(libraries, 0)
    assert read(libraries, 2).startswith(
        "[\"the GPU's clock cannot be read (cuDeviceGet: status 101)"
    )


def test_without_the_library() -> None:
    monitor = GpuMonitor()
    if monitor.reason:
        assert monitor.reason.startswith("the GPU's clock cannot be read")
        assert monitor.sm_mhz() is None
        assert monitor.read().celsius is None
