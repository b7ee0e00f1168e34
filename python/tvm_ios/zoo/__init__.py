# SPDX-License-Identifier: Apache-2.0
"""Published networks with random weights, as Relax modules and as ONNX files.

They are for benchmarks and tests, which depend on the shape of a network but not on its weights.
The same name and seed give the same weights in both forms, for every batch and size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import tvm

from ..support.errors import ModelError
from . import (
    bert,
    bilstm,
    convnext,
    darts,
    deep_and_cross,
    densenet,
    dlrm,
    dpn,
    echo,
    ensemble,
    experts,
    googlenet,
    heads,
    inception_v3,
    mixer,
    mobilenet_v2,
    nasnet,
    nasrnn,
    nf_resnet,
    poolformer,
    randwire,
    res2net,
    resnet,
    rgcn,
    squeezenet,
    wavenet,
    wide_and_deep,
    xception,
)
from .network import Input, Network
from .relax_builder import to_relax

__all__ = ["Input", "export_onnx", "inputs", "load", "names", "sizes"]

_NETWORKS = {
    network.name: network
    for network in (
        bert.BERT_BASE,
        bert.BERT_BASE_8,
        bert.BERT_TINY,
        bilstm.BILSTM,
        bilstm.BILSTM_SMALL,
        convnext.CONVNEXT_TINY,
        convnext.CONVNEXT_TINY_SMALL,
        darts.DARTS,
        darts.DARTS_SMALL,
        deep_and_cross.DEEP_AND_CROSS,
        deep_and_cross.DEEP_AND_CROSS_SMALL,
        densenet.DENSENET121,
        densenet.DENSENET_SMALL,
        dlrm.DLRM,
        dlrm.DLRM_SMALL,
        dpn.DPN68,
        dpn.DPN68_SMALL,
        echo.ECHO,
        echo.ECHO_SMALL,
        ensemble.ENSEMBLE,
        ensemble.ENSEMBLE_SMALL,
        experts.EXPERTS_8,
        experts.EXPERTS_SMALL,
        googlenet.GOOGLENET,
        googlenet.GOOGLENET_SMALL,
        heads.HEADS,
        heads.HEADS_SMALL,
        inception_v3.INCEPTION_V3,
        inception_v3.INCEPTION_V3_SMALL,
        mixer.MIXER_B16,
        mixer.MIXER_B16_SMALL,
        mobilenet_v2.MOBILENET_V2,
        mobilenet_v2.MOBILENET_V2_SMALL,
        nasnet.NASNET_A_LARGE,
        nasnet.NASNET_A_MOBILE,
        nasnet.NASNET_A_SMALL,
        nasrnn.NASRNN,
        nasrnn.NASRNN_SMALL,
        nf_resnet.NF_RESNET50,
        nf_resnet.NF_RESNET50_SMALL,
        poolformer.POOLFORMER_S12,
        poolformer.POOLFORMER_S12_SMALL,
        randwire.RANDWIRE_LARGE,
        randwire.RANDWIRE_REGULAR,
        randwire.RANDWIRE_SMALL,
        randwire.RANDWIRE_TINY,
        res2net.RES2NET50,
        res2net.RES2NET50_SMALL,
        resnet.RESNET18,
        resnet.RESNET50,
        resnet.RESNET50_SMALL,
        resnet.RESNEXT50,
        resnet.RESNEXT50_SMALL,
        rgcn.RGCN,
        rgcn.RGCN_SMALL,
        squeezenet.SQUEEZENET,
        wavenet.WAVENET,
        wavenet.WAVENET_SMALL,
        wide_and_deep.WIDE_AND_DEEP,
        wide_and_deep.WIDE_AND_DEEP_SMALL,
        xception.XCEPTION,
        xception.XCEPTION_SMALL,
    )
}


def names() -> tuple[str, ...]:
    """Return the names of the networks in the zoo, sorted."""
    return tuple(sorted(_NETWORKS))


def inputs(
    name: str, *, batch: int = 1, image_size: int | None = None, length: int | None = None
) -> tuple[Input, ...]:
    """Return the inputs of a network: names, shapes and types.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    batch : int
        Number of images, or of sequences, in a batch.
    image_size : int, optional
        Height and width of an image in pixels; by default the network's own.
    length : int, optional
        Number of tokens or of steps in a sequence; by default the network's own.

    Raises
    ------
    ModelError
        If the zoo has no such network, the network takes no images or no sequences, or the batch or
        the size is less than 1.
    """
    network = _find(name)
    if batch < 1:
        raise ModelError(f"a batch of {batch} cannot be run: use a batch of at least 1")
    given = {"image_size": image_size, "length": length}
    size = given.pop(network.inputs.size_name)
    for other, value in given.items():
        if value is not None:
            raise ModelError(f"{name} has no {other}: give it {network.inputs.size_name}")
    if size is not None and size < 1:
        raise ModelError(f"{network.inputs.size_name} must be at least 1, got {size}")
    return network.inputs.of(batch, network.inputs.size if size is None else size)


def sizes(
    name: str, shapes: Mapping[str, Sequence[int]], batch: int | None = None
) -> dict[str, int]:
    """Return the keyword arguments of :func:`load` for which inputs have the given shapes.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    shapes : mapping of str to sequence of int
        The shapes of some of the inputs by name.
    batch : int, optional
        The batch; by default that of the shapes.

    Raises
    ------
    ModelError
        If there are no such sizes.
    """
    read = _find(name).inputs
    wanted = {key: tuple(shape) for key, shape in shapes.items()}
    if batch is None:
        batch = next((shape[0] for shape in wanted.values() if shape), 1)
    for size in (read.size, *(extent for shape in wanted.values() for extent in shape[1:])):
        shapes_of_size = {value.name: value.shape for value in read.of(batch, size)}
        if wanted.items() <= shapes_of_size.items():
            return {"batch": batch, read.size_name: size}
    own = ", ".join(f"{value.name} {list(value.shape)}" for value in read.of(1, read.size))
    given = ", ".join(f"{key} {list(shape)}" for key, shape in wanted.items())
    raise ModelError(
        f"{name} reads {own}, of which only the batch and the {read.size_name} can be chosen: "
        f"{given} does not fit"
    )


def load(
    name: str,
    *,
    batch: int = 1,
    seed: int = 0,
    image_size: int | None = None,
    length: int | None = None,
) -> tvm.IRModule:
    """Build a network as a Relax module.

    Parameters
    ----------
    name, batch, image_size, length
        As for :func:`inputs`.
    seed : int
        Seed of the weights.

    Returns
    -------
    tvm.IRModule
        A module with one function, "main", from the network's :func:`inputs` to one float32 tensor,
        with constant weights. For images of shape (batch, 3, image_size, image_size) the result is
        the logits, of shape (batch, 1000).

    Raises
    ------
    ModelError
        As for :func:`inputs`, and if the image is too small or the sequence too long.
    """
    read = inputs(name, batch=batch, image_size=image_size, length=length)
    return to_relax(_find(name), read, seed)


def export_onnx(
    name: str,
    path: str | os.PathLike[str],
    *,
    batch: int = 1,
    seed: int = 0,
    image_size: int | None = None,
    length: int | None = None,
) -> None:
    """Write a network as an ONNX file, with the weights that :func:`load` gives it.

    Parameters
    ----------
    name, batch, seed, image_size, length
        As for :func:`load`.
    path : path-like
        The file to write. Its model has the network's :func:`inputs` and one output.

    Raises
    ------
    ModelError
        As for :func:`load`, and if the extra `onnx` is not installed.
    """
    try:
        import onnx

        from .onnx_builder import to_onnx
    except ImportError as error:
        raise ModelError("writing ONNX needs an extra: pip install 'tvm-ios[onnx]'") from error
    read = inputs(name, batch=batch, image_size=image_size, length=length)
    onnx.save(to_onnx(_find(name), read, seed), os.fspath(path))


def _find(name: str) -> Network:
    if name not in _NETWORKS:
        raise ModelError(f"The zoo has no network {name!r}: choose one of {', '.join(names())}")
    return _NETWORKS[name]
