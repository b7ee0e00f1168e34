# SPDX-License-Identifier: Apache-2.0
"""Operators of Relay one by one: a call, its arguments, and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from support.networks import call_vm, run_vm
from tvm_ios.relay.ast import (
    Call,
    Constant,
    Expr,
    Function,
    Module,
    Operator,
    TensorType,
    Tuple,
    Var,
)
from tvm_ios.relay.convert import convert

QUICK = tvm.target.Target({"kind": "llvm", "opt-level": 0})
"""Compiles quickly what then runs slowly."""

RANDOM = np.random.default_rng(7)


def rand(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    """Random numbers of float32."""
    return RANDOM.uniform(low, high, shape).astype("float32")


def whole(*shape: int, low: int = 0, high: int = 8, dtype: str = "int32") -> np.ndarray:
    """Random integers."""
    return RANDOM.integers(low, high, shape).astype(dtype)


@dataclass(frozen=True)
class Known:
    """An argument that is a constant."""

    value: np.ndarray


@dataclass(frozen=True, eq=False)
class Case:
    """A call of an operator and its results; a list among the arguments is a tuple."""

    operator: str
    arguments: Sequence[Any]
    expected: np.ndarray | Sequence[np.ndarray]
    attributes: dict[str, Any]

    def __str__(self) -> str:
        written = ",".join(f"{name}={value}" for name, value in self.attributes.items())
        return f"{self.operator}({written})".replace(" ", "")

    @property
    def results(self) -> list[np.ndarray]:
        given = self.expected
        return [*given] if isinstance(given, list | tuple) else [np.asarray(given)]


def case(operator: str, arguments: Sequence[Any], expected: Any, **attributes: Any) -> Case:
    return Case(operator, arguments, expected, attributes)


def variable(name: str, value: np.ndarray) -> Var:
    return Var(name, TensorType(value.shape, str(value.dtype)))


def call(name: str, *arguments: Expr, line: int | None = None, **attributes: Any) -> Call:
    return Call(Operator(name), arguments, attributes, line=line)


def module(body: Expr, *params: Var, **functions: Function) -> Module:
    return Module({**functions, "main": Function(params, body)})


def as_module(one: Case) -> tuple[Module, list[np.ndarray]]:
    """A module that makes the call, and what ``@main`` takes."""
    params: list[Var] = []
    values: list[np.ndarray] = []

    def argument(value: Any) -> Expr:
        if isinstance(value, Known):
            return Constant(value.value)
        if isinstance(value, list):
            return Tuple(tuple(map(argument, value)))
        params.append(variable(f"x{len(params)}", value))
        values.append(value)
        return params[-1]

    arguments = [argument(value) for value in one.arguments]
    return module(call(one.operator, *arguments, **one.attributes), *params), values


def run_cases(cases: Sequence[Case]) -> list[list[np.ndarray]]:
    """The results of all cases; they are compiled as functions of one module."""
    together = tvm.IRModule()
    arguments = []
    for i, one in enumerate(cases):
        relay, values = as_module(one)
        function = convert(relay)["main"].with_attr("global_symbol", f"case{i}")
        together[f"case{i}"] = function
        arguments.append(values)
    vm = relax.VirtualMachine(tvm.compile(together, QUICK), tvm.cpu())
    return [call_vm(vm, values, f"case{i}") for i, values in enumerate(arguments)]


def evaluate(relay: Module, *arguments: np.ndarray, **options: Any) -> list[np.ndarray]:
    """What ``@main`` of a module gives."""
    return run_vm(tvm.compile(convert(relay, **options), QUICK), arguments)


def operators_of(mod: tvm.IRModule) -> list[str]:
    """The names of the operators that a converted module calls, in order."""
    return [
        binding.value.op.name.removeprefix("relax.")
        for block in mod["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
    ]
