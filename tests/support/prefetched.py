# SPDX-License-Identifier: Apache-2.0
"""Kernels that read constant weights, and what they prefetch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from support.kernel_module import kernel_module
from support.networks import NATIVE, constant, few_stages, isa_of, relax_module
from support.tiled import convolutions
from tvm_ios.backend.cpu.code.functions import build_functions
from tvm_ios.backend.cpu.kernels import prefetch
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.kernels.tiling import RegisterTile
from tvm_ios.backend.cpu.kernels.winograd.convolution import winograd_kernel
from tvm_ios.backend.cpu.kernels.winograd.model import WinogradTiling
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.window import Window
from tvm_ios.options import Options

op = relax.op
IMAGE = (1, 20, 12, 10)
LINE = 16  # float32 numbers of a cache line
FIRST_CACHE, SECOND_CACHE = 3, 2  # as llvm.prefetch counts them


def wide_products(emit, x):
    x = emit(op.matmul(emit(op.reshape(x, (-1, 40))), constant(40, 600, seed=1)))
    return emit(op.matmul(x, constant(600, 600, seed=2)))


def of_network(body) -> list[Kernel]:
    """The kernels of a network that read constant weights."""
    options = Options(winograd=False)
    mod = relax_module(body, IMAGE)
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages, options=options)
    found = [i.kernel for i in scheduler.stage_builder.lowered.implementations if i is not None]
    return [kernel for kernel in found if kernel.phases and kernel.phases[-1].weights]


CONV = Conv2d(1, 40, Window(9, 9, 3, before=1), Window(11, 11, 3, before=1), (72,))


def of_winograd() -> list[Kernel]:
    core, layout = isa_of(NATIVE)
    tilings = (WinogradTiling(2, RegisterTile(3, 2), fused) for fused in (False, True))
    return [winograd_kernel(CONV, tiling, layout, core) for tiling in tilings]


def in_one_group() -> Kernel:
    """A kernel of Winograd's algorithm that multiplies all tiles by the weights of each point."""
    core, layout = isa_of(NATIVE)
    tiling = WinogradTiling(2, RegisterTile(10, 2), fused=False, group=3)
    return winograd_kernel(CONV, tiling, layout, core)


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
        f"f{n}_{phase}": (kernel, phase)
        for n, kernel in enumerate(found)
        for phase in range(len(kernel.phases))
    }
    module = kernel_module(functions, NATIVE)
    return [
        (kernel, [module[f"f{n}_{phase}"] for phase in range(len(kernel.phases))])
        for n, kernel in enumerate(found)
    ]


def chunks(kernel: Kernel) -> Iterator[tuple[int, int, int]]:
    """Yield the first tile of each chunk, and the elements that its weights lie between."""
    phase = kernel.phases[-1]
    weights = phase.weights
    assert weights is not None
    starts = sorted({(weights.first(tile), tile) for tile in range(phase.num_tiles)})
    first = dict(reversed(starts))
    ends = [*list(first)[-2::-1], kernel.tensors[weights.tensor].num_elements]
    yield from ((first[begin], begin, end) for begin, end in zip(sorted(first), ends, strict=True))


def recorded(
    kernel: Kernel, number: int, cache: int, monkeypatch: pytest.MonkeyPatch
) -> tvm.runtime.Module:
    """The last phase of a kernel, which sets the numbers to 1 that it would prefetch.

    Parameters
    ----------
    kernel : Kernel
        The kernel; ``prefetch_target`` is the function's last argument if it prefetches.
    number : int
        The tensor that is recorded. It is twice as long as the kernel knows it.
    cache : int
        :data:`FIRST_CACHE` or :data:`SECOND_CACHE`.
    """
    recording: list[tirx.Var] = []

    def fetch(tensor, offset, to: int) -> None:
        if to == cache and tensor.same_as(recording[0]):
            place = tensor.access_ptr("w", offset=offset)
            T.evaluate(T.call_extern("handle", "memset", place, 1, 4))

    monkeypatch.setattr(prefetch, "fetch", fetch)
    phase = kernel.phases[-1]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("recorded")
        buffers = []
        for position, spec in enumerate(kernel.tensors):
            shape = (2 * spec.num_elements,) if position == number else spec.shape
            buffers.append(T.arg(f"t{position}", T.buffer(shape, spec.dtype, layout=None)))
        names = ["begin", "end", *(["following"] if phase.prefetches else [])]
        begin, end, *prefetch_target = (T.arg(name, tirx.Var(name, "int32")) for name in names)
        spec = kernel.tensors[number]
        view = T.decl_buffer(spec.shape, spec.dtype, data=buffers[number].data, layout=None)
        recording.append(view)
        buffers[number] = view
        with T.sblock("root"):
            T.reads()
            T.writes()
            phase.emit(buffers, begin, end - begin, *prefetch_target)
    return build_functions({"recorded": builder.get()}, NATIVE).mod["recorded"]


def marked(
    function: tvm.runtime.Module, kernel: Kernel, number: int, tiles: tuple[int, int], *rest: int
) -> np.ndarray:
    """The numbers of the recorded tensor that ``tiles`` prefetch, as positions."""
    tensors = [
        tvm.runtime.tensor(
            np.zeros(2 * spec.num_elements if n == number else spec.shape, spec.dtype)
        )
        for n, spec in enumerate(kernel.tensors)
    ]
    function(*tensors, *tiles, *rest)
    (found,) = np.nonzero(tensors[number].numpy())
    return found
