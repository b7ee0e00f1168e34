# SPDX-License-Identifier: Apache-2.0
"""Replacement of convolutions that are added up by one kernel that stores only the sum."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from ....graph.operators import Operator
from ....lowering.implementation import Implementation
from ....lowering.replacements.convolution_sum import Adding, Term, added_up, sums_of
from ....lowering.replacements.rule import Rule
from ....lowering.replacements.sums import with_sum
from ....ops.epilogue import Epilogue
from ....relax_ir.expressions import static_shape
from ..kernels.conv.shape import Conv2d
from ..kernels.conv.sum import conv2d_sum_kernel
from ..kernels.kernel import Kernel
from ..kernels.layout import Layout
from ..rules.base import CpuLoweredGraph
from ..rules.bindings import InputBinding
from ..rules.convolution import bf16_operands, bf16_source, convolve, convolve_bf16
from ..rules.precision import rounds_operands
from ..rules.quantized import multiplies_bytes
from .convolutions import stays_blocked


def _add(lowered: CpuLoweredGraph, operators: tuple[int, ...]) -> Implementation[Kernel]:
    op = lowered.graph.operators[operators[-1]]  # the last one reads the others
    bf16 = rounds_operands(op, lowered.config)
    combination = added_up(lowered, operators, identities=not bf16)
    rewritten = with_sum(op, combination.shift, combination.addends)
    binder, result = lowered.binder, Layout(lowered.config.core.lanes)
    convolve_terms = _convolve_bf16 if bf16 else _convolve
    kernel, bindings = convolve_terms(lowered, combination.terms, rewritten.epilogue)
    shape = static_shape(op.anchor, "a result")
    pairs = zip(rewritten.arguments, rewritten.epilogue.arguments, strict=True)
    bindings += tuple(binder.argument(expr, kind, result, shape) for expr, kind in pairs)
    return lowered.implementation(operators, kernel, bindings, op.outputs)


def _convolve(
    lowered: CpuLoweredGraph, terms: Sequence[Term], epilogue: Epilogue
) -> tuple[Kernel, tuple[InputBinding, ...]]:
    """Return the kernel of the sum of the terms, and its bindings without the epilogue's."""
    binder, core = lowered.binder, lowered.config.core
    sources = [binder.layout(term.data) for term in terms]
    weights = [_weights(term) for term in terms]
    convs = [_conv(term, epilogue) for term in terms]
    if len(terms) == 1:
        data = terms[0].data
        return convolve(convs[0], data, sources[0], weights[0], binder, lowered.config)
    images = [binder.feature_map(t.data, source) for t, source in zip(terms, sources, strict=True)]
    kernel = conv2d_sum_kernel(convs, epilogue, sources, Layout(core.lanes), core)
    bindings = [
        (image, binder.weights(w, source.block or 1, core.lanes, 1))
        for image, w, source in zip(images, weights, sources, strict=True)
    ]
    return kernel, tuple(binding for pair in bindings for binding in pair)


def _convolve_bf16(
    lowered: CpuLoweredGraph, terms: Sequence[Term], epilogue: Epilogue
) -> tuple[Kernel, tuple[InputBinding, ...]]:
    """Do the same for a sum of convolutions of bfloat16."""
    binder, core = lowered.binder, lowered.config.core
    convs = [_conv(term, epilogue) for term in terms]
    if len(terms) == 1:
        return convolve_bf16(convs[0], terms[0].data, [_weights(terms[0])], binder, core)
    sources = [bf16_source(c, t.data, binder, core) for c, t in zip(convs, terms, strict=True)]
    kernel = conv2d_sum_kernel(convs, epilogue, sources, Layout(core.lanes), core, factors="pairs")
    bindings = [
        binding
        for term, source in zip(terms, sources, strict=True)
        for binding in bf16_operands(1, term.data, [_weights(term)], source, binder, core)
    ]
    return kernel, tuple(bindings)


def _weights(term: Term) -> relax.Constant:
    return relax.const(term.weights.astype("float32"), "float32")


def _conv(term: Term, epilogue: Epilogue) -> Conv2d:
    batch, channels = static_shape(term.data, "a feature map")[:2]
    results = (term.weights.shape[0],)
    windows = term.windows
    return Conv2d(batch, channels, windows.rows, windows.columns, results, epilogue=epilogue)


def _adding(lowered: CpuLoweredGraph, op: Operator) -> Adding | None:
    """Return how the operator's result is added to others; products of bytes are not."""
    if not stays_blocked(lowered, op) or multiplies_bytes(lowered, op):
        return None
    bf16 = rounds_operands(op, lowered.config)
    return Adding("pairs" if bf16 else "single", identities=not bf16)


CONVOLUTION_ADD = Rule("convolution-add", sums_of(_adding), _add)
