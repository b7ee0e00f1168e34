# SPDX-License-Identifier: Apache-2.0
"""Networks from seeds."""

from __future__ import annotations

import numpy as np

from .draw import Draw, Evaluator, Refused
from .network import HALVES, Network
from .onnx_front import BFLOAT16, OPSETS, OnnxEvaluator
from .operators import TABLES
from .relax_front import RelaxEvaluator

_ATTEMPTS = 40
_RELAX = 0.3  # of all networks
_USUAL = 0.35  # begin with an image, and have common operators only: these are kept blocked
_COMMON = 1.5
_HALVES = 0.25  # of ONNX's networks
_SINGLE = (0.25, 0.7)  # have one output; TVM computes a tuple of several between ours


def random_of(seed: int, purpose: str) -> np.random.Generator:
    """The random numbers of one purpose, independent of how many another one takes."""
    return np.random.default_rng([seed, *purpose.encode()])


def random_network(seed: int) -> Network:
    """The network of a seed: 2 to 25 operators, of a table that the seed chooses."""
    random = random_of(seed, "network")
    floats = "float32"
    if random.random() < _RELAX:
        evaluator: Evaluator = RelaxEvaluator()
    else:
        evaluator = OnnxEvaluator(int(random.choice(OPSETS)))
        if random.random() < _HALVES:
            floats = str(random.choice(HALVES[: 2 if evaluator.opset >= BFLOAT16 else 1]))
    size = int(np.exp(random.uniform(np.log(2), np.log(26))))
    for _ in range(_ATTEMPTS):
        usual = bool(random.random() < _USUAL)
        draw = _grow(random, evaluator, size, usual, floats)
        if draw.nodes and any(name in draw.read for name in draw.inputs):
            network = draw.network(_outputs(draw, _SINGLE[usual]))
            if network.nodes:
                return network
    raise AssertionError(f"no network grows of seed {seed}")


def _grow(
    random: np.random.Generator, evaluator: Evaluator, size: int, usual: bool, floats: str
) -> Draw:
    draw = Draw(random, evaluator, bool(random.random() < 0.04), floats)
    if usual:
        draw.input((draw.pick([1, 1, 1, 2]), draw.pick([3, 16, 20]), *random.integers(5, 15, 2)))
    for _ in range(0 if usual else draw.pick([1, 1, 2, 3])):
        rank = draw.pick([4, 4, 4, 4, 3, 2, 2, 1])
        draw.input(draw.shape(rank), draw.pick(["float32"] * 9 + ["int64"]))
    entries = TABLES[evaluator.front].entries
    if usual:
        entries = [entry for entry in entries if entry.weight >= _COMMON]
    weights = np.array([entry.weight for entry in entries])
    for _ in range(8 * size):
        if len(draw.nodes) >= size:
            break
        generator = entries[random.choice(len(entries), p=weights / weights.sum())].generator
        try:
            generator(draw)
        except Refused:
            continue
    return draw


def _outputs(draw: Draw, single: float) -> list[str]:
    """What nobody reads, and now and then other values, inputs, constants, and one twice.

    Or what most operators lead to, and nothing else.
    """
    made = [name for node in draw.nodes for name in node.outputs]
    unread = [name for name in made if name not in draw.read]
    if draw.chance(single):
        return [max(unread, key=lambda name: len(draw.network([name]).nodes))]
    outputs = draw.some(unread) if draw.chance(0.1) else unread
    for options, probability in (
        (made, 0.25),
        (list(draw.inputs), 0.06),
        (list(draw.constants), 0.06),
        (outputs, 0.08),
    ):
        if options and draw.chance(probability):
            outputs.insert(draw.integer(0, len(outputs)), draw.pick(options))
    return [outputs[i] for i in draw.random.permutation(len(outputs))]
