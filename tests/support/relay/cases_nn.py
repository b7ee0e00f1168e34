# SPDX-License-Identifier: Apache-2.0
"""Cases of convolutions, poolings, normalisations, products and activations."""

from __future__ import annotations

import numpy as np

from support.relay.cases import Case, case, rand
from support.relay.reference import adaptive_pool, conv, conv_transpose, pool


def _convolutions() -> list[Case]:
    x, w = rand(2, 5, 9, 8), rand(7, 5, 3, 2)
    plain = conv(x, w, (1, 1), (0, 0), (0, 0))
    nhwc, hwio = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)
    blocked, filters = rand(1, 8, 6, 5), rand(12, 8, 3, 3)
    image = blocked.reshape(1, 2, 4, 6, 5).transpose(0, 1, 3, 4, 2)
    tiles = filters.reshape(3, 4, 2, 4, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    packed = conv(blocked, filters, (1, 1), (1, 1), (1, 1))
    result = packed.reshape(1, 3, 4, 6, 5).transpose(0, 1, 3, 4, 2)
    deep = rand(4, 1, 3, 3)
    depth = deep.reshape(1, 4, 1, 3, 3).transpose(0, 2, 3, 4, 1).reshape(1, 1, 3, 3, 1, 4)
    by_channel = conv(blocked[:, :4], deep, (2, 2), (1, 1), (1, 1), groups=4)
    several = rand(4, 2, 3, 3)
    line, volume = rand(2, 4, 11), rand(1, 3, 5, 6, 4)
    one, three = rand(6, 2, 3), rand(2, 3, 2, 3, 1)
    return [
        case("nn.conv2d", [x, w], plain),
        case("nn.conv2d", [x, w], plain, channels=7, kernel_size=(3, 2), out_dtype="void"),
        case("nn.conv2d", [x, w], conv(x, w, (2, 1), (2, 2), (2, 2)), strides=(2, 1), padding=(2,)),
        case("nn.conv2d", [x, w], conv(x, w, (1, 1), (1, 0), (1, 0)), padding=(1, 0)),
        case(
            "nn.conv2d", [x, w], conv(x, w, (2, 2), (1, 2), (0, 3), (2, 3)),
            strides=(2, 2), padding=(1, 2, 0, 3), dilation=(2, 3),
        ),
        case(
            "nn.conv2d", [nhwc, hwio], plain.transpose(0, 2, 3, 1),
            data_layout="NHWC", kernel_layout="HWIO",
        ),
        case(
            "nn.conv2d", [nhwc, hwio], plain,
            data_layout="NHWC", kernel_layout="HWIO", out_layout="NCHW",
        ),
        case(
            "nn.conv2d", [blocked, rand_groups := rand(6, 4, 3, 3)],
            conv(blocked, rand_groups, (1, 1), (0, 0), (0, 0), groups=2), groups=2,
        ),
        case(
            "nn.conv2d", [blocked[:, :4], several],
            conv(blocked[:, :4], several.reshape(8, 1, 3, 3), (1, 1), (0, 0), (0, 0), groups=4),
            groups=4, channels=8,
        ),
        case(
            "nn.contrib_conv2d_NCHWc", [image, tiles], result,
            padding=(1, 1), data_layout="NCHW4c", kernel_layout="OIHW4i4o", out_layout="NCHW4c",
        ),
        case(
            "nn.contrib_depthwise_conv2d_NCHWc", [image[:, :1], depth],
            by_channel.reshape(1, 1, 4, 3, 3).transpose(0, 1, 3, 4, 2), strides=(2, 2),
            padding=(1, 1), groups=4, data_layout="NCHW4c", kernel_layout="OIHW1i4o",
        ),
        case(
            "nn.conv1d", [line, one], conv(line, one, (2,), (1,), (2,), groups=2),
            strides=(2,), padding=(1, 2), groups=2,
        ),
        case(
            "nn.conv1d", [line.transpose(0, 2, 1), one1 := rand(3, 4, 5)],
            conv(line, one1.transpose(2, 1, 0), (1,), (1,), (1,)).transpose(0, 2, 1),
            padding=(1,), data_layout="NWC", kernel_layout="WIO",
        ),
        case(
            "nn.conv3d", [volume, three], conv(volume, three, (1, 2, 1), (1, 0, 0), (0, 1, 2)),
            strides=(1, 2, 1), padding=(1, 0, 0, 0, 1, 2),
        ),
    ]  # fmt: skip


def _transposed() -> list[Case]:
    x, w = rand(1, 4, 5, 4), rand(4, 3, 3, 2)
    twice = conv_transpose(x, w, (2, 2), (1, 0), (1, 1), (0, 0))
    grouped = rand(4, 2, 3, 3)
    line, one = rand(2, 3, 6), rand(3, 4, 4)
    volume, three = rand(1, 2, 3, 4, 3), rand(2, 3, 2, 2, 3)
    return [
        case("nn.conv2d_transpose", [x, w], conv_transpose(x, w, (1, 1), (0, 0), (0, 0), (0, 0))),
        case("nn.conv2d_transpose", [x, w], twice, strides=(2, 2), padding=(1, 0, 1, 1)),
        case(
            "nn.conv2d_transpose", [x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)],
            twice.transpose(0, 2, 3, 1), strides=(2, 2), padding=(1, 0, 1, 1),
            data_layout="NHWC", kernel_layout="HWOI",
        ),
        case(
            "nn.conv2d_transpose", [x, grouped],
            conv_transpose(x, grouped, (2, 3), (1, 1), (1, 1), (1, 2), groups=2),
            strides=(2, 3), padding=(1, 1), output_padding=(1, 2), groups=2,
        ),
        case(
            "nn.conv1d_transpose", [line, one],
            conv_transpose(line, one, (2,), (1,), (1,), (1,)),
            strides=(2,), padding=(1,), output_padding=(1,), channels=4,
        ),
        case(
            "nn.conv3d_transpose", [volume, three],
            conv_transpose(volume, three, (2, 1, 2), (0, 1, 1), (0, 1, 1), (0, 0, 0)),
            strides=(2, 1, 2), padding=(0, 1, 1),
        ),
    ]  # fmt: skip


def _poolings() -> list[Case]:
    x = rand(1, 3, 7, 8)
    nhwc = x.transpose(0, 2, 3, 1)
    line, volume = rand(2, 3, 9), rand(1, 2, 5, 4, 6)
    maximum = pool(x, np.max, (3, 2), (2, 2), (1, 0), (1, 0))
    blocked = rand(1, 8, 6, 6)
    image = blocked.reshape(1, 2, 4, 6, 6).transpose(0, 1, 3, 4, 2)
    halves = pool(blocked, np.max, (2, 2), (2, 2), (0, 0), (0, 0))
    mean = pool(x, np.mean, (3, 3), (2, 2), (1, 1), (1, 1))
    window = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}
    size = {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 0)}
    far = {"pool_size": (2, 2), "strides": (3, 3), "padding": (1, 1, 2, 2)}
    whole = {"dilation": (1, 2), "ceil_mode": True}
    return [
        case("nn.max_pool2d", [x], maximum, **size),
        case("nn.max_pool2d", [nhwc], maximum.transpose(0, 2, 3, 1), layout="NHWC", **size),
        case(
            "nn.max_pool2d", [image], halves.reshape(1, 2, 4, 3, 3).transpose(0, 1, 3, 4, 2),
            pool_size=(2, 2), strides=(2, 2), layout="NCHW4c",
        ),
        case(
            "nn.max_pool2d", [x],
            pool(x, np.max, (3, 2), (2, 2), (1, 0), (1, 0), dilation=(1, 2), ceil=True),
            **size, **whole,
        ),
        case(
            "nn.max_pool2d", [x],
            pool(x, np.max, (2, 2), (3, 3), (1, 1), (2, 2), ceil=True), ceil_mode=True, **far,
        ),
        case("nn.avg_pool2d", [x], mean, **window),
        case(
            "nn.avg_pool2d", [x],
            pool(x, np.mean, (2, 2), (3, 3), (1, 1), (2, 2), ceil=True), ceil_mode=True, **far,
        ),
        case(
            "nn.avg_pool2d", [x],
            pool(x, np.mean, (3, 3), (2, 2), (1, 1), (1, 1), count_padding=True),
            count_include_pad=True, **window,
        ),
        case(
            "nn.avg_pool2d", [x],
            pool(x, np.mean, (3, 3), (2, 2), (1, 0), (0, 1), ceil=True, count_padding=True),
            pool_size=(3, 3), strides=(2, 2), padding=(1, 0, 0, 1),
            ceil_mode=True, count_include_pad=True,
        ),
        case(
            "nn.max_pool1d", [line], pool(line, np.max, (3,), (2,), (1,), (0,)),
            pool_size=(3,), strides=(2,), padding=(1, 0),
        ),
        case(
            "nn.avg_pool1d", [line], pool(line, np.mean, (4,), (3,), (1,), (1,), ceil=True),
            pool_size=(4,), strides=(3,), padding=(1,), ceil_mode=True,
        ),
        case(
            "nn.max_pool3d", [volume],
            pool(volume, np.max, (2, 2, 3), (2, 1, 2), (0, 1, 1), (0, 1, 1)),
            pool_size=(2, 2, 3), strides=(2, 1, 2), padding=(0, 1, 1),
        ),
        case(
            "nn.avg_pool3d", [volume],
            pool(volume, np.mean, (2, 2, 3), (2, 1, 2), (0, 1, 1), (1, 0, 1)),
            pool_size=(2, 2, 3), strides=(2, 1, 2), padding=(0, 1, 1, 1, 0, 1),
        ),
        *_whole_poolings(x, line, volume),
    ]  # fmt: skip


def _whole_poolings(x: np.ndarray, line: np.ndarray, volume: np.ndarray) -> list[Case]:
    cases = []
    for kind, reduce in (("max", np.max), ("avg", np.mean)):
        over_all = reduce(x, axis=(2, 3), keepdims=True)
        nhwc = x.transpose(0, 2, 3, 1)
        adaptive = f"nn.adaptive_{kind}_pool"
        cases += [
            case(f"nn.global_{kind}_pool2d", [x], over_all),
            case(f"nn.global_{kind}_pool2d", [nhwc], over_all.transpose(0, 2, 3, 1), layout="NHWC"),
            case(f"{adaptive}1d", [line], adaptive_pool(line, reduce, (4,)), output_size=(4,)),
            case(f"{adaptive}2d", [x], adaptive_pool(x, reduce, (3, 5)), output_size=(3, 5)),
            case(f"{adaptive}2d", [x], adaptive_pool(x, reduce, (7, 4)), output_size=(7, 4)),
            case(f"{adaptive}2d", [x], x),
            case(
                f"{adaptive}3d",
                [volume],
                adaptive_pool(volume, reduce, (2, 2, 3)),
                output_size=(2, 2, 3),
            ),
        ]
    return cases


def _normalised(x: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    wide = x.astype("float64")
    variance = wide.var(axes, keepdims=True)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(variance + epsilon)


def _normalisations() -> list[Case]:
    x, last = rand(2, 6, 4, 5), rand(3, 4, 6)
    gamma, beta, mean, var = rand(6), rand(6), rand(6), rand(6, low=0.5, high=2)
    across = (slice(None), None, None)
    batch = (x - mean[across]) / np.sqrt(var[across] + 1e-5) * gamma[across] + beta[across]
    rows = (last - mean) / np.sqrt(var + 1e-3)
    grouped = _normalised(x.reshape(2, 3, 2, 4, 5), (2, 3, 4)).reshape(x.shape)
    squares = np.pad(x.astype("float64") ** 2, [(0, 0), (2, 2), (0, 0), (0, 0)])
    near = sum(squares[:, i : i + 6] for i in range(5))
    pairs = np.pad(x.astype("float64") ** 2, [(0, 0), (0, 0), (0, 0), (1, 0)])
    four = gamma[:4]
    return [
        case("nn.batch_norm", [x, gamma, beta, mean, var], [batch, mean, var]),
        case(
            "nn.batch_norm", [last, gamma, beta, mean, var], [rows, mean, var],
            axis=-1, epsilon=1e-3, scale=False, center=False,
        ),
        case("nn.layer_norm", [last, gamma, beta], _normalised(last, (2,)) * gamma + beta),
        case(
            "nn.layer_norm", [last, four, beta[:4]], _normalised(last, (1,)) * four[:, None],
            axis=1, center=False,
        ),
        case(
            "nn.instance_norm", [x, gamma, beta],
            _normalised(x, (2, 3)) * gamma[across] + beta[across],
        ),
        case(
            "nn.group_norm", [x, gamma, beta], grouped * gamma[across] + beta[across],
            num_groups=3,
        ),
        case(
            "nn.l2_normalize", [x],
            x / np.sqrt(np.maximum((x**2).sum((1, 3), keepdims=True), 1e-3)),
            eps=1e-3, axis=(1, 3),
        ),
        case("nn.lrn", [x], x / (2 + 1e-4 / 5 * near) ** 0.75),
        case(
            "nn.lrn", [x], x / (1 + 0.5 / 2 * (pairs[..., 1:] + pairs[..., :-1])) ** 2,
            size=2, axis=3, bias=1.0, alpha=0.5, beta=2.0,
        ),
    ]  # fmt: skip


def _products() -> list[Case]:
    x, w, b = rand(3, 5), rand(7, 5), rand(2, 5, 4)
    a = rand(2, 3, 5)
    tiles = rand(8, 5)
    return [
        case("nn.dense", [x, w], x @ w.T, units=7),
        case("nn.dense", [a, w], a @ w.T, units=None),
        case("nn.matmul", [x.T.copy(), w], x @ w.T, transpose_a=True, transpose_b=True),
        case("nn.batch_matmul", [a, b], a @ b),
        case("nn.batch_matmul", [a, b.transpose(0, 2, 1)], a @ b, transpose_b=True),
        case("nn.batch_matmul", [a.transpose(0, 2, 1), b[:1]], a @ b[:1], transpose_a=True),
        case(
            "nn.contrib_dense_pack",
            [x, tiles.reshape(2, 4, 5).transpose(0, 2, 1)],
            x @ tiles.T,
            weight_layout="NC4n",
        ),
        case("nn.bias_add", [b, rand5 := rand(5)], b + rand5[:, None]),
        case("nn.bias_add", [b, rand4 := rand(4)], b + rand4, axis=-1),
    ]


def _activations() -> list[Case]:
    x, slopes = rand(2, 5, 3), rand(5)
    exponents = np.exp(x)
    sums = [exponents.sum(axis, keepdims=True) for axis in range(3)]
    return [
        case("nn.relu", [x], np.maximum(x, 0)),
        case("nn.leaky_relu", [x], np.where(x > 0, x, 0.25 * x)),
        case("nn.leaky_relu", [x], np.where(x > 0, x, 0.1 * x), alpha=0.1),
        case("nn.prelu", [x, slopes], np.where(x > 0, x, slopes[:, None] * x)),
        case("nn.softmax", [x], exponents / sums[2]),
        case("nn.softmax", [x], exponents / sums[1], axis=1),
        case("nn.fast_softmax", [x], exponents / sums[2], axis=-1),
        case("nn.log_softmax", [x], x - np.log(sums[2])),
        case("nn.log_softmax", [x], x - np.log(sums[1]), axis=1),
        case("nn.dropout", [x], [x, np.ones_like(x)], rate=0.3),
        case("copy", [x], x),
        case("annotation.stop_fusion", [x], x),
        case("annotation.checkpoint", [x], x),
        case("annotation.compiler_begin", [x], x, compiler="dnnl"),
        case("annotation.compiler_end", [x], x, compiler="dnnl"),
    ]


CASES = [
    *_convolutions(),
    *_transposed(),
    *_poolings(),
    *_normalisations(),
    *_products(),
    *_activations(),
]
