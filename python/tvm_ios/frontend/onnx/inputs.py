# SPDX-License-Identifier: Apache-2.0
"""The inputs of an ONNX model, with static shapes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...ops.size import AnySize, OpenSizes
from ...support.errors import ModelError, OpenBatchError, OpenShapeError
from ..shapes import Shapes, check_names, checked_size, fit

if TYPE_CHECKING:
    import onnx


def fix_shapes(path: Path, model: onnx.ModelProto, shapes: Shapes, batch: int | None) -> None:
    """Write the static shape of every input into the model.

    Raises
    ------
    ModelError
        If an input is not a tensor, if a dimension stays open, or if a dimension is given a value
        that differs from the model's.
    OpenBatchError
        If nothing but the batch stays open.
    """
    for value in model.graph.output:
        if value.type.WhichOneof("value") not in (None, "tensor_type"):
            raise ModelError(f"Output {value.name!r} is not a tensor; only tensors can be outputs.")
    inputs = inputs_of(model)
    check_names(str(path), shapes, [value.name for value in inputs])
    opens_batch = batch is None and _opens_batch_alone(inputs, shapes)
    for value in inputs:
        try:
            shape = _complete(value, shapes.get(value.name), batch)
        except OpenShapeError as error:
            raise OpenBatchError(str(error)) if opens_batch else error from None
        declared = value.type.tensor_type.shape
        declared.ClearField("dim")
        for size in shape:
            declared.dim.add().dim_value = size
        declared.SetInParent()  # also without dimensions
    # What was derived from open dimensions, or stated about them, no longer holds.
    del model.graph.value_info[:]


def _opens_batch_alone(inputs: Sequence[onnx.ValueInfoProto], shapes: Shapes) -> bool:
    """Return whether the first dimension of all inputs is open, and no other one is."""
    if shapes or not all(value.type.tensor_type.HasField("shape") for value in inputs):
        return False
    sizes = [_fixed_sizes(value.type.tensor_type.shape.dim) for value in inputs]
    return bool(sizes) and all(s and s[0] is None and None not in s[1:] for s in sizes)


def _fixed_sizes(dims: Sequence[onnx.TensorShapeProto.Dimension]) -> list[int | None]:
    """Return the sizes of dimensions; some exporters write -1 for an open one."""
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
    return [size if size is None or size >= 0 else None for size in sizes]


def inputs_of(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that are not weights."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


Sizes = dict[str, list[AnySize]]
"""The shapes of inputs, by name."""


def shapes_of(model: onnx.ModelProto) -> Sizes:
    """Return the shapes of the inputs, after :func:`fix_shapes`."""
    return {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in inputs_of(model)
    }


def open_shapes(path: Path, model: onnx.ModelProto, shapes: Shapes, opened: OpenSizes) -> Sizes:
    """Return the shapes of the inputs; dimensions that stay open become sizes of ``opened``.

    Dimensions of one name are one size.

    Raises
    ------
    ModelError
        If an input is not a tensor, or has no rank, or a dimension is given a value that differs
        from the model's.
    """
    inputs = inputs_of(model)
    check_names(str(path), shapes, [value.name for value in inputs])
    found: dict[str, AnySize] = {}
    result: Sizes = {}
    for value in inputs:
        dims = value.type.tensor_type.shape.dim
        given = shapes.get(value.name)
        names = [dim.dim_param or f"{value.name}.{axis}" for axis, dim in enumerate(dims)]
        if given is not None or not value.type.tensor_type.HasField("shape"):
            result[value.name] = list(_complete(value, given, None))
            continue
        result[value.name] = []
        for axis, (name, size) in enumerate(zip(names, _fixed_sizes(dims), strict=True)):
            if size is None and name not in found:
                found[name] = opened.open(name, example_size(axis, len(dims)))
            result[value.name].append(found[name] if size is None else size)
    return result


def example_size(axis: int, rank: int) -> int:
    """Return the size that is assumed of an open dimension, for what is searched and decided.

    It is 1 for the first, the batch; 224 for those of images, and 128 for steps of a sequence.
    """
    if axis == 0:
        return 1
    return 224 if rank == 4 else 128


def _complete(
    value: onnx.ValueInfoProto, given: Sequence[int] | None, batch: int | None
) -> list[int]:
    import onnx

    if not value.type.HasField("tensor_type"):
        raise ModelError(f"Input {value.name!r} is not a tensor; only tensors can be inputs.")
    if value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
        raise ModelError(f"Input {value.name!r} holds strings; only numbers can be inputs.")
    if not value.type.tensor_type.HasField("shape"):
        if given is None:
            raise ModelError(
                f"Input {value.name!r} has no shape in the model; give it one with "
                f'--input-shapes "{value.name}:[...]".'
            )
        return checked_size(f"Input {value.name!r}", list(given))
    declared = value.type.tensor_type.shape.dim
    return fit(
        value.name, _fixed_sizes(declared), [dim.dim_param or "?" for dim in declared], given, batch
    )
