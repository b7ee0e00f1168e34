# SPDX-License-Identifier: Apache-2.0
"""The converters of PyTorch's operators to Relax, with one file for each group."""

from . import (  # noqa: F401 - each registers its operators
    activation,
    attention,
    complex_numbers,
    convolution,
    counting,
    create,
    distance,
    elementwise,
    embedding,
    fourier,
    image,
    index,
    linalg,
    matmul,
    normalization,
    order,
    parts,
    pooling,
    quantization,
    recurrent,
    reduce,
    scan,
    scatter,
    shapes,
    signs,
    special,
)
from .table import OPERATORS, apply, find

__all__ = ["OPERATORS", "apply", "find"]
