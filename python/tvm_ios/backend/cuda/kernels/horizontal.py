# SPDX-License-Identifier: Apache-2.0
"""Horizontal fusion: independent kernels in one launch that share its blocks.

A small kernel keeps few of a device's multiprocessors busy. Several kernels in one launch fill more
of them, without streams, at the cost of one launch.

The launch has the blocks of all its parts. A block belongs to one part and does the work that it
would do in that part's own launch. All blocks of a launch have one size. If the threads of a part
depend on each other, the part keeps its threads, and the rest of the block exits at once. Other
parts are partitioned anew into blocks of that size.

Every block gets the shared memory, and every thread the registers, of the part that needs most. A
part that needs many registers can therefore slow down a part that depends on high occupancy: the
fused launch may be slower than the two alone.

The result is a function in the intermediate state that :mod:`.lowering` describes. Compile it
together with other kernels by :func:`tvm_ios.backend.cuda.code.build.build_kernels`; TVM's own
pipeline would lower it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import tvm
from tvm import tirx

from ....ops.tensor import TensorSpec
from .kernel import CudaKernel
from .launch import Launch, NotFusible, launch_of, shared_memory
from .lowering import mark_lowered

WARP = 32
_INDEPENDENT_THREADS = 256  # of a block if no part fixes it: small blocks spread better
_TAGS = ("blockIdx.x", "threadIdx.x")


def fuse(
    kernels: Sequence[CudaKernel], wiring: Sequence[Sequence[int]], target: tvm.target.Target
) -> CudaKernel:
    """Fuse independent kernels into one.

    Parameters
    ----------
    kernels : sequence of CudaKernel
        The parts, in the order in which their blocks are numbered, which is roughly the order in
        which a device starts them. Put the kernels with the longest blocks first: if a long block
        starts last, one multiprocessor computes while the others are idle, whereas short blocks
        fill the gaps.
    wiring : sequence of sequence of int
        For each tensor of each kernel, in the order of its parameters, its number among the tensors
        of the result: first those that are read, then those that are written.
    target : tvm.target.Target
        The target that the kernels are scheduled for.

    Returns
    -------
    CudaKernel
        One kernel of one launch.

    Raises
    ------
    NotFusible
        If one of the kernels cannot share a launch.
    """
    inputs, outputs = _tensors(kernels, wiring)
    launches = [launch_of(kernel, target) for kernel in kernels]
    threads = _block_size(kernels, launches)
    parameters = [
        tirx.decl_buffer(spec.shape, spec.dtype, name=f"t{i}")
        for i, spec in enumerate((*inputs, *outputs))
    ]
    tensors = [[parameters[i] for i in places] for places in wiring]
    body = _Grid(threads, launches).emit(tensors)
    function = tirx.PrimFunc(parameters, body).with_attr(
        {"s_tir": True, "tirx.noalias": True, "target": target}
    )
    return CudaKernel(
        name="_".join(["fused", *(kernel.name for kernel in kernels)]),
        key=("fused", tuple(k.key for k in kernels), tuple(map(tuple, wiring))),
        inputs=inputs,
        outputs=outputs,
        function=mark_lowered(function),
    )


def _tensors(
    kernels: Sequence[CudaKernel], wiring: Sequence[Sequence[int]]
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Return the tensors that the kernels read and write, which must not depend on each other."""
    read: dict[int, TensorSpec] = {}
    written: dict[int, TensorSpec] = {}
    for kernel, places in zip(kernels, wiring, strict=True):
        pairs = list(zip(places, kernel.tensors, strict=True))
        for place, spec in pairs[: len(kernel.inputs)]:
            assert read.setdefault(place, spec) == spec, f"tensor {place} is of two shapes"
        for place, spec in pairs[len(kernel.inputs) :]:
            assert place not in written, f"tensor {place} is written twice"
            written[place] = spec
    assert not read.keys() & written.keys(), "a kernel reads what is written in the same launch"
    numbers = range(len(read) + len(written))
    assert [*sorted(read), *sorted(written)] == list(numbers), "tensors are not numbered in order"
    return tuple(read[i] for i in sorted(read)), tuple(written[i] for i in sorted(written))


def _block_size(kernels: Sequence[CudaKernel], launches: Sequence[Launch]) -> int:
    """Return the threads of a block: those of the largest part that must keep its blocks."""
    fixed = [launch.threads for launch in launches if launch.collective]
    if not fixed:
        return min(_INDEPENDENT_THREADS, max(launch.threads for launch in launches))
    threads = max(fixed)
    for kernel, launch in zip(kernels, launches, strict=True):
        # The threads of a warp finish together. Surplus threads of a warp would wait at the end of
        # the part for threads that wait for them at a barrier.
        if launch.collective and launch.threads != threads and launch.threads % WARP:
            raise NotFusible(f"kernel {kernel.name} needs a fraction of a warp")
    return threads


@dataclass(frozen=True)
class _Grid:
    """The launch that holds all parts."""

    threads: int
    parts: Sequence[Launch]

    def emit(self, tensors: Sequence[Sequence[tirx.Buffer]]) -> tirx.Stmt:
        """Return the statement of the launch; ``tensors`` are those of each part."""
        block, thread = (tirx.Var(tag.replace(".", "_"), "int32") for tag in _TAGS)
        shared_bytes = max(part.shared_bytes for part in self.parts)
        shared = shared_memory(shared_bytes) if shared_bytes else None
        starts = [0, *accumulate(map(self._blocks, self.parts))]
        shares = [
            self._share(part, buffers, shared, block - start, thread)
            for part, buffers, start in zip(self.parts, tensors, starts[:-1], strict=True)
        ]
        body = shares.pop()
        for share, end in reversed(list(zip(shares, starts[1:-1], strict=True))):
            body = tirx.IfThenElse(block < end, share, body)
        if shared is not None:
            body = tirx.SeqStmt([tirx.AllocBuffer(shared), body])
        body = _bind(thread, _TAGS[1], self.threads, body)
        return _bind(block, _TAGS[0], starts[-1], body)

    def _blocks(self, part: Launch) -> int:
        if part.collective:
            return part.blocks
        return -(-part.blocks * part.threads // self.threads)

    def _share(
        self,
        part: Launch,
        tensors: Sequence[tirx.Buffer],
        shared: tirx.Buffer | None,
        block: tvm.ir.Expr,
        thread: tvm.ir.Expr,
    ) -> tirx.Stmt:
        """Return the code of a thread in a block of ``part``.

        ``block`` counts from the part's first.
        """
        if part.collective:
            body = part.body(tensors, shared, block, thread)
            return _where(thread, part.threads, self.threads, body)
        number = block * self.threads + thread
        owner, place = (divide(number, part.threads) for divide in (tirx.truncdiv, tirx.truncmod))
        total = part.blocks * part.threads
        covered = self._blocks(part) * self.threads
        return _where(number, total, covered, part.body(tensors, shared, owner, place))


def _where(number: tvm.ir.Expr, used: int, extent: int, body: tirx.Stmt) -> tirx.Stmt:
    """Restrict ``body`` to the first ``used`` of ``extent`` numbers."""
    return body if used == extent else tirx.IfThenElse(number < used, body, None)


def _bind(variable: tirx.Var, tag: str, extent: int, body: tirx.Stmt) -> tirx.Stmt:
    axis = tirx.IterVar((0, extent), variable, tirx.IterVar.ThreadIndex, tag)
    return tirx.AttrStmt(axis, "thread_extent", extent, body)
