# SPDX-License-Identifier: Apache-2.0
"""The inputs of an ONNX model, with their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...sizes.size import AnySize, OpenSizes
from ...support.errors import ModelError
from ..dimensions import Declared, Given, complete, static
from ..dimensions import opened as open_shapes

if TYPE_CHECKING:
    import onnx


_NO_NAMES = ("", "_", "?", "-1")
"""What exporters write for dimensions of no name, which are different ones."""

Sizes = dict[str, list[AnySize]]
"""The shapes of inputs, by name."""


def shapes_of(
    path: Path, model: onnx.ModelProto, given: Given, opened: OpenSizes | None = None
) -> Sizes:
    """Return the shapes of the inputs.

    Parameters
    ----------
    path : Path
    model : onnx.ModelProto
    given : Given
        What the user says of the dimensions that the model leaves open.
    opened : OpenSizes, optional
        Receives the dimensions that stay open; without it none must.

    Raises
    ------
    ModelError
        If an input or an output is not a tensor, or a dimension is given a value that differs from
        the model's.
    OpenShapeError
        If a dimension stays open.
    """
    for value in model.graph.output:
        if value.type.WhichOneof("value") not in (None, "tensor_type"):
            raise ModelError(f"Output {value.name!r} is not a tensor; only tensors can be outputs.")
    inputs = [_declared(value, given) for value in inputs_of(model)]
    shapes = complete(str(path), inputs, given)
    if opened is not None:
        return open_shapes(shapes, opened, given.dims)
    return dict(static(shapes))


def _declared(value: onnx.ValueInfoProto, given: Given) -> Declared:
    """Return what the model says of an input; of one without a shape, the rank that is given."""
    import onnx

    if not value.type.HasField("tensor_type"):
        raise ModelError(f"Input {value.name!r} is not a tensor; only tensors can be inputs.")
    if value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
        raise ModelError(f"Input {value.name!r} holds strings; only numbers can be inputs.")
    if not value.type.tensor_type.HasField("shape"):
        shape = given.shapes.get(value.name, given.shapes.get(""))
        if shape is None:
            raise ModelError(
                f"Input {value.name!r} has no shape in the model; give it one with "
                f'--input-shapes "{value.name}:[...]".'
            )
        return Declared(value.name, [None] * len(shape), _names(value.name, [""] * len(shape)))
    dims = value.type.tensor_type.shape.dim
    names = _names(value.name, [dim.dim_param for dim in dims])
    return Declared(value.name, _fixed_sizes(dims), names)


def _names(name: str, given: Sequence[str]) -> list[str]:
    """Return names of dimensions; one that the model does not name is called by its place."""
    return [f"{name}.{axis}" if known in _NO_NAMES else known for axis, known in enumerate(given)]


def _fixed_sizes(dims: Sequence[onnx.TensorShapeProto.Dimension]) -> list[int | None]:
    """Return the sizes of dimensions; some exporters write -1 for an open one."""
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
    return [size if size is None or size >= 0 else None for size in sizes]


def inputs_of(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that are not weights."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]
