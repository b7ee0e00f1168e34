# SPDX-License-Identifier: Apache-2.0
"""Kernels and tensors of one network on the device, ready for any stage to be timed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.libinfo import find_libtvm_runtime

from .. import _ffi_api  # noqa: F401  (loads the library whose functions are looked up below)
from ..kernels.kernel import Kernel, TensorSpec
from ..lower.functions import build_functions, kernel_function
from ..lower.implement import Implementation, LoweredGraph
from ..lower.inplace import resolve
from ..lower.plan import BandShare
from ..lower.region import LoweredStage
from .cold import ColdWeights, arena_bytes, level_of
from .progress import progress

TakeWeights = Callable[[TensorSpec], tvm_ffi.Tensor]

_BATCH = 8  # kernels compiled at once: few enough that the bar moves

_set_library = tvm_ffi.get_global_func("tvm_ios.runtime.SetRuntimeLibrary")
_run_stage = tvm_ffi.get_global_func("tvm_ios.runtime.RunStage")
_time_stage = tvm_ffi.get_global_func("tvm_ios.runtime.TimeStage")


class Device:
    """Compiled kernels, one per key, and one tensor per value of the network.

    Nothing is compiled before something is to be timed.

    Parameters
    ----------
    lowered : LoweredGraph
    target : tvm.target.Target
    seed : int
        Of the random inputs.
    """

    def __init__(self, lowered: LoweredGraph, target: tvm.target.Target, seed: int) -> None:
        self._target = target
        self._random = np.random.default_rng(seed)
        self._kernels: dict[Hashable, list[tvm_ffi.Function]] = {}
        self._values: dict[relax.Var, tvm.runtime.Tensor] = {}
        self._packed: dict[int, tuple[np.ndarray, tvm.runtime.Tensor]] = {}
        self._scratch: dict[object, tvm.runtime.Tensor] = {}
        self._present = present = [i for i in lowered.implementations if i is not None]
        self._slots = lowered.slots
        self._l2_bytes = lowered.preferences.core.l2_bytes
        self._specs = {
            value: spec
            for i in present
            for value, spec in zip(i.outputs, i.kernel.outputs, strict=True)
        }
        self._constants = [
            spec
            for i in present
            for value, spec in zip(i.inputs, i.kernel.inputs, strict=True)
            if isinstance(value, np.ndarray)
        ]
        self._started = False

    @property
    def weights_from(self) -> str:
        """Where timed stages read their weights from: it decides how long they take."""
        return level_of(arena_bytes(self._constants), self._l2_bytes)

    def compile(self, kernels: Iterable[Kernel]) -> None:
        """Compile the kernels that are new."""
        new = {k.key: k for k in kernels if k.key not in self._kernels}
        pending = list(new.values())
        if not pending:
            return
        with progress("compiling kernels", len(pending)) as advance:
            for begin in range(0, len(pending), _BATCH):
                batch = pending[begin : begin + _BATCH]
                self._compile(batch)
                advance(len(batch))

    def run(self, implementation: Implementation) -> None:
        """Compute one operator on one worker."""
        self._start()
        self._run(implementation)

    def _start(self) -> None:
        """Compile the network's kernels and compute its values, when first asked to."""
        if self._started:
            return
        _set_library(find_libtvm_runtime())
        self._cold = ColdWeights(self._constants, self._random)
        self.compile(i.kernel for i in self._present)
        for implementation in self._present:  # in order: every tensor holds what it will hold
            if implementation.kernel.phases:
                self._run(implementation)
        self._started = True

    def _run(self, implementation: Implementation) -> None:
        tensors = self._tensors(implementation, None)
        _run_stage(*self._program([implementation], [tensors], _serial_rows(implementation)), 1)

    def time_alone(self, implementation: Implementation, repeat: int) -> list[float]:
        """Seconds that one operator takes on one worker, ``repeat`` times."""
        return self._time([implementation], _serial_rows(implementation), 1, repeat)

    def time(self, stage: LoweredStage, repeat: int) -> list[float]:
        """Seconds that a stage takes, ``repeat`` times, its weights cold as in the network."""
        rows = _rows(stage)
        return self._time(stage.implementations, rows, stage.plan.workers, repeat)

    def _time(
        self,
        implementations: Sequence[Implementation],
        rows: Sequence[_Row],
        workers: int,
        repeat: int,
    ) -> list[float]:
        self._start()
        samples = []
        for _ in range(repeat):
            tensors = [self._tensors(i, self._cold.take) for i in implementations]
            program = self._program(implementations, tensors, rows)
            (seconds,) = np.from_dlpack(_time_stage(*program, workers, 1, 1))
            samples.append(float(seconds))
        return samples

    def _compile(self, kernels: Sequence[Kernel]) -> None:
        names = [
            (kernel, phase, f"k{i}_{phase}")
            for i, kernel in enumerate(kernels)
            for phase in range(len(kernel.phases))
        ]
        functions = {n: kernel_function(kernel, phase, n) for kernel, phase, n in names}
        module = build_functions(functions, self._target).mod
        for kernel, _phase, name in names:
            self._kernels.setdefault(kernel.key, []).append(module[name])

    def _program(
        self,
        implementations: Sequence[Implementation],
        tensors: Sequence[Sequence[tvm_ffi.Tensor]],
        rows: Sequence[_Row],
    ) -> tuple[list[tvm_ffi.Function], list[Sequence[tvm_ffi.Tensor]], tvm_ffi.Tensor]:
        """Kernels, their tensors and the division of their tiles, one of each per row."""
        kernels = [self._kernels[implementations[i].kernel.key][p] for i, p, _, _ in rows]
        arguments = [tensors[i] for i, _, _, _ in rows]
        program = np.array([(n, row[2], *row[3]) for n, row in enumerate(rows)], "int32")
        return kernels, arguments, tvm_ffi.from_dlpack(program)

    def _tensors(
        self, implementation: Implementation, weights: TakeWeights | None
    ) -> list[tvm_ffi.Tensor]:
        """A kernel's tensors; its float constants come from ``weights`` if that is given."""
        kernel = implementation.kernel
        inputs = [
            weights(spec)
            if weights is not None and isinstance(value, np.ndarray) and spec.dtype == "float32"
            else self._input(value, spec)
            for value, spec in zip(implementation.inputs, kernel.inputs, strict=True)
        ]
        results = zip(implementation.outputs, kernel.outputs, strict=True)
        outputs = [self._result(value, spec) for value, spec in results]
        scratch = [
            _kept(self._scratch, (implementation.operators, i), spec)
            for i, spec in enumerate(kernel.scratch)
        ]
        return [*inputs, *outputs, *scratch]

    def _input(self, value: relax.Var | np.ndarray, spec: TensorSpec) -> tvm.runtime.Tensor:
        if isinstance(value, np.ndarray):
            if id(value) not in self._packed:  # the array is kept, so that its id stays its own
                self._packed[id(value)] = (value, tvm.runtime.tensor(value))
            return self._packed[id(value)][1]
        if value in self._specs:
            return self._result(value, spec)
        if value not in self._values:
            self._values[value] = tvm.runtime.tensor(self._random_values(spec))
        return self._values[value]

    def _result(self, value: relax.Var, spec: TensorSpec) -> tvm.runtime.Tensor:
        """The tensor of what a kernel yields; in a concatenation if that is where it lies."""
        root, offset = resolve(value, self._slots)
        tensor = _kept(self._values, root, self._specs[root])
        if root is value or root.same_as(value):
            return tensor
        begin = offset // 4
        flat = np.from_dlpack(tensor).reshape(-1)[begin : begin + spec.num_elements]
        return tvm_ffi.from_dlpack(flat.reshape(spec.shape))

    def _random_values(self, spec: TensorSpec) -> np.ndarray:
        """An input of the network, or what an operator without a kernel yields."""
        if spec.dtype.startswith("float"):
            return self._random.standard_normal(spec.shape).astype(spec.dtype)
        return np.ones(spec.shape, spec.dtype)


_Row = tuple[int, int, int, tuple[int, ...]]  # implementation, phase, level, cuts


def _serial_rows(implementation: Implementation) -> list[_Row]:
    """The whole operator on one worker."""
    return [(0, p, p, (0, phase.tiles)) for p, phase in enumerate(implementation.kernel.phases)]


def _rows(stage: LoweredStage) -> list[_Row]:
    rows: list[_Row] = []
    for number, level in enumerate(stage.plan.levels):
        for share in level:
            if isinstance(share, BandShare):
                rows += [(call, 0, number, cuts) for call, cuts in _band_rows(stage, share)]
            else:
                rows.append((share.call, share.phase, number, share.cuts))
    return rows


def _band_rows(stage: LoweredStage, share: BandShare) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Calls and their cuts; each gives one worker the same tiles of one plane."""
    workers = stage.plan.workers
    for worker, steps in enumerate(share.steps):
        for step in steps:
            plane = stage.implementations[step.call].kernel.plane
            for outer in range(plane.outer):
                begin, end = (outer * plane.tiles + tile for tile in (step.begin, step.end))
                yield step.call, (begin,) * (worker + 1) + (end,) * (workers - worker)


def _kept(tensors: dict, key: object, spec: TensorSpec) -> tvm.runtime.Tensor:
    """The tensor of ``key``, made when it is first asked for."""
    if key not in tensors:
        tensors[key] = tvm.runtime.tensor(np.zeros(spec.shape, spec.dtype))
    return tensors[key]
