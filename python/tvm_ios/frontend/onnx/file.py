# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as a Relax module."""

from __future__ import annotations

from pathlib import Path

import tvm

from ...ops.size import OpenSizes
from ..shapes import Shapes
from .inputs import fix_shapes, open_shapes, shapes_of
from .reading import read


def from_file(
    path: Path, shapes: Shapes, batch: int | None, opened: OpenSizes | None = None
) -> tvm.IRModule:
    """Convert an ONNX file.

    Parameters
    ----------
    path : Path
    shapes : dict of str to sequence of int
        Shapes of inputs by name, for dimensions that the model leaves open.
    batch : int or None
        The first dimension of every input that leaves it open.

    opened : OpenSizes, optional
        Receives the dimensions that stay open; without it they must not.

    Raises
    ------
    ModelError
        If the file cannot be read, a shape does not fit, or an operator cannot be converted.
    """
    model = read(path)
    from .convert import convert  # it imports onnx, which an extra installs

    if opened is not None:
        module = convert(path, model, open_shapes(path, model, shapes, opened))
        opened.assumes = False
        return module
    fix_shapes(path, model, shapes, batch)
    return convert(path, model, shapes_of(model))
