# SPDX-License-Identifier: Apache-2.0
"""The identity of a device: a target on a CPU, and the code that was timed there."""

from __future__ import annotations

import functools
import json
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm.target import Target

from tvm_ios_env.gpu import gpus

from ..support.libinfo import __version__
from ..target import num_workers
from .code_digest import code_digest

_CPUINFO = Path("/proc/cpuinfo")
# Fields of a processor without a name, such as ARM's.
_PARTS = ("CPU implementer", "CPU architecture", "CPU variant", "CPU part")


@dataclass(frozen=True, order=True)
class DeviceIdentity:
    """The properties of a device that affect latencies; a latency applies to one identity only.

    Attributes
    ----------
    cpu : str
        The model of the processor or of the GPU.
    target : str
        TVM's target, as text.
    threads : int
        The number of worker threads.
    tvm_ios, tvm : str
        The versions that emitted and compiled the code.
    """

    cpu: str
    target: str
    threads: int
    tvm_ios: str
    tvm: str

    @staticmethod
    def here(target: Target) -> DeviceIdentity:
        """Return the identity of this machine, running code for ``target``."""
        return DeviceIdentity.of(cpu_model(), target, num_workers(target))

    @staticmethod
    def of(cpu: str, target: Target, workers: int = 1) -> DeviceIdentity:
        """Return the identity of a machine with processor ``cpu``, running code for ``target``."""
        return DeviceIdentity(cpu, str(target), workers, package_version(), str(tvm.__version__))

    @property
    def kind(self) -> str:
        """The kind of the target, such as ``llvm``."""
        try:
            return str(json.loads(self.target)["kind"])
        except (ValueError, TypeError, KeyError):
            return self.target.partition(" ")[0]  # as TVM wrote targets before they were JSON

    @property
    def is_this_machine(self) -> bool:
        return self.cpu == cpu_model() or self.cpu in _gpus_here()

    @property
    def is_this_version(self) -> bool:
        return (self.tvm_ios, self.tvm) == (package_version(), str(tvm.__version__))


@functools.cache
def cpu_model() -> str:
    """Return the processor's name, or other properties that identify it."""
    try:
        lines = _CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    machine = platform.machine()
    return cpu_name(machine, lines) or f"{machine} {platform.processor()}".strip()


def gpu_model(name: str, driver: str) -> str:
    """Return the identity of a GPU: its name and the CUDA version of its driver."""
    return f"{name}, CUDA {driver}"


@functools.cache
def _gpus_here() -> frozenset[str]:
    found = gpus()
    return frozenset(gpu_model(name, found.driver or "") for name in found.devices)


def cpu_name(machine: str, lines: Iterable[str]) -> str:
    """Return the processor's name from the lines of ``/proc/cpuinfo``; empty if there is none."""
    first: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and value.strip():
            first.setdefault(name.strip(), value.strip())
    parts = [f"{name} {first[name]}" for name in _PARTS if name in first]
    name = first.get("model name") or ", ".join(parts)
    return f"{machine} {name}" if name else ""


def package_version() -> str:
    """Return the version of this package with a digest of the code that affects latencies.

    During development the code changes while the version does not.
    """
    return f"{__version__}/{code_digest()}"
