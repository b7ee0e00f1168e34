# SPDX-License-Identifier: Apache-2.0
"""Kernels access no byte outside of their footprint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from support.kernel_module import kernel_module
from support.merging import branches
from support.networks import NATIVE, few_stages, relax_module
from support.tiled import BODIES, products
from tvm_ios.backend.cpu.code.functions import KernelFunctions
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.footprint import (
    Accessed,
    MemoryAccess,
    footprint,
    strip_footprint,
)
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.kernels.layout import PLAIN
from tvm_ios.backend.cpu.kernels.tiling import RegisterTile
from tvm_ios.backend.cpu.kernels.winograd.convolution import winograd_kernel
from tvm_ios.backend.cpu.kernels.winograd.model import WinogradTiling
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.window import Window
from tvm_ios.options import Options

_random = np.random.default_rng(0)
SENTINEL = 0x5A


IMAGES = (1, 3)


@cache
def kernels(body, images: int) -> list[tuple[Kernel, tvm.runtime.Module]]:
    """The compiled kernels with planes of a network."""
    mod = relax_module(body, (images, 20, 12, 10))
    lowered = prepared(mod).stage_builder.lowered
    return compiled(i.kernel for i in lowered.implementations if i is not None)


def prepared(mod: tvm.IRModule) -> Scheduler:
    return Scheduler.prepare(mod, NATIVE, cost_model=few_stages, options=Options(winograd=False))


def compiled(found: Iterable[Kernel]) -> list[tuple[Kernel, tvm.runtime.Module]]:
    distinct = {kernel.key: kernel for kernel in found if kernel.plane is not None}
    module = kernel_module({f"f{n}": (k, 0) for n, k in enumerate(distinct.values())}, NATIVE)
    return [(kernel, module[f"f{n}"]) for n, kernel in enumerate(distinct.values())]


def check(
    kernel: Kernel, function, parts: list[tuple[int, int]], accesses: Iterable[MemoryAccess]
) -> None:
    """Compute some tiles from all bytes, and from those of the footprint alone."""
    read, written = masks(kernel, accesses)
    inputs = [_random.standard_normal(spec.shape).astype("float32") for spec in kernel.inputs]
    poisoned = [array.copy() for array in inputs]
    for array, mask in zip(poisoned, read, strict=True):
        bytes_of(array)[~mask] = 0xFF  # of NaN
    expected, actual = (results(kernel, function, parts, given) for given in (inputs, poisoned))
    for whole, part, mask in zip(expected, actual, written, strict=True):
        np.testing.assert_array_equal(bytes_of(whole), bytes_of(part))
        assert (bytes_of(part)[~mask] == SENTINEL).all(), "a byte outside was written"


def bytes_of(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view("uint8")


def masks(
    kernel: Kernel, accesses: Iterable[MemoryAccess]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    found = [np.zeros(spec.num_bytes, bool) for spec in kernel.tensors]
    for tensor, runs, writes in accesses:
        assert writes == (tensor >= len(kernel.inputs))
        for number in range(runs.number):
            begin = runs.begin + number * runs.stride
            assert 0 <= begin <= len(found[tensor]) - runs.size, "it is in the tensor"
            found[tensor][begin : begin + runs.size] = True
    return found[: len(kernel.inputs)], found[len(kernel.inputs) :]


def results(kernel: Kernel, function, parts, inputs: list[np.ndarray]) -> Iterator[np.ndarray]:
    sentinel = np.frombuffer(bytes([SENTINEL] * 4), "float32")
    outputs = [
        tvm.runtime.tensor(np.broadcast_to(sentinel, spec.shape).copy()) for spec in kernel.outputs
    ]
    given = [tvm.runtime.tensor(array) for array in inputs]
    for begin, end in parts:
        function(*given, *outputs, begin, end)
    return [output.numpy() for output in outputs]


def accessed(kernel: Kernel) -> Accessed:
    return KernelFunctions(NATIVE).accessed(kernel, 0)


def two_of(count: int, data: st.DataObject) -> tuple[int, int]:
    begin = data.draw(st.integers(0, count - 1))
    return begin, data.draw(st.integers(begin + 1, count))


@cache
def image_kernel(images: int) -> tuple[Kernel, tvm.runtime.Module]:
    """A kernel of Winograd's algorithm whose tiles are rows of tiles."""
    rows, columns = Window(38, 19, 7, 2, before=3), Window(25, 13, 7, 2, before=3)
    conv = Conv2d(images, 3, rows, columns, (20,))
    tiling = WinogradTiling(4, RegisterTile(2, 2), fused=True)
    (found,) = compiled([winograd_kernel(conv, tiling, PLAIN, core_of(NATIVE))])
    return found


@pytest.mark.parametrize("images", IMAGES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_rows_of_tiles(images: int, data: st.DataObject) -> None:
    kernel, function = image_kernel(images)
    tiles = two_of(kernel.num_tiles, data)
    check(kernel, function, [tiles], footprint(kernel, tiles, accessed(kernel)))


@pytest.mark.parametrize("images", IMAGES)
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_tiles_in_order(body, images: int, data: st.DataObject) -> None:
    for kernel, function in kernels(body, images):
        tiles = two_of(kernel.num_tiles, data)
        check(kernel, function, [tiles], footprint(kernel, tiles, accessed(kernel)))


@pytest.mark.parametrize("images", IMAGES)
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_tiles_of_all_planes(body, images: int, data: st.DataObject) -> None:
    for kernel, function in kernels(body, images):
        plane = kernel.strip_plane
        begin, end = two_of(plane.num_tiles, data)
        parts = [
            (n * plane.num_tiles + begin, n * plane.num_tiles + end) for n in range(plane.outer)
        ]
        check(kernel, function, parts, strip_footprint(kernel, (begin, end)))


@cache
def merged(images: int) -> list[tuple[Kernel, tvm.runtime.Module]]:
    """A convolution with several results."""
    cases = ({"kernel": (1, 1), "channels": 40}, {"kernel": (1, 1), "channels": 33})
    scheduler = prepared(branches(*cases, image=(images, 20, 9, 10)))
    builder = scheduler.stage_builder
    ops = [o.index for o in scheduler.graph.operators if "conv2d" in o.kind]
    return compiled(i.kernel for i in builder.stage([ops], "merge").implementations)


@pytest.mark.parametrize("images", IMAGES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_several_results(images: int, data: st.DataObject) -> None:
    ((kernel, function),) = merged(images)
    assert len(kernel.outputs) == 2
    tiles = two_of(kernel.num_tiles, data)
    check(kernel, function, [tiles], footprint(kernel, tiles, accessed(kernel)))


def test_no_tile_accesses_nothing() -> None:
    ((kernel, _),) = merged(1)
    assert list(footprint(kernel, (3, 3), accessed(kernel))) == []


def test_a_kernel_without_planes_accesses_all() -> None:
    lowered = prepared(relax_module(products, (1, 20, 12, 10))).stage_builder.lowered
    found = [i.kernel for i in lowered.implementations if i is not None]
    kernel = next(kernel for kernel in found if kernel.plane is None)
    read, written = masks(kernel, footprint(kernel, (0, 1), accessed(kernel)))
    assert all(mask.all() for mask in (*read, *written))
