# SPDX-License-Identifier: Apache-2.0
"""Loading of a network from a file or by its name, as a Relax module with constant weights."""

from __future__ import annotations

import os
from pathlib import Path

import tvm

from ..sizes.size import OpenSizes
from ..support.errors import ModelError
from .dimensions import Dims
from .formats import format_of, readable, with_weights
from .importing import closing_builders
from .model_format import ModelSource
from .shapes import LARGEST, Shapes


def load_model(
    spec: str,
    input_shapes: Shapes | None = None,
    batch: int | None = None,
    params: str | os.PathLike[str] | None = None,
    trust: bool = False,
    dims: Dims | None = None,
    opened: OpenSizes | None = None,
) -> tvm.IRModule:
    """Load a network as a high-level Relax module whose weights are constants.

    Several threads may load at once; one of them imports, and the others wait for it.

    Parameters
    ----------
    spec : str
        The path of a file in one of :func:`.formats.formats`, which its suffix indicates, or a
        scheme and a name, such as ``zoo:squeezenet``.
    input_shapes : dict of str to sequence of int, optional
        Shapes of inputs by name, for dimensions that the model leaves open.
    batch : int, optional
        The first dimension of every input that leaves it open, or the batch of a network that
        a name stands for.
    params : path, optional
        The file of the weights, for a format that has such files. Without it they are arguments.
    trust : bool
        Whether a ``.pt2`` file may execute code that it contains; other formats contain none.
    dims : mapping of str to int or (int, int), optional
        Sizes of dimensions that the model leaves open, by name; or their bounds, between which they
        stay open.
    opened : OpenSizes, optional
        Receives the dimensions that stay open, where the format can have such; without it all must
        be given.

    Raises
    ------
    ModelError
        If the file is missing, damaged or of an unknown format, if its importer cannot read it,
        or if the shapes or the weights do not fit.
    """
    if batch is not None and not 1 <= batch < LARGEST:
        raise ModelError(f"The batch must be from 1 to {LARGEST - 1}, got {batch}.")
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    with closing_builders():
        return _load(ModelSource(spec, shapes, batch, params, trust, dims or {}, opened))


def _load(given: ModelSource) -> tvm.IRModule:
    """Load a network in the format that its name indicates."""
    found = format_of(given.model)
    if given.params is not None and not (found and found.weights):
        takers = " or ".join(known.noun for known in with_weights()) or "a format of a package"
        raise ModelError(f"{given.model} contains its weights; only {takers} takes --params.")
    if found is None or found.suffixes:
        _check_file(given.model)
    if found is None:
        raise ModelError(f"{given.model} has an unknown format; give {readable()}.")
    return found.load(given)


def _check_file(model: str) -> None:
    """Raise ModelError unless there is a file, and not one that holds a part of a network."""
    path = Path(model)
    if path.is_dir():
        raise ModelError(f"{model} is a directory; give {readable()}.")
    if not path.exists():
        raise ModelError(f"There is no model {model}; give {readable()}.")
    if path.suffix in (".pt", ".pth"):
        raise ModelError(
            f"{model} holds weights or a pickled module; write it with torch.export.save instead, "
            "to a file that ends with .pt2."
        )
