# SPDX-License-Identifier: Apache-2.0
"""A network whose dimensions are open, as functions of one library.

One function takes any sizes. Others, which are searched, are for the sizes that are named, or for
those that are assumed. Where the network cannot be compiled for any sizes, but leaves only the
batch open, it is compiled for two batch sizes, which serve all others by parts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from ..relax_ir.expressions import static_shape
from ..sizes.size import OpenSizes, hints_of
from ..support.errors import ModelError, OpenBatchError, OpenShapeError
from . import steps
from .open_batch import is_open
from .scheduler import Scheduler
from .signatures import Networks

_logger = logging.getLogger(__name__)

_BATCHES = (1, 4)


class Load(Protocol):
    """Reads and prepares a network."""

    def __call__(
        self,
        opened: OpenSizes | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        batch: int | None = None,
    ) -> Scheduler:
        """Return the network, with dimensions that become open sizes, or with these sizes."""


def networks_of_any_shape(load: Load, error: OpenShapeError, *, search: bool) -> Networks:
    """Return the functions of a network that leaves dimensions open.

    Parameters
    ----------
    load : callable
    error : OpenShapeError
        What is raised if the network cannot be compiled so.
    search : bool
        Whether a schedule is searched, for the sizes that are assumed.

    Returns
    -------
    list of (Scheduler, Schedule)
        The last one is for any sizes, unless the network requires one size of all dimensions; or
        all are for batches.

    Raises
    ------
    OpenShapeError
    """
    try:
        general = load(OpenSizes())
    except (ModelError, TypeError) as reason:
        _logger.info("not compiled for any sizes: %s", reason, exc_info=True)
        error.because(_sentence(reason))
        if not isinstance(error, OpenBatchError):
            raise error from reason
        batches = [load(batch=batch) for batch in _BATCHES]
        return [(s, steps.choose(s, search=search and not i)) for i, s in enumerate(batches)]
    if not search or not is_open(general):
        return [(general, steps.choose(general, search=search))]
    example = load(shapes=_example(general))
    schedule = steps.choose(example)
    return [(example, schedule), (general, general.following(schedule))]


def with_any_shape(networks: Networks, load: Load) -> Networks:
    """Add the function of any sizes to those of sizes that are named, where a network has one.

    Its stages are those of the first schedule.
    """
    try:
        general = load(OpenSizes())
    except (ModelError, TypeError) as reason:
        _logger.info("not compiled for any sizes: %s", reason, exc_info=True)
        return networks
    if not is_open(general):
        return networks
    return [*networks, (general, general.following(networks[0][1]))]


def at_sizes(
    load: Load, shapes: Mapping[str, Sequence[int]] | None = None, batch: int | None = None
) -> Scheduler:
    """Return the network of these sizes; sizes are assumed of dimensions that are open besides."""
    try:
        return load(None, shapes, batch)
    except OpenShapeError:
        return load(None, _example(load(OpenSizes(), shapes, batch)), batch)


def _sentence(reason: Exception) -> str:
    """Return why a network is not compiled, as a part of a sentence."""
    if isinstance(reason, ModelError):
        return str(reason).rstrip(".")
    return "an operator of it has no code for open sizes"  # an int was wanted of a Size


def _example(scheduler: Scheduler) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs that are assumed."""
    function = scheduler.prepared[scheduler.graph.function]
    return {p.name: hints_of(static_shape(p, "an input")) for p in function.params}
