# SPDX-License-Identifier: Apache-2.0
"""Networks of the literature."""

from .frontend.zoo import Input, export_onnx, inputs, load, names, sizes

__all__ = ["Input", "export_onnx", "inputs", "load", "names", "sizes"]
