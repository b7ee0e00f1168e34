# SPDX-License-Identifier: Apache-2.0
"""The converters of Relay's operators to Relax, with one file for each group."""

from . import (  # noqa: F401 - each registers its operators
    activation,
    convolution,
    create,
    dense,
    elementwise,
    image,
    index,
    normalisation,
    padding,
    parts,
    pooling,
    reduce,
    shapes,
    sorting,
)
from .table import OPERATORS, Value, apply

__all__ = ["OPERATORS", "Value", "apply"]
