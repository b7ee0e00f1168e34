# SPDX-License-Identifier: Apache-2.0
"""Proofs of what holds for all sizes of open dimensions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import tvm
from tvm import sym, tirx

from .expressions import Expr, Known

_WORK = 200_000
"""Steps of Z3 for one proof; unlike a time, they do not depend on what else a machine does."""


class Prover:
    """An analyzer of integers that several threads may ask."""

    def __init__(self) -> None:
        self._analyzer = sym.Analyzer()
        if self._analyzer.is_z3_enabled:
            self._analyzer.set_z3_timeout_ms(60_000)
            self._analyzer.set_z3_rlimit(_WORK)
        self._lock = threading.RLock()
        self._simple: Known[Expr] = Known()
        self._proofs: Known[bool | None] = Known()
        self._numbers: dict[tuple[Expr, ...], int] = {}  # of what was assumed

    def bind(self, variable: tvm.ir.Var, bounds: tvm.ir.Range) -> None:
        """Bind a variable to a range."""
        with self._lock:
            self._analyzer.bind(variable, bounds)

    def simplify(self, expr: Expr) -> Expr:
        """Return an equal expression."""
        with self._lock:
            return self._simple.get(expr, self._analyzer.simplify)

    def proven(self, condition: Expr, assumed: Sequence[Expr]) -> bool | None:
        """Return whether a condition holds for all sizes that fulfil others; None if it depends.

        Parameters
        ----------
        condition : Expr
        assumed : sequence of Expr
        """
        with self._lock:
            number = self._numbers.setdefault(tuple(assumed), len(self._numbers))
            return self._proofs.get(condition, partial(self._new_proof, assumed), number)

    def follows(self, assumed: Sequence[Expr], condition: Expr) -> bool:
        """Return whether it is proven that a condition holds wherever others do."""
        with self._lock:
            return self._new_proof(assumed, condition) is True

    def _new_proof(self, assumed: Sequence[Expr], condition: Expr) -> bool | None:
        simple = self._analyzer.simplify(condition)
        if isinstance(simple, tirx.IntImm):
            return bool(simple.value)
        with ExitStack() as known:
            for each in assumed:
                known.enter_context(self._analyzer.constraint_scope(each))
            simple = self._analyzer.simplify(simple)
            if isinstance(simple, tirx.IntImm):
                return bool(simple.value)
            opposite = tirx.Not(simple)
            for strength in sym.ProofStrength:
                if self._analyzer.can_prove(simple, strength):
                    return True
                if self._analyzer.can_prove(opposite, strength):
                    return False
            return None
