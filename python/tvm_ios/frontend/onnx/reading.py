# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as a protocol buffer that holds all of its tensors."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from ...support.errors import ModelError
from ...support.text import last_line
from .nodes import is_standard

if TYPE_CHECKING:
    import onnx

_LIMIT = 2**31 - 1  # bytes that protocol buffers hold
_OLDEST = 7  # the first opset whose operators broadcast as NumPy does
_COMMON = 17  # an opset that old models are converted to


def read(path: Path) -> onnx.ModelProto:
    """Return a file's model, with external data.

    Raises
    ------
    ModelError
        If the file is missing, damaged, too large or of an opset that cannot be read.
    """
    if not _installed("onnx"):
        raise ModelError("Reading ONNX needs an extra: pip install 'tvm-ios[onnx]'.")
    model = _parse(path)
    _load_external_data(path, model)
    return _of_known_opset(path, model)


def _installed(package: str) -> bool:
    """Return whether a package can be imported, which is not done until it is needed."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it is marked as missing
        return False


def _parse(path: Path) -> onnx.ModelProto:
    import onnx

    try:
        if path.stat().st_size > _LIMIT:
            raise ModelError(
                f"{path} has more than 2 GB, which protocol buffers cannot hold; save its tensors "
                "as external data."
            )
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise ModelError(f"Cannot read {path}: {error.strerror or error}.") from error
    except ModelError:
        raise
    except Exception as error:  # protobuf and onnx raise various types
        raise ModelError(f"{path} is damaged or not an ONNX file: {last_line(error)}.") from error
    if not model.graph.node:
        raise ModelError(f"{path} is empty or not an ONNX file: it has no operators.")
    return model


def _load_external_data(path: Path, model: onnx.ModelProto) -> None:
    """Read tensors from other files, which must be in the model's directory."""
    import onnx
    from onnx.external_data_helper import load_external_data_for_model

    try:
        load_external_data_for_model(model, str(path.parent))
    except onnx.checker.ValidationError as error:
        raise ModelError(
            f"{path} has external data that cannot be read: {last_line(error).rstrip('.')}; keep "
            "its files in the directory of the model."
        ) from error
    except OSError as error:
        missing = error.filename or path
        raise ModelError(f"Cannot read {missing}: {error.strerror or error}.") from error
    except Exception as error:  # offsets and lengths may be anything
        raise ModelError(f"{path} has damaged external data: {last_line(error)}.") from error


def _of_known_opset(path: Path, model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model in an opset whose operators have converters."""
    import onnx
    import onnx.version_converter

    version = next((o.version for o in model.opset_import if is_standard(o.domain)), 1)
    newest = onnx.defs.onnx_opset_version()
    if version > newest:
        raise ModelError(
            f"{path} has opset {version}, but the installed onnx knows none above {newest}; export "
            "it with an older opset, or install a newer onnx."
        )
    if version >= _OLDEST:
        return model
    try:
        return onnx.version_converter.convert_version(model, _COMMON)
    except Exception as error:  # the converter raises various types
        raise ModelError(
            f"{path} has opset {version}, which cannot be converted to a newer one "
            f"({last_line(error)}); export it with opset {_COMMON}."
        ) from error
