# SPDX-License-Identifier: Apache-2.0
"""Loading of a network from a file or from the zoo, as a Relax module with constant weights."""

from __future__ import annotations

import os
from pathlib import Path

import tvm

from .. import relay, zoo
from ..relay.ast import TensorType
from ..relay.convert import convert
from ..relay.loading import given_params
from ..support.errors import ModelError
from . import onnx, pytorch
from .importing import closing_builders
from .shapes import LARGEST, Shapes, check_names, fit

ZOO = "zoo:"
_PT2 = ".pt2"
_RELAY = (".relay", ".json")
_KNOWN = (
    "an ONNX file (.onnx), an exported program of PyTorch (.pt2), a Relay model (.relay, .json) "
    "or zoo:NAME"
)


def load_model(
    spec: str,
    input_shapes: Shapes | None = None,
    batch: int | None = None,
    params: str | os.PathLike[str] | None = None,
    trust: bool = False,
) -> tvm.IRModule:
    """Load a network as a high-level Relax module whose weights are constants.

    Parameters
    ----------
    spec : str
        The path of an ONNX file, of a file that ``torch.export.save`` wrote, or of a Relay file
        (``.relay`` for the text form, ``.json`` for the JSON form), or ``zoo:NAME``.
    input_shapes : dict of str to sequence of int, optional
        Shapes of inputs by name, for dimensions that the model leaves open.
    batch : int, optional
        The first dimension of every input that leaves it open, or the batch of a zoo network.
    params : path, optional
        The weights of a Relay model, as ``relay.save_param_dict`` wrote them. Without it they are
        arguments.
    trust : bool
        Whether a ``.pt2`` file may execute code that it contains; other formats contain none.

    Raises
    ------
    ModelError
        If the file is missing, damaged or of an unknown format, if TVM's importer or the converter
        of Relay cannot read it, or if the shapes or the weights do not fit.
    """
    if batch is not None and not 1 <= batch < LARGEST:
        raise ModelError(f"The batch must be from 1 to {LARGEST - 1}, got {batch}.")
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    with closing_builders():
        return _load(spec, shapes, batch, params, trust)


def _load(
    spec: str,
    shapes: Shapes,
    batch: int | None,
    params: str | os.PathLike[str] | None,
    trust: bool,
) -> tvm.IRModule:
    """Load a network in the format that its name indicates."""
    suffix = "" if spec.startswith(ZOO) else Path(spec).suffix
    if suffix in _RELAY:
        return _from_relay(_existing(spec, suffix), shapes, batch, params)
    if params is not None:
        raise ModelError(f"{spec} contains its weights; only a Relay model takes --params.")
    if spec.startswith(ZOO):
        return _from_zoo(spec.removeprefix(ZOO), shapes, batch)
    if spec.endswith(_PT2):
        return _from_pt2(spec, shapes, batch, trust)
    return onnx.from_file(_existing(spec, ".onnx"), shapes, batch)


def _from_zoo(name: str, shapes: Shapes, batch: int | None) -> tvm.IRModule:
    known = [value.name for value in zoo.inputs(name)]
    check_names(f"{ZOO}{name}", shapes, known)
    return zoo.load(name, **zoo.sizes(name, shapes, batch))


def _from_pt2(spec: str, shapes: Shapes, batch: int | None, trust: bool) -> tvm.IRModule:
    return pytorch.from_file(_existing(spec, _PT2), trust, shapes, batch)


def _from_relay(
    path: Path, shapes: Shapes, batch: int | None, params: str | os.PathLike[str] | None
) -> tvm.IRModule:
    module = relay.parse(path)
    return convert(module, given_params(module, params), _open_shapes(path, module, shapes, batch))


def _open_shapes(
    path: Path, module: relay.Module, shapes: Shapes, batch: int | None
) -> dict[str, list[int]]:
    """Return the shapes of parameters that have unknown dimensions or are given a shape."""
    tensors = {
        var.name: var.type.shape
        for var in (module.functions["main"].params if "main" in module.functions else ())
        if isinstance(var.type, TensorType)
    }
    check_names(str(path), shapes, [*tensors])
    partial = {name: shape for name, shape in tensors.items() if None in shape or name in shapes}
    if batch is not None and not any(shape[:1] == (None,) for shape in partial.values()):
        raise ModelError(f"No input of {path} leaves its first dimension open for a batch size.")
    result = {}
    for name, shape in partial.items():
        first = batch if shape[:1] == (None,) else None
        result[name] = fit(name, shape, ["?"] * len(shape), shapes.get(name), first)
    return result


def _existing(spec: str, suffix: str) -> Path:
    """Return the path of a file, after checking that it exists and has this format."""
    path = Path(spec)
    if path.is_dir():
        raise ModelError(f"{spec} is a directory; give {_KNOWN}.")
    if not path.exists():
        raise ModelError(f"There is no model {spec}; give {_KNOWN}.")
    if path.suffix in (".pt", ".pth"):
        raise ModelError(
            f"{spec} holds weights or a pickled module; write it with torch.export.save instead, "
            "to a file that ends with .pt2."
        )
    if path.suffix != suffix:
        raise ModelError(f"{spec} has an unknown format; give {_KNOWN}.")
    return path
