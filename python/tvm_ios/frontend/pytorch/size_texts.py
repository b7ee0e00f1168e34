# SPDX-License-Identifier: Apache-2.0
"""A check of the texts by which a file describes sizes, which PyTorch evaluates.

Expressions of sizes are calls of constructors, and guards are comparisons of the inputs' sizes.
Nothing else is allowed in them.
"""

from __future__ import annotations

import ast
import re

_LONGEST = 10_000  # characters
_LARGEST_POWER = 8

_NAME = re.compile(r"\w+", re.ASCII)
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?", re.ASCII)

_CONSTRUCTORS = frozenset((
    "Add", "And", "CeilToInt", "CleanDiv", "Equality", "Float", "FloatTrueDiv", "FloorDiv",
    "FloorToInt", "GreaterThan", "IntTrueDiv", "Integer", "LessThan", "Max", "Min", "Mod", "Mul",
    "Not", "Or", "Pow", "PythonMod", "Rational", "StrictGreaterThan", "StrictLessThan", "Symbol",
    "ToFloat", "TruncToInt", "Unequality",
))  # fmt: skip
_OF_TEXT = {"Symbol": _NAME, "Float": _NUMBER}
_KEYWORDS = frozenset(("positive", "integer", "nonnegative", "precision", "evaluate"))

_GUARD_NODES = (
    ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare, ast.Eq, ast.NotEq,
    ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv,
    ast.Mod, ast.Call, ast.Subscript, ast.Load,
)  # fmt: skip
_GUARD_NAMES = frozenset(("L", "float", "int", "math", "max", "min", "torch"))
_GUARD_ATTRIBUTES = frozenset(("ceil", "floor", "size", "sym_float", "trunc"))


def is_size(text: str) -> bool:
    """Return whether a text is an expression of symbols and numbers."""
    tree = _parsed(text)
    return tree is not None and _is_expression(tree)


def is_guard(text: str) -> bool:
    """Return whether a text compares sizes of inputs."""
    tree = _parsed(text)
    return tree is not None and all(map(_is_of_guard, ast.walk(tree)))


def _parsed(text: str) -> ast.expr | None:
    if len(text) > _LONGEST or "\n" in text:
        return None
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_expression(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, bool)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _is_expression(node.operand)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return False
    name, args = node.func.id, node.args
    keywords = all(
        k.arg in _KEYWORDS and isinstance(k.value, ast.Constant) and isinstance(k.value.value, int)
        for k in node.keywords
    )
    if name not in _CONSTRUCTORS or not keywords:
        return False
    if name in _OF_TEXT:
        return len(args) == 1 and _is_text(args[0], _OF_TEXT[name])
    if name == "Pow" and not (len(args) == 2 and _is_small(args[1])):
        return False
    return all(map(_is_expression, args))


def _is_text(node: ast.expr, allowed: re.Pattern[str]) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and allowed.fullmatch(text) is not None


def _is_small(node: ast.expr) -> bool:
    """Return whether an exponent is a small integer."""
    match node:
        case ast.Call(
            func=ast.Name(id="Integer"), args=[ast.Constant(value=int(power))], keywords=[]
        ):
            return 0 <= power <= _LARGEST_POWER
    return False


def _is_of_guard(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _GUARD_NAMES
    if isinstance(node, ast.Attribute):
        return node.attr in _GUARD_ATTRIBUTES
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return _NAME.fullmatch(node.value) is not None
        return type(node.value) in (int, float)
    return isinstance(node, _GUARD_NODES) and not getattr(node, "keywords", None)
