# SPDX-License-Identifier: Apache-2.0
"""Clocks, temperature and power of a GPU, asked through the driver's management library (NVML)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

_DRIVER, _MANAGEMENT = "libcuda.so.1", "libnvidia-ml.so.1"
_SM, _MEMORY = 1, 2  # nvmlClockType_t
_GPU_TEMPERATURE = 0  # nvmlTemperatureSensors_t
_BUS_ID_BYTES = 32


@dataclass(frozen=True)
class GpuState:
    """What a GPU is like at a moment; None for what it does not tell.

    Attributes
    ----------
    sm_mhz, memory_mhz : int or None
    celsius : int or None
    watts : float or None
    """

    sm_mhz: int | None
    memory_mhz: int | None
    celsius: int | None
    watts: float | None


class GpuMonitor:
    """A CUDA device as the management library knows it.

    Parameters
    ----------
    device_id : int
        As CUDA numbers devices, which is not always as the management library does.

    Attributes
    ----------
    reason : str
        Why nothing can be read; empty where it can.
    max_sm_mhz : int or None
        The clock that multiprocessors reach at most.
    """

    def __init__(self, device_id: int = 0) -> None:
        self.reason, self.max_sm_mhz = "", None
        try:
            self._nvml = ctypes.CDLL(_MANAGEMENT)
            self._device = self._find(_bus_id(device_id))
        except (OSError, AttributeError, _Failure) as error:
            self.reason = f"the GPU's clock cannot be read ({error})"
            return
        self.max_sm_mhz = self._number("nvmlDeviceGetMaxClockInfo", _SM)

    def read(self) -> GpuState:
        """The state at this moment."""
        if self.reason:
            return GpuState(None, None, None, None)
        milliwatts = self._number("nvmlDeviceGetPowerUsage")
        return GpuState(
            sm_mhz=self.sm_mhz(),
            memory_mhz=self._number("nvmlDeviceGetClockInfo", _MEMORY),
            celsius=self._number("nvmlDeviceGetTemperature", _GPU_TEMPERATURE),
            watts=None if milliwatts is None else milliwatts / 1e3,
        )

    def sm_mhz(self) -> int | None:
        """The clock of the multiprocessors at this moment."""
        return None if self.reason else self._number("nvmlDeviceGetClockInfo", _SM)

    def _find(self, bus_id: bytes) -> ctypes.c_void_p:
        _check(self._nvml.nvmlInit_v2(), "nvmlInit")
        device = ctypes.c_void_p()
        found = self._nvml.nvmlDeviceGetHandleByPciBusId_v2(bus_id, ctypes.byref(device))
        _check(found, f"no device {bus_id.decode()}")
        return device

    def _number(self, function: str, *arguments: int) -> int | None:
        value = ctypes.c_uint()
        status = getattr(self._nvml, function)(self._device, *arguments, ctypes.byref(value))
        return value.value if status == 0 else None


class _Failure(Exception):
    """A call of a driver's library that failed."""


def _bus_id(device_id: int) -> bytes:
    """Where on the PCI bus a CUDA device is, by which both libraries know it."""
    cuda = ctypes.CDLL(_DRIVER)
    _check(cuda.cuInit(0), "cuInit")
    device, text = ctypes.c_int(), ctypes.create_string_buffer(_BUS_ID_BYTES)
    _check(cuda.cuDeviceGet(ctypes.byref(device), device_id), "cuDeviceGet")
    _check(cuda.cuDeviceGetPCIBusId(text, _BUS_ID_BYTES, device), "cuDeviceGetPCIBusId")
    return text.value


def _check(status: int, what: str) -> None:
    if status != 0:
        raise _Failure(f"{what}: status {status}")
