# SPDX-License-Identifier: Apache-2.0
"""A network that the command line names, as a module of PyTorch's operators."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from ..frontend.formats import format_of
from ..frontend.model_format import ModelSource
from ..frontend.pytorch import load_program
from ..support.errors import ModelError


def torch_module(model: str, batch: int | None, trust: bool = False) -> torch.nn.Module:
    """Return the network with its weights as a module from inputs to outputs.

    Parameters
    ----------
    model : str
        As for :func:`tvm_ios.frontend.models.load_model`.
    batch : int, optional
        Of a network that a name stands for; in a file's operators it does not matter.
    trust : bool
        As :func:`tvm_ios.frontend.models.load_model` has it.

    Raises
    ------
    ModelError
        When there is no way from it to PyTorch.
    """
    found = format_of(model)
    if found is not None and found.export_onnx is not None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "model.onnx"
            found.export_onnx(ModelSource(model, batch=batch), path)
            return _from_onnx(path)
    path = Path(model)
    if path.suffix == ".pt2":
        return load_program(path, trust).module()
    if path.suffix == ".onnx":
        return _from_onnx(path)
    raise ModelError(f"{model} cannot be converted to PyTorch; give it as ONNX.")


def _from_onnx(path: Path) -> torch.nn.Module:
    import onnx

    from .onnx_torch import to_module

    try:
        return to_module(onnx.load(path))
    except NotImplementedError as error:
        raise ModelError(f"No module of PyTorch's operators is made for {error}.") from error
