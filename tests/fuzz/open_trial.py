# SPDX-License-Identifier: Apache-2.0
"""A network of open dimensions, compiled once and called at several sizes.

The reference computes the network at each of them. Where it cannot, the library must refuse the
call; elsewhere the library may refuse it, by a sentence, and must not differ.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import tvm

from tvm_ios.compiler import artifact, signatures
from tvm_ios.compiler.any_shape import networks_of_any_shape
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.measure.transport.locations import LocalRunner
from tvm_ios.schedule import Schedule
from tvm_ios.support.errors import OpenShapeError
from tvm_ios_runtime.model import Model

from .choices import Choices
from .open_sizes import OpenNetwork
from .reference import NoReference, Reference, Wrong
from .schedules import RandomPrices, schedule_of
from .writing import written_otherwise

_BOUNDS = (1, 40)
_BOUNDED = 0.5  # of the networks that are not searched


def compile_open(
    network: OpenNetwork, choices: Choices, random: np.random.Generator, folder: Path
) -> Model:
    """Return the network for any sizes; that of the assumed ones has a schedule of its own.

    Raises
    ------
    ModelError
        Where it is not compiled for any sizes.
    """
    path = folder / "model.onnx"
    model = network.model()
    onnx.save(written_otherwise(model, random) if random.random() < 0.3 else model, path)
    # What is assumed of a dimension without bounds makes large images, which is of no use here.
    bounded = choices.variant != "unsearched" or random.random() < _BOUNDED
    dims = dict.fromkeys(network.sizes, _BOUNDS) if bounded else {}
    target = tvm.target.Target(choices.target)
    prices = RandomPrices(choices.options.seed)

    def load(opened=None, shapes=None, batch=None) -> Scheduler:
        mod = load_model(str(path), shapes, batch, dims=None if shapes else dims, opened=opened)
        return Scheduler.prepare(mod, target, cost_model=prices, options=choices.options)

    def choose(scheduler: Scheduler, **_: object) -> Schedule:
        return schedule_of(scheduler, choices, random)

    with (
        mock.patch("tvm_ios.backend.cpu.backend.machine_balance", return_value=choices.balance),
        mock.patch("tvm_ios.compiler.any_shape.steps.choose", choose),
    ):
        error = OpenShapeError({}, {})
        networks = networks_of_any_shape(load, error, search=choices.variant != "unsearched")
    library = folder / "model.so"
    signatures.write(networks, library, LocalRunner(), error)
    return artifact.load(library)


def check_calls(
    model: Model, network: OpenNetwork, random: np.random.Generator, *, half: bool
) -> tuple[int, int]:
    """Call a model at several sizes.

    Returns
    -------
    int, int
        The sizes that it took, and those that the reference takes.

    Raises
    ------
    Wrong
    """
    answered = computed = 0
    for sizes in network.calls(random):
        inputs = network.inputs(sizes, random)
        reference = Reference(network.network, inputs, half=half)
        try:
            wanted = reference.values
        except NoReference as error:
            if error.is_a_limit:
                continue
            wanted = None
        computed += wanted is not None
        try:
            results = model(*inputs.values())
        except (ValueError, IndexError) as error:
            if not str(error).endswith("."):
                raise Wrong(f"At {sizes} the refusal is no sentence: {error}") from error
            continue
        if wanted is None:
            raise Wrong(f"The network cannot have the sizes {sizes}, which are not refused.")
        try:
            reference.check(results if isinstance(results, (list, tuple)) else [results])
        except Wrong as error:
            raise Wrong(f"At {sizes}: {error}", error.output) from error
        answered += 1
    return answered, computed
