# SPDX-License-Identifier: Apache-2.0
"""ONNX's tests of operators in the types and versions that they leave out.

ONNX's tests are of an operator's newest version, most of them in float32. A variant is such a test
with the tensors of a type variable in another type that the operator's schema allows, or in an
older version, where what is an input by now may be an attribute. The right answers are those of
ONNX Runtime, or of ONNX's reference where ONNX Runtime lacks the operator in this type or version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.defs
from onnx import helper

from . import onnx_suite

TYPES, OPSETS = "types", "opsets"
OLDEST = 7
_RENAMED = {"K": "k", "constant_value": "value"}
"""Inputs that had other names as attributes."""
_MOST = {TYPES: 2, OPSETS: 3}
"""How many tests of an operator there are in a type, or in a version."""

_DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "float": "float32", "double": "float64", "float16": "float16",
        "bfloat16": ml_dtypes.bfloat16, "bool": "bool", "int8": "int8", "int16": "int16",
        "int32": "int32", "int64": "int64", "uint8": "uint8", "uint16": "uint16",
        "uint32": "uint32", "uint64": "uint64",
    }.items()
}  # fmt: skip
_LARGEST = float(np.finfo("float16").max)
NARROW = (np.dtype("float16"), np.dtype(ml_dtypes.bfloat16))


@dataclass(frozen=True)
class Variant:
    """A test in another type or version.

    Attributes
    ----------
    operator : str
    variable : str
        The schema's name of the type that differs; empty if the version does.
    label : str
        The type, or the version.
    model : onnx.ModelProto
        What decides shapes is an initialiser.
    inputs : list of array
    """

    operator: str
    variable: str
    label: str
    model: onnx.ModelProto
    inputs: list[np.ndarray]

    @property
    def is_main(self) -> bool:
        """Whether it is the type of the operator's data that differs."""
        return self.variable == _main_variable(self.operator)


def own_types(name: str) -> set[str]:
    """Return the types of the data of one of ONNX's tests."""
    case = onnx_suite.cases()[name.split("_expanded")[0]]
    node = case.model.graph.node[0]
    schema = onnx.defs.get_schema(node.op_type, node.domain)
    main = _main_variable(node.op_type, node.domain)
    bound = {name for name, kind in _bindings(schema.inputs, node.input) if kind == main}
    given = (v.type for v in case.model.graph.input if v.name in bound)
    kinds = {t.tensor_type.elem_type for t in given if t.HasField("tensor_type")}
    dtypes = [helper.tensor_dtype_to_np_dtype(kind) for kind in kinds]
    return {label for label, dtype in _DTYPES.items() if dtype in dtypes}


@cache
def _main_variable(operator: str, domain: str = "") -> str:
    """Return the first type variable of the inputs that stands for several types."""
    schema = onnx.defs.get_schema(operator, domain)
    several = {
        constraint.type_param_str
        for constraint in schema.type_constraints
        if len(_labels(constraint)) > 1
    }
    return next((i.type_str for i in schema.inputs if i.type_str in several), "")


def _labels(constraint: Any) -> list[str]:
    """Return the types that a variable may stand for, of those that there are here."""
    names = (
        name.removeprefix("tensor(").removesuffix(")") for name in constraint.allowed_type_strs
    )
    return sorted(name for name in names if name in _DTYPES)


@cache
def variants(form: str) -> dict[str, Variant]:
    """Return the variants in types, or in versions, by name."""
    made: dict[tuple[str, str, str], list[tuple[str, Variant]]] = defaultdict(list)
    derive = {TYPES: _in_other_types, OPSETS: _in_older_versions}[form]
    for name, case in onnx_suite.cases().items():
        first, *others = case.model.graph.node
        if others or first.domain or "_expanded" in name:
            continue
        if onnx_suite.kind_of(name) != onnx_suite.PLAIN:
            continue
        for variant in derive(case):
            key = (variant.operator, variant.variable, variant.label)
            what = f"{variant.variable}=" if variant.variable else "opset "
            made[key].append((f"{name}@{what}{variant.label}", variant))
    return dict(entry for found in made.values() for entry in _spread(found, _MOST[form]))


def _spread(found: Sequence[Any], most: int) -> list[Any]:
    count = min(most, len(found))
    return [found[i * len(found) // count] for i in range(count)]


def _in_other_types(case: Any) -> Iterator[Variant]:
    node = case.model.graph.node[0]
    schema = _schema(node.op_type, _opset(case.model), node.domain)
    bound = _bindings(schema.inputs, node.input), _bindings(schema.outputs, node.output)
    for constraint in schema.type_constraints:
        variable = constraint.type_param_str
        names = {name for formal in bound for name, types in formal if types == variable}
        own = {v.type.tensor_type.elem_type for v in case.model.graph.input if v.name in names}
        for label in _labels(constraint):
            dtype = _DTYPES[label]
            if own and helper.np_dtype_to_tensor_dtype(dtype) not in own:
                yield from _changed(case, node.op_type, variable, label, _retyping(names, dtype))


def _in_older_versions(case: Any) -> Iterator[Variant]:
    node, opset = case.model.graph.node[0], _opset(case.model)
    newest = _schema(node.op_type, opset, node.domain)
    for version in versions(node.op_type):
        if version < newest.since_version:
            change = _in_version(newest, _schema(node.op_type, version, node.domain))
            yield from _changed(case, node.op_type, "", str(version), change)


@cache
def versions(operator: str) -> list[int]:
    """Return the versions of an operator, each the opset that it is from."""
    changed = sorted({
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == operator and schema.domain == ""
    })  # fmt: skip
    first = max((version for version in changed if version <= OLDEST), default=0)
    return [version for version in changed if version >= first]


_Change = Callable[[onnx.ModelProto, dict[str, np.ndarray]], bool]
"""Changes a model, and its inputs by name; returns False where that is impossible."""


def _changed(
    case: Any, operator: str, variable: str, label: str, change: _Change
) -> Iterator[Variant]:
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    arrays = onnx_suite.inputs_of(case)
    given = {v.name: a for v, a in zip(model.graph.input, arrays, strict=True) if a is not None}
    if len(given) != len(arrays) or not change(model, given):
        return
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return
    inputs = list(given.values())
    fixed = [
        i for i, a in enumerate(inputs) if operator in onnx_suite.DECIDED or (i and a.ndim <= 1)
    ]
    left = onnx_suite.fix(model, inputs, fixed, nodes=False)
    yield Variant(operator, variable, label, model, left)


def _retyping(names: set[str], dtype: np.dtype[Any]) -> _Change:
    """Give the named tensors another type; NaN has no place among integers."""

    def change(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> bool:
        for value in (*model.graph.input, *model.graph.output):
            if value.name in names:
                value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(dtype)
        for place, (name, array) in enumerate(given.items()):
            if name in names:
                given[name] = _cast(array, dtype, zeros=place == 0)
        return dtype.kind == "f" or all(np.isfinite(array).all() for array in given.values())

    return change


def _cast(array: np.ndarray, dtype: np.dtype[Any], zeros: bool) -> np.ndarray:
    """Return numbers as those of another type; ``zeros`` says whether there may be any of them."""
    if dtype.kind == "b" and array.dtype.kind == "f":
        return array > 0
    if dtype.kind == "u" and array.dtype.kind == "i":
        array = np.abs(array)
    if dtype == np.float16:
        return array.astype("float64").clip(-_LARGEST, _LARGEST).astype(dtype)
    if dtype.kind not in "iu" or array.dtype.kind in "iub":
        return array.astype(dtype)
    limits = np.iinfo(dtype)
    numbers = np.nan_to_num(array.astype("float32")).clip(-100, 100)
    fractions = bool(numbers.size) and np.abs(numbers).max() <= 1
    whole = np.trunc(numbers * 10 if fractions else numbers)
    whole = np.abs(whole) if dtype.kind == "u" else whole
    if not zeros:
        whole = np.where(whole == 0, 1, whole)
    return np.clip(whole, limits.min, limits.max).astype(dtype)


def _in_version(newest: onnx.defs.OpSchema, older: onnx.defs.OpSchema) -> _Change:
    """Write the node as in an older version."""

    def change(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> bool:
        node = model.graph.node[0]
        model.opset_import[0].version = max(older.since_version, OLDEST)
        for formal, name in _formals(newest.inputs, node.input):
            attribute = _RENAMED.get(formal.name, formal.name)
            if attribute in older.attributes and name:
                _move_to_attribute(model, attribute, name, given, older)
        while node.input and not node.input[-1]:
            node.input.pop()
        _drop_defaults(node, newest, older)
        known = all(attribute.name in older.attributes for attribute in node.attribute)
        return known and len(node.input) <= older.max_input

    return change


def _move_to_attribute(
    model: onnx.ModelProto,
    attribute: str,
    name: str,
    given: dict[str, np.ndarray],
    older: onnx.defs.OpSchema,
) -> None:
    node, array = model.graph.node[0], given.pop(name)
    kind = onnx.AttributeProto.AttributeType.Value(older.attributes[attribute].type.name)
    floats = kind in (onnx.AttributeProto.FLOAT, onnx.AttributeProto.FLOATS)
    value = array.astype("float32" if floats else array.dtype).ravel().tolist()
    if kind not in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        (value,) = value
    node.attribute.append(helper.make_attribute(attribute, value, attr_type=kind))
    node.input[:] = ["" if other == name else other for other in node.input]
    kept = [value for value in model.graph.input if value.name != name]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def _drop_defaults(
    node: onnx.NodeProto, newest: onnx.defs.OpSchema, older: onnx.defs.OpSchema
) -> None:
    """Leave out attributes that the older version lacks, and that have their defaults."""
    for attribute in list(node.attribute):
        if attribute.name in older.attributes:
            continue
        default = newest.attributes[attribute.name].default_value
        if default.type and _value(default) == _value(attribute):
            node.attribute.remove(attribute)


def _value(attribute: onnx.AttributeProto) -> Any:
    return helper.get_attribute_value(attribute)


def _schema(operator: str, opset: int, domain: str) -> onnx.defs.OpSchema:
    return onnx.defs.get_schema(operator, opset, domain)


def _opset(model: onnx.ModelProto) -> int:
    return int(next(o.version for o in model.opset_import if o.domain == ""))


def _formals(formals: Sequence[Any], names: Sequence[str]) -> list[tuple[Any, str]]:
    """Return the formal parameter of each actual one; the last one may stand for several."""
    return [(formals[min(i, len(formals) - 1)], name) for i, name in enumerate(names)]


def _bindings(formals: Sequence[Any], names: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, formal.type_str) for formal, name in _formals(formals, names) if name]
