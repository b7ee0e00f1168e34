# SPDX-License-Identifier: Apache-2.0
"""Calls the functions that C++ registers with random arguments; run as a process of its own.

``python -m support.registry_fuzz SEED CALLS JOURNAL`` writes each call to the journal before it
makes it: the last line of a process that ended early is the call that ended it.
"""

from __future__ import annotations

import math
import os
import random
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.script import tirx as T
from tvm_ffi.registry import list_global_func_names

from tvm_ios.errors import TvmIosError
from tvm_ios.graph.dag import Dag
from tvm_ios.schedule.pruning import PruningLimits
from tvm_ios.search import ScheduleSpace
from tvm_ios.search.best_first_search import BestFirstSearch
from tvm_ios.support.libinfo import load_library

PREFIX = "tvm_ios."
TYPED = (ValueError, TypeError, IndexError, MemoryError, TvmIosError)
HEADROOM = 1 << 30  # bytes that the process may grow by
EXTREMES = (
    *(-(2**63), -(2**62), -(2**31) - 1, -(2**31), -1, 0),
    *(2**31 - 3, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1),
)
REALS = (0.0, -0.0, 60.0, -1.0, math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324)
DTYPES = ("int64", "int32", "uint64", "uint8", "float64", "float32", "bool")
SHAPES = ((), (0,), (1,), (7,), (0, 2), (2, 0), (0, 2**40), (3, 2), (2, 2, 2))

Kind = Callable[["World"], Any]
"""Draws an argument."""


def registered() -> list[str]:
    """The names of our functions."""
    return sorted(name for name in list_global_func_names() if name.startswith(PREFIX))


@T.prim_func(s_tir=True)
def touch(data: T.Buffer((4,), "float32"), begin: T.int64, end: T.int64):
    """Write all of its tensor, whatever the range."""
    T.func_attr({"global_symbol": "touch", "tirx.noalias": True})
    for i in range(4):
        data[i] = T.float32(1)


@T.prim_func(s_tir=True)
def copy(data: T.Buffer((4,), "float32"), result: T.Buffer((4,), "float32")):
    """Copy one tensor to another."""
    T.func_attr({"global_symbol": "copy", "tirx.noalias": True})
    for i in range(4):
        result[i] = data[i]


class World:
    """What arguments are drawn from.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        # Without vectors, whose alignment is up to those who call a kernel.
        target = {"kind": "llvm", "opt-level": 0}
        functions = tvm.IRModule({"touch": touch, "copy": copy})
        self.module = tvm.compile(functions, target=target).mod
        self.function = self.module.get_function("touch")
        self.driver = self.module.get_function("copy")
        self.prepared = tvm_ffi.get_global_func("tvm_ios.runtime.NewPreparedCall")(
            self.driver, [tensor_spec([4])], [tensor_spec([4])], [("input", 0), ("output", 0)]
        )
        data = [np.zeros(4, "float32") for _ in range(2)]
        self.bound = tvm_ffi.get_global_func("tvm_ios.runtime.BindPrepared")(self.prepared, *data)
        self.library = load_library()
        self.bench = tvm_ffi.get_global_func("tvm_ios.runtime.NewStageRunner")()
        self.add_memory(64)
        self.add_kernel([2, 32, 1, 4])
        self.dags = [self._dag(self.random.randint(1, 7)) for _ in range(4)]
        self.dags.append(Dag(70, [(i, i + 1) for i in range(69)]))
        self.dag = self.dags[0]
        self.spaces = [ScheduleSpace(dag) for dag in self.dags]
        self.searches = [
            BestFirstSearch(
                dag, pruning=PruningLimits(), max_transitions=99, max_candidates=99, seconds=1.0
            )
            for dag in self.dags
        ]

    def _dag(self, num_ops: int) -> Dag:
        pairs = [(i, j) for j in range(num_ops) for i in range(j)]
        return Dag(num_ops, [pair for pair in pairs if self.random.random() < 0.4])

    def add_memory(self, size: int) -> None:
        tvm_ffi.get_global_func("tvm_ios.runtime.AddMemory")(self.bench, size)

    def add_kernel(self, specs: Sequence[int]) -> None:
        add = tvm_ffi.get_global_func("tvm_ios.runtime.AddKernel")
        add(self.bench, self.module, "touch", as_bytes(specs, "int64"))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def number(self) -> int:
        """A small one, or one that sums and products of leave 64 bits with."""
        if self.chance(0.6):
            return self.random.randint(0, 8)
        return self.random.choice(EXTREMES)

    def numbers(self, size: int, usual: Sequence[int] = ()) -> list[int]:
        """As many, perhaps ``usual`` with one of them changed."""
        if usual and self.chance(0.7):
            changed = list(usual)
            if self.chance(0.7):
                changed[self.random.randrange(len(changed))] = self.number()
            return changed
        return [self.number() for _ in range(size)]

    def array(self, dtype: str, shape: tuple[int, ...], usual: Sequence[int] = ()) -> np.ndarray:
        """A tensor, of another type, another shape or with gaps now and then."""
        if self.chance(0.1):
            dtype = self.random.choice(DTYPES)
        if self.chance(0.15):
            shape, usual = self.random.choice(SHAPES), ()
        size = math.prod(shape)
        if np.issubdtype(dtype, np.floating):
            values = [abs(self.number() % 100) for _ in range(size)]
            if self.chance(0.3):
                values = [self.random.choice(REALS) for _ in range(size)]
            with np.errstate(over="ignore"):
                array = np.array(values, dtype=dtype).reshape(shape)
        else:
            numbers = np.array(self.numbers(size, usual), dtype=object).reshape(shape)
            bits = np.iinfo(dtype).bits if dtype != "bool" else 1
            unsigned = np.asarray(numbers % (1 << bits)).astype(f"uint{max(bits, 8)}")
            array = unsigned.view(dtype)
        if array.size > 1 and self.chance(0.05):
            array = np.repeat(array, 2, axis=0)[::2]
        return array


def tensor_spec(shape: Sequence[int], dtype: str = "float32") -> tuple[object, ...]:
    return "a tensor", tvm_ffi.dtype(dtype), tvm_ffi.Shape(shape)


def as_bytes(numbers: Sequence[int], dtype: str) -> bytes:
    """Little endian; a number that is too large loses its upper bits."""
    bits = np.iinfo(dtype).bits
    return b"".join((n % (1 << bits)).to_bytes(bits // 8, "little") for n in numbers)


def dag(world: World) -> object:
    world.dag = world.random.choice(world.dags)
    return None if world.chance(0.03) else world.dag


def space(world: World) -> object:
    found = world.random.choice(world.spaces)
    world.dag = world.dags[world.spaces.index(found)]
    return None if world.chance(0.03) else found


def bench(world: World) -> object:
    return None if world.chance(0.03) else world.bench


def integer(world: World) -> int:
    return world.number()


def memory_size(world: World) -> int:
    """None that a machine has and that this one should not be asked for."""
    return world.random.choice([n for n in EXTREMES if not 2**30 < n < 2**40] + [0, 1, 64])


def real(world: World) -> float:
    return world.random.choice(REALS)


def text(world: World) -> str:
    return world.random.choice(["", "touch", "\0", "/dev/null", "libc.so.6", "none" * 1000, "é"])


def edges(world: World) -> np.ndarray:
    count = world.random.randint(0, 5)
    return world.array("int64", (count, 2), [i + j for i in range(count) for j in (0, 1)])


def classes(world: World) -> np.ndarray:
    return world.array("int64", (world.dag.num_ops,), [1] * world.dag.num_ops)


def operators(world: World) -> np.ndarray:
    return world.array("int64", (world.dag.num_ops,), range(world.dag.num_ops))


def groups(world: World) -> list[list[int]]:
    if world.chance(0.4):
        return [[op] for op in range(world.dag.num_ops)]
    return [world.numbers(world.random.randint(0, 3)) for _ in range(world.random.randint(0, 4))]


def latencies(world: World) -> np.ndarray:
    count = len(world.spaces[world.dags.index(world.dag)].candidates)
    return world.array("float64", (count,))


def times(world: World) -> np.ndarray:
    return world.array("float64", (world.dag.num_ops, 2))


def price(world: World) -> object:
    """Of merged operators."""
    cost = world.random.choice([7.0, 7, real(world), None, "much"])
    return world.random.choice([lambda ops: cost, lambda ops: sum(ops), world.function, None])


def floors(world: World) -> np.ndarray:
    return world.array("float64", (world.dag.num_ops,))


def levels(world: World) -> np.ndarray:
    return world.array("int64", (3,), [0, 0, 1])


def accesses(world: World) -> np.ndarray:
    row = [0, 0, 0, 0, 8, 8, 2, 1]
    return world.array("int64", (2, len(row)), [*row, 1, *row[1:]])


def strategies(world: World) -> np.ndarray:
    return world.array("int32", (world.dag.num_ops,), [0] * world.dag.num_ops)


def search(world: World) -> object:
    found = world.random.choice(world.searches)
    world.dag = world.dags[world.searches.index(found)]
    return None if world.chance(0.03) else found


def searches(world: World) -> list[object]:
    """Some of them, perhaps one twice."""
    return [search(world) for _ in range(world.random.randint(0, 3))]


def prices(world: World) -> np.ndarray:
    """Of candidates."""
    return world.array("float64", (world.random.randint(0, 20),))


def boolean(world: World) -> bool:
    return world.chance(0.5)


def workers(world: World) -> int:
    return world.random.choice([1, 2, 2, world.number()])


def program_bytes(world: World) -> bytes:
    size = world.random.choice([5, 5, 6])
    whole = as_bytes(world.numbers(size, [0, 0, 1, *range(size - 3)]), "int32")
    return whole[: world.random.randint(0, len(whole))] if world.chance(0.1) else whole


def call_bytes(world: World) -> bytes:
    whole = as_bytes(world.numbers(3, [0, 0, 0]), "int64")
    return whole[: world.random.randint(0, len(whole))] if world.chance(0.1) else whole


def spec_bytes(world: World) -> bytes:
    whole = as_bytes(world.numbers(4, [2, 32, 1, 4]), "int64")
    return whole[: world.random.randint(0, len(whole))] if world.chance(0.1) else whole


def blob(world: World) -> bytes:
    return b"x" * world.random.choice([0, 1, 7, 64, 65])


def module(world: World) -> object:
    return world.random.choice([world.module, world.library, None])


def tensor(world: World) -> object:
    return world.array("float32", (6,))


def no_bench(world: World) -> object:
    """Where there is no device, there is none of its runners."""
    return None if world.chance(0.5) else world.bench


def convolution(world: World) -> object:
    usual = [0, 0, 0, 0, 1, 4, 8, 1, 9, 9, 3, 3, 1, 1, 1, 1, 1, 1]
    return tvm_ffi.Shape([abs(n) % 2**63 for n in world.numbers(len(usual), usual)])


def stage_arguments(world: World) -> list[object]:
    stage = tvm_ffi.Shape([abs(n) % 2**63 for n in world.numbers(5, [1, 0, 0, 1, 0])])
    arguments = [stage, world.function, tensor(world)]
    if world.chance(0.3):
        world.random.shuffle(arguments)
    return arguments[: world.random.randint(1, 3)] if world.chance(0.2) else arguments


def convolution_arguments(world: World) -> list[object]:
    return [tensor(world), tensor(world), tensor(world), *convolution(world)]


def driver(world: World) -> object:
    return world.random.choice([world.driver, world.driver, world.function, None])


def tensor_specs(world: World) -> list[object]:
    dtypes = ["float32", "bfloat16", "bool", "int4", "float32x4", "handle"]
    count = world.random.choice([1, 1, 0, 2])
    shapes = [[n % 2**63 for n in world.numbers(1, [4])] for _ in range(count)]
    return [tensor_spec(shape, world.random.choice(dtypes)) for shape in shapes]


def parameters(world: World) -> list[object]:
    kinds = ["input", "output", "workspace", "input", "output", "workspace", ""]
    count = world.random.choice([2, 2, 0, 3])
    if world.chance(0.3):
        return [("input", 0), ("output", 0), ("workspace", world.number())][:count]
    return [(world.random.choice(kinds), world.number()) for _ in range(count)]


def bound(world: World) -> object:
    return None if world.chance(0.03) else world.bound


def prepared_arguments(world: World) -> list[object]:
    """The inputs of the prepared call, and what it is to write, which may be the same."""
    arrays = [world.array("float32", (4,), range(4)) for _ in range(world.random.choice([1, 2, 2]))]
    if len(arrays) == 2 and world.chance(0.2):
        arrays[1] = arrays[0]
    return [None if world.chance(0.03) else world.prepared, *arrays]


KINDS: dict[str, Sequence[Kind]] = {
    "MakeDag": (integer, edges),
    "DagEdges": (dag,),
    "Explore": (dag, classes, groups, integer, integer, integer),
    "Candidates": (space,),
    "Solve": (space, latencies),
    "Through": (space, latencies),
    "FindBounded": (dag, classes, real, real, times, price, integer, integer, real),
    "MakeBestFirst": (
        *(dag, classes, groups, floors),
        *(integer, integer, integer, integer, real),
    ),
    "BestFirstAdvance": (searches, integer),
    "BestFirstBegin": (search, prices, groups, strategies, boolean),
    "BestFirstCandidates": (search, integer),
    "BestFirstPrice": (search, prices),
    "BestFirstResult": (search,),
    "Endings": (dag, operators, integer, integer),
    "Sequential": (dag,),
    "Greedy": (dag, integer),
    "Partition": (dag, integer, classes),
    "PartitionCost": (dag, groups, classes),
    "Components": (dag, operators),
    "BeginCerrCapture": (),
    "EndCerrCapture": (),
    "PlanWaits": (workers, levels, accesses, integer),
    "cuda.IsSource": (module,),
    "cuda.WithMachineCode": (module, blob),
    "runtime.AddKernel": (bench, module, text, spec_bytes),
    "runtime.AddMemory": (bench, memory_size),
    "runtime.Describe": (),
    "runtime.FillMemory": (bench, integer, blob),
    "runtime.NewPreparedCall": (driver, tensor_specs, tensor_specs, parameters),
    "runtime.NewStageRunner": (),
    "runtime.RunBound": (bound,),
    "runtime.SourceDigest": (),
    "runtime.TimeOnRunner": (bench, program_bytes, call_bytes, workers, integer, real),
    "runtime.TimeArithmetic": (workers,),
    "runtime.HelperCounts": (),
    "runtime.UseHelpers": (driver, workers),
    "runtime.WriteMemory": (bench, integer, integer, blob),
    "runtime.cuda.CudnnAlgorithms": (integer, convolution),
    "runtime.cuda.CudnnVersion": (),
    "runtime.cuda.Describe": (integer,),
    "runtime.cuda.NewStageRunner": (integer,),
    "runtime.cuda.AddKernel": (no_bench, module, text, spec_bytes),
    "runtime.cuda.AddMemory": (no_bench, memory_size),
    "runtime.cuda.FillMemory": (no_bench, integer, blob),
    "runtime.cuda.ReadMemory": (no_bench, integer, integer, integer),
    "runtime.cuda.RunOnRunner": (no_bench, call_bytes, real),
    "runtime.cuda.TimeOnRunner": (no_bench, call_bytes, integer, integer, real),
    "runtime.cuda.TraceOnRunner": (no_bench, call_bytes, integer, real),
    "runtime.cuda.WriteMemory": (no_bench, integer, integer, blob),
    "runtime.cuda.UseCudnn": (text,),
}
"""How the arguments of a function are drawn."""

PACKED: dict[str, Callable[[World], list[object]]] = {
    "runtime.BindPrepared": prepared_arguments,
    "runtime.RunPrepared": prepared_arguments,
    "runtime.RunPreparedInto": prepared_arguments,
    "runtime.cuda.CudnnConvolution": convolution_arguments,
    "runtime.cuda.RunStage": stage_arguments,
}
"""Those that take any number of arguments."""


def draw(world: World, name: str) -> list[object]:
    """The arguments of a call; now and then one of them is of another function's."""
    short = name.removeprefix(PREFIX)
    packed = PACKED.get(short)
    arguments = packed(world) if packed else [kind(world) for kind in KINDS[short]]
    if arguments and world.chance(0.08):
        other = world.random.choice(
            [None, 1, 0.5, "", b"", [], world.bench, world.function, tensor]
        )
        strange = other(world) if other is tensor else other
        arguments[world.random.randrange(len(arguments))] = strange
    return arguments


def fuzz(seed: int, calls: int, journal: Path) -> set[str]:
    """Call every function so often; what is neither an answer nor a typed error is returned."""
    world = World(seed)
    complaints = set()
    with journal.open("w") as file:
        for name in registered():
            function = tvm_ffi.get_global_func(name)
            for _ in range(calls):
                arguments = draw(world, name)
                print(name, *map(shown, arguments), sep=" | ", file=file, flush=True)
                try:
                    function(*arguments)
                except Exception as error:
                    if not is_sentence(error):
                        complaints.add(f"{name}: {type(error).__name__}: {error}")
    return complaints


def shown(argument: object) -> str:
    """On one line."""
    return repr(argument)[:500].replace("\n", " ")


def is_sentence(error: Exception) -> bool:
    """Whether it is of a type that says what was wrong, and says so without C++'s conditions."""
    if not isinstance(error, TYPED):
        return False
    message = str(error)
    return bool(message) and "Check failed" not in message and "Traceback" not in message


def sanitized() -> bool:
    """Whether AddressSanitizer, which reserves all addresses, watches this process."""
    return "libasan" in os.environ.get("LD_PRELOAD", "")


def used_bytes() -> int:
    """Addresses that this process has taken."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def main() -> None:
    seed, calls, journal = sys.argv[1:]
    if not sanitized():
        limit = used_bytes() + 4 * HEADROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    complaints = fuzz(int(seed), int(calls), Path(journal))
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < HEADROOM, f"the process grew by {grown} bytes"
    assert not complaints, "\n".join(sorted(complaints))
    print("done")


if __name__ == "__main__":
    main()
