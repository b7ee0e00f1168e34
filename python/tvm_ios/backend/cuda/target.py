# SPDX-License-Identifier: Apache-2.0
"""CUDA targets, completed with the attributes of the device in this machine."""

from __future__ import annotations

from dataclasses import dataclass

import tvm

import tvm_ios_runtime.cuda

from ...support import _ffi_api  # noqa: F401  (loads the library whose function is looked up below)
from ...support.errors import DeviceError, OptionError, TargetError
from ...target import CUDA, parse, resolve

_LIMITS = {"max_threads_per_block": 1024, "thread_warp_size": 32}
_SHARED_BYTES = 48 << 10  # bytes that every device grants a block without a request
_MULTIPROCESSORS = {80: 108, 86: 84, 87: 16, 89: 128, 90: 132, 100: 148, 120: 170}
_L2_BYTES = {80: 40 << 20, 90: 50 << 20, 100: 126 << 20}
_REQUESTED_KIB = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99}
_LEAST_REQUESTED_KIB = 99  # the least of any device from sm_80 on
_FIRST = 70  # schedules threads independently, which fused launches need
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
    multiprocessors : int
    l2_bytes : int
        Bytes of the L2 cache, which all multiprocessors share.
    driver : str
        The newest version of CUDA that the driver supports.
    """

    name: str
    arch: str
    multiprocessors: int
    l2_bytes: int
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
        multiprocessors=int(fields["multiprocessors"]),
        l2_bytes=int(fields["l2_bytes"]),
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
    number = _number(arch)
    return CudaDevice(
        "", arch, _MULTIPROCESSORS.get(number, 64), _L2_BYTES.get(number, 4 << 20), ""
    )


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


def requested_shared_bytes(target: tvm.target.Target) -> int:
    """Return the bytes of shared memory that a launch can request for a block, from sm_80 on."""
    number = _number(str(target.attrs["arch"]))
    return _REQUESTED_KIB.get(number, _LEAST_REQUESTED_KIB) << 10


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
