# SPDX-License-Identifier: Apache-2.0
"""What the random arguments of registered functions are drawn from."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import tvm
import tvm_ffi
from tvm.script import tirx as T

from tvm_ios.graph.dag import Dag
from tvm_ios.schedule.pruning import PruningLimits
from tvm_ios.search import ScheduleSpace
from tvm_ios.search.best_first_search import BestFirstSearch
from tvm_ios.support.libinfo import load_library

EXTREMES = (
    *(-(2**63), -(2**62), -(2**31) - 1, -(2**31), -1, 0),
    *(2**31 - 3, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1),
)
REALS = (0.0, -0.0, 60.0, -1.0, math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324)
DTYPES = ("int64", "int32", "uint64", "uint8", "float64", "float32", "bool")
SHAPES = ((), (0,), (1,), (7,), (0, 2), (2, 0), (0, 2**40), (3, 2), (2, 2, 2))


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
