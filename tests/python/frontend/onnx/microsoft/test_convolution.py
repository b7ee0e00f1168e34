# SPDX-License-Identifier: Apache-2.0
"""Convolutions of ONNX Runtime's own domain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.contributed import Node, by_onnx_runtime, check, check_close, compiled, numbers
from tvm_ios.errors import ModelError


@pytest.mark.parametrize(
    ("activation", "parameters", "summed"),
    [
        ("Relu", [], True),
        ("Sigmoid", [], False),
        ("HardSwish", [], True),
        ("LeakyRelu", [0.1], False),
        ("Clip", [-0.5, 1.0], True),
        ("HardSigmoid", [0.3, 0.4], False),
    ],
)
def test_fused_conv(activation: str, parameters: list[float], summed: bool, tmp_path: Path) -> None:
    summand = numbers(1, 4, 6, 4) if summed else None
    node = Node(
        "FusedConv", [numbers(1, 6, 6, 7), numbers(4, 3, 3, 3), numbers(4), summand], (1, 2)
    )
    attributes = {"activation_params": parameters} if parameters else {}
    check(
        tmp_path,
        node,
        activation=activation,
        group=2,
        pads=[1, 1, 1, 1],
        strides=[1, 2],
        **attributes,
    )


def test_a_summand_of_another_shape_is_refused(tmp_path: Path) -> None:
    node = Node("FusedConv", [numbers(1, 3, 6, 7), numbers(4, 3, 3, 3), None, numbers(1, 4, 1, 1)])
    with pytest.raises(ModelError, match=r"a summand of \[1, 4, 1, 1\]; it must be of"):
        compiled(tmp_path, node)


def test_parameters_that_are_missing_are_refused(tmp_path: Path) -> None:
    node = Node("FusedConv", [numbers(1, 3, 6, 7), numbers(4, 3, 3, 3)])
    with pytest.raises(ModelError, match="0 parameters of its activation LeakyRelu, which takes 1"):
        compiled(tmp_path, node, activation="LeakyRelu")


@pytest.mark.parametrize(("kind", "group"), [("NhwcConv", 2), ("NhwcFusedConv", 1)])
def test_channels_last(kind: str, group: int, tmp_path: Path) -> None:
    """The channels of an ``NhwcConv``'s weights are last, too; it has no kernel on a CPU."""
    data, weight, bias = numbers(2, 6, 7, 7), numbers(4, 6 // group, 3, 3), numbers(4)
    conv = Node("Conv", [data, weight, bias], domain="")
    options = {"group": group, "pads": [1, 0, 1, 2], "kernel_shape": [3, 3]}
    wanted = by_onnx_runtime(conv.model(**options), conv.given())[0].transpose(0, 2, 3, 1)
    inputs = [data.transpose(0, 2, 3, 1), weight, bias]
    if kind == "NhwcConv":
        inputs[1] = weight.transpose(0, 2, 3, 1)
    else:
        inputs.append(numbers(*wanted.shape))
        wanted = np.maximum(wanted + inputs[-1], 0)
        options["activation"] = "Relu"
    inputs = [np.ascontiguousarray(x) for x in inputs]
    check_close(compiled(tmp_path, Node(kind, inputs), **options), [wanted])


def test_weights_with_other_channels_last_are_refused(tmp_path: Path) -> None:
    node = Node("NhwcConv", [numbers(1, 7, 7, 5), numbers(4, 5, 3, 3)])
    with pytest.raises(ModelError, match="for 5 channels in 1 groups; their channels must be the"):
        compiled(tmp_path, node)


def test_padding_by_an_input(tmp_path: Path) -> None:
    pads = np.array([1, 0, 1, 1])
    inputs = [numbers(1, 3, 5, 6), numbers(3, 4, 3, 3), pads, numbers(4)]
    options = {"strides": [2, 2], "output_padding": [1, 0]}
    check(tmp_path, Node("ConvTransposeWithDynamicPads", inputs, (2,)), **options)
    with pytest.raises(ModelError, match="computes its padding from the input 'x2'"):
        compiled(tmp_path, Node("ConvTransposeWithDynamicPads", inputs), **options)
