# SPDX-License-Identifier: Apache-2.0
"""Replacement of convolutions that are added up by one kernel that stores only the sum."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from ....graph.recognise import static_shape
from ....tir.epilogue import Program
from ...shared.implementation import Implementation, LoweredGraph
from ...shared.replacements.convolution_sum import Term, added_up, sums_of
from ...shared.replacements.rule import Rule
from ...shared.replacements.sums import with_sum
from ..kernels.conv2d import Conv2d
from ..kernels.conv2d_sum import conv2d_sum_kernel
from ..kernels.kernel import Kernel
from ..kernels.layout import Layout
from ..rules.convolution import convolve
from ..rules.feeds import Feed, Feeder, apply_conversions
from .convolutions import stays_blocked


def _add(lowered: LoweredGraph[Kernel], operators: tuple[int, ...]) -> Implementation[Kernel]:
    op = lowered.graph.operators[operators[-1]]  # the last one reads the others
    combination = added_up(lowered, operators)
    rewritten = with_sum(op, combination.shift, combination.addends)
    feeder, result = Feeder(lowered.layouts), Layout(lowered.preferences.core.lanes)
    kernel, feeds = _convolve(lowered, combination.terms, rewritten.program)
    shape = static_shape(op.anchor, "a result")
    pairs = zip(rewritten.arguments, rewritten.program.arguments, strict=True)
    feeds += tuple(feeder.argument(expr, kind, result, shape) for expr, kind in pairs)
    inputs = tuple(feed.value for feed in feeds)
    return Implementation(operators, apply_conversions(kernel, feeds), inputs, op.outputs)


def _convolve(
    lowered: LoweredGraph[Kernel], terms: Sequence[Term], program: Program
) -> tuple[Kernel, tuple[Feed, ...]]:
    """Return the kernel of the sum of the terms, and its bindings without the epilogue's."""
    feeder, core = Feeder(lowered.layouts), lowered.preferences.core
    sources = [feeder.layout(term.data) for term in terms]
    weights = [relax.const(term.weights.astype("float32"), "float32") for term in terms]
    images = [feeder.feature_map(t.data, source) for t, source in zip(terms, sources, strict=True)]
    convs = [_conv(term, program) for term in terms]
    if len(terms) == 1:
        kernel, packed = convolve(convs[0], sources[0], weights[0], feeder, lowered.preferences)
        return kernel, (images[0], packed)
    kernel = conv2d_sum_kernel(convs, program, sources, Layout(core.lanes), core)
    feeds = [
        (image, feeder.weights(w, source.block or 1, core.lanes, 1))
        for image, w, source in zip(images, weights, sources, strict=True)
    ]
    return kernel, tuple(feed for pair in feeds for feed in pair)


def _conv(term: Term, program: Program) -> Conv2d:
    batch, channels = static_shape(term.data, "a feature map")[:2]
    results = (term.weights.shape[0],)
    windows = term.windows
    return Conv2d(batch, channels, windows.rows, windows.columns, results, program=program)


CONVOLUTION_ADD = Rule("convolution-add", sums_of(stays_blocked), _add)
