# SPDX-License-Identifier: Apache-2.0
"""After its last chunk a kernel prefetches the weights that the same worker reads next."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, constant, conv, few_stages, relax_module
from support.prefetched import (
    IMAGE,
    KERNELS,
    LINE,
    SECOND_CACHE,
    chunks,
    compiled,
    in_one_group,
    marked,
    recorded,
)
from support.tiled import convolutions
from tvm_ios.backend.cpu.code import network
from tvm_ios.backend.cpu.code.constants import Constants
from tvm_ios.backend.cpu.code.memory import ALIGNMENT
from tvm_ios.backend.cpu.code.prefetch_target import find_prefetch_target
from tvm_ios.backend.cpu.code.region import Region
from tvm_ios.backend.cpu.code.waits import Position, positions
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.stage.plan import StripShare
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options

op = relax.op
_random = np.random.default_rng(0)


def pooled(emit, x):
    """What has no weights lies between two convolutions."""
    x = emit(op.nn.relu(emit(conv(x, 200, 1, seed=1))))
    x = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
    return emit(conv(emit(conv(x, 72, 3, padding=1, seed=2)), 20, 1, seed=3))


def depthwise(emit, x):
    x = emit(conv(x, 72, 1, seed=1))
    return emit(op.nn.conv2d(x, constant(72, 1, 3, 3, seed=2), padding=1, groups=72))


class Launch(NamedTuple):
    region: Region
    constants: Constants

    @property
    def positions(self) -> list[Position]:
        return positions(self.region.stages)


def launch_of(body, monkeypatch: pytest.MonkeyPatch, partitioning: str | None = None) -> Launch:
    """The launch of a network for two workers."""
    found: list[Launch] = []
    original = network.driver_function

    def driver_function(name, region, parameters, kernels, constants, *rest):
        found.append(Launch(region, constants))
        return original(name, region, parameters, kernels, constants, *rest)

    monkeypatch.setattr(network, "driver_function", driver_function)
    target = tvm.target.Target({**NATIVE.export(), "num-cores": 2})
    scheduler = Scheduler.prepare(
        relax_module(body, IMAGE), target, cost_model=few_stages, options=Options(winograd=False)
    )
    schedule = scheduler.unsearched()
    if partitioning:
        stages = (replace(s, partitioning=partitioning) for s in schedule.stages)
        schedule = replace(schedule, stages=tuple(stages))
    scheduler.emit(schedule)
    (launch,) = found
    return launch


def weights_at(launch: Launch, number: int, worker: int) -> np.ndarray | None:
    """What a worker reads first at a position: one block of output channels."""
    stage, share = launch.positions[number].stage, launch.positions[number].share
    if isinstance(share, StripShare):
        if not share.steps[worker]:
            return None
        implementation, tile = stage.implementations[share.steps[worker][0].call], 0
    else:
        implementation, tile = stage.implementations[share.call], share.cuts[worker]
        if tile == share.cuts[worker + 1]:
            return None
    kernel = implementation.kernel
    if kernel.plane is None or not kernel.name.startswith("conv2d"):
        return None
    return implementation.inputs[1][kernel.plane.blocks[tile // kernel.plane.num_tiles]]


@pytest.mark.parametrize("partitioning", [None, "tiles"])
@pytest.mark.parametrize("body", [convolutions, pooled])
def test_the_next_weights_follow(body, partitioning, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = launch_of(body, monkeypatch, partitioning)
    count, checked = len(launch.positions), 0
    content = np.fromfile(launch.constants.path, "float32", offset=ALIGNMENT)
    for number in range(count):
        for worker in range(2):
            later = (weights_at(launch, n, worker) for n in range(number + 1, count))
            expected = next((weights for weights in later if weights is not None), None)
            place = find_prefetch_target(launch.positions, launch.region, number, worker)
            if expected is None:
                continue
            assert place is not None
            np.testing.assert_array_equal(content[place : place + expected.size], expected.ravel())
            checked += 1
    assert checked


def test_nothing_follows_the_last_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = launch_of(depthwise, monkeypatch)
    last = len(launch.positions) - 1
    assert find_prefetch_target(launch.positions, launch.region, last, 0) is None


@pytest.mark.parametrize("name", KERNELS)
def test_a_tile_reads_the_weights_of_its_chunk(name: str) -> None:
    """All other weights are poisoned."""
    checked = 0
    for kernel, functions in compiled(name):
        inputs = [_random.standard_normal(s.shape).astype("float32") for s in kernel.inputs]
        tensor = kernel.phases[-1].weights.tensor
        for tile, begin, end in chunks(kernel):
            poisoned = np.full_like(inputs[tensor].ravel(), np.nan)
            poisoned[begin:end] = inputs[tensor].ravel()[begin:end]
            others = [*inputs[:tensor], poisoned.reshape(inputs[tensor].shape)]
            expected = computed(kernel, functions, inputs, tile)
            np.testing.assert_array_equal(
                computed(kernel, functions, [*others, *inputs[tensor + 1 :]], tile), expected
            )
            checked += 1
    assert checked > 1


def computed(kernel: Kernel, functions, inputs: list[np.ndarray], tile: int) -> np.ndarray:
    """The first result, of which one tile of the last phase was computed."""
    specs = (*kernel.outputs, *kernel.scratch)
    others = [tvm.runtime.tensor(np.zeros(spec.shape, "float32")) for spec in specs]
    arguments = [*map(tvm.runtime.tensor, inputs), *others]
    for phase, function in zip(kernel.phases[:-1], functions[:-1], strict=True):
        function(*arguments, 0, phase.num_tiles)
    functions[-1](*arguments, tile, tile + 1)
    return others[0].numpy()


@pytest.mark.parametrize("name", KERNELS)
def test_some_kernels_take_a_prefetch_target(name: str) -> None:
    assert any(kernel.phases[-1].prefetches for kernel, _ in compiled(name))


@pytest.mark.parametrize("name", KERNELS)
def test_the_target_is_prefetched_after_the_last_chunk(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = max(
        (k for k, _ in compiled(name) if k.phases[-1].prefetches),
        key=lambda k: k.tensors[k.phases[-1].weights.tensor].num_elements,
    )
    tensor = kernel.phases[-1].weights.tensor
    function = recorded(kernel, tensor, SECOND_CACHE, monkeypatch)
    size, tiles = kernel.tensors[tensor].num_elements, kernel.phases[-1].num_tiles
    parts = list(chunks(kernel))
    assert len(parts) > 1
    for end, (_, begin, last) in ((parts[1][0], parts[0]), (tiles, parts[-1])):
        found = marked(function, kernel, tensor, (0, end), size)
        wanted = range(size, size + last - begin, LINE)
        after = set(wanted) & set(found.tolist())
        assert len(after) >= len(wanted) / 2, "rows in the padding prefetch nothing"
        assert min(after) < size + (last - begin) / 8, "it is from the beginning"
        others = [n for n, (_, *part) in enumerate(parts) if np.ptp(np.searchsorted(found, part))]
        assert others == list(range(1, 1 if end < tiles else len(parts)))


def test_a_group_prefetches_the_weights_of_the_next_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind those of a chunk lie those of the next, and what follows is needed after the last."""
    kernel = in_one_group()
    tensor, tiles = kernel.phases[-1].weights.tensor, kernel.phases[-1].num_tiles
    function = recorded(kernel, tensor, SECOND_CACHE, monkeypatch)
    size, parts = kernel.tensors[tensor].num_elements, list(chunks(kernel))
    assert len(parts) == tiles > 2
    for (tile, begin, end), more in product(parts, (False, True)):
        last = min(tile + 1 + more, tiles)
        stop, row = parts[last - 1][2], (parts[last - 1][2] - parts[last - 1][1]) // 16
        found = set(marked(function, kernel, tensor, (tile, last), size).tolist())
        first = begin + (end - begin) // 16
        whole = range(first, stop, LINE)
        assert found.issuperset(whole)
        assert min(found) == first
        after = range(size, size + row, LINE)
        assert found.issuperset(after)
        assert max(found) < size + 2 * row
