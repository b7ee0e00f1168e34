# SPDX-License-Identifier: Apache-2.0
"""A check by which a library refuses to run on a CPU that it was not compiled for.

Without the check, the first unknown instruction would end the process. The check is LLVM IR of our
own, which is compiled into the library once, so that it needs nothing but TVM's runtime. The first
call executes CPUID, or asks Linux on AArch64, where a program may not ask the processor. Later
calls read the cached result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import tvm
from tvm.tirx.script import builder as T

from tvm_ios_env import aarch64
from tvm_ios_env.amx import REQUEST_PERMISSION, SYSCALL, TILE_DATA

from ....target import triple_of

_FUNCTION = "tvm_ios_cpu_lacks"

# LLVM's name of a feature: (leaf, sub-leaf, register, bit) of CPUID; registers 0 to 3 are EAX to
# EDX. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID.
_FEATURES = {
    "fma": (1, 0, 2, 12),
    "f16c": (1, 0, 2, 29),
    "avx2": (7, 0, 1, 5),
    "avx512f": (7, 0, 1, 16),
    "avx512dq": (7, 0, 1, 17),
    "avx512ifma": (7, 0, 1, 21),
    "avx512cd": (7, 0, 1, 28),
    "avx512bw": (7, 0, 1, 30),
    "avx512vl": (7, 0, 1, 31),
    "avx512vbmi": (7, 0, 2, 1),
    "avx512vbmi2": (7, 0, 2, 6),
    "gfni": (7, 0, 2, 8),
    "vaes": (7, 0, 2, 9),
    "vpclmulqdq": (7, 0, 2, 10),
    "avx512vnni": (7, 0, 2, 11),
    "avx512bitalg": (7, 0, 2, 12),
    "avx512vpopcntdq": (7, 0, 2, 14),
    "avx512fp16": (7, 0, 3, 23),
    "avxvnni": (7, 1, 0, 4),
    "avx512bf16": (7, 1, 0, 5),
    "avxifma": (7, 1, 0, 23),
    "avxvnniint8": (7, 1, 3, 4),
    "avxvnniint16": (7, 1, 3, 10),
}
_X86 = ("x86_64", "i386", "i686")
_AMX = {"amx-bf16": (7, 0, 3, 22), "amx-tile": (7, 0, 3, 24)}
_OS_SAVES_REGISTERS = (1, 0, 2, 27)
_RESULT = "{ i32, i32, i32, i32 }"
_SYSCALL = '"syscall", "={ax},{ax},{di},{si},~{rcx},~{r11},~{memory},~{dirflag},~{fpsr},~{flags}"'
_CPUID = '"cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"'


def required_features(target: tvm.target.Target) -> list[str]:
    """Return the extensions of x86, or of AArch64 on Linux, that code for ``target`` may use."""
    has = tvm.target.codegen.llvm_cpu_has_features
    return [name for name in _known(target) if has(name, target)]


def _known(target: tvm.target.Target) -> Mapping[str, tuple[int, ...]]:
    """Return the extensions of a target's architecture, and where the answer about each is."""
    triple = triple_of(target)
    if triple.startswith("aarch64") and "linux" in triple:
        return aarch64.FEATURES
    return _FEATURES if triple.startswith(_X86) else {}


@contextmanager
def checked_cpu(target: tvm.target.Target, amx: bool = False) -> Iterator[None]:
    """Guard the code emitted inside: it runs only on a CPU that has the features of ``target``.

    Code that multiplies by ``amx`` also needs the permission to use its registers, which the check
    asks for; see :mod:`tvm_ios_env.amx`. What is emitted calls the function of
    :func:`check_source`.
    """
    required = list(_required_bits(target, amx))
    if not required:
        yield
        return
    name = target.attrs.get("mcpu", "this target")
    sentence = (
        f"This library was compiled for {name}, whose instructions this machine's CPU does not have"
        f" ({', '.join(required)}); compile the model for this machine."
    )
    with T.Assert(T.call_extern("int32", _function(amx)) == 0, sentence):
        pass
    yield


def check_source(target: tvm.target.Target, amx: bool = False) -> str:
    """Return LLVM IR of the function that asks the CPU; nothing if there is nothing to ask."""
    bits = list(_required_bits(target, amx).values())
    if not bits:
        return ""
    asked = _linux if _known(target) is aarch64.FEATURES else partial(_cpuid, permission=amx)
    return _llvm_ir(_function(amx), *asked(bits))


def _required_bits(target: tvm.target.Target, amx: bool) -> dict[str, tuple[int, ...]]:
    """Return where the answer is about each feature that code needs."""
    features = {name: _known(target)[name] for name in required_features(target)}
    features |= _AMX if amx else {}
    return features


def _function(amx: bool) -> str:
    return f"{_FUNCTION}_amx" if amx else _FUNCTION


def _linux(bits: Sequence[tuple[int, ...]]) -> tuple[list[str], list[str]]:
    """Return LLVM IR that asks Linux for ``bits`` of the auxiliary vector.

    Returns
    -------
    list of str
        The lines.
    list of str
        Numbers that are 0 unless something is missing.
    """
    masks: dict[int, int] = {}
    for entry, bit in bits:
        masks[entry] = masks.get(entry, 0) | 1 << bit
    lines, missing = [], []
    for entry, mask in masks.items():
        value = f"%a{entry}"
        lines += [
            f"  {value} = call i64 @getauxval(i64 {entry})",
            f"  {value}a = and i64 {value}, {mask}",
            f"  {value}m = icmp ne i64 {value}a, {mask}",
            f"  {value}z = zext i1 {value}m to i32",
        ]
        missing.append(f"{value}z")
    return lines, missing


def _cpuid(bits: Sequence[tuple[int, ...]], permission: bool) -> tuple[list[str], list[str]]:
    """Return LLVM IR that asks the processor for ``bits`` of CPUID, as :func:`_linux` does.

    It also asks for the ``permission`` for AMX, if that is needed.
    """
    masks: dict[tuple[int, int], list[int]] = {}
    for leaf, subleaf, register, bit in (_OS_SAVES_REGISTERS, *bits):
        masks.setdefault((leaf, subleaf), [0] * 4)[register] |= 1 << bit
    lines, missing = [], []
    for number, ((leaf, subleaf), wanted) in enumerate(masks.items()):
        lines.append(
            f"  %c{number} = call {_RESULT} asm sideeffect {_CPUID}(i32 {leaf}, i32 {subleaf})"
        )
        for register, mask in enumerate(wanted):
            if mask:
                value = f"%r{number}_{register}"
                lines += [
                    f"  {value} = extractvalue {_RESULT} %c{number}, {register}",
                    f"  {value}a = and i32 {value}, {mask}",
                    f"  {value}m = xor i32 {value}a, {mask}",
                ]
                missing.append(f"{value}m")
    if permission:
        numbers = ", ".join(f"i64 {n}" for n in (SYSCALL, REQUEST_PERMISSION, TILE_DATA))
        lines += [
            f"  %refusal = call i64 asm sideeffect {_SYSCALL}({numbers})",
            "  %refused = icmp ne i64 %refusal, 0",
            "  %refusedm = zext i1 %refused to i32",
        ]
        missing.append("%refusedm")
    return lines, missing


def _llvm_ir(function: str, lines: Sequence[str], missing: Sequence[str]) -> str:
    """Return LLVM IR of a function that returns 0 if nothing is ``missing``, else 1."""
    lines, total = list(lines), missing[0]
    for i, value in enumerate(missing[1:]):
        lines.append(f"  %or{i} = or i32 {total}, {value}")
        total = f"%or{i}"
    return "\n".join(
        [
            "declare i64 @getauxval(i64)",
            f"@{function}_known = weak hidden global i32 2",
            f"define weak hidden i32 @{function}() {{",
            f"  %known = load atomic i32, ptr @{function}_known monotonic, align 4",
            "  %fresh = icmp eq i32 %known, 2",
            "  br i1 %fresh, label %ask, label %done",
            "ask:",
            *lines,
            f"  %any = icmp ne i32 {total}, 0",
            "  %lacks = zext i1 %any to i32",
            f"  store atomic i32 %lacks, ptr @{function}_known monotonic, align 4",
            "  br label %done",
            "done:",
            "  %answer = phi i32 [ %known, %0 ], [ %lacks, %ask ]",
            "  ret i32 %answer",
            "}",
        ]
    )
