# SPDX-License-Identifier: Apache-2.0
"""Operators in place of the simpler operators that exporters compose them of.

PyTorch writes GELU to ONNX as ``x * (1 + erf(x / sqrt(2))) / 2``, layer normalisation before opset
17 as means and differences, and group normalisation as an instance normalisation between two
reshapes. As one operator, each has a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.expressions import op_name
from .activations import MISHES, SLOPES
from .gelus import GELUS
from .matching import Matcher
from .normalisations import (
    GROUPED_NORMALISATIONS,
    NORMALISATIONS,
    PERMUTED_NORMALISATIONS,
)
from .softmaxes import MASKED_SOFTMAXES, SOFTMAXES


def raise_compositions(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace compositions that compute a GELU, a softmax or a normalisation by that operator."""
    return raise_by(_AROUND, mod, raise_by(_COMPOSITIONS, mod, func))


class Composition(Protocol):
    """A composition of operators that one operator stands for."""

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Expr | None:
        """Return the operator if ``call`` is the last of its composition."""


def raise_by(
    compositions: Mapping[str, Sequence[Composition]], mod: tvm.IRModule, func: relax.Function
) -> relax.Function:
    """Replace compositions by their operators.

    Parameters
    ----------
    compositions : mapping of str to sequence of Composition
        What to look for, by the operator that comes last; the first that is found is replaced.
    mod : tvm.IRModule
        The module.
    func : relax.Function
        The function to rewrite.
    """
    return _Raiser(compositions, mod, func).visit_expr(func)


@mutator
class _Raiser(PyExprMutator):
    def __init__(
        self,
        compositions: Mapping[str, Sequence[Composition]],
        mod: tvm.IRModule,
        func: relax.Function,
    ) -> None:
        super().__init__(mod)
        self._compositions, self._matcher = compositions, Matcher(func)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        for composition in self._compositions.get(op_name(call), ()):
            raised = composition.raised(self._matcher, call)
            if isinstance(raised, relax.Call):
                return super().visit_call_(raised)
            if raised is not None:
                return self.visit_expr(raised)
        return super().visit_call_(call)


_COMPOSITIONS: Mapping[str, Sequence[Composition]] = {
    "add": (*GELUS, *NORMALISATIONS),
    "subtract": NORMALISATIONS,
    "multiply": (*GELUS, *MISHES, *SOFTMAXES, *NORMALISATIONS),
    "divide": (*GELUS, *SOFTMAXES, *NORMALISATIONS),
    "nn.prelu": SLOPES,
}
"""By the operator that comes last."""

_AROUND: Mapping[str, Sequence[Composition]] = {
    "add": GROUPED_NORMALISATIONS,
    "multiply": GROUPED_NORMALISATIONS,
    "nn.softmax": MASKED_SOFTMAXES,
    "reshape": GROUPED_NORMALISATIONS,
    "permute_dims": PERMUTED_NORMALISATIONS,
}
"""What has one of these operators inside."""
