# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as a Relax module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import tvm

from ...sizes.size import OpenSizes
from ..dimensions import Given, settled
from .inputs import shapes_of
from .reading import read

if TYPE_CHECKING:
    import onnx


def from_file(path: Path, given: Given, opened: OpenSizes | None = None) -> tvm.IRModule:
    """Convert an ONNX file.

    Parameters
    ----------
    path : Path
    given : Given
        What the user says of the dimensions that the model leaves open.
    opened : OpenSizes, optional
        Receives the dimensions that stay open; without it none must.

    Raises
    ------
    ModelError
        If the file cannot be read, a shape does not fit, or an operator cannot be converted.
    """
    model = read(path)
    if opened is None:
        return _converted(path, model, given, None)
    return settled(str(path), opened, lambda: _converted(path, model, given, opened))


def _converted(
    path: Path, model: onnx.ModelProto, given: Given, opened: OpenSizes | None
) -> tvm.IRModule:
    from .convert import convert  # it imports onnx, which an extra installs

    shapes = shapes_of(path, model, given, opened)
    del model.graph.value_info[:]  # what is stated about open dimensions may not hold
    return convert(path, model, shapes)
