# SPDX-License-Identifier: Apache-2.0
"""Open sizes inside of a branch that is not always taken.

What the branch requires of them, others need not fulfil. Its function has dimensions of its own,
which are those of the network under more conditions, and its calls check these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm
import tvm_ffi

from .size import OpenSizes, expr_of

Expr = Any


@contextmanager
def assuming_inside(opened: OpenSizes) -> Iterator[None]:
    """Keep what is assumed inside of the context from what follows."""
    outside = opened.conditions, opened.restarts, opened.always
    opened.conditions, opened.restarts = [*opened.conditions], False
    opened.always = outside[0] if opened.always is None else opened.always
    try:
        yield
    finally:
        opened.conditions, opened.restarts, opened.always = outside


def assumes_more(opened: OpenSizes) -> bool:
    """Return whether more is assumed inside of a branch than of the whole network."""
    return opened.always is not None and len(opened.conditions) > len(opened.always)


def renamed(opened: OpenSizes) -> tuple[OpenSizes, dict[tvm.ir.Var, Expr]]:
    """Return dimensions like others, under the same conditions, and what they are for those."""
    own = OpenSizes(of_branch=True)
    names = {
        v: expr_of(own.open(v.name, opened.hints[v], *opened.bounds[v])) for v in opened.variables
    }
    put_in = [(tvm.ir.Var, lambda variable: names[variable])]
    own.conditions = [tvm_ffi.structural_map(c, put_in) for c in opened.conditions]
    own.assumes = False
    return own, names
