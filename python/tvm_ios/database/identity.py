# SPDX-License-Identifier: Apache-2.0
"""The identity of a device: a target on a CPU, and the code that was timed there."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm.target import Target

from tvm_ios_env.gpu import gpus

from ..support import _ffi_api  # noqa: F401  (loads the library that describes the machine)
from ..support.libinfo import __version__
from ..target import num_workers
from .code_digest import code_digest

# What tells processors of one name apart: in virtual machines many are an "Intel Xeon Processor".
# ARM's have no name, but an implementer and so on.
_DETAILS = (
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
    *("cpu family", "model", "stepping", "L1d", "L1i", "L2", "L3"),
)


@dataclass(frozen=True, order=True)
class DeviceIdentity:
    """The properties of a device that affect latencies; a latency applies to one identity only.

    In older databases ``cpu`` is the processor's name alone. That is another device, because any
    processor of that name may have been timed: its latencies do not count for this machine, but the
    learned cost model learns from them.

    Attributes
    ----------
    cpu : str
        The processor, as :func:`cpu_identity` describes it, or the model of the GPU.
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
    """Return the identity of this machine's processor."""
    return cpu_identity(tvm_ffi.get_global_func("tvm_ios.runtime.Describe")())


def cpu_identity(description: str) -> str:
    """Return the name of a processor, its family, model and stepping, and its caches' sizes.

    What the system of the machine does not tell is left out.

    Parameters
    ----------
    description : str
        The description of the machine, by ``Describe`` of the C++ library.
    """
    first: dict[str, str] = {}
    for line in description.splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip():
            first.setdefault(name.strip(), value.strip())
    details = [f"{name} {first[name]}" for name in _DETAILS if name in first]
    known = [first["model name"], *details] if "model name" in first else details
    return f"{first['machine']} {', '.join(known)}".strip()


def gpu_model(name: str, driver: str) -> str:
    """Return the identity of a GPU: its name and the CUDA version of its driver."""
    return f"{name}, CUDA {driver}"


@functools.cache
def _gpus_here() -> frozenset[str]:
    found = gpus()
    return frozenset(gpu_model(name, found.driver or "") for name in found.devices)


def package_version() -> str:
    """Return the version of this package with a digest of the code that affects latencies.

    During development the code changes while the version does not.
    """
    return f"{__version__}/{code_digest()}"
