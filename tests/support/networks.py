# SPDX-License-Identifier: Apache-2.0
"""What several test files need: kernels run on their own, small Relax modules, models compared."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from support.kernel_module import kernel_module
from tvm_ios.backend.cpu.core import Core, core_of
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.kernels.layout import Layout
from tvm_ios.backend.registry import kind_of
from tvm_ios.graph.dag import Candidate
from tvm_ios.graph.operators import OperatorGraph
from tvm_ios.target import resolve
from tvm_ios.transform import InterOperatorSchedule

WORKERS = 2
NATIVE = resolve("llvm", threads=WORKERS)
# For what is compared with: LLVM's optimisation would take most of the time.
UNOPTIMISED = resolve('{"kind": "llvm", "opt-level": 0}', threads=WORKERS)


def x86(mcpu: str, feature: str, *more: str) -> Any:
    """A target parameter, with ``more`` features, that is skipped where it does not run."""
    machine = str(tvm.target.codegen.llvm_get_system_triple())
    runs = machine.startswith("x86_64") and (
        not feature or tvm.target.codegen.llvm_cpu_has_features(feature, NATIVE)
    )
    config = {"kind": "llvm", "mcpu": mcpu, "mattr": list(more), "num-cores": WORKERS}
    skip = pytest.mark.skipif(not runs, reason=f"this machine does not run {mcpu}")
    return pytest.param(
        tvm.target.Target(config) if runs else None, id=mcpu, marks=[skip, pytest.mark.narrow(mcpu)]
    )


TARGETS = [
    pytest.param(NATIVE, id="native"),
    x86("haswell", "avx2"),
    x86("x86-64", ""),
]
"""The machine's own instruction set, and the narrower ones that run on it."""


def poisoned(layout: Layout, data: np.ndarray) -> np.ndarray:
    """``data`` in ``layout``, with NaN in the lanes that hold no channel."""
    packed = layout.pack(data)
    if layout.block and data.shape[1] % layout.block:
        packed[:, -1, :, data.shape[1] % layout.block :] = np.nan
    return packed


def unpack(packed: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """A blocked feature map as ``[N, C, H, W]``."""
    n, c, h, w = shape
    return packed.transpose(0, 1, 3, 2).reshape(n, -1, h, w)[:, :c]


def run_kernel(
    kernel: Kernel, inputs: Sequence[np.ndarray], target: tvm.target.Target, seed: int = 0
) -> list[np.ndarray]:
    """The kernel's outputs, each phase computed in several ranges of tiles in random order.

    Outputs and scratch memory hold NaN (or the largest integer) before.
    """
    assert [a.shape for a in inputs] == [s.shape for s in kernel.inputs]
    random = np.random.default_rng(seed)
    module = _built(_Known((kernel.key, str(target)), (kernel, target)))
    written = [poisoned_tensor(spec.shape, spec.dtype) for spec in kernel.outputs + kernel.scratch]
    tensors = [tvm.runtime.tensor(array) for array in (*inputs, *written)]
    for i, phase in enumerate(kernel.phases):
        inner = random.integers(0, phase.num_tiles + 1, min(phase.num_tiles, 4))
        cuts = [0, *sorted(int(cut) for cut in inner), phase.num_tiles]
        ranges = list(pairwise(cuts))
        for k in random.permutation(len(ranges)):
            module[f"p{i}"](*tensors, *(phase.first + tile for tile in ranges[k]))
    first = len(inputs)
    return [tensor.numpy() for tensor in tensors[first : first + len(kernel.outputs)]]


@dataclass(frozen=True)
class _Known:
    """A value, known by a key that says all of it."""

    key: Hashable
    value: Any = field(compare=False)


@lru_cache(maxsize=32)
def _built(known: _Known) -> Any:
    """Return the functions of a kernel; kept, as tests run one kernel on several inputs."""
    kernel, target = known.value
    return kernel_module({f"p{i}": (kernel, i) for i in range(len(kernel.phases))}, target)


def poisoned_tensor(shape: Sequence[int], dtype: str) -> np.ndarray:
    """Memory that nothing was written to: NaN, or the largest integer."""
    if dtype.startswith("float"):
        return np.full(shape, np.nan, dtype)
    return np.full(shape, 1 if dtype == "bool" else np.iinfo(dtype).max, dtype)


def assert_close(actual: np.ndarray, expected: np.ndarray, relative: float = 1e-4) -> None:
    """Equal shape, type and values; errors relative to the largest value, NaN equals NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    if not np.issubdtype(expected.dtype, np.floating):
        np.testing.assert_array_equal(actual, expected)
        return
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1e-6))
    np.testing.assert_allclose(actual, expected, rtol=relative, atol=relative * scale)


def isa_of(target: tvm.target.Target) -> tuple[Core, Layout]:
    """The vector unit of a target and the blocked layout that goes with it."""
    core = core_of(target)
    return core, Layout(core.lanes)


def relax_module(
    body: Callable[..., relax.Expr], *inputs: Sequence[int] | relax.Type, name: str = "main"
) -> tvm.IRModule:
    """A module of one function: ``body(emit, *parameters)`` in a dataflow block.

    An input is a shape, of float32, or a type.
    """
    builder = relax.BlockBuilder()
    add_function(builder, name, body, *inputs)
    return builder.get()


def add_function(
    builder: relax.BlockBuilder,
    name: str,
    body: Callable[..., relax.Expr],
    *inputs: Sequence[int] | relax.Type,
) -> tvm.ir.GlobalVar:
    """Add a function to ``builder``'s module, as :func:`relax_module` does."""
    types = [t if isinstance(t, relax.Type) else relax.TensorType(t, "float32") for t in inputs]
    parameters = [relax.Var(f"x{i}", t) for i, t in enumerate(types)]
    with builder.function(name, parameters):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, *parameters))
        return builder.emit_func_output(result)


def constant(*shape: int, seed: int = 0, scale: float = 1.0) -> relax.Expr:
    """A constant of normally distributed numbers."""
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return relax.const(values.astype("float32"), "float32")


def conv(data: relax.Expr, channels: int, kernel: int = 3, seed: int = 0, **attrs: Any):
    """A convolution with constant weights; the image keeps its size by default."""
    weights = constant(channels, int(data.ty.shape.values[1]), kernel, kernel, seed=seed, scale=0.2)
    return relax.op.nn.conv2d(data, weights, **{"padding": kernel // 2, **attrs})


def few_stages(_graph: OperatorGraph, candidates: Sequence[Candidate]) -> np.ndarray:
    """A cost model by which the fewest stages are best."""
    return np.ones(len(candidates))


def many_stages(_graph: OperatorGraph, candidates: Sequence[Candidate]) -> np.ndarray:
    """A cost model by which an operator a stage is best."""
    return np.array([float(len(c.ops)) ** 2 for c in candidates])


def merging(_graph: OperatorGraph, candidates: Sequence[Candidate]) -> np.ndarray:
    """A cost model by which merging is best, else an operator a stage."""
    return np.array([0.1 if c.strategy == "merge" else float(len(c.ops)) ** 2 for c in candidates])


def random_arguments(mod: tvm.IRModule, function: str = "main", seed: int = 1) -> list[np.ndarray]:
    """Random values for each parameter of a function."""
    random = np.random.default_rng(seed)
    arguments = []
    for parameter in mod[function].params:
        shape = [int(d) for d in parameter.ty.shape.values]
        dtype = str(parameter.ty.dtype)
        if dtype == "bool":
            arguments.append(random.integers(0, 2, shape).astype("bool"))
        elif dtype.startswith("float"):
            arguments.append(random.standard_normal(shape).astype(dtype))
        else:
            arguments.append(random.integers(0, 8, shape).astype(dtype))
    return arguments


def run_vm(
    executable: Any, arguments: Sequence[np.ndarray], function: str = "main"
) -> list[np.ndarray]:
    """All results of a compiled function, tuples flattened."""
    return call_vm(relax.VirtualMachine(executable, tvm.cpu()), arguments, function)


def call_vm(vm: Any, arguments: Sequence[np.ndarray], function: str = "main") -> list[np.ndarray]:
    """The same in a virtual machine that is there for several calls."""
    return flatten(vm[function](*map(_to_device, arguments)))


def _to_device(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_to_device, value))
    return tvm.runtime.tensor(value)


def flatten(value: Any) -> list[np.ndarray]:
    """The tensors of nested tuples as arrays."""
    if isinstance(value, tvm.runtime.Tensor):
        return [value.numpy()]
    return [array for item in value for array in flatten(item)]


def compile_plain(mod: tvm.IRModule, target: tvm.target.Target = NATIVE) -> Any:
    """``mod`` compiled by TVM's own pipeline, nothing scheduled."""
    return tvm.compile(mod, target, relax_pipeline=kind_of(target).pipeline(target))


def _by_tvm(mod: tvm.IRModule, arguments: Sequence[np.ndarray], function: str) -> list[np.ndarray]:
    """Return what TVM computes; kept, as tests schedule one module in several ways."""
    content = [(a.shape, a.dtype.str, a.tobytes()) for a in map(np.asarray, arguments)]
    key = (tvm_ffi.structural_hash(mod), function, *content)
    return _computed(_Known(key, (mod, arguments, function)))


@lru_cache(maxsize=64)
def _computed(known: _Known) -> list[np.ndarray]:
    mod, arguments, function = known.value
    return run_vm(compile_plain(mod, UNOPTIMISED), arguments, function)


def check_scheduled(
    mod: tvm.IRModule,
    *,
    target: tvm.target.Target = NATIVE,
    function: str = "main",
    arguments: Sequence[np.ndarray] | None = None,
    relative: float = 1e-4,
    **options: Any,
) -> tvm.IRModule:
    """Schedule ``mod``, run it, compare with TVM's own pipeline; returns the scheduled module."""
    options.setdefault("cost_model", few_stages)
    arguments = random_arguments(mod, function) if arguments is None else arguments
    expected = _by_tvm(mod, arguments, function)
    scheduled = InterOperatorSchedule(target, function=function, **options)(mod)
    relax.analysis.well_formed(scheduled)  # raises when it is not
    actual = run_vm(compile_plain(scheduled, target), arguments, function)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert_close(one, other, relative)
    return scheduled
