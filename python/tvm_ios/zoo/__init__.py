# SPDX-License-Identifier: Apache-2.0
"""Networks of the literature with random weights, as Relax modules and as ONNX files.

They are for benchmarks and tests, where the shape of a network matters and what it has learnt does
not. The same name and seed give the same weights in both forms, for every batch and image size.
"""

from __future__ import annotations

import os

import tvm

from tvm_ios.errors import ModelError
from tvm_ios.zoo.builder import Network
from tvm_ios.zoo.inception_v3 import INCEPTION_V3, INCEPTION_V3_SMALL
from tvm_ios.zoo.relax_builder import to_relax
from tvm_ios.zoo.squeezenet import SQUEEZENET

__all__ = ["export_onnx", "load", "names"]

_NETWORKS = {network.name: network for network in (INCEPTION_V3, INCEPTION_V3_SMALL, SQUEEZENET)}


def names() -> tuple[str, ...]:
    """Return the names of the networks in the zoo, sorted."""
    return tuple(sorted(_NETWORKS))


def load(
    name: str, *, batch: int = 1, seed: int = 0, image_size: int | None = None
) -> tvm.IRModule:
    """Build a network as a Relax module.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    batch : int
        Number of images in a batch.
    seed : int
        Seed of the weights.
    image_size : int, optional
        Height and width of an image in pixels; the network's own where not given.

    Returns
    -------
    tvm.IRModule
        A module with one function, "main", from an image of shape (batch, 3, image_size,
        image_size) to logits of shape (batch, 1000), float32, the weights bound as constants.

    Raises
    ------
    ModelError
        If the zoo has no such network, the batch is less than 1 or the image is too small.
    """
    network = _find(name)
    return to_relax(network, _input_shape(network, batch, image_size), seed)


def export_onnx(
    name: str,
    path: str | os.PathLike[str],
    *,
    batch: int = 1,
    seed: int = 0,
    image_size: int | None = None,
) -> None:
    """Write a network as an ONNX file, with the weights that :func:`load` gives it.

    Parameters
    ----------
    name, batch, seed, image_size
        As for :func:`load`.
    path : path-like
        The file to write. Its model has one input, "data", and one output.

    Raises
    ------
    ModelError
        As for :func:`load`, and if the extra `onnx` is not installed.
    """
    try:
        import onnx

        from tvm_ios.zoo.onnx_builder import to_onnx
    except ImportError as error:
        raise ModelError("writing ONNX needs an extra: pip install tvm-ios[onnx]") from error
    network = _find(name)
    onnx.save(to_onnx(network, _input_shape(network, batch, image_size), seed), os.fspath(path))


def _find(name: str) -> Network:
    if name not in _NETWORKS:
        raise ModelError(f"the zoo has no network {name!r}: choose one of {', '.join(names())}")
    return _NETWORKS[name]


def _input_shape(network: Network, batch: int, image_size: int | None) -> tuple[int, int, int, int]:
    if batch < 1:
        raise ModelError(f"a batch of {batch} images cannot be run: use a batch of at least 1")
    size = network.image_size if image_size is None else image_size
    return batch, 3, size, size
