# SPDX-License-Identifier: Apache-2.0
"""A sum of matrix products as one product over all of their depths.

A sum of convolutions of different inputs is an example. The reduction continues with the second
convolution's pixels after the first's, and nothing is copied to lie side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .contiguity import substitute
from .match_gemm import GemmMatch, Product

Expr = Any


def add_products(matches: Sequence[GemmMatch], places: Sequence[Sequence[int]]) -> GemmMatch:
    """Return one form that sums several products and then applies the epilogue of the first.

    Parameters
    ----------
    matches : sequence of GemmMatch
        Products with results of one shape, each its last parameter. Only the first has an epilogue.
    places : sequence of sequence of int
        For each input of each form, its number among the inputs of the combined form.

    Returns
    -------
    GemmForm
        The combined form.
    """
    first = matches[0]
    inputs: dict[int, Any] = {}
    tensors: list[dict[Any, Any]] = []
    for match, numbers in zip(matches, places, strict=True):
        own = zip(match.parameters[:-1], numbers, strict=True)
        tensors.append({p: inputs.setdefault(place, p) for p, place in own})
    parts = zip(matches, tensors, strict=True)
    return replace(
        first,
        parameters=(*(inputs[place] for place in sorted(inputs)), first.parameters[-1]),
        products=tuple(p for part in parts for p in _in_terms_of(first, *part)),
        value=substitute(first.value, tensors[0]),
    )


def _in_terms_of(first: GemmMatch, match: GemmMatch, tensors: Mapping[Any, Any]) -> list[Product]:
    """Return a form's products in terms of the axes of ``first`` and of other tensors."""
    names: dict[Any, Expr] = dict(tensors)
    pairs = ((match.batch, first.batch), (match.rows, first.rows), (match.columns, first.columns))
    for own, other in pairs:
        assert own.extents == other.extents, "results of one shape have the same axes"
        names.update(zip(own.variables, other.variables, strict=True))
    return [
        replace(
            product,
            left=replace(product.left, value=substitute(product.left.value, names)),
            right=replace(product.right, value=substitute(product.right.value, names)),
        )
        for product in match.products
    ]
