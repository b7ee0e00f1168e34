# SPDX-License-Identifier: Apache-2.0
"""Published networks with random weights."""

from .frontend.zoo import Input, export_onnx, inputs, load, names, sizes

__all__ = ["Input", "export_onnx", "inputs", "load", "names", "sizes"]
