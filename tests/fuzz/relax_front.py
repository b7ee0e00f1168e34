# SPDX-License-Identifier: Apache-2.0
"""Networks as Relax functions, which TVM's own lowering evaluates, nothing being scheduled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import MappingProxyType

import numpy as np
import tvm
from tvm import relax

from .draw import Refused
from .execute import run_unscheduled
from .network import Network, Node, Tensor

_OF_TUPLES = frozenset({"concat", "stack"})
"""Operators whose operands are a tuple."""


class RelaxEvaluator:
    """The types of Relax's operators; their values are known of whole networks only."""

    front, opset = "relax", 0

    def form(self, node: Node, _constants: dict[str, np.ndarray]) -> Node:
        return node

    def evaluate(
        self, node: Node, types: dict[str, Tensor], values: dict[str, np.ndarray]
    ) -> list[tuple[Tensor, np.ndarray | None]]:
        known = {}
        for name in node.inputs:
            tensor = types[name]
            constant = name.startswith("c")
            known[name] = _constant(values[name]) if constant else _variable(name, tensor)
        try:
            ty = relax.BlockBuilder().normalize(_call(node, known)).ty
        except Exception as error:  # whatever TVM trips over
            raise Refused(f"{node}: {error}") from error
        fields = ty.fields if isinstance(ty, relax.TupleType) else [ty]
        tensors = [_tensor(field) for field in fields]
        if len(tensors) != len(node.outputs):
            raise Refused(f"{node} has {len(tensors)} results")
        return [(tensor, None) for tensor in tensors]


def module(network: Network, _folder: Path, _random: np.random.Generator) -> tvm.IRModule:
    """The network as a function ``main``."""
    return _build(network, network.outputs, lambda dtype: dtype)


def reference(network: Network, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All values of a network."""
    return _evaluate(network, inputs, lambda dtype: dtype)


def double_reference(
    network: Network,
    inputs: dict[str, np.ndarray],
    nudge: Callable[[np.ndarray], np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """All values of a network in double precision; what single precision rounds is nudged."""
    exact = _evaluate(network, inputs, _doubled)
    if nudge is None:
        return exact
    single = reference(network, inputs)
    normalised = {node.inputs[0] for node in network.nodes if node.op in _SINGLE}
    factors = {}
    for name in (name for node in network.nodes for name in node.outputs):
        if single[name].dtype == "float32" and exact[name].size:
            rounded = np.isfinite(exact[name]) & (exact[name] != 0)
            if name not in normalised:  # whose mean rounds, though all of it may be equal
                rounded &= single[name] != exact[name]
            whole = np.where(rounded, exact[name], 1.0)
            factors[name] = nudge(whole) / whole
    return _evaluate(network, inputs, _doubled, factors)


def _doubled(dtype: str) -> str:
    return "float64" if "float" in dtype else dtype


def _evaluate(
    network: Network,
    inputs: dict[str, np.ndarray],
    dtype_of: Callable[[str], str],
    factors: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> dict[str, np.ndarray]:
    made = [name for node in network.nodes for name in node.outputs]
    mod = _build(network, made, dtype_of, factors)
    given = [inputs[n].astype(dtype_of(t.dtype)) for n, t in network.inputs.items()]
    results = run_unscheduled(mod, given)
    constants = {n: a.astype(dtype_of(str(a.dtype))) for n, a in network.constants.items()}
    return {**constants, **dict(zip(network.inputs, given, strict=True)),
            **dict(zip(made, results, strict=True))}  # fmt: skip


def _build(
    network: Network,
    outputs: Sequence[str],
    dtype_of: Callable[[str], str],
    factors: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> tvm.IRModule:
    """The network as a function; some of its values are multiplied by factors."""
    block = relax.BlockBuilder()
    values: dict[str, relax.Expr] = {
        name: _variable(name, replace(tensor, dtype=dtype_of(tensor.dtype)))
        for name, tensor in network.inputs.items()
    }
    parameters = list(values.values())
    for name, array in network.constants.items():
        values[name] = _constant(array.astype(dtype_of(str(array.dtype))))
    with block.function("main", parameters):
        with block.dataflow():
            for node in network.nodes:
                call = _call(_typed(node, dtype_of), values)
                if node.op in _SINGLE and dtype_of("float32") == "float64":
                    call = relax.op.astype(block.emit(_in_single(call, block)), "float64")
                result = block.emit(call)
                if isinstance(result.ty, relax.TupleType):
                    parts = range(len(node.outputs))
                    results = [block.emit(relax.TupleGetItem(result, i)) for i in parts]
                else:
                    results = [result]
                for name, value in zip(node.outputs, results, strict=True):
                    factor = factors.get(name)
                    values[name] = value
                    if factor is not None:
                        values[name] = block.emit(relax.op.multiply(value, _constant(factor)))
            shown = [values[name] for name in outputs]
            result = block.emit_output(shown[0] if len(shown) == 1 else relax.Tuple(shown))
        block.emit_func_output(result)
    return block.get()


def _typed(node: Node, dtype_of: Callable[[str], str]) -> Node:
    """The node with its attributes that name a type."""
    named = {k: dtype_of(v) for k, v in node.attributes.items() if k == "dtype"}
    return replace(node, attributes={**node.attributes, **named})


def _call(node: Node, values: dict[str, relax.Expr]) -> relax.Expr:
    function = reduce(getattr, node.op.split("."), relax.op)
    operands = [values[name] for name in node.inputs]
    if node.op in _OF_TUPLES:
        return function(relax.Tuple(operands), **node.attributes)
    return function(*operands, **node.attributes)


_SINGLE = ("nn.layer_norm", "nn.group_norm", "nn.instance_norm", "nn.rms_norm")
"""Which TVM lowers in single precision, and in half, only."""


def _in_single(call: relax.Call, block: relax.BlockBuilder) -> relax.Call:
    operands = [block.emit(relax.op.astype(operand, "float32")) for operand in call.args]
    return relax.Call(call.op, operands, call.attrs)


def _variable(name: str, tensor: Tensor) -> relax.Var:
    return relax.Var(name, relax.TensorType(tensor.shape, tensor.dtype))


def _constant(array: np.ndarray) -> relax.Expr:
    return relax.const(array, str(array.dtype))


def _tensor(ty: relax.Type) -> Tensor:
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        raise Refused(f"{ty} is no tensor of known shape")
    return Tensor(tuple(int(n) for n in ty.shape.values), str(ty.dtype))
