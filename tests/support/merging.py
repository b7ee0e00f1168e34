# SPDX-License-Identifier: Apache-2.0
"""Networks whose convolutions can be merged."""

from __future__ import annotations

import tvm
from tvm import relax

from support.networks import constant, relax_module

op = relax.op
IMAGE = (2, 20, 9, 10)


def branches(*convs: dict, relu: bool = True, image=IMAGE) -> tvm.IRModule:
    """Convolutions of one tensor, each with a bias, then their concatenation."""

    def body(emit, x):
        x = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
        results = []
        for i, attrs in enumerate(convs):
            attrs = {"channels": 24, "kernel": (3, 3), **attrs}
            channels, kernel = attrs.pop("channels"), attrs.pop("kernel")
            width = image[1] // attrs.get("groups", 1)
            weights = constant(channels, width, *kernel, seed=i, scale=0.2)
            value = emit(op.nn.conv2d(x, weights, **attrs))
            value = emit(op.add(value, constant(1, channels, 1, 1, seed=i)))
            results.append(emit(op.nn.relu(value)) if relu or i else value)
        pooled = [emit(op.nn.avg_pool2d(value, (2, 2))) for value in results]
        return relax.Tuple(pooled)

    return relax_module(body, image)


def inception_e() -> tvm.IRModule:
    """A block like Inception-v3's last ones: 1x3 and 3x1 of one tensor, twice."""

    def unit(emit, data, kernel, channels, seed):
        weights = constant(channels, int(data.ty.shape.values[1]), *kernel, seed=seed, scale=0.2)
        value = emit(op.nn.conv2d(data, weights, padding=(kernel[0] // 2, kernel[1] // 2)))
        return emit(op.nn.relu(emit(op.add(value, constant(1, channels, 1, 1, seed=seed)))))

    def body(emit, x):
        x = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
        parts = [unit(emit, x, (1, 1), 20, 0)]
        for seed, sizes in ((1, [(1, 1)]), (5, [(1, 1), (3, 3)])):
            value = x
            for i, kernel in enumerate(sizes):
                value = unit(emit, value, kernel, 24, seed + i)
            parts += [
                unit(emit, value, (1, 3), 17, seed + 2),
                unit(emit, value, (3, 1), 33, seed + 3),
            ]
        return emit(op.nn.avg_pool2d(emit(op.concat(parts, axis=1)), (2, 2)))

    return relax_module(body, (1, 19, 8, 9))
