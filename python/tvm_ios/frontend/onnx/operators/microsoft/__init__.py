# SPDX-License-Identifier: Apache-2.0
"""The converters of the operators that ONNX Runtime adds to ONNX's."""

from . import (  # noqa: F401 - each registers its operators
    activation,
    aliases,
    attention,
    complex_numbers,
    convolution,
    embedding,
    grouped_attention,
    matrices,
    narrow_weights,
    normalization,
    product,
    quantized,
    quantized_layers,
    quantized_products,
    relative_positions,
    rotary,
)
