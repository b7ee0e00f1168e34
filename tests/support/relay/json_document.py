# SPDX-License-Identifier: Apache-2.0
"""The JSON that TVM v0.19 saves, made from a syntax tree: TVM cannot write it any more."""

from __future__ import annotations

import json

from tvm_ios.relay import Module, ast
from tvm_ios.relay.tensors import encode
from tvm_ios.relay.walk import postorder

ATTRIBUTES = {
    "nn.softmax": ("Softmax", {"axis": "-1"}, ()),
    "nn.batch_norm": ("BatchNorm", {"axis": "1", "epsilon": "1.0000000000000001e-05",
                                    "center": "1", "scale": "1"}, ()),
    "clip": ("Clip", {}, ()),
    "cast": ("Cast", {}, ()),
    "layout_transform": ("LayoutTransform", {}, ()),
    "nn.pad": ("Pad", {}, ("pad_width", "pad_mode")),
    "split": ("Split", {"axis": "0"}, ("indices_or_sections",)),
    "reshape": ("Reshape", {"allowzero": "0"}, ("newshape",)),
    "nn.dense": ("Dense", {"out_dtype": ""}, ("units",)),
    "arange": ("Arange", {}, ("start", "stop", "step")),
}  # fmt: skip
"""Some operators' attributes: their type, how defaults are written, and which are nodes."""


def to_json(module: Module) -> str:
    """A module as ``tvm.ir.save_json`` writes it."""
    return _Writer().module(module)


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[dict] = [{"type_key": ""}]
        self.tensors: list[str] = []
        self._numbers: dict[object, str] = {None: "0"}
        self._device = self._add(
            "VirtualDevice", device_type_int="-1", memory_scope=self._string(""), target="0"
        )

    def module(self, module: Module) -> str:
        functions = [
            int(number)
            for name, function in reversed(module.functions.items())
            for number in (self._expr(ast.GlobalVar(name)), self._graph(function))
        ]
        self._list(functions, "Map")
        root = self._add("IRModule", functions=str(len(self.nodes) - 1), attrs="0")
        document = {"root": int(root), "nodes": self.nodes, "b64ndarrays": self.tensors}
        return json.dumps(document | {"attrs": {"tvm_version": "0.19.0"}}, indent=2)

    def _add(self, type_key: str, text: str = "", **fields: str) -> str:
        node: dict[str, object] = {"type_key": type_key}
        node |= {"repr_str": text} if text else {}
        self.nodes.append(node | ({"attrs": fields} if fields else {}))
        return str(len(self.nodes) - 1)

    def _list(self, numbers: list[int], type_key: str = "Array") -> str:
        self.nodes.append({"type_key": type_key} | ({"data": numbers} if numbers else {}))
        return str(len(self.nodes) - 1)

    def _string(self, text: str) -> str:
        return self._add("runtime.String", text)

    def _graph(self, root: ast.Expr) -> str:
        for expr in postorder(root):
            if expr not in self._numbers:
                self._numbers[expr] = self._expr(expr)
        return self._numbers[root]

    def _all(self, exprs: tuple[ast.Expr, ...]) -> str:
        return self._list([int(self._var(expr)) for expr in exprs])

    def _var(self, expr: ast.Expr) -> str:
        """The number of an expression that has one, or of a variable that nobody has used."""
        if expr not in self._numbers:
            self._numbers[expr] = self._expr(expr)
        return self._numbers[expr]

    def _expr(self, expr: ast.Expr) -> str:
        numbers = self._numbers
        common = {"span": "0", "virtual_device_": self._device, "_checked_type_": "0"}
        if isinstance(expr, ast.Var):
            name = self._add("relay.Id", name_hint=self._string(expr.name))
            return self._add("relay.Var", vid=name, **common, type_annotation=self._type(expr.type))
        if isinstance(expr, ast.GlobalVar):
            return self._add("GlobalVar", name_hint=self._string(expr.name), **common)
        if isinstance(expr, ast.Operator):
            return self._add("Op", expr.name)
        if isinstance(expr, ast.Constant):
            self.tensors.append(encode(expr.value))
            return self._add("relay.Constant", data=str(len(self.tensors) - 1), **common)
        if isinstance(expr, ast.Tuple):
            return self._add("relay.Tuple", fields=self._all(expr.fields), **common)
        if isinstance(expr, ast.TupleGetItem):
            value = numbers[expr.tuple_value]
            return self._add(
                "relay.TupleGetItem", tuple_value=value, index=str(expr.index), **common
            )
        if isinstance(expr, ast.Let):
            value, body = numbers[expr.value], numbers[expr.body]
            return self._add("relay.Let", var=self._var(expr.var), value=value, body=body, **common)
        if isinstance(expr, ast.If):
            then, otherwise = numbers[expr.then], numbers[expr.otherwise]
            condition = numbers[expr.condition]
            return self._add("relay.If", cond=condition, true_branch=then, false_branch=otherwise)
        return self._call(expr) if isinstance(expr, ast.Call) else self._function(expr)

    def _call(self, expr: ast.Call) -> str:
        attrs = "0"
        if expr.attrs:
            kind, defaults, references = ATTRIBUTES[expr.callee.name]
            given = {
                name: self._value(value) if name in references else _plain(value)
                for name, value in expr.attrs.items()
            }
            attrs = self._add(f"relay.attrs.{kind}Attrs", **(defaults | given))
        return self._add(
            "relay.Call", op=self._numbers[expr.callee], args=self._all(expr.args), attrs=attrs,
            type_args="0", span="0", _checked_type_=self._type(expr.type),
        )  # fmt: skip

    def _function(self, expr: ast.Function) -> str:
        data = [int(self._value(value)) for value in expr.attrs.values()]
        self.nodes.append({"type_key": "Map", "keys": list(expr.attrs), "data": data})
        attrs = self._add("DictAttrs", __dict__=str(len(self.nodes) - 1))
        return self._add(
            "relay.Function", params=self._all(expr.params), body=self._numbers[expr.body],
            ret_type=self._type(expr.result), type_params=self._list([]),
            attrs=attrs,
        )  # fmt: skip

    def _integer(self, value: int) -> str:
        return self._add("IntImm", dtype="int32", value=str(value))

    def _value(self, value: ast.Attribute) -> str:
        """An attribute that is a node."""
        if value is None:
            return "0"
        if isinstance(value, bool):
            return self._add("IntImm", dtype="bool", value=str(int(value)))
        if isinstance(value, int):
            return self._add("runtime.BoxInt", str(value))
        if isinstance(value, float):
            return self._add("FloatImm", dtype="float32", value=repr(value))
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, tuple):
            return self._list([int(self._value(part)) for part in value])
        return self._expr(ast.Constant(value))

    def _type(self, type_: ast.Type | None) -> str:
        if type_ is None:
            return "0"
        if isinstance(type_, ast.TupleType):
            fields = self._list([int(self._type(part)) for part in type_.fields])
            return self._add("TupleType", fields=fields, span="0")
        if isinstance(type_, ast.FuncType):
            params = self._list([int(self._type(part)) for part in type_.params])
            return self._add("FuncType", arg_types=params, ret_type=self._type(type_.result))
        sizes = [
            self._add("tir.Any") if size is None else self._integer(size) for size in type_.shape
        ]
        shape = self._list([int(size) for size in sizes])
        return self._add("relay.TensorType", dtype=type_.dtype, shape=shape, span="0")


def _plain(value: ast.Attribute) -> str:
    """An attribute that is no node."""
    return str(int(value)) if isinstance(value, bool) else str(value)
