# SPDX-License-Identifier: Apache-2.0
"""What the package has no rule for is never an error and never a wrong result."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from support.networks import (
    check_scheduled,
    constant,
    conv,
    relax_module,
)

IMAGE = (1, 20, 6, 6)
op = relax.op

AFTER_CONVOLUTION = {
    "orders": {
        "cumsum": lambda x: op.cumsum(x, axis=1),
        "sort": lambda x: op.sort(x, axis=1, descending=True),
        "argsort": lambda x: op.argsort(x, axis=1),
        "argmax": lambda x: op.argmax(x, axis=1),
        "topk": lambda x: op.topk(x, k=3, axis=1, ret_type="values"),
        "take": lambda x: op.take(x, relax.const(np.array([3, 1, 19])), axis=1),
    },
    "shapes": {
        "transpose": lambda x: op.permute_dims(x, [0, 2, 3, 1]),
        "reshape": lambda x: op.reshape(x, (20, 36)),
        "flatten": lambda x: op.reshape(x, (1, 720)),
        "pad": lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 2, 1, 2], "constant", 0.5),
        "resize": lambda x: op.image.resize2d(x, (9, 12), layout="NCHW"),
        "slice": lambda x: op.strided_slice(x, axes=[1], begin=[3], end=[17], strides=[2]),
        "tile": lambda x: op.tile(x, (1, 2, 1, 1)),
        "concat of rows": lambda x: op.concat([x, x], axis=2),
        "concat with itself": lambda x: op.concat([x, x], axis=1),
    },
    "norms": {
        "softmax": lambda x: op.nn.softmax(x, axis=1),
        "log_softmax": lambda x: op.nn.log_softmax(x, axis=1),
        "layer_norm": lambda x: op.nn.layer_norm(x, constant(6), constant(6, seed=1), axes=[-1]),
        "group_norm": lambda x: op.nn.group_norm(
            x, constant(20), constant(20, seed=1), num_groups=4, channel_axis=1, axes=[2, 3]
        ),
        "prelu": lambda x: op.nn.prelu(x, constant(20), axis=1),
        "power": lambda x: op.power(x, relax.const(2.0)),
    },
    "reductions": {
        "mean of all": lambda x: op.mean(x),
        "mean of all, kept": lambda x: op.mean(x, keepdims=True),
        "mean of channels": lambda x: op.mean(x, axis=1, keepdims=True),
        "sum": lambda x: op.sum(x, axis=[2, 3]),
        "variance": lambda x: op.variance(x, axis=[2, 3], keepdims=True),
        "adaptive pool": lambda x: op.nn.adaptive_avg_pool2d(x, (2, 3)),
        "dilated pool": lambda x: op.nn.max_pool2d(x, (2, 2), dilation=(2, 2)),
    },
    "types": {
        "cast": lambda x: op.astype(x, "int32"),
        "half": lambda x: op.astype(x, "float16"),
        "comparison": lambda x: op.greater(x, relax.const(0.0)),
        "zeros": lambda x: op.zeros_like(x),
        "double": lambda x: op.astype(x, "float64"),
    },
    "products": {
        "transposed": lambda x: op.nn.conv2d_transpose(x, constant(20, 7, 3, 3), padding=1),
        "multiplier": lambda x: op.nn.conv2d(x, constant(40, 1, 3, 3), groups=20),
        "grouped, odd": lambda x: op.nn.conv2d(x, constant(10, 10, 3, 3), groups=2),
        "dense": lambda x: op.matmul(x, constant(6, 9)),
    },
}


@pytest.mark.parametrize("family", AFTER_CONVOLUTION.values(), ids=AFTER_CONVOLUTION)
def test_operations_after_a_convolution(family) -> None:
    """The convolution and the pooling work in the blocked layout; what else reads it may not."""

    def body(emit, x):
        value = emit(conv(x, 20))
        others = [emit(make(value)) for make in family.values()]
        return relax.Tuple([*others, emit(op.nn.max_pool2d(value, (3, 3), padding=1))])

    check_scheduled(relax_module(body, IMAGE))


@pytest.mark.parametrize("make", [op.cumsum, op.sort], ids=["cumsum", "sort"])
def test_a_chain_through_an_operation_without_a_kernel(make) -> None:
    def body(emit, x):
        value = emit(make(emit(conv(x, 20)), axis=1))
        return emit(op.nn.max_pool2d(emit(conv(value, 20)), (3, 3), padding=1))

    check_scheduled(relax_module(body, IMAGE))


def test_a_pooling_whose_windows_differ_in_size() -> None:
    """TVM narrows its indices in part; it stays TVM's own, between two operators that do not."""

    def body(emit, x):
        pooled = emit(op.nn.adaptive_avg_pool2d(emit(conv(x, 20)), (3, 3)))
        return relax.Tuple([pooled, emit(conv(pooled, 8))])

    check_scheduled(relax_module(body, (1, 4, 7, 7)))


def test_several_results_of_one_operation() -> None:
    def body(emit, x):
        parts = emit(op.split(emit(conv(x, 24)), [5, 16], axis=1))
        a, b, c = (emit(relax.TupleGetItem(parts, i)) for i in range(3))
        return relax.Tuple([emit(conv(b, 20)), emit(op.nn.relu(a)), c])

    check_scheduled(relax_module(body, IMAGE))


def test_top_k_with_indices() -> None:
    def body(emit, x):
        best = emit(op.topk(emit(conv(x, 20)), k=2, axis=1))
        return relax.Tuple([emit(relax.TupleGetItem(best, i)) for i in (1, 0)])

    check_scheduled(relax_module(body, IMAGE))


def test_a_tuple_that_is_passed_on_whole() -> None:
    def body(emit, x):
        parts = emit(op.split(emit(conv(x, 20)), 2, axis=1))
        return emit(op.concat(parts, axis=2))

    check_scheduled(relax_module(body, IMAGE))


def test_attention() -> None:
    def body(emit, q, k, v):
        return emit(op.nn.relu(emit(op.nn.attention(q, k, v))))

    check_scheduled(relax_module(body, (1, 4, 2, 8), (1, 6, 2, 8), (1, 6, 2, 8)))


def test_integer_inputs() -> None:
    def body(emit, x, table):
        rows = emit(op.take(table, x, axis=0))
        return emit(op.nn.relu(emit(op.matmul(rows, constant(12, 9)))))

    check_scheduled(relax_module(body, relax.TensorType((5,), "int64"), (8, 12)))


@pytest.mark.parametrize("groups", [1, 2, 20])
def test_weights_that_are_inputs(groups: int) -> None:
    def body(emit, x, w, bias, dense):
        value = emit(op.nn.conv2d(x, w, padding=1, groups=groups))
        value = emit(op.nn.relu(emit(op.add(value, bias))))
        pooled = emit(op.reshape(emit(op.nn.adaptive_avg_pool2d(value, (1, 1))), (1, 20)))
        return emit(op.matmul(pooled, dense))

    check_scheduled(relax_module(body, IMAGE, (20, 20 // groups, 3, 3), (1, 20, 1, 1), (20, 7)))


def test_weights_that_a_convolution_computes() -> None:
    def body(emit, x, w):
        return emit(op.nn.conv2d(x, emit(conv(w, 20)), padding=1))

    check_scheduled(relax_module(body, IMAGE, (20, 20, 3, 3)))


def test_a_constant_image_and_a_constant_among_concatenated() -> None:
    def body(emit, x):
        value = emit(op.concat([emit(conv(x, 20)), constant(1, 5, 6, 6)], axis=1))
        return emit(op.add(value, constant(1, 25, 6, 6)))

    check_scheduled(relax_module(body, IMAGE))


def test_the_same_result_twice_and_an_input_as_a_result() -> None:
    def body(emit, x):
        value = emit(conv(x, 20))
        return relax.Tuple([value, x, relax.Tuple([value])])

    check_scheduled(relax_module(body, IMAGE))


@pytest.mark.parametrize("layout", [("NHWC", "HWIO"), ("NHWC", "OHWI")])
def test_other_layouts(layout: tuple[str, str]) -> None:
    def body(emit, x):
        shape = (3, 3, 20, 8) if layout[1] == "HWIO" else (8, 3, 3, 20)
        attrs = {"data_layout": layout[0], "kernel_layout": layout[1]}
        value = emit(op.nn.conv2d(x, constant(*shape), **attrs))
        return emit(op.nn.avg_pool2d(value, (2, 2), layout=layout[0]))

    check_scheduled(relax_module(body, (1, 6, 6, 20)))


def test_other_types() -> None:
    def body(emit, x):
        value = emit(op.nn.conv2d(x, relax.const(np.ones((4, 20, 3, 3)), "float64")))
        return emit(op.nn.relu(value))

    check_scheduled(relax_module(body, relax.TensorType(IMAGE, "float64")))


def test_measuring_what_has_no_kernel_and_reads_integers_and_tuples() -> None:
    def body(emit, x, indices, pair):
        value = emit(op.sort(emit(conv(x, 20)), axis=1))
        pooled = emit(op.nn.max_pool2d(value, (3, 3), padding=1))
        both = emit(op.add(*(emit(relax.TupleGetItem(pair, i)) for i in range(2))))
        return emit(op.multiply(emit(op.take(pooled, indices, axis=1)), both))

    pair = relax.TupleType([relax.TensorType((1, 3, 6, 6), "float32")] * 2)
    mod = relax_module(body, IMAGE, relax.TensorType((3,), "int64"), pair)
    random = np.random.default_rng(0)
    shapes = (IMAGE, (1, 3, 6, 6), (1, 3, 6, 6))
    image, *others = (random.standard_normal(shape).astype("float32") for shape in shapes)
    arguments = [image, np.array([2, 0, 7]), tuple(others)]
    check_scheduled(mod, cost_model="measure", arguments=arguments)
