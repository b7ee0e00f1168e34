# SPDX-License-Identifier: Apache-2.0
"""The GPUs that CUDA's driver reports, found through the driver's library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

_DRIVER = "libcuda.so.1"
_NAME_BYTES = 256


@dataclass(frozen=True)
class Gpus:
    """The GPUs of a machine.

    Attributes
    ----------
    driver : str or None
        The CUDA version of the driver; None if there is no driver.
    devices : tuple of str
        The names of the GPUs.
    reason : str
        Why there is no GPU; empty if there is one.
    """

    driver: str | None
    devices: tuple[str, ...]
    reason: str


def gpus() -> Gpus:
    """Return the GPUs of this machine; none if there is no driver, or it fails."""
    try:
        cuda = ctypes.CDLL(_DRIVER)
    except OSError:
        return Gpus(None, (), f"no NVIDIA driver ({_DRIVER} was not found)")
    status = cuda.cuInit(0)
    version = _number(cuda.cuDriverGetVersion)
    driver = f"{version // 1000}.{version % 1000 // 10}"
    if status != 0:
        return Gpus(driver, (), f"the NVIDIA driver finds no device (cuInit returned {status})")
    names = tuple(_name(cuda, number) for number in range(_number(cuda.cuDeviceGetCount)))
    return Gpus(driver, names, "" if names else "the NVIDIA driver has no device")


def _number(function: Callable[..., int]) -> int:
    value = ctypes.c_int(0)
    return value.value if function(ctypes.byref(value)) == 0 else 0


def _name(cuda: ctypes.CDLL, number: int) -> str:
    device, name = ctypes.c_int(0), ctypes.create_string_buffer(_NAME_BYTES)
    if cuda.cuDeviceGet(ctypes.byref(device), number) != 0:
        return "unknown"
    if cuda.cuDeviceGetName(name, _NAME_BYTES, device) != 0:
        return "unknown"
    return name.value.decode(errors="replace")
