# SPDX-License-Identifier: Apache-2.0
"""How the arguments of each registered function are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from support.registry_world import EXTREMES, REALS, World, as_bytes, tensor_spec

PREFIX = "tvm_ios."

Kind = Callable[[World], Any]
"""Draws an argument."""


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


def packed_numbers(world: World, usual: Sequence[int], dtype: str) -> bytes:
    """Bytes of such numbers, cut off now and then."""
    whole = as_bytes(world.numbers(len(usual), usual), dtype)
    return whole[: world.random.randint(0, len(whole))] if world.chance(0.1) else whole


def program_bytes(world: World) -> bytes:
    """Of one call, on one worker or two."""
    size = world.random.choice([5, 6, 6])
    return packed_numbers(world, [0, 0, 1, *range(size - 3)], "int32")


def stage_bytes(world: World) -> bytes:
    """The number of levels of a stage."""
    return packed_numbers(world, [1], "int32")


def call_bytes(world: World) -> bytes:
    return packed_numbers(world, [0, 0, 0], "int64")


def spec_bytes(world: World) -> bytes:
    return packed_numbers(world, [2, 32, 1, 4], "int64")


def repetitions(world: World) -> int:
    """How often a stage is timed."""
    return world.random.choice([1, 1, 3, world.number()])


def time_limit(world: World) -> float:
    """No limit that ends the process."""
    return world.random.choice([60.0, 60.0, real(world)])


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
    "runtime.TimeOnRunner": (
        *(bench, program_bytes, stage_bytes, call_bytes),
        *(workers, repetitions, time_limit),
    ),
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
