# SPDX-License-Identifier: Apache-2.0
"""All that is known to compute an operator's function on a CUDA device.

Which is fastest is for measuring to say; what comes first is the best guess. Rules of ours come
first, then the rule of TVM's dlight that TVM itself would take, and dlight's fallback, which takes
what nothing else does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir import dlight

from ....tir.tensor import TensorSpec
from ...shared.no_rule import NoRule
from .gemm_form import GemmForm, divide_columns, gemm_form
from .gemm_sum import add_products
from .implicit_gemm import gemm
from .kernel import CudaKernel
from .tiles import tiles
from .window import window_kernels

_DLIGHT = (
    dlight.gpu.Matmul(),
    dlight.gpu.GEMV(),
    dlight.gpu.Reduction(),
    dlight.gpu.GeneralReduction(),
    dlight.gpu.Transpose(),
)
"""The rules in the order in which TVM tries them."""

_DLIGHT_BESIDE_OURS = (dlight.gpu.GEMV(),)
"""Those that know what ours do not. ``Matmul`` has one tile, and takes a minute in float16."""


@dataclass(frozen=True)
class ScheduledFunction:
    """A function whose loops are bound to blocks and threads.

    Attributes
    ----------
    name : str
        Which rule, and how; for people.
    function : tvm.tirx.PrimFunc
        With the parameters of the operator's function.
    launches : int
        Kernels that it launches, one after the other.
    workspace : bool
        Whether it keeps intermediate results in global memory. That memory belongs to the host's
        thread, so that it must not run at the same time as another that has some.
    """

    name: str
    function: tirx.PrimFunc
    launches: int
    workspace: bool


def schedule(
    function: tirx.PrimFunc, target: tvm.target.Target, precision: str = "fp32"
) -> tuple[ScheduledFunction, ...]:
    """Every implementation of an operator that is worth measuring, the best guess first.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        Schedulable, of static shapes, without any thread.
    target : tvm.target.Target
        A CUDA device, with ``max_shared_memory_per_block``.
    precision : {"fp32", "tf32", "fp16", "bf16"}
        What products are computed in: ``fp32`` is exact, the others round factors of float32 to
        that type for tensor cores, to 11, 11 and 8 bits. Sums are in float32 always.

    Raises
    ------
    NoRule
        Where not even dlight's fallback knows how.
    """
    ours = list(_by_rule(function, target, precision))
    rules = _DLIGHT_BESIDE_OURS if ours else _DLIGHT
    known: dict[tvm_ffi.StructuralKey, ScheduledFunction] = {}
    for candidate in (*ours, *_by_dlight(rules, function, target)):
        known.setdefault(tvm_ffi.StructuralKey(candidate.function), candidate)
    if not known:
        raise NoRule
    return tuple(known.values())


def scheduled_kernel(
    name: str, key: Hashable, scheduled: ScheduledFunction, num_inputs: int
) -> CudaKernel:
    """The kernel of a function whose first parameters are its inputs."""
    parameters = scheduled.function.params
    specs = tuple(TensorSpec(tuple(map(int, p.shape)), str(p.dtype)) for p in parameters)
    return CudaKernel(
        name=name,
        key=key,
        inputs=specs[:num_inputs],
        outputs=specs[num_inputs:],
        function=scheduled.function,
        variant=scheduled.name,
    )


def schedule_divided(
    function: tirx.PrimFunc, widths: Sequence[int], target: tvm.target.Target, precision: str
) -> ScheduledFunction:
    """The best guess for a function whose result is divided by its last axis.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        A matrix product, as a convolution, whose last parameter is its result.
    widths : sequence of int
        What each of the tensors has of the last axis; they are parameters in place of the result.
    target, precision
        As for :func:`schedule`.

    Raises
    ------
    NoRule
        Where it is no matrix product.
    """
    return _best(divide_columns(gemm_form(function), widths), target, precision)


def schedule_sum(
    functions: Sequence[tirx.PrimFunc],
    places: Sequence[Sequence[int]],
    target: tvm.target.Target,
    precision: str,
) -> ScheduledFunction:
    """The best guess for several functions as one, which adds up what they sum.

    Parameters
    ----------
    functions : sequence of tvm.tirx.PrimFunc
        Matrix products, as convolutions, with results of one shape, their last parameters. What the
        first does with its sum is done with that of all; the others do nothing with theirs.
    places : sequence of sequence of int
        Which input of the whole, counted from 0, each input of a function is.
    target, precision
        As for :func:`schedule`.

    Raises
    ------
    NoRule
        Where one is no matrix product.
    """
    return _best(add_products(list(map(gemm_form, functions)), places), target, precision)


def _best(form: GemmForm, target: tvm.target.Target, precision: str) -> ScheduledFunction:
    tile = tiles(form, target, precision)[0]
    return described(f"gemm_{tile.name}", gemm(form, tile))


def _by_rule(
    function: tirx.PrimFunc, target: tvm.target.Target, precision: str
) -> Iterator[ScheduledFunction]:
    try:
        form = gemm_form(function)
        for tile in tiles(form, target, precision):
            yield described(f"gemm_{tile.name}", gemm(form, tile))
        return
    except NoRule:
        pass
    try:
        for name, kernel in window_kernels(function):
            yield described(name, kernel)
    except (NoRule, s_tir.ScheduleError):  # of loops that cannot be moved
        return


def _by_dlight(
    rules: Sequence[dlight.ScheduleRule], function: tirx.PrimFunc, target: tvm.target.Target
) -> Iterator[ScheduledFunction]:
    for rule in rules:
        scheduled = _apply(rule, function, target)
        if scheduled is not None:
            yield scheduled
            break
    fallback = _apply(dlight.gpu.Fallback(), function, target)
    if fallback is not None:
        yield fallback


def _apply(
    rule: dlight.ScheduleRule, function: tirx.PrimFunc, target: tvm.target.Target
) -> ScheduledFunction | None:
    try:
        with target:
            result = rule.apply(function, target, False)
    except Exception:  # dlight's rules fail in many ways on what they were not written for
        return None
    if result is None:
        return None
    sch = result if isinstance(result, s_tir.Schedule) else result[0]
    scheduled = sch.mod["main"].with_attr("tirx.is_scheduled", True)
    return described(f"dlight_{type(rule).__name__}", scheduled) if _is_bound(scheduled) else None


def described(name: str, function: tirx.PrimFunc) -> ScheduledFunction:
    """A function that was scheduled, with what is to be known of it."""
    root = function.body.block
    workspace = any(str(b.scope()) in ("", "global") for b in root.alloc_buffers)
    return ScheduledFunction(name, function, len(_nests(function)), workspace)


def _nests(function: tirx.PrimFunc) -> list[tirx.Stmt]:
    body = function.body.block.body
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _is_bound(function: tirx.PrimFunc) -> bool:
    """Whether every nest runs on the device: TVM takes what is left for code of the host."""
    return all(_has_threads(nest) for nest in _nests(function))


def _has_threads(nest: tirx.Stmt) -> bool:
    bound: list[tirx.For] = []

    def visit(loop: tirx.For) -> None:
        if loop.kind == tirx.ForKind.THREAD_BINDING:
            bound.append(loop)

    tvm_ffi.structural_walk(nest, [(tirx.For, visit)])
    return bool(bound)
