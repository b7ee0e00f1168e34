# SPDX-License-Identifier: Apache-2.0
"""What a scheduled function does, where that is one call of a driver.

Such a function needs no virtual machine: ``tvm_ios_runtime`` calls the driver itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tvm
from tvm import relax

from ....sizes.size import Size, is_known, size_of, unsimplified
from ....sizes.text import described, described_requirements
from .size_check import checks_sizes
from .thread_pool import configures_threads


class _Tensor(NamedTuple):
    """A tensor: a parameter of the function, or one that the driver writes."""

    kind: str
    number: int


_Value = _Tensor | list["_Value"]


def direct_call(function: relax.Function) -> dict[str, Any] | None:
    """Describe the call of a driver that is all that a function does.

    The calls that configure TVM's thread pool do not count: who calls the driver does the same. Nor
    does the check of open sizes, which the driver repeats.

    Parameters
    ----------
    function : tvm.relax.Function
        A function of a library for a CPU.

    Returns
    -------
    dict or None
        The name of the driver, ``function``, and what its ``parameters`` are: an ``input`` of the
        function or an ``output``, with its number, a ``workspace`` with its number of bytes, or a
        ``number``. Where sizes are open, they are as :mod:`tvm_ios_runtime.open_sizes` reads them,
        ``outputs`` has the shapes of the outputs, ``dimensions`` where the inputs have which, and
        ``required`` what they must fulfil, with the sentences of refusals.
        None if the function does anything else, or returns anything else than what the driver
        writes, each of it once.
    """
    values: dict[relax.Var, _Value] = {
        parameter: _Tensor("input", i) for i, parameter in enumerate(function.params)
    }
    driver: relax.Call | None = None
    for binding in (binding for block in function.body.blocks for binding in block.bindings):
        if not isinstance(binding, relax.VarBinding):
            return None
        if configures_threads(binding.value) or checks_sizes(binding.value):
            continue
        if driver is None and _calls_driver(binding.value):
            driver = binding.value
            values[binding.var] = _written(driver)
            continue
        value = _value(binding.value, values)
        if value is None:
            return None
        values[binding.var] = value
    results = _value(function.body.body, values)
    if driver is None or results is None:
        return None
    returned = list(_leaves(results))
    parameters = _parameters(driver, values, returned)
    tensors = [*(p.ty for p in function.params), *_types(driver)]
    if parameters is None or not all(map(_is_known, tensors)):
        return None
    described = {"function": str(driver.args[0].global_symbol), "parameters": parameters}
    return described | _open(function, [_types(driver)[t.number] for t in returned])


def _open(function: relax.Function, outputs: Sequence[tvm.ir.Type]) -> dict[str, Any]:
    """Describe the sizes that are open; nothing if none is."""
    dimensions = {
        str(size.name): (number, axis)
        for number, parameter in enumerate(function.params)
        for axis, size in enumerate(parameter.ty.shape.values)
        if isinstance(size, tvm.ir.Var)
    }
    if not dimensions:
        return {}
    shapes = [[described(size_of(size)) for size in ty.shape.values] for ty in outputs]
    sizes = (size_of(n) for p in function.params for n in p.ty.shape.values)
    opened = next(size.owner for size in sizes if isinstance(size, Size))
    required = described_requirements(opened)
    return {"dimensions": dimensions, "outputs": shapes, "required": required}


def _calls_driver(value: relax.Expr) -> bool:
    return (
        isinstance(value, relax.Call)
        and getattr(value.op, "name", None) == "relax.call_dps_packed"
        and isinstance(value.args[0], relax.ExternFunc)
        and isinstance(value.args[1], relax.Tuple)
    )


def _types(driver: relax.Call) -> list[tvm.ir.Type]:
    """Return the types of the tensors that a driver writes."""
    written = driver.ty_args[0]
    return list(written.fields) if isinstance(written, relax.TupleType) else [written]


def _written(driver: relax.Call) -> _Value:
    """Return what a driver writes, as the function names it."""
    tensors: list[_Value] = [_Tensor("written", i) for i in range(len(_types(driver)))]
    return tensors if isinstance(driver.ty_args[0], relax.TupleType) else tensors[0]


def _value(expr: relax.Expr, values: dict[relax.Var, _Value]) -> _Value | None:
    """Return what an expression stands for; None if it computes anything."""
    if isinstance(expr, relax.Var):
        return values.get(expr)
    if isinstance(expr, relax.TupleGetItem):
        fields = _value(expr.tuple_value, values)
        return fields[expr.index] if isinstance(fields, list) else None
    if isinstance(expr, relax.Tuple):
        items = [_value(field, values) for field in expr.fields]
        known = [item for item in items if item is not None]
        return known if len(known) == len(items) else None
    return None


def _leaves(value: _Value) -> Iterator[_Tensor]:
    if isinstance(value, _Tensor):
        yield value
    else:
        for item in value:
            yield from _leaves(item)


def _parameters(
    driver: relax.Call, values: dict[relax.Var, _Value], results: list[_Tensor]
) -> list[tuple[str, Any]] | None:
    """Return what the driver's parameters are; None if it is not known of all of them."""
    parameters: list[tuple[str, Any]] = []
    for argument in driver.args[1].fields:
        if isinstance(argument, tvm.ir.Var) and not isinstance(argument.ty, relax.TensorType):
            parameters.append(("number", str(argument.name)))
            continue
        value = _value(argument, values)
        if not isinstance(value, _Tensor) or value.kind != "input":
            return None
        parameters.append((value.kind, value.number))
    for number, ty in enumerate(_types(driver)):
        written = _Tensor("written", number)
        if written in results:
            parameters.append(("output", results.index(written)))
        elif str(ty.dtype) == "uint8" and ty.ndim == 1:
            parameters.append(("workspace", described(unsimplified(ty.shape.values[0]))))
        else:
            return None
    returned = [kind for kind, _ in parameters].count("output")
    return parameters if returned == len(results) else None


def _is_known(ty: tvm.ir.Type) -> bool:
    return (
        isinstance(ty, relax.TensorType)
        and isinstance(ty.shape, relax.ShapeExpr)
        and all(map(is_known, ty.shape.values))
    )
