# SPDX-License-Identifier: Apache-2.0
"""CUDA targets, completed with what the device in this machine is."""

from __future__ import annotations

from dataclasses import dataclass

import tvm

import tvm_ios_runtime.cuda

from ...support import _ffi_api  # noqa: F401  (loads the library whose function is looked up below)
from ...support.errors import DeviceError, OptionError, TargetError
from ...target import CUDA, parse, resolve

_LIMITS = {"max_threads_per_block": 1024, "thread_warp_size": 32}
_SHARED_BYTES = 48 << 10  # of a block, that every device has without being asked for more
_MULTIPROCESSORS = {80: 108, 86: 84, 87: 16, 89: 128, 90: 132, 100: 148, 120: 170}
_L2_BYTES = {80: 40 << 20, 90: 50 << 20, 100: 126 << 20}
_REQUESTED_KIB = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99}
_LEAST_REQUESTED_KIB = 99  # of those from sm_80 on
_FIRST = 70  # whose threads are scheduled one by one, as shared launches need it
_TENSOR_CORES = 80  # whose tensor cores have the instructions that kernels here use
_ASYNCHRONOUS = 80  # which copy to shared memory while their threads do something else


@dataclass(frozen=True)
class CudaDevice:
    """A CUDA device.

    Attributes
    ----------
    name : str
        Empty for one that is not here.
    arch : str
        As ``sm_90``.
    multiprocessors : int
    l2_bytes : int
        The second cache, which all multiprocessors share.
    driver : str
        The newest version of CUDA that its driver knows.
    """

    name: str
    arch: str
    multiprocessors: int
    l2_bytes: int
    driver: str


def describe(device_id: int) -> CudaDevice:
    """A device of this machine.

    Raises
    ------
    DeviceError
        When there is no driver, no such device, or a driver that is too old.
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
    """The device that a target is for: this machine's if it fits, else a typical one of its kind.

    What is compiled for it may be run elsewhere.
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
    """The target with the device's architecture, and this machine as its host, where it names none.

    Parameters
    ----------
    target : str or tvm.target.Target
        ``"cuda"``, a JSON string or a Target of kind ``cuda``.
    device_id : int

    Raises
    ------
    DeviceError
        When it names no architecture and there is no device to ask.
    TargetError
        When the architecture is too old, or none.
    """
    if target == CUDA:  # TVM would make an architecture up
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
    """Raise TargetError for an architecture that is too old, or none."""
    arch = str(target.attrs["arch"])
    if _number(arch) < _FIRST:
        raise TargetError(
            f"{arch} is older than sm_{_FIRST}, the oldest that is supported; name the device's, "
            'as {"kind": "cuda", "arch": "sm_90"}.'
        )


def check_precision(target: tvm.target.Target, precision: str) -> None:
    """Raise OptionError where the architecture cannot multiply in a precision."""
    arch = str(target.attrs["arch"])
    if precision != "fp32" and _number(arch) < _TENSOR_CORES:
        raise OptionError(
            f"Precision {precision} needs sm_{_TENSOR_CORES} or newer, and the target is {arch}; "
            "leave it at fp32."
        )


def copies_asynchronously(target: tvm.target.Target) -> bool:
    """Whether the architecture copies from global to shared memory without waiting (cp.async)."""
    return _number(str(target.attrs["arch"])) >= _ASYNCHRONOUS


def requested_shared_bytes(target: tvm.target.Target) -> int:
    """Shared memory that a block may have from sm_80 on, where its launch asks for it."""
    number = _number(str(target.attrs["arch"]))
    return _REQUESTED_KIB.get(number, _LEAST_REQUESTED_KIB) << 10


def check_device(target: tvm.target.Target, device_id: int) -> None:
    """Raise TargetError unless the device can run code for ``target``; DeviceError without one."""
    device, wanted = describe(device_id), str(target.attrs["arch"])
    if device.arch != wanted:
        raise TargetError(
            f"This is code for {wanted}, and device {device_id} ({device.name}) is {device.arch}; "
            "compile for it, or choose another with --device-id."
        )


def _number(arch: str) -> int:
    digits = arch.removeprefix("sm_").rstrip("af")
    if not digits.isdigit():
        raise TargetError(f"{arch!r} is no architecture of CUDA; an example is 'sm_90'.")
    return int(digits)
