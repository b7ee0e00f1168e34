# SPDX-License-Identifier: Apache-2.0
"""The converters of ONNX's operators to Relax, with one file for each group."""

from . import (  # noqa: F401 - each registers its operators
    activation,
    cast,
    convolution,
    create,
    deformed,
    distinct,
    elementwise,
    elimination,
    image,
    index,
    integer_convolution,
    linear,
    matmul,
    microsoft,
    ngrams,
    normalization,
    parts,
    pooling,
    quantization,
    recurrent,
    reduce,
    regions,
    sampling,
    selection,
    sequence,
    shapes,
    signal,
)
from .table import OPERATORS, Entry, Value, apply, find

__all__ = ["OPERATORS", "Entry", "Value", "apply", "find"]
