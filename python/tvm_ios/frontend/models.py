# SPDX-License-Identifier: Apache-2.0
"""Loading of a network from a file or from the zoo, as a Relax module with constant weights."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tvm

from ..support.errors import ModelError
from ..support.text import last_line
from . import pytorch, relay, zoo
from .importing import captured, closing_builders
from .relay.ast import TensorType
from .relay.convert import convert
from .relay.loading import given_params

if TYPE_CHECKING:
    import onnx

ZOO = "zoo:"
_LARGEST = 1 << 45  # elements; more than any address space holds
_PT2 = ".pt2"
_RELAY = (".relay", ".json")
_KNOWN = (
    "an ONNX file (.onnx), an exported program of PyTorch (.pt2), a Relay model (.relay, .json) "
    "or zoo:NAME"
)

Shapes = Mapping[str, Sequence[int]]


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
    if batch is not None and not 1 <= batch < _LARGEST:
        raise ModelError(f"The batch must be from 1 to {_LARGEST - 1}, got {batch}.")
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
    return _from_onnx(_existing(spec, ".onnx"), shapes, batch)


def _from_zoo(name: str, shapes: Shapes, batch: int | None) -> tvm.IRModule:
    known = [value.name for value in zoo.inputs(name)]
    _check_names(f"{ZOO}{name}", shapes, known)
    return zoo.load(name, **zoo.sizes(name, shapes, batch))


def _from_pt2(spec: str, shapes: Shapes, batch: int | None, trust: bool) -> tvm.IRModule:
    if shapes or batch is not None:
        raise ModelError(f"{spec} has fixed shapes; export it with the shapes that you need.")
    return pytorch.from_file(_existing(spec, _PT2), trust)


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
    _check_names(str(path), shapes, [*tensors])
    partial = {name: shape for name, shape in tensors.items() if None in shape or name in shapes}
    if batch is not None and not any(shape[:1] == (None,) for shape in partial.values()):
        raise ModelError(f"No input of {path} leaves its first dimension open for a batch size.")
    result = {}
    for name, shape in partial.items():
        first = batch if shape[:1] == (None,) else None
        result[name] = _fit(name, shape, ["?"] * len(shape), shapes.get(name), first)
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


def _from_onnx(path: Path, shapes: Shapes, batch: int | None) -> tvm.IRModule:
    model = _read_onnx(path)
    return _import(path, model, _complete_shapes(path, model, shapes, batch))


def _read_onnx(path: Path) -> onnx.ModelProto:
    """Return the file's protocol buffer with external data, and with local functions inlined."""
    try:
        import onnx
        import onnx.inliner
    except ImportError as error:
        raise ModelError("Reading ONNX needs an extra: pip install 'tvm-ios[onnx]'.") from error
    try:
        model = onnx.load(path)
    except OSError as error:
        missing = error.filename or path
        raise ModelError(f"Cannot read {missing}: {error.strerror or error}.") from error
    except Exception as error:  # protobuf and onnx raise various types
        raise ModelError(f"{path} is damaged or not an ONNX file: {last_line(error)}.") from error
    if not model.graph.node:
        raise ModelError(f"{path} is empty or not an ONNX file: it has no operators.")
    # PyTorch's exporter may define local functions, which TVM's importer does not support.
    return onnx.inliner.inline_local_functions(model) if model.functions else model


def _complete_shapes(
    path: Path, model: onnx.ModelProto, shapes: Shapes, batch: int | None
) -> dict[str, list[int]]:
    """Return the static shape of every input.

    Raises
    ------
    ModelError
        If a dimension stays open, or is given a value that differs from the model's.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    _check_names(str(path), shapes, [value.name for value in inputs])
    return {value.name: _complete_shape(value, shapes.get(value.name), batch) for value in inputs}


def _complete_shape(
    value: onnx.ValueInfoProto, given: Sequence[int] | None, batch: int | None
) -> list[int]:
    if not value.type.HasField("tensor_type"):
        raise ModelError(f"Input {value.name!r} is not a tensor; only tensors can be inputs.")
    if not value.type.tensor_type.HasField("shape"):
        if given is None:
            raise ModelError(
                f"Input {value.name!r} has no shape in the model; give it one with "
                f'--input-shapes "{value.name}:[...]".'
            )
        return checked_size(f"Input {value.name!r}", list(given))
    declared = value.type.tensor_type.shape.dim
    # Some exporters write -1 for an open dimension.
    sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in declared]
    fixed = [size if size is None or size >= 0 else None for size in sizes]
    return _fit(value.name, fixed, [dim.dim_param or "?" for dim in declared], given, batch)


def _fit(
    name: str,
    fixed: Sequence[int | None],
    symbols: Sequence[str],
    given: Sequence[int] | None,
    batch: int | None,
) -> list[int]:
    """Return the sizes that the model fixes, completed by the given ones."""
    if given is not None and len(given) != len(fixed):
        raise ModelError(
            f"Input {name!r} has {len(fixed)} dimensions, but the shape given for it, "
            f"{list(given)}, has {len(given)}."
        )
    wanted: list[int | None] = [None] * len(fixed) if given is None else list(given)
    if batch is not None and wanted and wanted[0] is None:
        wanted[0] = batch
    shape = [_complete_dimension(name, i, fixed, wanted, symbols) for i in range(len(fixed))]
    return checked_size(f"Input {name!r}", shape)


def checked_size(what: str, shape: list[int]) -> list[int]:
    """Return a shape if a machine can hold a tensor of it.

    Raises
    ------
    ModelError
        If the tensor would be too large.
    """
    if math.prod(max(size, 1) for size in shape) > _LARGEST:
        sizes = ", ".join(str(size) if size < _LARGEST else "2**45 or more" for size in shape)
        raise ModelError(f"{what} is [{sizes}], which no machine can hold; give it smaller sizes.")
    return shape


def _complete_dimension(
    name: str,
    axis: int,
    fixed: Sequence[int | None],
    wanted: Sequence[int | None],
    symbols: Sequence[str],
) -> int:
    """Return the size that the model fixes for a dimension, else the given one."""
    if fixed[axis] is not None and wanted[axis] not in (None, fixed[axis]):
        raise ModelError(
            f"The model fixes dimension {axis} of input {name!r} to {fixed[axis]}, so it cannot be "
            f"{wanted[axis]}; export the model with this dimension dynamic."
        )
    size = wanted[axis] if fixed[axis] is None else fixed[axis]
    if size is None:
        example = ",".join(str(size) if size is not None else "..." for size in fixed)
        raise ModelError(
            f"Dimension {axis} ({symbols[axis]}) of input {name!r} is dynamic; fix it with "
            f'--input-shapes "{name}:[{example}]".'
        )
    return size


def _check_names(source: str, shapes: Shapes, known: Sequence[str]) -> None:
    for name in shapes:
        if name not in known:
            raise ModelError(f"{source} has no input {name!r}; its inputs: {', '.join(known)}.")


def _import(path: Path, model: onnx.ModelProto, shapes: dict[str, list[int]]) -> tvm.IRModule:
    """Run TVM's importer; report a failure in one sentence that names the operator."""
    from tvm.relax.frontend.onnx import from_onnx

    with captured() as printed:
        try:
            # The inputs keep their names.
            return from_onnx(model, shapes, sanitize_input_names=False)
        except tvm.error.OpNotImplemented as error:
            names = str(error).rpartition(":")[2].split(",")
            listed = ", ".join(sorted(name.strip() for name in names))
            raise ModelError(
                f"TVM's ONNX importer does not support {listed} ({path}); export the model without "
                "it, for example with another opset."
            ) from error
        except Exception as error:  # the importer raises various types
            failed = re.search(r"Error converting operator (\w+)", printed.getvalue())
            where = f"operator {failed[1]}" if failed else "the model"
            raise ModelError(
                f"TVM's ONNX importer cannot convert {where} of {path}: {last_line(error)}."
            ) from error
