# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from ...graph.operators import Operator
from ...graph.recognise import is_float32
from ...kernels.layout import PLAIN
from ...kernels.matmul import Matmul, matmul_kernel, pack_matrix
from ..feeds import Feeder, NoRule
from .base import Choice, Preferences, program_feeds, shape_of


def matmul(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """A matrix times constant weights."""
    core = preferences.core
    data, weights = op.anchor.args
    source, matrix = shape_of(data), shape_of(weights)
    if len(source) != 2 or len(matrix) != 2 or not (is_float32(data) and is_float32(weights)):
        raise NoRule
    product = Matmul(source[0], source[1], matrix[1], op.program)
    feeds = (
        feeder.plain(data),
        feeder.constant(weights, lambda array: pack_matrix(array, core.lanes)),
        *program_feeds(op, feeder, PLAIN),
    )
    return Choice(matmul_kernel(product, core), feeds, PLAIN)
