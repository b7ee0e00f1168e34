# SPDX-License-Identifier: Apache-2.0
"""A file of the catalogue as contenders take it: what it reads, and the same with fixed shapes."""

from __future__ import annotations

import numpy as np
import onnx

from peer.models import inputs_of
from peer.process import ContenderError
from real.catalogue import RealModel

_SEED = 0
_BITS = (0, 2)
_MOVE = 1e-3
_ROUNDING = ("QuantizeLinear", "DynamicQuantize", "QLinear")


def draw_inputs(model: RealModel, file: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Make up what the file reads, as the catalogue says; the same numbers each time.

    Raises
    ------
    ContenderError
        When the catalogue does not say a shape, or speaks of an input that there is not.
    """
    values = {value.name: value.type.tensor_type for value in inputs_of(file)}
    if unknown := {*model.shapes, *model.limits, *model.spread} - values.keys():
        raise ContenderError(f"the catalogue names inputs that it lacks: {sorted(unknown)}")
    random = np.random.default_rng(_SEED)
    arrays = {}
    for name, tensor in values.items():
        shape = model.shapes.get(name) or tuple(d.dim_value for d in tensor.shape.dim)
        if any(size < 1 for size in shape):
            raise ContenderError(f"the catalogue gives the input {name!r} no shape")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        whole = name in model.limits or not np.issubdtype(dtype, np.floating)
        drawn = (
            random.integers(*model.limits.get(name, _BITS), shape)
            if whole
            else random.normal(scale=model.spread.get(name, 1.0), size=shape)
        )
        arrays[name] = np.asarray(drawn, dtype)
    return arrays


def move_inputs(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return inputs that differ by about a thousandth, a fraction of a step of 8 bits."""
    random = np.random.default_rng(_SEED)
    moved = {}
    for name, array in arrays.items():
        change = random.normal(1, _MOVE, array.shape) if array.dtype.kind == "f" else 1
        moved[name] = np.asarray(array * change, array.dtype)
    return moved


def fix_shapes(file: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> None:
    """Write the shapes of the inputs into the file, and take out what it says of others."""
    for value in inputs_of(file):
        shape = value.type.tensor_type.shape
        del shape.dim[:]
        for size in arrays[value.name].shape:
            shape.dim.add().dim_value = size
    del file.graph.value_info[:]
    for value in file.graph.output:
        value.type.tensor_type.ClearField("shape")


def is_quantized(file: onnx.ModelProto) -> bool:
    """Whether it rounds what it computes to integers, which then differ by a step here or there."""
    return any(node.op_type.startswith(_ROUNDING) for node in file.graph.node)
