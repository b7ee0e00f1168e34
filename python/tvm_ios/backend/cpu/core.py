# SPDX-License-Identifier: Apache-2.0
"""The core of a CPU as kernels see it, and what reading costs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm

from tvm_ios_env.aarch64 import FEATURES, lacking
from tvm_ios_env.amx import permitted
from tvm_ios_env.machine import data_caches

from ...support.errors import TargetError
from ...target import is_native, resolve, triple_of
from .isa import amx, bfmmla
from .isa.dot4 import AVX2, AVX512, NEON, ONE_UNIT, Dot4

# LLVM's names of the cores with AVX2 that have half as many units for products of integers as for
# those of float32. None was at hand.
_ONE_UNIT = ("haswell", "core-avx2", "broadwell", "znver1", "znver2")


@dataclass(frozen=True)
class Core:
    """The properties of a CPU core that kernels depend on.

    Attributes
    ----------
    lanes : int
        float32 values in one vector register; also the channel block of the blocked layout.
    registers : int
        Architectural vector registers.
    l1_bytes, l2_bytes : int
        Sizes of one core's data caches, in bytes.
    bf16_dot2 : str or None
        LLVM's name of the instruction that adds dot products of two bfloat16 (dot2) to float32
        sums; None if the core has none.
    tile_matmul : str or None
        LLVM's name of the instruction that multiplies small matrices of bfloat16, AMX's or
        ``bfmmla``; None if the core has none.
    int8_dot4 : Dot4 or None
        The instructions that add dot products of four bytes (dot4) to int32 sums; None if the core
        has none.
    """

    lanes: int
    registers: int
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    bf16_dot2: str | None = None
    tile_matmul: str | None = None
    int8_dot4: Dot4 | None = None

    @property
    def bf16_dot2_lanes(self) -> int:
        """The float32 sums of the dot2 instruction, 0 if there is none."""
        return self.lanes if self.bf16_dot2 else 0


@dataclass(frozen=True)
class MachineBalance:
    """The cost of reading one vector from L3 or from memory, in vector multiply-adds of a worker.

    All workers read at the same time. The defaults are those of a core with 512-bit vectors at 3.7
    GHz, and bandwidths of 70 and 24 GB/s.

    Attributes
    ----------
    far : float
        The cost of a read from L3.
    memory : float
        The cost of a read from memory.
    multiply_add : float
        The unit of the others: seconds of one vector multiply-add on one worker. The default is
        that of two units at 3.7 GHz.
    """

    far: float = 3.4
    memory: float = 10.0
    multiply_add: float = 1.35e-10


TYPICAL = MachineBalance()


def core_of(target: tvm.target.Target) -> Core:
    """Return the vector width, register count and cache sizes of a CPU target.

    The width and the count are what LLVM may use. The cache sizes are those of this machine; for
    another architecture they are assumed.
    """
    known = data_caches() if is_native(target) else ()
    sizes = {cache.level: cache.size for cache in known}
    core = _isa_of(target)
    return replace(
        core,
        l1_bytes=sizes.get(1, core.l1_bytes),
        l2_bytes=sizes.get(2, core.l2_bytes),
    )


def _isa_of(target: tvm.target.Target) -> Core:
    """Return the core of a CPU target with caches of a usual size."""
    has = tvm.target.codegen.llvm_cpu_has_features
    if "aarch64" in triple_of(target):
        dot2 = "llvm.aarch64.neon.bfdot.v4f32.v8bf16" if has("bf16", target) else None
        tile_matmul = bfmmla.PRODUCTS if has("bf16", target) else None
        return Core(
            lanes=4,
            registers=32,
            bf16_dot2=dot2,
            tile_matmul=tile_matmul,
            int8_dot4=_first(NEON, target),
        )
    if has("avx512f", target):
        dot2 = "llvm.x86.avx512bf16.dpbf16ps.512" if has("avx512bf16", target) else None
        tile_matmul = amx.PRODUCTS if has("amx-bf16", target) else None
        return Core(
            lanes=16,
            registers=32,
            bf16_dot2=dot2,
            tile_matmul=tile_matmul,
            int8_dot4=_first(AVX512, target),
        )
    dot4 = ONE_UNIT if target.attrs.get("mcpu") in _ONE_UNIT else _first(AVX2, target)
    return Core(lanes=8 if has("avx2", target) else 4, registers=16, int8_dot4=dot4)


def _first(known: Sequence[Dot4], target: tvm.target.Target) -> Dot4 | None:
    """Return the first of some instructions that a target has."""
    has = tvm.target.codegen.llvm_cpu_has_features
    return next((dot4 for dot4 in known if has(dot4.feature, target)), None)


def check_runnable(target: tvm.target.Target) -> None:
    """Raise TargetError if code for ``target`` would hit an illegal instruction on this machine."""
    native = resolve("llvm")
    core, here = core_of(target), core_of(native)
    has = tvm.target.codegen.llvm_cpu_has_features
    missing = (
        core.lanes > here.lanes
        or core.bf16_dot2 not in (None, here.bf16_dot2)
        or (core.int8_dot4 is not None and not has(core.int8_dot4.feature, native))
        or (core.tile_matmul == amx.PRODUCTS and not permitted())
        or bool(lacking(name for name in FEATURES if has(name, target)))
    )
    if missing or not is_native(target):
        cpu = target.attrs.get("mcpu", target.attrs.get("mtriple", "this target"))
        raise TargetError(
            f"This machine cannot run code for {cpu}; use a machine of that kind, or compile for "
            "this one with target 'llvm'."
        )
