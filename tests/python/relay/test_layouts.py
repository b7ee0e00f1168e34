# SPDX-License-Identifier: Apache-2.0
"""Networks whose channels come last, as TensorFlow has them, are scheduled as others are."""

from __future__ import annotations

import numpy as np

from support.networks import check_scheduled
from tvm_ios import relay
from tvm_ios.relax_ir.expressions import is_op
from tvm_ios.rewrite.prepare import prepare

TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 9, 10, 8), float32], %w: Tensor[(3, 3, 8, 16), float32],
          %d: Tensor[(3, 3, 16, 1), float32], %p: Tensor[(1, 1, 32, 12), float32],
          %b: Tensor[(16), float32], %g: Tensor[(16), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3],
                 data_layout="NHWC", kernel_layout="HWIO");
  %1 = nn.relu(nn.bias_add(%0, %b, axis=3));
  %2 = nn.pad(%1, 0f, pad_width=[[0, 0], [0, 1], [1, 0], [0, 0]]);
  %3 = nn.conv2d(%2, %d, strides=[2, 2], groups=16, channels=16, kernel_size=[3, 3],
                 data_layout="NHWC", kernel_layout="HWOI");
  %4 = nn.batch_norm(%3, %g, %b, %b, %g, axis=3, epsilon=0.001f);
  %5 = clip(%4.0, a_min=0f, a_max=6f);
  %6 = nn.max_pool2d(%1, pool_size=[3, 3], strides=[2, 2], padding=[0, 1, 1, 0], layout="NHWC");
  %7 = concatenate((%5, %6), axis=3);
  %8 = nn.conv2d(%7, %p, channels=12, kernel_size=[1, 1], data_layout="NHWC", kernel_layout="HWIO");
  %9 = image.resize2d(%8, size=[7, 9], roi=[0f, 0f, 0f, 0f], layout="NHWC");
  %10 = split(%8, indices_or_sections=3, axis=-1);
  %11 = strided_slice(%10.1, begin=[0, 1, 0, 0], end=[1, 4, 5, 4], strides=[1, 2, 1, 1]);
  (mean(%9, axis=[1, 2]), nn.softmax(reshape(%8, newshape=[0, -1])), %11,
   nn.global_avg_pool2d(%8, layout="NHWC"), transpose(%10.0, axes=[0, 3, 1, 2]))
}
"""


def _model():
    random = np.random.default_rng(1)
    module = relay.parse(TEXT)
    shapes = {var.name: var.type.shape for var in module.functions["main"].params[1:]}
    weights = {name: random.random(shape) - 0.4 * (name in "wdp") for name, shape in shapes.items()}
    return relay.load(TEXT, {name: value.astype("float32") for name, value in weights.items()})


def test_channels_last_give_the_same_when_scheduled() -> None:
    check_scheduled(_model())


def test_convolutions_have_their_channels_first() -> None:
    main = prepare(_model())["main"]
    values = [binding.value for block in main.body.blocks for binding in block.bindings]
    convolutions = [value for value in values if is_op(value, "nn.conv2d")]
    assert [conv.attrs.data_layout for conv in convolutions] == ["NCHW"] * 3
