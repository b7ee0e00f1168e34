# SPDX-License-Identifier: Apache-2.0
"""Clocks, temperature and power of a GPU, read through the driver's management library (NVML)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

_DRIVER, _MANAGEMENT = "libcuda.so.1", "libnvidia-ml.so.1"
_SM, _MEMORY = 1, 2  # nvmlClockType_t
_GPU_TEMPERATURE = 0  # nvmlTemperatureSensors_t
_BUS_ID_BYTES = 32


@dataclass(frozen=True)
class GpuState:
    """The state of a GPU at one moment; None for what it does not report.

    Attributes
    ----------
    sm_mhz, memory_mhz : int or None
        The clocks of the multiprocessors and of the memory, in MHz.
    celsius : int or None
        The temperature.
    watts : float or None
        The power.
    """

    sm_mhz: int | None
    memory_mhz: int | None
    celsius: int | None
    watts: float | None


class GpuMonitor:
    """A CUDA device in the management library.

    Parameters
    ----------
    device_id : int
        CUDA's number of the device, which may differ from that of the management library.

    Attributes
    ----------
    reason : str
        Why nothing can be read; empty if it can.
    max_sm_mhz : int or None
        The maximum clock of the multiprocessors, in MHz.
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
        """Return the current state."""
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
        """Return the current clock of the multiprocessors, in MHz."""
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
    """A failed call of a driver library."""


def _bus_id(device_id: int) -> bytes:
    """Return the PCI bus ID of a CUDA device, which both libraries know."""
    cuda = ctypes.CDLL(_DRIVER)
    _check(cuda.cuInit(0), "cuInit")
    device, text = ctypes.c_int(), ctypes.create_string_buffer(_BUS_ID_BYTES)
    _check(cuda.cuDeviceGet(ctypes.byref(device), device_id), "cuDeviceGet")
    _check(cuda.cuDeviceGetPCIBusId(text, _BUS_ID_BYTES, device), "cuDeviceGetPCIBusId")
    return text.value


def _check(status: int, what: str) -> None:
    if status != 0:
        raise _Failure(f"{what}: status {status}")
