# SPDX-License-Identifier: Apache-2.0
"""The networks whose stages are recorded: two whole ones, and parts of two larger ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import tvm

from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options
from tvm_ios.zoo import load
from tvm_ios.zoo.nasnet import NASNET_A_MOBILE, normal_cell
from tvm_ios.zoo.network import Input, Network
from tvm_ios.zoo.randwire import RANDWIRE_SMALL, random_stage
from tvm_ios.zoo.relax_builder import to_relax
from tvm_ios.zoo.values import Value
from tvm_ios.zoo.wiring import watts_strogatz

_NODES = 10  # of the randomly wired block, so that all of its stages can be measured


def _nasnet_cell() -> tvm.IRModule:
    """A normal cell of NASNet-A (mobile), in its second stage."""
    maps = (1, 528, 14, 14)
    inputs = (Input("previous", maps), Input("x", maps))
    cell = Network("nasnet_cell", NASNET_A_MOBILE.inputs, partial(normal_cell, width=88))
    return to_relax(cell, inputs, seed=0)


def _randwire_block() -> tvm.IRModule:
    """A random stage of RandWire's small regime, with fewer nodes."""
    wiring = watts_strogatz(_NODES, 4, 0.75, seed=5)
    inputs = (Input("x", (1, 78, 56, 56)),)

    def describe(net, x: Value) -> Value:
        return random_stage(net, x, wiring, 156, gain=1.0)

    return to_relax(Network("randwire_block", RANDWIRE_SMALL.inputs, describe), inputs, seed=0)


NETWORKS: Mapping[str, Callable[[], tvm.IRModule]] = {
    "squeezenet": partial(load, "squeezenet"),
    "inception_v3": partial(load, "inception_v3"),
    "nasnet_cell": _nasnet_cell,
    "randwire_block": _randwire_block,
}


def prepare(name: str, target: str | tvm.target.Target) -> Scheduler:
    """Return the scheduler of a network, without kernels whose choice needs measurements."""
    # The tables have the stages of blocks of 16 operators.
    mod, options = NETWORKS[name](), Options(winograd=False, max_block_size=16)
    return Scheduler.prepare(mod, tvm.target.Target(target), options=options)
