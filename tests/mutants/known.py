# SPDX-License-Identifier: Apache-2.0
"""All known mistakes."""

from __future__ import annotations

from . import (
    cuda,
    database,
    emitting,
    launching,
    learning,
    measuring,
    preparing,
    quantizing,
    rounding,
    searching,
    shapes,
    sizes,
)

MUTANTS = (
    *measuring.MUTANTS,
    *learning.MUTANTS,
    *searching.MUTANTS,
    *database.MUTANTS,
    *emitting.MUTANTS,
    *launching.MUTANTS,
    *preparing.MUTANTS,
    *quantizing.MUTANTS,
    *rounding.MUTANTS,
    *shapes.MUTANTS,
    *sizes.MUTANTS,
    *cuda.MUTANTS,
)
