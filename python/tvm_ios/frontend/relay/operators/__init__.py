# SPDX-License-Identifier: Apache-2.0
"""How each operator of Relay is said in Relax; a file for each group of them."""

from . import (  # noqa: F401 - each enters its operators in the table
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
