# SPDX-License-Identifier: Apache-2.0
"""The limits of CUDA devices, by which kernels and stages are chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a device has, and gives to thread blocks.

    Attributes
    ----------
    multiprocessors : int
    l2_bytes : int
        The size of the L2 cache, which all multiprocessors share.
    threads : int
        Of a multiprocessor.
    registers : int
        Of a multiprocessor, 32 bits each.
    shared_bytes : int
        The shared memory of a multiprocessor.
    block_shared_bytes : int
        The shared memory that a launch can request for a block.
    reserved_bytes : int
        The shared memory that every block takes in addition.
    """

    multiprocessors: int
    l2_bytes: int
    threads: int = 2048
    registers: int = 65536
    shared_bytes: int = 100 << 10
    block_shared_bytes: int = 99 << 10
    reserved_bytes: int = 1 << 10


_KIB, _MIB = 1 << 10, 1 << 20

_TYPICAL = {
    75: Limits(40, 4 * _MIB, 1024, 65536, 64 * _KIB, 64 * _KIB, 0),
    80: Limits(108, 40 * _MIB, 2048, 65536, 164 * _KIB, 163 * _KIB),
    86: Limits(84, 6 * _MIB, 1536),
    87: Limits(16, 4 * _MIB, 1536, 65536, 164 * _KIB, 163 * _KIB),
    89: Limits(128, 72 * _MIB, 1536),
    90: Limits(132, 50 * _MIB, 2048, 65536, 228 * _KIB, 227 * _KIB),
    100: Limits(148, 126 * _MIB, 2048, 65536, 228 * _KIB, 227 * _KIB),
    103: Limits(148, 126 * _MIB, 2048, 65536, 228 * _KIB, 227 * _KIB),
    120: Limits(170, 96 * _MIB, 1536),
}
"""Of a usual device of each architecture, from NVIDIA's tables of compute capabilities."""

_UNKNOWN = Limits(64, 4 * _MIB, 1536)


def typical_limits(architecture: int) -> Limits:
    """Return the limits of a usual device, by its compute capability, such as 90.

    They are for devices that are not in this machine. Of an unknown architecture only what every
    device has since sm_80 is assumed.
    """
    return _TYPICAL.get(architecture, _UNKNOWN)
