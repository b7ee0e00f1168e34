# SPDX-License-Identifier: Apache-2.0
"""Relax's operators on images, in every layout and number of axes that front ends give."""

from __future__ import annotations

from typing import Any

from ..draw import Draw, Refused
from .onnx_windows import groups
from .table import RELAX

_LAYOUTS = {
    3: (("NCW", "OIW"), ("NWC", "WIO")),
    4: (("NCHW", "OIHW"), ("NCHW", "OIHW"), ("NCHW", "OIHW"), ("NHWC", "HWIO"), ("NHWC", "OHWI")),
    5: (("NCDHW", "OIDHW"), ("NDHWC", "DHWIO")),
}


def _image(d: Draw, ranks: tuple[int, ...] = (4, 4, 4, 3, 5)) -> str:
    x = d.operand(d.pick(ranks))
    if not d.types[x].size:
        raise Refused
    return x


def _layout(d: Draw, x: str) -> tuple[str, str]:
    return d.pick(_LAYOUTS[len(d.dims(x))])


def _planes(d: Draw, x: str, layout: str) -> list[int]:
    return [n for n, axis in zip(d.dims(x), layout, strict=True) if axis not in "NC"]


def _padding(d: Draw, kernel: list[int]) -> list[int]:
    if d.chance(0.4):
        return [(k - 1) // 2 for k in kernel] + [k // 2 for k in kernel]
    return [d.integer(0, k - 1) if d.chance(0.5) else 0 for k in kernel * 2]


def _kernel(d: Draw, planes: list[int]) -> list[int]:
    return [min(n, d.pick([1, 2, 3, 3, 5])) for n in planes]


def _window(d: Draw, planes: list[int], kernel: list[int]) -> dict[str, Any]:
    padding = _padding(d, kernel)
    sides = zip(planes, padding, padding[len(planes) :], strict=False)
    wide = [n + before + after for n, before, after in sides]
    most = [(w - 1) // (k - 1) if k > 1 else 3 for w, k in zip(wide, kernel, strict=True)]
    dilation = [min(m, d.pick([1, 2, 3])) if d.chance(0.2) else 1 for m in most]
    strides = [d.pick([1, 1, 2, 3]) for _ in planes]
    return {"padding": padding, "dilation": dilation, "strides": strides}


@RELAX.operator("nn.conv2d", 8.0)
def convolution(d: Draw) -> None:
    x = _image(d)
    layout, kernel_layout = _layout(d, x)
    planes, channels = _planes(d, x, layout), d.dims(x)[layout.index("C")]
    kernel = _kernel(d, planes)
    parts = groups(d, channels)
    out = parts * d.integer(1, max(1, 36 // parts))
    sizes = iter(kernel)
    shape = [out if a == "O" else channels // parts if a == "I" else next(sizes)
             for a in kernel_layout]  # fmt: skip
    fan = channels // parts * int(len(kernel) and 1)
    for k in kernel:
        fan *= k
    attributes = _window(d, planes, kernel)
    y = d.add(
        f"nn.conv{len(planes)}d",
        [x, d.weights(*shape, fan=fan)],
        groups=parts, data_layout=layout, kernel_layout=kernel_layout, **attributes,
    )  # fmt: skip
    if d.chance(0.5):
        bias = [out if axis == "C" else 1 for axis in layout]
        y = d.add("add", [y, d.numbers(*bias)])
    if d.chance(0.4):
        d.add(d.pick(["nn.relu", "nn.silu", "nn.relu6", "sigmoid"]), [y])


@RELAX.operator("nn.conv2d_transpose", 0.7)
def transposed_convolution(d: Draw) -> None:
    x = _image(d, (4, 4, 3))
    channels, *planes = d.dims(x)[1:]
    parts, kernel = groups(d, channels), [d.integer(1, 4) for _ in planes]
    strides = [d.pick([1, 2, 3]) for _ in planes]
    weights = d.weights(channels, d.integer(1, 6), *kernel, fan=max(1, channels // parts) * 3)
    padding = [d.integer(0, (k - 1) // 2) for k in kernel * 2]
    extra = [d.integer(0, s - 1) if d.chance(0.3) else 0 for s in strides]
    d.add(
        f"nn.conv{len(planes)}d_transpose",
        [x, weights],
        groups=parts, strides=strides, padding=padding, output_padding=extra,
    )  # fmt: skip


def _pooling(kind: str, exact: bool, weight: float) -> None:
    @RELAX.operator(f"nn.{kind}_pool2d", weight)
    def generate(d: Draw) -> None:
        x = _image(d)
        layout, _ = _layout(d, x)
        planes = _planes(d, x, layout)
        kernel = _kernel(d, planes)
        attributes = _window(d, planes, kernel) | {"layout": layout}
        attributes["ceil_mode"] = d.chance(0.3)
        if kind == "avg":
            attributes["count_include_pad"] = d.chance(0.5)
        d.add(f"nn.{kind}_pool{len(planes)}d", [x], exact=exact, pool_size=kernel, **attributes)


_pooling("max", True, 3.0)
_pooling("avg", False, 2.0)


@RELAX.operator("nn.adaptive_avg_pool2d", 1.0)
def adaptive(d: Draw) -> None:
    x = _image(d)
    layout, _ = _layout(d, x)
    planes = _planes(d, x, layout)
    sizes = [1 if d.chance(0.5) else d.integer(1, n) for n in planes]
    d.add(f"nn.adaptive_avg_pool{len(planes)}d", [x], output_size=sizes, layout=layout)


@RELAX.operator("nn.batch_norm", 1.5)
def batch_norm(d: Draw) -> None:
    x = d.operand((4, 4, 2, 3))
    axis = d.pick([1, 1, len(d.dims(x)) - 1])
    channels = d.dims(x)[axis]
    variance = d.constant(d.random.uniform(0.3, 2.0, channels), "float32")
    scale, shift, mean = (d.numbers(channels) for _ in range(3))
    d.add("nn.batch_norm", [x, scale, shift, mean, variance], 3, axis=axis, training=False)


@RELAX.operator("nn.group_norm", 0.5)
def group_norm(d: Draw) -> None:
    x = _image(d, (4, 3))
    channels = d.dims(x)[1]
    parts = d.pick([g for g in range(1, channels + 1) if channels % g == 0])
    axes = list(range(2, len(d.dims(x))))
    if d.types[x].size // d.dims(x)[0] // parts < 4:
        raise Refused
    operands = [x, d.numbers(channels), d.numbers(channels)]
    d.add("nn.group_norm", operands, num_groups=parts, channel_axis=1, axes=axes)


@RELAX.operator("nn.instance_norm", 0.3)
def instance_norm(d: Draw) -> None:
    x = _image(d, (4,))
    channels = d.dims(x)[1]
    if d.types[x].size // d.dims(x)[0] // channels < 4:
        raise Refused
    d.add("nn.instance_norm", [x, d.numbers(channels), d.numbers(channels)],
          channel_axis=1, axes=[2, 3])  # fmt: skip


@RELAX.operator("image.resize2d", 0.5)
def resize(d: Draw) -> None:
    x = _image(d, (4,))
    height, width = d.dims(x)[2:]
    sizes = (height * d.integer(1, 2), width * d.integer(1, 2))
    method = d.pick(["nearest_neighbor", "linear"])
    rule = "asymmetric" if method != "linear" else d.pick(["half_pixel", "align_corners"])
    rounding = "floor" if method != "linear" else ""
    d.add("image.resize2d", [x], exact=method != "linear", size=sizes, layout="NCHW",
          method=method, coordinate_transformation_mode=rule, rounding_method=rounding)  # fmt: skip


@RELAX.motif("branches", 4.0)
def branches(d: Draw) -> None:
    """Convolutions of one image that are joined, as no other front end writes them: by layout."""
    x = _image(d, (4,))
    layout, kernel_layout = d.pick(_LAYOUTS[4])
    channels = d.dims(x)[layout.index("C")]
    parts = []
    total = d.chance(0.3)
    out = d.pick([4, 8, 16, 17, 24])
    for _ in range(d.integer(2, 4)):
        size = d.pick([1, 3, 3, 5])
        width = out if total else d.pick([3, 8, 16, out])
        sizes = {"O": width, "I": channels, "H": size, "W": size}
        weights = d.weights(*(sizes[a] for a in kernel_layout), fan=channels * size * size)
        y = d.add("nn.conv2d", [x, weights], padding=[size // 2] * 4, data_layout=layout,
                  kernel_layout=kernel_layout)  # fmt: skip
        parts.append(d.add("nn.relu", [y]) if d.chance(0.5) else y)
    if total:
        for other in parts[1:]:
            parts[0] = d.add("add", [parts[0], other])
    else:
        d.add("concat", parts, axis=layout.index("C"))
