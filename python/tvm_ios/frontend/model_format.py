# SPDX-License-Identifier: Apache-2.0
"""A format of models, and what a model in it is read from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tvm

from tvm_ios_runtime import TensorInfo

from ..sizes.size import OpenSizes
from .dimensions import Dims, Given
from .shapes import Shapes


@dataclass(frozen=True)
class ModelSource:
    """What a model is read from.

    Attributes
    ----------
    model : str
        The path of a file, or a scheme and a name.
    shapes : mapping of str to sequence of int
        Shapes of inputs by name, for dimensions that the model leaves open.
    batch : int or None
        The first dimension of every input that leaves it open.
    params : path or None
        The file of the weights; only for a format that has such files.
    trust : bool
        Whether code that the model contains may be executed.
    dims : mapping of str to int or (int, int)
        Sizes of dimensions that the model leaves open, or their bounds, by name.
    opened : OpenSizes or None
        Receives the dimensions that stay open; None if all must be given.
    """

    model: str
    shapes: Shapes = field(default_factory=dict)
    batch: int | None = None
    params: str | os.PathLike[str] | None = None
    trust: bool = False
    dims: Dims = field(default_factory=dict)
    opened: OpenSizes | None = None

    @property
    def sizes(self) -> Given:
        """What the user says of the sizes of the inputs."""
        return Given(self.shapes, self.batch, self.dims)


@dataclass(frozen=True)
class ModelFormat:
    """A format of models.

    Attributes
    ----------
    noun : str
        What a model in this format is, as "an ONNX file".
    load : callable
        Reads a model as a high-level Relax module whose weights are constants. It raises ModelError
        for one that it cannot read. A file exists when it is called.
    suffixes : tuple of str
        How names of its files end.
    scheme : str
        What models begin with that are names instead of files, as "zoo:".
    help : str
        What it reads, for ``--help``; by default the noun and the suffixes.
    weights : str
        What a file of weights is that ``--params`` names; empty for a format without such files.
    export_onnx : callable, optional
        Writes a model to a path as ONNX.
    networks : callable, optional
        Returns the inputs, at batch size 1, of each model that needs no file, by its name.
    """

    noun: str
    load: Callable[[ModelSource], tvm.IRModule]
    suffixes: tuple[str, ...] = ()
    scheme: str = ""
    help: str = ""
    weights: str = ""
    export_onnx: Callable[[ModelSource, Path], None] | None = None
    networks: Callable[[], Mapping[str, Sequence[TensorInfo]]] | None = None

    def __str__(self) -> str:
        return f"{self.noun} ({', '.join(self.suffixes)})" if self.suffixes else self.noun
