# SPDX-License-Identifier: Apache-2.0
"""All known schedules of an operator's function on a CUDA device.

The first schedule is the best guess; measurements decide which one is the fastest. The rules of
this package come first, then the rule of TVM's dlight that TVM itself would choose, then dlight's
fallback, which handles everything else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir import dlight

from ....lowering.no_rule import NoRule
from ....ops.tensor import TensorSpec
from ..limits import Limits
from ..target import limits_of
from .gemm_sum import add_products
from .implicit_gemm import gemm
from .kernel import CudaKernel
from .match_gemm import ColumnPart, GemmMatch, divide_columns, match_gemm
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
"""Rules that cover more than ours. ``Matmul`` has one tile, and takes a minute in float16."""


@dataclass(frozen=True)
class ScheduledFunction:
    """A function whose loops are bound to blocks and threads.

    Attributes
    ----------
    name : str
        Display name: the rule and its parameters.
    function : tvm.tirx.PrimFunc
        Has the parameters of the operator's function.
    launches : int
        Number of kernels that it launches, one after the other.
    workspace : bool
        Whether it keeps intermediate results in global memory. That memory belongs to the host's
        thread, so such a function must not run at the same time as another one.
    """

    name: str
    function: tirx.PrimFunc
    launches: int
    workspace: bool


def schedule(
    function: tirx.PrimFunc,
    target: tvm.target.Target,
    precision: str = "fp32",
    limits: Limits | None = None,
) -> tuple[ScheduledFunction, ...]:
    """Return all schedules of an operator that are worth measuring, the best guess first.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        A schedulable function with static shapes and no thread bindings.
    target : tvm.target.Target
        A CUDA device, with ``max_shared_memory_per_block``.
    precision : {"fp32", "tf32", "fp16", "bf16"}
        Type of the products' factors. ``fp32`` is exact. The others round factors of float32 to
        that type for tensor cores, to 11, 11 and 8 bits. Sums are always float32.
    limits : Limits, optional
        Of the device; by default those of a usual one.

    Returns
    -------
    tuple of ScheduledFunction
        At least one.

    Raises
    ------
    NoRule
        If not even dlight's fallback applies.
    """
    ours = list(_by_rule(function, target, precision, limits or limits_of(target)))
    rules = _DLIGHT_BESIDE_OURS if ours else _DLIGHT
    known: dict[tvm_ffi.StructuralKey, ScheduledFunction] = {}
    for candidate in (*ours, *_by_dlight(rules, function, target)):
        known.setdefault(tvm_ffi.StructuralKey(candidate.function), candidate)
    if not known:
        raise NoRule
    return tuple(known.values())


def plain_schedule(function: tirx.PrimFunc, target: tvm.target.Target) -> ScheduledFunction | None:
    """Return dlight's fallback, one thread for each element; None if it does not apply.

    The parameters are those of :func:`schedule`.
    """
    return _apply(dlight.gpu.Fallback(), function, target)


def scheduled_kernel(
    name: str, key: Hashable, scheduled: ScheduledFunction, num_inputs: int
) -> CudaKernel:
    """Return the kernel of a function whose first parameters are its inputs.

    Parameters
    ----------
    name : str
        Display name of the kernel.
    key : Hashable
        Key of the kernel.
    scheduled : ScheduledFunction
        The function.
    num_inputs : int
        How many parameters are inputs.

    Returns
    -------
    CudaKernel
        The kernel.
    """
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
    function: tirx.PrimFunc,
    parts: Sequence[ColumnPart],
    target: tvm.target.Target,
    precision: str,
    limits: Limits,
) -> ScheduledFunction:
    """Return the best guess for a function whose result is split along its last axis.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        A matrix product, for example a convolution, whose last parameter is its result.
    parts : sequence of ColumnPart
        The parts along the last axis; they replace the result as parameters.
    target, precision, limits
        As for :func:`schedule`.

    Returns
    -------
    ScheduledFunction
        One launch.

    Raises
    ------
    NoRule
        If the function is not a matrix product.
    """
    return _best(divide_columns(match_gemm(function), parts), target, precision, limits)


def schedule_sum(
    functions: Sequence[tirx.PrimFunc],
    places: Sequence[Sequence[int]],
    target: tvm.target.Target,
    precision: str,
    limits: Limits,
) -> ScheduledFunction:
    """Return the best guess for several functions as one that adds up their sums.

    Parameters
    ----------
    functions : sequence of tvm.tirx.PrimFunc
        Matrix products, for example convolutions, with results of one shape as last parameters.
        Only the first has an epilogue, which applies to the total.
    places : sequence of sequence of int
        For each input of each function, its number among the inputs of the result.
    target, precision, limits
        As for :func:`schedule`.

    Returns
    -------
    ScheduledFunction
        One launch.

    Raises
    ------
    NoRule
        If one of the functions is not a matrix product.
    """
    products = add_products(list(map(match_gemm, functions)), places)
    return _best(products, target, precision, limits)


def _best(
    match: GemmMatch, target: tvm.target.Target, precision: str, limits: Limits
) -> ScheduledFunction:
    tile = tiles(match, target, precision, limits)[0]
    return described(f"gemm_{tile.name}", gemm(match, tile))


def _by_rule(
    function: tirx.PrimFunc, target: tvm.target.Target, precision: str, limits: Limits
) -> Iterator[ScheduledFunction]:
    try:
        match = match_gemm(function)
        for tile in tiles(match, target, precision, limits):
            yield described(f"gemm_{tile.name}", gemm(match, tile))
        return
    except NoRule:
        pass
    try:
        for name, kernel in window_kernels(function, limits):
            yield described(name, kernel)
    except (NoRule, s_tir.ScheduleError):  # loops that cannot be moved
        return


def _by_dlight(
    rules: Sequence[dlight.ScheduleRule], function: tirx.PrimFunc, target: tvm.target.Target
) -> Iterator[ScheduledFunction]:
    for rule in rules:
        scheduled = _apply(rule, function, target)
        if scheduled is not None:
            yield scheduled
            break
    fallback = plain_schedule(function, target)
    if fallback is not None:
        yield fallback


def _apply(
    rule: dlight.ScheduleRule, function: tirx.PrimFunc, target: tvm.target.Target
) -> ScheduledFunction | None:
    try:
        with target:
            result = rule.apply(function, target, False)
    except Exception:  # dlight's rules fail in many ways on functions they do not expect
        return None
    if result is None:
        return None
    sch = result if isinstance(result, s_tir.Schedule) else result[0]
    scheduled = sch.mod["main"].with_attr("tirx.is_scheduled", True)
    return described(f"dlight_{type(rule).__name__}", scheduled) if _is_bound(scheduled) else None


def described(name: str, function: tirx.PrimFunc) -> ScheduledFunction:
    """Describe a scheduled function: its launches and its workspace."""
    root = function.body.block
    workspace = any(str(b.scope()) in ("", "global") for b in root.alloc_buffers)
    return ScheduledFunction(name, function, len(_nests(function)), workspace)


def _nests(function: tirx.PrimFunc) -> list[tirx.Stmt]:
    body = function.body.block.body
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _is_bound(function: tirx.PrimFunc) -> bool:
    """Return whether every nest runs on the device; TVM would run an unbound one on the host."""
    return all(_has_threads(nest) for nest in _nests(function))


def _has_threads(nest: tirx.Stmt) -> bool:
    bound: list[tirx.For] = []

    def visit(loop: tirx.For) -> None:
        if loop.kind == tirx.ForKind.THREAD_BINDING:
            bound.append(loop)

    tvm_ffi.structural_walk(nest, [(tirx.For, visit)])
    return bool(bound)
