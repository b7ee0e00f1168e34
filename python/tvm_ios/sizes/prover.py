# SPDX-License-Identifier: Apache-2.0
"""Proofs of what holds for all sizes of open dimensions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import tvm
import tvm_ffi
from tvm import sym, tirx

Expr = Any

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
        self._proofs: dict[tuple[int, int], list[tuple[Expr, bool | None]]] = {}
        self._numbers: dict[tuple[Expr, ...], int] = {}  # of what was assumed

    def bind(self, variable: tvm.ir.Var, bounds: tvm.ir.Range) -> None:
        """Bind a variable to a range."""
        with self._lock:
            self._analyzer.bind(variable, bounds)

    def simplify(self, expr: Expr) -> Expr:
        """Return an equal expression."""
        with self._lock:
            return self._analyzer.simplify(expr)

    def proven(self, condition: Expr, assumed: Sequence[Expr]) -> bool | None:
        """Return whether a condition holds for all sizes that fulfil others; None if it depends.

        Parameters
        ----------
        condition : Expr
        assumed : sequence of Expr
        """
        with self._lock:
            number = self._numbers.setdefault(tuple(assumed), len(self._numbers))
            key = (number, tvm_ffi.structural_hash(condition))
            for known, result in self._proofs.setdefault(key, []):
                if tvm_ffi.structural_equal(known, condition):
                    return result
            result = self._new_proof(condition, assumed)
            self._proofs[key].append((condition, result))
            return result

    def follows(self, assumed: Sequence[Expr], condition: Expr) -> bool:
        """Return whether it is proven that a condition holds wherever others do."""
        with self._lock:
            return self._new_proof(condition, assumed) is True

    def _new_proof(self, condition: Expr, assumed: Sequence[Expr]) -> bool | None:
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
