# SPDX-License-Identifier: Apache-2.0
"""A smaller network, compiled in a plainer way, of which the same is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .outcome import Outcome, Reduction
from .processes import Process
from .trial import Trial

_PLAINER = (
    {"library": "False"},
    {"json": "False"},
    {"way": "unsearched"},
    {"partitioning": "None"},
    {"checked": "False"},
    {"emulated": "False"},
    {"precision": "fp32"},
    {"synchronization": "barrier"},
    {"opt-level": "0"},
    {"num-cores": "1"},
    {"num-cores": "2"},
    {"mcpu": "x86-64"},
)
_VARIANTS = 4
"""Other schedules that are tried where one of a smaller network does not show what is wrong."""


def shrink(
    seed: int, process: Process, most: int = 400, begin: Reduction | None = None
) -> tuple[Reduction, Outcome]:
    """The smallest reduction that is found in ``most`` trials, and what comes of it.

    The first one is ``begin``, by default all of the network.

    Raises
    ------
    ValueError
        When nothing is wrong with the seed.
    """
    best = begin or Reduction()
    outcome = process.run(seed, best)
    if not outcome.found:
        raise ValueError(f"Nothing is wrong with seed {seed}: {outcome.status}.")
    tries, changed = 0, True
    while changed:
        changed = False
        for candidate in _smaller(seed, best):
            if tries >= most:
                return best, outcome
            tries += 1
            result = process.run(seed, candidate)
            if result.status == outcome.status:
                best, outcome, changed = candidate, result, True
                print(f"  {len(Trial(seed, best).network.nodes)} operators:{best.arguments}")
                break
    return best, outcome


def _smaller(seed: int, reduction: Reduction) -> Iterator[Reduction]:
    """Reductions that leave less, those that leave least first."""
    network = Trial(seed, reduction).network
    if len(network.outputs) > 1:
        for name in dict.fromkeys(network.outputs):
            yield from _varied(replace(reduction, outputs=(name,)))
        for i in range(len(network.outputs)):
            rest = network.outputs[:i] + network.outputs[i + 1 :]
            yield replace(reduction, outputs=rest)
    for node in reversed(network.nodes):
        if not set(node.outputs) & set(network.outputs):
            yield from _varied(replace(reduction, cut=(*reduction.cut, *node.outputs)))
    for node in network.nodes:  # what an output was made of in place of it
        for before in node.inputs:
            if set(node.outputs) & set(network.outputs) and before not in ("", *network.outputs):
                outputs = [before if n in node.outputs else n for n in network.outputs]
                if before not in network.constants and before not in network.inputs:
                    yield replace(reduction, outputs=tuple(outputs))
    for chosen in _PLAINER:
        if not chosen.items() <= reduction.chosen.items() and not (
            "num-cores" in chosen and "num-cores" in reduction.chosen
        ):
            yield replace(reduction, chosen={**reduction.chosen, **chosen})


def _varied(reduction: Reduction) -> Iterator[Reduction]:
    for variant in range(_VARIANTS):
        chosen = {**reduction.chosen, "variant": str(variant)} if variant else reduction.chosen
        yield replace(reduction, chosen=dict(chosen))
