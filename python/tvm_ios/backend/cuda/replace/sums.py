# SPDX-License-Identifier: Apache-2.0
"""Replacement of convolutions that are added up by one CUDA kernel that stores only the sum.

Convolutions of one input become one convolution, whose weights are the sum of theirs. Convolutions
of several inputs become one matrix product, whose depth runs through all of them without a copy. If
factors are rounded (``--precision``), an input that is added to its convolution is rounded, too,
because it becomes a factor.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import relax

from ....graph.operators import Operator
from ....lowering.implementation import Implementation
from ....lowering.replacements.convolution_sum import Adding, Combination, Term, added_up, sums_of
from ....lowering.replacements.rule import Rule
from ....lowering.replacements.sums import leading_sum
from ....lowering.value import Value, identity
from ..kernels.kernel import CudaKernel
from ..kernels.schedule import schedule_sum, scheduled_kernel
from ..rules.config import CudaLoweredGraph
from ..rules.function import operator_function
from ..rules.layouts import CHANNELS_LAST
from .combine import Emit, combines, convolution, rebuilt


def _fits(lowered: CudaLoweredGraph, op: Operator) -> Adding | None:
    return Adding() if combines(op) and op.outputs[0] in lowered.layouts else None


def _add(lowered: CudaLoweredGraph, operators: tuple[int, ...]) -> Implementation[CudaKernel]:
    op = lowered.graph.operators[operators[-1]]  # the last one reads the others
    combination = added_up(lowered, operators)
    first = _with_ending(op, combination)
    others = (_alone(op, term) for term in combination.terms[1:])
    slots = dict(lowered.slots)
    if op.outputs[0] in slots:
        slots[first.outputs[0]] = slots[op.outputs[0]]
    parts = [
        operator_function(part, {**lowered.layouts, part.outputs[0]: CHANNELS_LAST}, slots)
        for part in (first, *others)
    ]
    functions = [function for function, _ in parts]
    inputs, places = _numbered([values for _, values in parts])
    config = lowered.config
    scheduled = schedule_sum(functions, places, config.target, config.precision, config.limits)
    key = ("added", scheduled.name, places, tuple(map(tvm_ffi.StructuralKey, functions)))
    kernel = scheduled_kernel("conv2d_added", key, scheduled, len(inputs))
    return Implementation(operators, kernel, inputs, op.outputs)


def _with_ending(op: Operator, combination: Combination) -> Operator:
    """Return the first convolution, followed by the other addends and by the rest of ``op``."""
    taken = leading_sum(op).steps
    first, shift = combination.terms[0], combination.shift.astype("float32")

    def body(emit: Emit) -> None:
        value = emit(convolution(first.data, first.weights, first.windows))
        if shift.any():
            value = emit(relax.op.add(value, relax.const(shift.reshape(1, -1, 1, 1))))
        for addend in combination.addends:
            value = emit(relax.op.add(value, addend))
        values = {op.bindings[taken].var: value}
        renamed = [(relax.Var, lambda variable: values.get(variable, variable))]
        for binding in op.bindings[taken + 1 :]:  # each binding after the anchor is a step
            values[binding.var] = emit(tvm_ffi.structural_map(binding.value, renamed))

    return rebuilt(op, body)


def _alone(op: Operator, term: Term) -> Operator:
    return rebuilt(op, lambda emit: emit(convolution(term.data, term.weights, term.windows)))


def _numbered(
    parts: Sequence[Sequence[Value]],
) -> tuple[tuple[Value, ...], tuple[tuple[int, ...], ...]]:
    """Return the values that all parts read, each once, and their positions for each part."""
    values = {identity(value): value for part in parts for value in part}
    place = {key: i for i, key in enumerate(values)}
    places = tuple(tuple(place[identity(value)] for value in part) for part in parts)
    return tuple(values.values()), places


ADD_CONVOLUTIONS = Rule("convolution-add", sums_of(_fits), _add)
