# SPDX-License-Identifier: Apache-2.0
"""Operators that stand together in networks, and that schedules treat together.

What is drawn one by one hardly ever has two convolutions that one may replace, or results that are
written in place into a concatenation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..draw import Draw, Refused
from .table import ONNX

_ACTIVATIONS = ("Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish")


def _finished(d: Draw, x: str) -> str:
    """What mostly follows a convolution."""
    if d.chance(0.2):
        channels = d.dims(x)[1]
        variance = d.constant(d.random.uniform(0.3, 2.0, channels), "float32")
        x = d.add("BatchNormalization", [x, *(d.numbers(channels) for _ in range(3)), variance])
    return d.add(d.pick(_ACTIVATIONS), [x]) if d.chance(0.5) else x


def _conv(d: Draw, x: str, out: int, kernel: tuple[int, int], **attributes: Any) -> str:
    weights = d.weights(out, d.dims(x)[1] // attributes.get("group", 1), *kernel)
    bias = [d.numbers(out)] if d.chance(0.5) else []
    pads = [(k - 1) // 2 for k in kernel] * 2
    return d.add("Conv", [x, weights, *bias], kernel_shape=list(kernel), pads=pads, **attributes)


def _kernel(d: Draw) -> tuple[int, int]:
    return d.pick([(1, 1), (3, 3), (3, 3), (1, 3), (3, 1), (5, 5), (1, 7)])


def _image(d: Draw) -> str:
    return d.operand(4, where=lambda name: d.types[name].size > 0)


@ONNX.motif("branches", 5.0)
def branches(d: Draw) -> None:
    """Convolutions and poolings of one image, of one size, that are concatenated or added up."""
    x = _image(d)
    strides = d.pick([[1, 1], [1, 1], [1, 1], [2, 2], [2, 1]])
    total, out = d.chance(0.3), d.pick([4, 8, 16, 17, 24, 33])
    # Parts of whole vectors are written in place, where the image is read blocked by the next.
    widths = (16, 32, 48) if d.chance(0.5) else (3, 8, 16, 17, out)
    results = []
    for _ in range(d.integer(2, 4)):
        if not total and d.chance(0.25):
            kind = d.pick(["MaxPool", "AveragePool"])
            window = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": strides}
            results.append(d.add(kind, [x], exact=kind == "MaxPool", **window))
            continue
        width = out if total else d.pick(widths)
        results.append(_finished(d, _conv(d, x, width, _kernel(d), strides=strides)))
    if d.chance(0.15):
        return
    if total:
        for other in results[1:]:
            results[0] = d.add("Add", d.pick([[results[0], other], [other, results[0]]]))
        return
    joined = d.add("Concat", results, axis=1)
    if d.chance(0.3):
        joined = d.add(d.pick(_ACTIVATIONS), [joined])
    if d.chance(0.5):
        _finished(d, _conv(d, joined, 8, _kernel(d)))


@ONNX.motif("residual", 2.5)
def residual(d: Draw) -> None:
    """An image, and convolutions of it, added up."""
    x = _image(d)
    y, channels = x, d.dims(x)[1]
    for _ in range(d.integer(0, 1)):
        y = _finished(d, _conv(d, y, d.pick([8, 16, 19]), _kernel(d)))
    y = _conv(d, y, channels, _kernel(d))
    total = d.add("Add", d.pick([[x, y], [y, x]]))
    if d.chance(0.6):
        d.add("Relu", [total])


@ONNX.motif("dense layers", 1.5)
def dense_layers(d: Draw) -> None:
    """Products of one matrix with several."""
    x = d.operand((2, 3))
    depth = d.dims(x)[-1]
    for _ in range(d.integer(2, 4)):
        columns = d.pick([3, 8, 16, 24, 33])
        y = d.add("MatMul", [x, d.weights(depth, columns, fan=depth)])
        if d.chance(0.6):
            y = d.add("Add", [y, d.numbers(columns)])
        if d.chance(0.4):
            d.add(d.pick(_ACTIVATIONS), [y])


@ONNX.motif("attention", 1.0)
def attention(d: Draw) -> None:
    """One head or several, of a sequence whose positions attend to one another."""
    x = d.operand(3)
    if not d.types[x].size:
        raise Refused
    batch, length, depth = d.dims(x)
    query, key, value = (d.add("MatMul", [x, d.weights(depth, 16, fan=depth)]) for _ in range(3))
    heads = d.pick([0, 1, 2, 4])
    axes = [0, 2, 1]
    if heads:
        shape = d.constant(np.array([batch, length, heads, 16 // heads]))
        rows = [d.add("Reshape", [y, shape], exact=True) for y in (query, key, value)]
        query, key, value = (d.add("Transpose", [y], perm=[0, 2, 1, 3], exact=True) for y in rows)
        axes = [0, 1, 3, 2]
    scores = d.add("MatMul", [query, d.add("Transpose", [key], perm=axes, exact=True)])
    scores = d.add("Mul", [scores, d.constant(np.float32(0.25))])
    if d.chance(0.4):
        bias = d.pick([(length,), (length, length), (1,) * (len(axes) - 2) + (1, length)])
        scores = d.add("Add", d.pick([[scores, d.numbers(*bias)], [d.numbers(*bias), scores]]))
    result = d.add("MatMul", [d.add("Softmax", [scores], axis=-1), value])
    if heads and d.chance(0.8):
        d.add("Transpose", [result], perm=[0, 2, 1, 3], exact=True)


@ONNX.motif("depthwise separable", 1.5)
def separable(d: Draw) -> None:
    x = _image(d)
    channels = d.dims(x)[1]
    strides = d.pick([[1, 1], [2, 2]])
    kernel = d.pick([(3, 3), (5, 5)])
    y = _finished(d, _conv(d, x, channels, kernel, group=channels, strides=strides))
    _finished(d, _conv(d, y, d.pick([8, 16, 20]), (1, 1)))


@ONNX.motif("winograd", 0.7)
def wide(d: Draw) -> None:
    """A convolution that is large enough for Winograd's algorithm."""
    if len(d.inputs) >= 6:
        raise Refused
    x = d.input((d.pick([1, 2]), d.pick([8, 16, 19, 32]), d.integer(7, 14), d.integer(7, 14)))
    y = _conv(d, x, 32, (3, 3))
    _finished(d, _conv(d, y, 32, (3, 3)))


@ONNX.motif("gate", 1.0)
def gate(d: Draw) -> None:
    """An image times what is made of its means."""
    x = _image(d)
    mean = d.add("GlobalAveragePool", [x])
    weights = _conv(d, mean, d.dims(x)[1], (1, 1))
    d.add("Mul", [x, d.add("Sigmoid", [weights])])
