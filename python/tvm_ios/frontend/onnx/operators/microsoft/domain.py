# SPDX-License-Identifier: Apache-2.0
"""The domain of ONNX Runtime's own operators, and the checks that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax

from ....emitter import shape_of
from ...node_emitter import NodeEmitter
from ..table import Converter, operator

MICROSOFT = "com.microsoft"


def contributed(
    *names: str, shared: frozenset[str] = frozenset()
) -> Callable[[Converter], Converter]:
    """Register a function as the converter of operators of ONNX Runtime."""
    return operator(*names, domain=MICROSOFT, shared=shared)


def check_shape(emit: NodeEmitter, x: relax.Expr, wanted: Sequence[int], what: str) -> None:
    """Check the shape of an input.

    Raises
    ------
    ModelError
        If it is another one; the message contains ``what``.
    """
    if shape_of(x) != tuple(wanted):
        raise emit.error(f"has {what} of {list(shape_of(x))}; it must be of {list(wanted)}.")


def check_absent(emit: NodeEmitter, **inputs: relax.Expr | None) -> None:
    """Check that inputs that are not supported are left out.

    Raises
    ------
    ModelError
        With the name of one that is given.
    """
    for name, value in inputs.items():
        if value is not None:
            raise emit.error(f"has the input {name}, which is not supported; leave it out.")


def with_bias(emit: NodeEmitter, data: relax.Expr, bias: relax.Expr | None) -> relax.Expr:
    """Add a vector along the last axis, if it is given."""
    if bias is None:
        return data
    check_shape(emit, bias, shape_of(data)[-1:], "a bias")
    return emit(relax.op.add(data, bias))
