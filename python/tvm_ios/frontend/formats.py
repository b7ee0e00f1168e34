# SPDX-License-Identifier: Apache-2.0
"""The formats of models that can be read: ONNX, PyTorch's, and those that packages add.

A package adds a :class:`.model_format.ModelFormat` by an entry point in the group
:data:`ENTRY_POINTS`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from . import onnx, pytorch
from .model_format import ModelFormat

ENTRY_POINTS = "tvm_ios.formats"
"""The group of entry points by which packages add formats."""

_logger = logging.getLogger(__name__)

_BUILT_IN = (
    ModelFormat(
        "an ONNX file",
        lambda given: onnx.from_file(Path(given.model), given.sizes, given.opened),
        (".onnx",),
    ),
    ModelFormat(
        "an exported program of PyTorch",
        lambda given: pytorch.from_file(Path(given.model), given.trust, given.sizes, given.opened),
        (".pt2",),
        help="a file that torch.export.save wrote (.pt2)",
    ),
)


def formats() -> Iterator[ModelFormat]:
    """Yield all formats; those that packages add are looked for when their turn comes."""
    yield from _BUILT_IN
    yield from installed()


@cache
def installed() -> tuple[ModelFormat, ...]:
    """Return the formats that packages add, in the order of their names."""
    found = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            found.append(point.load())
        except (ImportError, AttributeError) as error:
            _logger.warning("The format %r of models cannot be loaded: %s.", point.name, error)
    return tuple(found)


def format_of(model: str) -> ModelFormat | None:
    """Return the format of a model, by its scheme or else its suffix; None if there is none."""
    if ":" in model:
        for known in installed():
            if known.scheme and model.startswith(known.scheme):
                return known
    suffix = Path(model).suffix
    return next((known for known in formats() if suffix in known.suffixes), None)


def readable() -> str:
    """Return what can be read, as the end of a sentence that asks for it."""
    *others, last = map(str, formats())
    what = f"{', '.join(others)} or {last}"
    return what if installed() else f"{what}, or install tvm-ios with pip, which adds formats"


def model_help() -> str:
    """Return what ``--help`` says of a model."""
    *others, last = (known.help or str(known) for known in formats())
    return f"{', '.join(others)}, or {last}"


def with_weights() -> list[ModelFormat]:
    """Return the formats that have their weights in files of their own."""
    return [known for known in formats() if known.weights]
