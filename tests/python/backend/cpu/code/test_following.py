# SPDX-License-Identifier: Apache-2.0
"""After its last chunk a kernel prefetches the weights that the same worker reads next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from support.networks import NATIVE, constant, conv, few_stages, isa_of, relax_module
from support.tiled import convolutions
from tvm_ios.backend.cpu.code import network
from tvm_ios.backend.cpu.code.constants import Constants
from tvm_ios.backend.cpu.code.following import following_place
from tvm_ios.backend.cpu.code.functions import build_functions, kernel_function
from tvm_ios.backend.cpu.code.region import Region
from tvm_ios.backend.cpu.code.waits import Position, positions
from tvm_ios.backend.cpu.kernels.conv2d import Conv2d
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.kernels.prefetch import Ahead
from tvm_ios.backend.cpu.kernels.tiling import RegisterTile
from tvm_ios.backend.cpu.kernels.winograd import winograd_kernel
from tvm_ios.backend.cpu.kernels.winograd_model import WinogradTiling
from tvm_ios.backend.cpu.stage.plan import StripShare
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options
from tvm_ios.tir.window import Window

op = relax.op
IMAGE = (1, 20, 12, 10)
_random = np.random.default_rng(0)


def wide_products(emit, x):
    x = emit(op.matmul(emit(op.reshape(x, (-1, 40))), constant(40, 600, seed=1)))
    return emit(op.matmul(x, constant(600, 600, seed=2)))


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
    return implementation.inputs[1][kernel.plane.blocks[tile // kernel.plane.tiles]]


@pytest.mark.parametrize("partitioning", [None, "tiles"])
@pytest.mark.parametrize("body", [convolutions, pooled])
def test_the_next_weights_follow(body, partitioning, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = launch_of(body, monkeypatch, partitioning)
    count, checked = len(launch.positions), 0
    content = np.fromfile(launch.constants.path, "float32")
    for number in range(count):
        for worker in range(2):
            later = (weights_at(launch, n, worker) for n in range(number + 1, count))
            expected = next((weights for weights in later if weights is not None), None)
            place = following_place(launch.positions, launch.region, number, worker)
            if expected is None:
                continue
            assert place is not None
            np.testing.assert_array_equal(content[place : place + expected.size], expected.ravel())
            checked += 1
    assert checked


def test_nothing_follows_the_last_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = launch_of(depthwise, monkeypatch)
    last = len(launch.positions) - 1
    assert following_place(launch.positions, launch.region, last, 0) is None


def of_network(body) -> list[Kernel]:
    """The kernels of a network that read constant weights."""
    options = Options(winograd=False)
    mod = relax_module(body, IMAGE)
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages, options=options)
    found = [i.kernel for i in scheduler.stage_builder.lowered.implementations if i is not None]
    return [kernel for kernel in found if kernel.phases and kernel.phases[-1].weights]


def of_winograd() -> list[Kernel]:
    core, layout = isa_of(NATIVE)
    conv = Conv2d(1, 40, Window(9, 9, 3, before=1), Window(11, 11, 3, before=1), (72,))
    tilings = (WinogradTiling(2, RegisterTile(3, 2), fused) for fused in (False, True))
    return [winograd_kernel(conv, tiling, layout, core) for tiling in tilings]


KERNELS = {
    "convolutions": partial(of_network, convolutions),
    "products": partial(of_network, wide_products),
    "winograd": of_winograd,
}


@cache
def compiled(name: str) -> list[tuple[Kernel, list]]:
    """Kernels with the functions of their phases."""
    found = KERNELS[name]()
    functions = {
        f"f{n}_{phase}": kernel_function(kernel, phase, f"f{n}_{phase}")
        for n, kernel in enumerate(found)
        for phase in range(len(kernel.phases))
    }
    module = build_functions(functions, NATIVE).mod
    return [
        (kernel, [module[f"f{n}_{phase}"] for phase in range(len(kernel.phases))])
        for n, kernel in enumerate(found)
    ]


def chunks(kernel: Kernel) -> Iterator[tuple[int, int, int]]:
    """Yield the first tile of each chunk, and the elements that its weights lie between."""
    phase = kernel.phases[-1]
    weights = phase.weights
    assert weights is not None
    starts = sorted({(weights.first(tile), tile) for tile in range(phase.tiles)})
    first = dict(reversed(starts))
    ends = [*list(first)[-2::-1], kernel.tensors[weights.tensor].num_elements]
    yield from ((first[begin], begin, end) for begin, end in zip(sorted(first), ends, strict=True))


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
        function(*arguments, 0, phase.tiles)
    functions[-1](*arguments, tile, tile + 1)
    return others[0].numpy()


@pytest.mark.parametrize("name", KERNELS)
def test_some_kernels_take_what_follows(name: str) -> None:
    assert any(kernel.phases[-1].prefetches for kernel, _ in compiled(name))


def recorded(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> tvm.runtime.Module:
    """The last phase, which sets the bytes to 1 that it would prefetch."""

    def step(self: Ahead, number) -> None:
        count = self.vectors * self.lanes
        for element in range(0, count, LINE):
            place = self.weights.access_ptr("w", offset=self.first + number * count + element)
            T.evaluate(T.call_extern("handle", "memset", place, 1, 4))

    monkeypatch.setattr(Ahead, "step", step)
    tensor = kernel.phases[-1].weights.tensor
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("recorded")
        buffers = []
        for number, spec in enumerate(kernel.tensors):
            shape = (2 * spec.num_elements,) if number == tensor else spec.shape
            buffers.append(T.arg(f"t{number}", T.buffer(shape, spec.dtype, layout=None)))
        begin, end, following = (
            T.arg(name, tirx.Var(name, "int32")) for name in ("begin", "end", "following")
        )
        own = T.decl_buffer(
            kernel.tensors[tensor].shape, "float32", data=buffers[tensor].data, layout=None
        )
        with T.sblock("root"):
            T.reads()
            T.writes()
            views = [own if n == tensor else buffer for n, buffer in enumerate(buffers)]
            kernel.phases[-1].emit(views, begin, end - begin, following)
    return build_functions({"recorded": builder.get()}, NATIVE).mod["recorded"]


LINE = 16  # float32 numbers of a cache line


@pytest.mark.parametrize("name", KERNELS)
def test_what_follows_is_prefetched_after_the_last_chunk(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = max(
        (k for k, _ in compiled(name) if k.phases[-1].prefetches),
        key=lambda k: k.tensors[k.phases[-1].weights.tensor].num_elements,
    )
    function, tensor = recorded(kernel, monkeypatch), kernel.phases[-1].weights.tensor
    size, tiles = kernel.tensors[tensor].num_elements, kernel.phases[-1].tiles
    parts = list(chunks(kernel))
    assert len(parts) > 1
    for end, (_, begin, last) in ((parts[1][0], parts[0]), (tiles, parts[-1])):
        tensors = [
            tvm.runtime.tensor(np.zeros(2 * size if n == tensor else spec.shape, spec.dtype))
            for n, spec in enumerate(kernel.tensors)
        ]
        function(*tensors, 0, end, size)
        (marked,) = np.nonzero(tensors[tensor].numpy())
        wanted = range(size, size + last - begin, LINE)
        found = set(wanted) & set(marked.tolist())
        assert len(found) >= len(wanted) / 2, "rows in the padding prefetch nothing"
        assert min(found) < size + (last - begin) / 8, "it is from the beginning"
        others = [n for n, (_, *part) in enumerate(parts) if np.ptp(np.searchsorted(marked, part))]
        assert others == list(range(1, 1 if end < tiles else len(parts)))
