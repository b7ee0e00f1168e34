# SPDX-License-Identifier: Apache-2.0
"""A debug mode in which a network checks that its workers wait for what they need.

If the environment variable ``TVM_IOS_CHECK_WAITS`` is 1 while a network is compiled, its code keeps
for each step whether it is completed, and for each byte of the workspace and of the results the
position that wrote it last. Before a worker reads, and after, it compares this with what the
sequential order of the positions demands, so that it notices what was not complete, and what was
overwritten too early. A difference ends the call in an error.

``TVM_IOS_DELAYS`` delays workers when the network runs: a number of at least 0 names the one step
that is delayed, a negative one is the seed of random delays before all steps.

It depends on the footprints of the kernels, which are tested on their own, but not on the plan of
the waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....ops.tensor import TensorSpec
from ..kernels.footprint import Runs
from .functions import KernelFunctions
from .llvm_ir import constant_array, symbol
from .pipeline import SYMBOL
from .region import Region
from .waits import Position, positions, worker_accesses

DELAY = "tvm_ios_delay"
"""The function of a launch's code that delays a step."""
_FIELDS = 5  # numbers that describe runs of one version
_SENTENCE = (
    "A worker used what another one had not completed, or overwrote what another one still needed; "
    "please report this network."
)

Body = Callable[[Any, Any], None]
"""``body(place, version)``"""


def checks(region: Region) -> bool:
    """Return whether a region that is compiled now checks its waits."""
    if region.opened is not None:
        return False  # its workers meet at barriers
    return os.environ.get("TVM_IOS_CHECK_WAITS") == "1" and region.stages[0].plan.workers > 1


class Shadow:
    """What is kept of a region, in int32 numbers.

    The first number tells whether a check failed. A number of each step tells whether it is
    completed. Then follow the versions of all bytes of the outputs and of the workspace.

    Attributes
    ----------
    begins : dict of int to int
        Where the versions of a parameter begin.
    spec : TensorSpec
        The last parameter of the driver.
    """

    def __init__(self, region: Region) -> None:
        steps = len(positions(region.stages)) * region.stages[0].plan.workers
        sizes = [*(spec.num_bytes for spec in region.output_specs), region.workspace_bytes]
        first = len(region.inputs)
        *begins, size = accumulate(sizes, initial=1 + steps)
        self.begins = {first + n: begin for n, begin in enumerate(begins)}
        self.spec = TensorSpec((size,), "int32")


class WaitCheck:
    """Emits what the driver of a launch does to check it.

    Parameters
    ----------
    name : str
        The name of the launch.
    shadow : Buffer
        Memory of :attr:`Shadow.spec`.
    """

    def __init__(self, name: str, shadow: Any) -> None:
        self._name, self._shadow = name, shadow

    @staticmethod
    def before(name: str) -> tuple[str, ...]:
        """Return the functions of the shadow and of a step that come before the step."""
        return DELAY, f"{name}_begun"

    @staticmethod
    def after(name: str) -> tuple[str, ...]:
        """Return the functions of the shadow and of a step that come after the step."""
        return (f"{name}_ended",)

    @contextmanager
    def launch(self) -> Iterator[None]:
        """Emit the preparation before the launch emitted inside, and the verdict after it."""
        with T.serial(self._shadow.shape[0]) as i:
            T.buffer_store(self._shadow, tirx.const(0, "int32"), [i])
        yield
        with T.Assert(self._shadow[0] == 0, _SENTENCE):
            pass


def check_functions(
    name: str, region: Region, kernels: KernelFunctions
) -> dict[str, tirx.PrimFunc]:
    """Return the functions that check the steps of a launch, by their symbols in C."""
    workers, launched = region.stages[0].plan.workers, positions(region.stages)
    tables, size = check_tables(launched, region, kernels, workers), Shadow(region).spec.shape
    functions = {}
    for function, ends in ((f"{name}_begun", False), (f"{name}_ended", True)):
        check = _StepCheck(name, tables)
        functions[function] = check.function(function, size, ends).with_attr(SYMBOL, function)
    return functions


class _StepCheck:
    """Emits a function that checks a step of a launch."""

    def __init__(self, name: str, tables: CheckTables) -> None:
        self._name, self._tables = name, tables
        self._shadow: Any = None

    def function(self, name: str, size: Sequence[int], ends: bool) -> tirx.PrimFunc:
        """Build the function of the shadow's address and of the step that begins or ``ends``."""
        with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
            T.func_name(name)
            T.func_attr({"tirx.noalias": True})
            T.func_ret(tvm.ir.PrimType("int32"))
            pointer = T.arg("shadow", T.handle("int32"))
            step = T.arg("step", tirx.Var("step", "int32"))
            self._shadow = T.decl_buffer(size, "int32", data=pointer, layout=None)
            source = tvm.ir.StringImm(self._source())
            with T.attr(tirx.const(0, "int32"), "pragma_import_llvm", source):
                self._emit(step, ends)
            T.Return(tirx.const(0, "int32"))
        return builder.get()

    def _emit(self, step: Any, ends: bool) -> None:
        shadow = self._shadow

        def current(place: Any, version: Any) -> None:
            self._require(shadow[place] == version)

        def begun(place: Any, version: Any) -> None:
            T.buffer_store(shadow, -version, [place])

        def own(place: Any, version: Any) -> None:
            found = T.Bind(shadow[place])  # loaded once: another worker may store it, too
            self._require(tirx.any(found == version, found == -version))
            T.buffer_store(shadow, version, [place])

        self._each(step, 0, current)
        self._each(step, 1, own if ends else begun)
        if ends:
            T.buffer_store(shadow, tirx.const(1, "int32"), [step + 1])

    def _require(self, condition: Any) -> None:
        with T.If(tirx.Not(condition)), T.Then():
            T.buffer_store(self._shadow, tirx.const(1, "int32"), [0])

    def _each(self, step: Any, kind: int, body: Body) -> None:
        """Emit ``body`` for each byte that a step reads (kind 0) or writes (kind 1)."""
        table = kind * (self._tables.steps + 1)
        with T.serial(self._number(table + step), self._number(table + step + 1)) as entry:
            begin, size, stride, count, version = (
                T.Bind(self._number(entry * _FIELDS + field)) for field in range(_FIELDS)
            )
            with T.serial(count) as run, T.serial(size) as byte:
                body(begin + run * stride + byte, version)

    def _number(self, index: Any) -> Any:
        return T.call_extern("int32", f"{self._name}_number", index)

    def _source(self) -> str:
        """Return the function that the code calls."""
        numbers = self._tables.numbers
        symbols = {name: symbol(f"{self._name}_{name}") for name in ("number", "numbers")}
        return _SOURCE.format(size=len(numbers), values=constant_array(numbers), **symbols)


class CheckTables(NamedTuple):
    """What is checked at each step.

    Attributes
    ----------
    steps : int
        The number of positions times that of workers.
    numbers : list of int
        Where the entries of each step begin, for reads and for writes, and the entries. An entry is
        (begin, size, stride, count, version): runs of the shadow, and the position that wrote them
        last, plus 1. What was written by several steps has entries of those, which must be 1.
    """

    steps: int
    numbers: list[int]


def check_tables(
    launched: Sequence[Position], region: Region, kernels: KernelFunctions, workers: int
) -> CheckTables:
    """Return the tables of a launch.

    What a step reads of its own position is left out: the same worker has just written it.
    """
    shadow = Shadow(region)
    versions = np.zeros(shadow.spec.shape, "int32")
    written: list[list[list[Runs]]] = []  # by position and worker
    reads: list[list[tuple[int, ...]]] = []
    writes: list[list[tuple[int, ...]]] = []
    for number, position in enumerate(launched):
        found = [
            list(_runs(position, worker, region, kernels, shadow)) for worker in range(workers)
        ]
        version = number + 1
        before = versions.copy()
        for runs in (runs for step in found for runs, writing in step if writing):
            _view(versions, runs)[:] = version
        written.append([[runs for runs, writing in step if writing] for step in found])
        for step, own in zip(found, written[-1], strict=True):
            old = [
                entry
                for runs, writing in step
                if not writing and not (_view(versions, runs) == version).any()
                for entry in _entries(before, runs)
            ]
            reads.append([*old, *_completed(old, written)])
            writes.append([(*runs, version) for runs in own])
    size = 2 * (len(reads) + 1)
    first = -(-size // _FIELDS)
    counts = [len(entries) for entries in [*reads, [], *writes]]
    begins = list(accumulate(counts, initial=first))
    numbers = [*begins, *[0] * (first * _FIELDS - size)]
    numbers += [n for entries in [*reads, *writes] for entry in entries for n in entry]
    return CheckTables(len(reads), numbers)


def _completed(
    entries: Sequence[tuple[int, ...]], written: Sequence[Sequence[Sequence[Runs]]]
) -> list[tuple[int, ...]]:
    """Return entries for the steps that wrote what ``entries`` read."""
    steps = set()
    for *runs, version in entries:
        if not version:
            continue
        for worker, found in enumerate(written[version - 1]):
            if any(_meet(Runs(*runs), other) for other in found):
                steps.add((version - 1) * len(written[0]) + worker)
    return [(1 + step, 1, 0, 1, 1) for step in sorted(steps)]


def _meet(a: Runs, b: Runs) -> bool:
    """Return whether some byte belongs to both."""
    low = min(a.begin, b.begin)
    size = max(r.begin + r.stride * (r.number - 1) + r.size for r in (a, b)) - low
    marks = np.zeros(size, bool)
    _view(marks, a._replace(begin=a.begin - low))[:] = True
    return bool(_view(marks, b._replace(begin=b.begin - low)).any())


def _runs(
    position: Position, worker: int, region: Region, kernels: KernelFunctions, shadow: Shadow
) -> Iterator[tuple[Runs, bool]]:
    """Yield the runs of the shadow that a step accesses, and whether it writes them."""
    for implementation, access in worker_accesses(position, worker, kernels):
        place = region.places[id(implementation)][access.tensor]
        if place.parameter in shadow.begins:
            begin = shadow.begins[place.parameter] + place.offset + access.runs.begin
            yield access.runs._replace(begin=begin), access.writes


def _view(versions: np.ndarray, runs: Runs) -> np.ndarray:
    """Return the elements of runs, [count, size]."""
    item = versions.itemsize
    return np.lib.stride_tricks.as_strided(
        versions[runs.begin :], (runs.number, runs.size), (item * runs.stride, item)
    )


def _entries(versions: np.ndarray, runs: Runs) -> Iterator[tuple[int, ...]]:
    """Yield entries for runs, each of one version."""
    view = _view(versions, runs)
    if (view == view[0, 0]).all():
        yield (*runs, int(view[0, 0]))
        return
    for number, row in enumerate(view):
        begin = runs.begin + number * runs.stride
        edges = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), runs.size]
        for low, high in pairwise(edges):
            yield begin + low, high - low, 0, 1, int(row[low])


_SOURCE = """
{numbers} = internal constant [{size} x i32] [{values}]
define internal i32 {number}(i32 %index) {{
  %place = getelementptr i32, ptr {numbers}, i32 %index
  %number = load i32, ptr %place
  ret i32 %number
}}

"""

DELAY_SOURCE = """
@tvm_ios_delays = internal constant [15 x i8] c"TVM_IOS_DELAYS\\00"
declare ptr @getenv(ptr)
declare i64 @atol(ptr)
declare i32 @usleep(i32)

define internal i32 @tvm_ios_delay(ptr %shadow, i32 %step) {
  %text = call ptr @getenv(ptr @tvm_ios_delays)
  %unset = icmp eq ptr %text, null
  br i1 %unset, label %done, label %set
set:
  %value = call i64 @atol(ptr %text)
  %number = trunc i64 %value to i32
  %one = icmp sge i32 %number, 0
  br i1 %one, label %named, label %random
named:
  %chosen = icmp eq i32 %number, %step
  br i1 %chosen, label %sleep, label %done
random:
  %seeded = mul i32 %number, 40503
  %mixed = add i32 %seeded, %step
  %hashed = mul i32 %mixed, -1640531535
  %high = lshr i32 %hashed, 24
  br label %sleep
sleep:
  %time = phi i32 [20000, %named], [%high, %random]
  call i32 @usleep(i32 %time)
  br label %done
done:
  ret i32 0
}
"""
