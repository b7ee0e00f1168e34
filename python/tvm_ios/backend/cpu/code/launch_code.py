# SPDX-License-Identifier: Apache-2.0
"""The code of a launch: its tables, functions that call kernels, and the start of the threads.

What ``tvm_ios_runtime`` has loaded runs on its helpers, by a function that it stores in the
library. Without it, the launch runs on TVM's thread pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import tvm

from tvm_ios_runtime.helpers import SET_LAUNCHER

from ....ops.tensor import TensorSpec
from .arguments import READ_SOURCE, reader_source
from .core_claims import claims_source
from .cpu_check import check_source
from .launch_loop import loop_source
from .launch_state import LINE
from .launch_tables import LaunchTables
from .llvm_ir import constant_array, declared_once, symbol
from .region import Place
from .wait_check import DELAY, DELAY_SOURCE

FINDING = "tvm_ios_finding"
"""A function that returns a number of 64 bits: of arguments, which of them, an offset in bytes."""

_VERSION = 1  # ClaimProgram::kVersion
_HISTORY = 32  # numbers of 64 bits that CallHistory has at most


@dataclass(frozen=True)
class KernelCall:
    """A function that units call.

    Attributes
    ----------
    symbol : str
        A phase of a kernel.
    places : sequence of Place
        Its tensors.
    prefetches : bool
        Whether it takes what is read next.
    dimensions : int
        How many open dimensions it takes, the last arguments of the launch.
    before, after : tuple of str
        Functions of the tensor ``shadow`` and of ``step`` that are called before and after it.
    step, shadow : int
    """

    symbol: str
    places: tuple[Place, ...]
    prefetches: bool
    dimensions: int = 0
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    step: int = 0
    shadow: int = 0


def launches_source(launches: Sequence[LaunchCode], target: tvm.target.Target) -> str:
    """Return the LLVM IR of all launches of a library, and what their drivers call."""
    parts = [loop_source(target), READ_SOURCE, _FINDING, claims_source(target)]
    parts += [check_source(target, amx) for amx in sorted({code.amx for code in launches})]
    if any(launch.is_parallel for launch in launches):
        parts.append(_LAUNCHER.format(function=symbol(f"__tvm_ffi_{SET_LAUNCHER}")))
    for name, size in {launch.constants: None for launch in launches if launch.constants}:
        parts.append(f"@{name} = external hidden constant [{size} x i8], align 64")
    declared = {call.symbol: call for launch in launches for call in launch.calls}
    parts += map(_declaration, declared.values())
    if any(DELAY in call.before for launch in launches for call in launch.calls):
        parts.append(DELAY_SOURCE)
    parts += [launch.source() for launch in launches]
    forgetting = (symbol(launch.function("forget")) for launch in launches if launch.is_parallel)
    ends = [f"{{ i32, ptr, ptr }} {{ i32 65535, ptr {end}, ptr null }}" for end in forgetting]
    if ends:
        kind = f"[{len(ends)} x {{ i32, ptr, ptr }}]"
        parts.append(f"@llvm.global_dtors = appending global {kind} [{', '.join(ends)}]")
    return declared_once("\n".join(parts))


class LaunchCode:
    """The LLVM IR of one launch.

    Parameters
    ----------
    name : str
        A name that no other launch of the library has.
    tables : LaunchTables
    calls : sequence of KernelCall
        The functions.
    functions : sequence of int
        Which function each unit calls, in the order of the units.
    arguments : sequence of TensorSpec
        The tensors.
    constants : (str, int), optional
        The symbol and the size of the constants that the calls read.
    record : bool
        Whether units are recorded in the last tensor.
    amx : bool
        Whether kernels multiply by AMX.
    moved : int
        How many arguments behind the tensors are places that depend on open sizes.

    Attributes
    ----------
    tables : LaunchTables
    calls : sequence of KernelCall
    constants : (str, int), optional
    amx : bool
    """

    def __init__(
        self,
        name: str,
        tables: LaunchTables,
        calls: Sequence[KernelCall],
        functions: Sequence[int],
        arguments: Sequence[TensorSpec],
        constants: tuple[str, int] | None,
        record: bool,
        amx: bool = False,
        moved: int = 0,
    ) -> None:
        self._name, self.tables, self.calls = name, tables, calls
        self._functions, self._arguments, self._record = functions, arguments, record
        self.constants, self.amx = constants, amx
        self._first_dimension = len(arguments) + moved

    @property
    def state_bytes(self) -> int:
        """The size of the state of a launch on TVM's pool."""
        return (len(self.tables.columns) + 1) * LINE

    def function(self, part: str) -> str:
        """Return the name of ``read``, ``sequence``, ``launch``, ``work`` or ``error``."""
        return f"{self._name}_{part}"

    @property
    def is_parallel(self) -> bool:
        """Whether several threads share the launch."""
        return len(self.tables.columns) > 1

    def source(self) -> str:
        """Return the LLVM IR of the functions and of the tables."""
        checks = {name for call in self.calls for name in (*call.before, *call.after)} - {DELAY}
        parts = [f"declare i32 {symbol(name)}(ptr, i32)" for name in sorted(checks)]
        parts += [self._unit_function(n, call) for n, call in enumerate(self.calls)]
        parts += [self._table_source(), reader_source(self.function("read"), self._arguments)]
        parts.append(self._entry_source())
        return "\n".join(parts)

    def _symbol(self, part: str) -> str:
        return symbol(self.function(part))

    def _unit_function(self, number: int, call: KernelCall) -> str:
        name = self._symbol(f"unit{number}")
        lines = [f"define internal i32 {name}(ptr %arguments, i32 %begin, i32 %end, i32 %ahead) {{"]
        if call.before or call.after:
            lines += [
                f"  %shadow_place = getelementptr ptr, ptr %arguments, i32 {call.shadow}",
                "  %shadow = load ptr, ptr %shadow_place",
            ]
        lines += [_check(name, call.step) for name in call.before]
        for n, place in enumerate(call.places):
            base = f"@{self.constants[0]}" if self.constants else "null"
            if place.parameter is not None:
                base = f"%base{n}"
                lines += [
                    f"  %place{n} = getelementptr ptr, ptr %arguments, i32 {place.parameter}",
                    f"  {base} = load ptr, ptr %place{n}",
                ]
            lines.append(f"  %tensor{n} = getelementptr i8, ptr {base}, i64 {place.offset}")
        tensors = [f"ptr %tensor{n}" for n in range(len(call.places))]
        ahead = ["i32 %ahead"] if call.prefetches else []
        lines += [line for n in range(call.dimensions) for line in self._dimension(n)]
        sizes = [f"i32 %size{n}" for n in range(call.dimensions)]
        passed = ", ".join([*tensors, "i32 %begin", "i32 %end", *ahead, *sizes])
        lines.append(f"  %result = call i32 {symbol(call.symbol)}({passed})")
        lines += [_check(name, call.step) for name in call.after]
        return "\n".join([*lines, "  ret i32 %result", "}"])

    def _dimension(self, number: int) -> list[str]:
        """Return the code that reads an open dimension."""
        place = self._first_dimension + number
        return [
            f"  %size_place{number} = getelementptr i64, ptr %arguments, i32 {place}",
            f"  %wide_size{number} = load i64, ptr %size_place{number}",
            f"  %size{number} = trunc i64 %wide_size{number} to i32",
        ]

    def _table_source(self) -> str:
        numbers = self._numbers()
        lines = [
            f"{self._symbol(name)} = internal constant [{len(values)} x i32] "
            f"[{constant_array(values)}]"
            for name, values in numbers.items()
        ]
        units = ", ".join(f"ptr {self._symbol(f'unit{n}')}" for n in range(len(self.calls)))
        kind = f"[{len(self.calls)} x ptr]"
        lines.append(f"{self._symbol('functions')} = internal constant {kind} [{units}]")
        history = f"[{_HISTORY} x i64] zeroinitializer"
        lines.append(f"{self._symbol('history')} = internal global {history}")
        record = len(self._arguments) - 1 if self._record else -1
        head = constant_array([_VERSION, len(self.tables.columns), record, 0])
        names = (*numbers, "functions", "history")
        pointers = ", ".join(f"ptr {self._symbol(name)}" for name in names)
        program = f"%Program {{ {head}, {pointers} }}"
        lines.append(f"{self._symbol('program')} = internal constant {program}")
        return "\n".join(lines)

    def _numbers(self) -> dict[str, list[int]]:
        """Return the tables, in the order of their pointers."""
        tables = self.tables
        waits: list[int] = []
        parts: list[int] = []
        for part in tables.parts:
            parts += [tables.first_unit(part), len(part.units), len(waits) // 2, len(part.waits)]
            parts += [part.barrier, int(part.chain)]
            waits += [number for wait in part.waits for number in wait]
        units = [unit for part in tables.parts for unit in part.units]
        called = zip(self._functions, units, strict=True)
        return {
            "first": list(accumulate(map(len, tables.columns), initial=0)),
            "parts": parts,
            "units": [n for function, u in called for n in (function, u.begin, u.end, u.ahead)],
            "waits": waits,
            "barriers": [number for row in tables.barriers for number in row],
        }

    def _entry_source(self) -> str:
        names = ("sequence", "launch", "work", "error", "program", "forget")
        template = _LAUNCH if self.is_parallel else _SEQUENCE
        return template.format(
            count=self.tables.num_units,
            columns=len(self.tables.columns),
            **{name: self._symbol(name) for name in names},
        )


def _declaration(call: KernelCall) -> str:
    types = ["ptr"] * len(call.places) + ["i32"] * (2 + call.prefetches + call.dimensions)
    return f"declare i32 {symbol(call.symbol)}({', '.join(types)})"


def _check(name: str, step: int) -> str:
    return f"  call i32 {symbol(name)}(ptr %shadow, i32 {step})"


# A library may have several modules of launches, of which one such function is linked. Its argument
# is a TVMFFIAny, whose value comes behind its type.
_LAUNCHER = """
@tvm_ios_launcher = weak hidden global ptr null

define weak i32 {function}(ptr %self, ptr %arguments, i32 %count, ptr %result) {{
  %place = getelementptr i8, ptr %arguments, i64 8
  %launcher = load ptr, ptr %place
  store atomic ptr %launcher, ptr @tvm_ios_launcher release, align 8
  ret i32 0
}}
"""

_FINDING = f"""
define weak hidden i64 {symbol(FINDING)}(ptr %arguments, i32 %argument, i64 %offset) {{
  %base_place = getelementptr ptr, ptr %arguments, i32 %argument
  %base = load ptr, ptr %base_place
  %place = getelementptr i8, ptr %base, i64 %offset
  %number = load i64, ptr %place, align 8
  ret i64 %number
}}
"""

_SEQUENCE = """
define hidden i32 {sequence}(ptr %arguments) {{
  %error = call i32 @tvm_ios_sequence(ptr {program}, ptr %arguments, i32 {count})
  ret i32 %error
}}
"""

_LAUNCH = """
; Return 0 or an error, or -1 if the launch is to run on TVM's pool.
define hidden i32 {launch}(ptr %arguments, ptr %state) {{
  %launcher = load atomic ptr, ptr @tvm_ios_launcher acquire, align 8
  %none = icmp eq ptr %launcher, null
  br i1 %none, label %pool, label %helpers
helpers:
  %run = load ptr, ptr %launcher
  %error = call i32 %run(ptr {program}, ptr %arguments)
  %failed = icmp ne i32 %error, 0
  %result = zext i1 %failed to i32
  ret i32 %result
pool:
  call void @tvm_ios_begin(ptr {program}, ptr %state)
  ret i32 -1
}}

define hidden i32 {work}(ptr %arguments, ptr %state, i32 %worker) {{
  call void @tvm_ios_work(ptr {program}, ptr %arguments, ptr %state, i32 %worker, i32 {columns})
  ret i32 0
}}

define hidden i32 {error}(ptr %state) {{
  %place = call ptr @tvm_ios_error(ptr {program}, ptr %state)
  %error = load i32, ptr %place
  ret i32 %error
}}

; Before the library is unloaded, those who helped must have left.
define internal void {forget}() {{
  %launcher = load atomic ptr, ptr @tvm_ios_launcher acquire, align 8
  %none = icmp eq ptr %launcher, null
  br i1 %none, label %done, label %wait
wait:
  %place = getelementptr ptr, ptr %launcher, i32 1
  %function = load ptr, ptr %place
  call void %function(ptr {program})
  br label %done
done:
  ret void
}}
"""
