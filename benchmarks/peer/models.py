# SPDX-License-Identifier: Apache-2.0
"""The networks of a comparison: those of the zoo, or any ONNX file, with shapes made static."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from peer.work import multiply_adds
from tvm_ios import zoo
from tvm_ios.errors import ModelError

_TEST_VARIANTS = ("_small", "_tiny")
_REGIMES = ("randwire_small",)  # small in its paper, too


@dataclass(frozen=True)
class Model:
    """A network that every contender can read.

    Attributes
    ----------
    name : str
    path : Path
        An ONNX file with static shapes.
    inputs : dict of str to numpy.ndarray
        Random: standard normal, or zeros and ones for integers.
    multiply_adds : int
        Of one run.
    quantized : bool
        Whether integers stand for some of its values.
    """

    name: str
    path: Path
    inputs: dict[str, np.ndarray]
    multiply_adds: int
    quantized: bool


def expand(names: str) -> list[str]:
    """``all`` or a list with commas, as names of the zoo and paths of files.

    ``all`` are the networks of the zoo but for those that are cut down for tests.
    """
    if names == "all":
        return [n for n in zoo.names() if n in _REGIMES or not n.endswith(_TEST_VARIANTS)]
    return [name.removeprefix("zoo:") for name in names.split(",")]


def load(name: str, batch: int, directory: Path, **size: int) -> Model:
    """Write the network to ``directory`` and make up its inputs; the zoo's have a size.

    Raises
    ------
    ModelError
        When there is no such network, or a dimension other than the batch is open.
    """
    path = directory / "model.onnx"
    if name.endswith(".onnx"):
        model = _with_batch(_read(name), batch)
        onnx.save(model, path)
    else:
        zoo.export_onnx(name, path, batch=batch, **size)
        model = onnx.load(path)
    quantized = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    return Model(Path(name).stem, path, _random(model), multiply_adds(model), quantized)


def _read(name: str) -> onnx.ModelProto:
    try:
        return onnx.load(name)
    except Exception as error:  # what protobuf and onnx raise is not one type
        raise ModelError(f"{name} cannot be read as ONNX: {error}.") from error


def _with_batch(model: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """The model with the first dimension of its inputs fixed, where it is open."""
    for value in inputs_of(model):
        dimensions = value.type.tensor_type.shape.dim
        if dimensions and not dimensions[0].dim_value:
            dimensions[0].dim_value = batch
        if not all(d.dim_value for d in dimensions):
            raise ModelError(
                f"Input {value.name!r} has open dimensions; export it with fixed ones."
            )
    del model.graph.value_info[:]  # of the open shape
    return model


def random_inputs(path: Path, seed: int) -> dict[str, np.ndarray]:
    """Make up inputs of a file that :func:`load` wrote, as :attr:`Model.inputs` are."""
    return _random(onnx.load(path, load_external_data=False), seed)


def _random(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    arrays = {}
    for value in inputs_of(model):
        tensor = value.type.tensor_type
        shape = [d.dim_value for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if np.issubdtype(dtype, np.floating):
            arrays[value.name] = random.standard_normal(shape).astype(dtype)
        else:
            arrays[value.name] = random.integers(0, 2, shape).astype(dtype)
    return arrays


def inputs_of(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return what a model reads; older files list its weights among the inputs, too."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]
