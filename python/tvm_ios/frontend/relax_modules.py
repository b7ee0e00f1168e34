# SPDX-License-Identifier: Apache-2.0
"""Functions of Relax modules whose dimensions are symbolic variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
import tvm_ffi
from tvm import relax, tirx

from ..relax_ir.functions import relax_function
from ..sizes.size import AnySize, OpenSizes, Size
from ..support.errors import ModelError
from .dimensions import Declared, Given, complete, settled, static
from .dimensions import opened as open_shapes
from .size_requirements import require_fitting


def from_relax(
    mod: tvm.IRModule,
    given: Given | None = None,
    opened: OpenSizes | None = None,
    function: str = "main",
) -> tvm.IRModule:
    """Return a module with sizes in place of the symbolic dimensions of a function.

    Parameters
    ----------
    mod : tvm.IRModule
        It is not changed.
    given : Given, optional
        What the user says of them, by the names of the variables.
    opened : OpenSizes, optional
        Receives those that stay open; without it none must.
    function : str

    Raises
    ------
    OpenShapeError
        If dimensions stay open.
    ModelError
        If a size does not fit.
    """
    given, body = given or Given(), relax_function(mod, function)
    names = _names(body)
    if not names and given == Given():
        return mod
    inputs = [_declared(p, names) for p in body.params if _shape(p) is not None]
    if given.batch is not None and all(value.sizes[:1] != [None] for value in inputs):
        raise ModelError("No input of the module leaves its first dimension open for a batch size.")
    shapes = complete("The module", inputs, given)

    def bound(found: Mapping[str, Sequence[AnySize]]) -> tvm.IRModule:
        result = mod.clone()
        known = body.bind_symbolic_vars(_values(body, names, found))
        _require_fitting(known)
        result.update_func(result.get_global_var(function), known)
        return result

    if opened is None:
        return bound(static(shapes))
    return settled("The module", opened, lambda: bound(open_shapes(shapes, opened, given.dims)))


def has_open_dimensions(mod: tvm.IRModule, function: str = "main") -> bool:
    """Return whether dimensions of a function's tensors are symbolic variables."""
    return bool(_names(relax_function(mod, function)))


def _shape(parameter: relax.Var) -> Sequence[tvm.ir.Expr] | None:
    """Return the dimensions of a tensor; None of others, which the preparation refuses."""
    shape = getattr(parameter.ty, "shape", None)
    return shape.values if isinstance(shape, relax.ShapeExpr) else None


def _names(function: relax.Function) -> dict[tvm.ir.Var, str]:
    """Return the variables that are dimensions, each with a name of its own."""
    names: dict[tvm.ir.Var, str] = {}
    for parameter in function.params:
        for size in _shape(parameter) or ():
            if isinstance(size, tvm.ir.Var) and size not in names:
                name, number = size.name, 1
                while name in names.values():
                    name, number = f"{size.name}_{number}", number + 1
                names[size] = name
    return names


def _declared(parameter: relax.Var, names: Mapping[tvm.ir.Var, str]) -> Declared:
    """Return the sizes of an input; one that is computed from variables is called by its text."""
    shape = _shape(parameter)
    assert shape is not None, "it is a tensor of known rank"
    sizes = [int(size.value) if isinstance(size, tirx.IntImm) else None for size in shape]
    called = [names[size] if isinstance(size, tvm.ir.Var) else str(size) for size in shape]
    return Declared(parameter.name, sizes, called)


def _values(
    function: relax.Function,
    names: Mapping[tvm.ir.Var, str],
    shapes: Mapping[str, Sequence[AnySize]],
) -> dict[tvm.ir.Var, tvm.ir.Expr]:
    """Return what the variables are.

    Raises
    ------
    ModelError
        If an input has a dimension that is computed from others, or two sizes of one are given.
    """
    values: dict[tvm.ir.Var, AnySize] = {}
    for parameter in function.params:
        for size, value in zip(
            _shape(parameter) or (), shapes.get(parameter.name, ()), strict=False
        ):
            if isinstance(size, tirx.IntImm):
                continue
            if size not in names:
                raise ModelError(
                    f"Input {parameter.name!r} has the dimension {size}, which is computed from "
                    "others; give it one of its own."
                )
            if not _same(values.setdefault(size, value), value):
                raise ModelError(
                    f"The dimension {names[size]!r} is given the sizes {values[size]} and {value}."
                )
    return {
        variable: value.expr if isinstance(value, Size) else tirx.const(value, "int64")
        for variable, value in values.items()
    }


def _require_fitting(function: relax.Function) -> None:
    """Assume of open sizes what the operators of a function require.

    Raises
    ------
    ModelError
        If operands cannot fit.
    """
    for block in function.body.blocks:
        for binding in block.bindings:
            calls: list[relax.Call] = []
            if isinstance(binding, relax.VarBinding):
                tvm_ffi.structural_walk(binding.value, (relax.Call, calls.append))
            for call in calls:
                try:
                    require_fitting(call)
                except ValueError as error:
                    raise ModelError(f"{binding.var.name_hint} {error}.") from error


def _same(a: AnySize, b: AnySize) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)
