# SPDX-License-Identifier: Apache-2.0
"""CUDA targets, completed with the attributes of the device in this machine."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import tvm

import tvm_ios_runtime.cuda

from ...support import _ffi_api  # noqa: F401  (loads the library whose function is looked up below)
from ...support.errors import DeviceError, OptionError, TargetError
from ...target import CUDA, parse, resolve
from .limits import Limits, typical_limits

_LIMITS = {"max_threads_per_block": 1024, "thread_warp_size": 32}
_SHARED_BYTES = 48 << 10  # bytes that every device grants a block without a request
_FIRST = 75  # the oldest that CUDA 13 compiles for
_TENSOR_CORES = 80  # has the tensor-core instructions that the kernels use
_ASYNCHRONOUS = 80  # has asynchronous copies to shared memory


@dataclass(frozen=True)
class CudaDevice:
    """A CUDA device.

    Attributes
    ----------
    name : str
        Empty for a device that is not in this machine.
    arch : str
        For example ``sm_90``.
    limits : Limits
    driver : str
        The newest version of CUDA that the driver supports.
    """

    name: str
    arch: str
    limits: Limits
    driver: str


def describe(device_id: int) -> CudaDevice:
    """Return a device of this machine.

    Raises
    ------
    DeviceError
        If there is no driver or no such device, or the driver is too old.
    """
    fields = tvm_ios_runtime.cuda.describe(device_id)
    return CudaDevice(
        name=fields["name"],
        arch=fields["arch"],
        limits=Limits(
            **{field.name: int(fields[field.name]) for field in dataclasses.fields(Limits)}
        ),
        driver=fields["driver"],
    )


def device_for(target: tvm.target.Target, device_id: int) -> CudaDevice:
    """Return the device of a target: this machine's if it matches, else a typical one of its kind.

    Code compiled for a typical device may run on another machine.
    """
    arch = str(target.attrs["arch"])
    try:
        found = describe(device_id)
    except DeviceError:
        found = None
    if found is not None and found.arch == arch:
        return found
    return CudaDevice("", arch, limits_of(target), "")


def resolve_cuda(target: str | tvm.target.Target, device_id: int) -> tvm.target.Target:
    """Complete a target with the device's architecture and with this machine as its host.

    Parameters
    ----------
    target : str or tvm.target.Target
        ``"cuda"``, a JSON string or a Target of kind ``cuda``.
    device_id : int
        The device to query.

    Returns
    -------
    tvm.target.Target
        The target; attributes that it names are kept.

    Raises
    ------
    DeviceError
        If the target names no architecture and there is no device to query.
    TargetError
        If the architecture is too old or unknown.
    """
    if target == CUDA:  # TVM would assume a default architecture
        target = tvm.target.Target({"kind": CUDA, "arch": describe(device_id).arch})
    parsed = parse(target)
    given = {str(key): value for key, value in parsed.export().items()}
    host = parsed.host if parsed.host is not None else tvm.target.Target("llvm")
    config = {
        **_LIMITS,
        "max_shared_memory_per_block": _SHARED_BYTES,
        **{key: value for key, value in given.items() if key in _LIMITS},
        "kind": CUDA,
        "arch": str(parsed.attrs["arch"]),
    }
    completed = tvm.target.Target(config, host=resolve(host, threads=1))
    check_architecture(completed)
    return completed


def check_architecture(target: tvm.target.Target) -> None:
    """Raise TargetError for an architecture that is too old or unknown."""
    arch = str(target.attrs["arch"])
    if _number(arch) < _FIRST:
        raise TargetError(
            f"{arch} is older than sm_{_FIRST}, the oldest that is supported; name the device's, "
            'as {"kind": "cuda", "arch": "sm_90"}.'
        )


def check_precision(target: tvm.target.Target, precision: str) -> None:
    """Raise OptionError if the architecture does not support a precision."""
    arch = str(target.attrs["arch"])
    if precision != "fp32" and _number(arch) < _TENSOR_CORES:
        raise OptionError(
            f"Precision {precision} needs sm_{_TENSOR_CORES} or newer, and the target is {arch}; "
            "leave it at fp32."
        )


def copies_asynchronously(target: tvm.target.Target) -> bool:
    """Return whether the architecture has asynchronous copies to shared memory (cp.async)."""
    return _number(str(target.attrs["arch"])) >= _ASYNCHRONOUS


def limits_of(target: tvm.target.Target) -> Limits:
    """Return the limits of a usual device of the target's architecture."""
    return typical_limits(_number(str(target.attrs["arch"])))


def check_device(target: tvm.target.Target, device_id: int) -> None:
    """Raise TargetError unless the device can run code for ``target``, DeviceError without one."""
    device, wanted = describe(device_id), str(target.attrs["arch"])
    if device.arch != wanted:
        raise TargetError(
            f"This is code for {wanted}, and device {device_id} ({device.name}) is {device.arch}; "
            "compile for it, or choose another with --device-id."
        )


def _number(arch: str) -> int:
    digits = arch.removeprefix("sm_").rstrip("af")
    if not digits.isdigit():
        raise TargetError(f"{arch!r} is not a CUDA architecture; an example is 'sm_90'.")
    return int(digits)
