# SPDX-License-Identifier: Apache-2.0
"""What PyTorch assumed of the sizes of a program when it traced it, as conditions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...sizes.ratio import NotExact, Ratio
from ...support.errors import ModelError
from .open_inputs import inputs_of
from .symbols import Symbols, exactly, rounded

if TYPE_CHECKING:
    import torch


def assume_guards(program: torch.export.ExportedProgram, symbols: Symbols) -> None:
    """Record what a program that was exported assumes of its inputs' sizes.

    Raises
    ------
    ModelError
        If sizes that are given violate it, or it is of another kind than numbers.
    """
    texts = getattr(program, "_guards_code", None) or ()
    inputs = _inputs(program) if texts else {}
    for text in texts:
        if not _Guard(inputs, symbols).holds(parsed(text)):
            raise ModelError(f"The program does not allow these shapes: it needs {text}.")


def _inputs(program: torch.export.ExportedProgram) -> dict[str, Any]:
    """Return the tensors of a program by the keys that lead to them, joined to names."""
    import torch

    tree = torch.utils._pytree
    signature = program.module_call_graph[0].signature
    values = {node.name: node.meta["val"] for node in inputs_of(program)}
    leaves = [values[name] for name in program.graph_signature.user_inputs]
    arguments, keywords = tree.tree_unflatten(leaves, program.call_spec.in_spec)
    names = (signature and signature.forward_arg_names) or ()
    return {
        "_".join((name, *(str(getattr(k, "key", getattr(k, "idx", ""))) for k in keys))): value
        for name, argument in zip(names, (*arguments, *keywords.values()), strict=False)
        for keys, value in tree.tree_flatten_with_path(argument)[0]
        if hasattr(value, "shape")
    }


def assume_traced(program: torch.export.ExportedProgram, symbols: Symbols) -> None:
    """Record what PyTorch assumed while it decomposed a program, and what the program checks."""
    environment = None
    for node in program.graph.nodes:
        environment = environment or _environment(node.meta.get("val"))
        if str(node.target) == "aten._assert_scalar.default":
            truth = getattr(node.args[0], "meta", {}).get("val", node.args[0])
            _assume(symbols, truth.node.expr if hasattr(truth, "node") else truth)
    for guard in () if environment is None else environment.guards:
        if all(str(name) in symbols.values for name in guard.expr.free_symbols):
            _assume(symbols, guard.expr)


def _assume(symbols: Symbols, relation: Any) -> None:
    if not (relation if isinstance(relation, bool) else symbols.holds(relation)):
        raise ModelError(f"The program does not allow these shapes: it needs {relation}.")


def _environment(value: Any) -> Any:
    """Return what PyTorch knows of the symbols of a tensor without values."""
    return getattr(getattr(value, "fake_mode", None), "shape_env", None)


def parsed(text: str) -> ast.expr:
    """Return the text of a guard, which a file may contain, without executing it.

    Raises
    ------
    ModelError
        If it is no expression.
    """
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ModelError(f"The program has the guard {text!r}, which cannot be read.") from error


class _Guard:
    """An evaluator of the text of a guard."""

    def __init__(self, inputs: Mapping[str, Any], symbols: Symbols) -> None:
        self._inputs, self._symbols = inputs, symbols

    def holds(self, node: ast.expr) -> bool:
        if isinstance(node, ast.BoolOp):
            parts = (self.holds(value) for value in node.values)
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self.holds(node.operand)
        if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
            values = [self._value(part) for part in (node.left, *node.comparators)]
            pairs = zip(node.ops, values[:-1], values[1:], strict=True)
            return all(_COMPARE[type(op)](a, b) for op, a, b in pairs)
        raise self._unknown(node)

    def _value(self, node: ast.expr) -> Ratio:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return exactly(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _COMPUTE:
            try:
                return _COMPUTE[type(node.op)](self._value(node.left), self._value(node.right))
            except NotExact:
                raise rounded(ast.unparse(node)) from None
        if isinstance(node, ast.Call) and not node.keywords:
            compute = _CALLS.get(ast.unparse(node.func))
            if compute is not None:
                return compute(*map(self._value, node.args))
        return Ratio(self._size(node))

    def _size(self, node: ast.expr) -> Any:
        """Return ``L['x'].size()[1]``, of the input x."""
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=source, attr="size"), args=[], keywords=[]),
                slice=ast.Constant(value=int(axis)),
            ):
                keys = self._keys(source)
                for name in ("_".join(keys), "_".join(keys[1:])):
                    if name in self._inputs and axis < len(self._inputs[name].shape):
                        return self._symbols.size(self._inputs[name].shape[axis])
        raise self._unknown(node)

    def _keys(self, node: ast.expr) -> list[str]:
        """Return the keys by which an argument is found in those of the program."""
        if isinstance(node, ast.Name) and node.id == "L":
            return []
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return [*self._keys(node.value), str(node.slice.value)]
        raise self._unknown(node)

    def _unknown(self, node: ast.expr) -> ModelError:
        return ModelError(
            f"The program assumes {ast.unparse(node)!r} of its inputs, which is not supported; "
            "give their shapes."
        )


_COMPARE: dict[type, Callable[[Ratio, Ratio], bool]] = {
    ast.Eq: Ratio.equals,
    ast.NotEq: lambda a, b: not a.equals(b),
    ast.Lt: Ratio.is_less,
    ast.LtE: lambda a, b: not b.is_less(a),
    ast.Gt: lambda a, b: b.is_less(a),
    ast.GtE: lambda a, b: not a.is_less(b),
}

_COMPUTE: dict[type, Callable[[Ratio, Ratio], Ratio]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_CALLS: dict[str, Callable[..., Ratio]] = {
    "float": lambda number: number,
    "torch.sym_float": lambda number: number,
    "int": Ratio.trunc,
    "math.trunc": Ratio.trunc,
    "math.floor": Ratio.floor,
    "math.ceil": Ratio.ceil,
    "max": Ratio.larger,
    "min": Ratio.smaller,
}
