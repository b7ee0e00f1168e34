# SPDX-License-Identifier: Apache-2.0
"""The terms in which tables and pictures describe the schedules of a kind of device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DeviceTerms:
    """How the schedules of a kind of target are described.

    Attributes
    ----------
    lane : str
        What has a track of its own in a timeline.
    counted : bool
        Whether a schedule is made for a number of worker threads.
    operator_latency : str
        What the time of an operator is the time of.
    timeline : mapping of str to str
        What a timeline measures, and where it differs from the compiled library.
    """

    lane: str = "worker"
    counted: bool = True
    operator_latency: str = "alone"
    timeline: Mapping[str, str] = field(default_factory=dict)


_TERMS = {
    "llvm": DeviceTerms(
        operator_latency="alone on one worker",
        timeline={
            "measured": "when each worker entered and left each kernel, in a library that reads "
            "the clock there, the fastest of several runs",
            "unlike the compiled library": "the clock is read, inputs are random",
        },
    ),
    "cuda": DeviceTerms(
        lane="stream",
        counted=False,
        timeline={
            "measured": "when each stream came to the events before and behind each kernel, in "
            "one CUDA graph of all stages, the fastest of several runs; CUDA tells it to half a "
            "microsecond",
            "unlike the compiled library": "the events are nodes of the graph: between kernels "
            "lies time that the library does not spend, and what is drawn of a kernel begins when "
            "it could start; every value has a tensor of its own, inputs are random, and nothing "
            "is copied in or out",
        },
    ),
}


def device_terms(target: str) -> DeviceTerms:
    """Return the terms for a target, as a schedule names it; general ones for other kinds."""
    return _TERMS.get(_config(target)["kind"], DeviceTerms())


def machine_name(target: str, workers: int) -> str:
    """Return what a schedule's validity depends on: ``llvm znver4 with 2 threads``."""
    config = _config(target)
    parts = [str(config[key]) for key in ("kind", "mcpu", "mattr", "arch") if config.get(key)]
    name = " ".join(parts)
    return f"{name} with {threads(workers)}" if device_terms(target).counted else name


def threads(workers: int) -> str:
    """Return the number of threads as ``2 threads``."""
    return f"{workers} thread{'s' if workers > 1 else ''}"


def _config(target: str) -> dict[str, str]:
    """Return the attributes of a target that is JSON, or else the name of a kind."""
    try:
        config = json.loads(target)
    except ValueError:
        config = None
    return config if isinstance(config, dict) and "kind" in config else {"kind": target}
