# SPDX-License-Identifier: Apache-2.0
"""The launch of a kernel, split into its resources and the code of one thread.

A thread derives its work from the indices of its block and of itself. Here these indices are
ordinary variables, and so is the shared memory. The code that combines several launches assigns
them values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from .kernel import CudaKernel
from .lowering import lower_to_statements

STATIC_SHARED_BYTES = 48 << 10
"""Bytes of shared memory that every CUDA device grants a block without an explicit request."""

_BLOCK_TAGS = tuple(f"blockIdx.{axis}" for axis in "xyz")
_THREAD_TAGS = tuple(f"threadIdx.{axis}" for axis in "xyz")
_PURE = 1  # TVM's CallEffectKind: up to it, a call does not interact with other threads
_MAX_THREADS = 2**31 - 1
_ALIGNMENT = 16  # bytes: the widest access of one thread


class NotFusible(Exception):
    """The error of a kernel that cannot share a larger launch; its message gives the reason."""


@dataclass(frozen=True)
class Launch:
    """The launch of a kernel.

    Attributes
    ----------
    blocks, threads : int
        Blocks, and threads per block. They are numbered as the device does it, x first, so that 32
        consecutive threads are a warp for any shape of the block.
    shared_bytes : int
        Bytes of shared memory of a block.
    collective : bool
        Whether threads depend on others of their block. If not, any thread may be in any block.
    """

    blocks: int
    threads: int
    shared_bytes: int
    collective: bool
    _function: tirx.PrimFunc = field(repr=False)

    def body(
        self,
        tensors: Sequence[tirx.Buffer],
        shared: tirx.Buffer | None,
        block: tvm.ir.Expr,
        thread: tvm.ir.Expr,
    ) -> tirx.Stmt:
        """Return the code of one thread, with new variables in each call.

        Parameters
        ----------
        tensors : sequence of Buffer
            The kernel's tensors.
        shared : Buffer or None
            Shared memory of at least :attr:`shared_bytes` bytes; None if that is 0.
        block, thread : Expr
            int32 indices below :attr:`blocks` and :attr:`threads`.

        Returns
        -------
        tvm.tirx.Stmt
            The statements of the thread.
        """
        copy = s_tir.renew_defs(self._function)
        outer = [*tensors, shared] if shared is not None and self.shared_bytes else [*tensors]
        *inner, block_number, thread_number = copy.params
        pairs = zip(inner, outer, strict=True)
        return tirx.SeqStmt(
            [
                *(tirx.DeclBuffer(mine, data=theirs.data) for mine, theirs in pairs),
                tirx.Bind(block_number, block),
                tirx.Bind(thread_number, thread),
                copy.body,
            ]
        )


@lru_cache(maxsize=1024)  # a kernel is part of many stages, and lowering is slow
def launch_of(kernel: CudaKernel, target: tvm.target.Target) -> Launch:
    """Return the single launch of a kernel.

    Raises
    ------
    NotFusible
        If the kernel has no or several launches, or its threads cannot be fused with others.
    """
    if not kernel.fusible:
        raise NotFusible(f"kernel {kernel.name} calls a library")
    function = lower_to_statements({"part": kernel.function}, target)["part"]
    facts = _Facts(list(_outside(function.body)))
    if not facts.obstacles:
        facts.read(function.body)
    if facts.obstacles:
        raise NotFusible(f"kernel {kernel.name} {facts.obstacles[0]}")
    blocks, threads = (_extent(facts.axes, tags) for tags in (_BLOCK_TAGS, _THREAD_TAGS))
    if blocks * threads > _MAX_THREADS:
        raise NotFusible(f"kernel {kernel.name} has more threads than 32 bits can number")
    block, thread = (tirx.Var(name, "int32") for name in ("block", "thread"))
    offsets, shared_bytes = _lay_out(facts.shared)
    memory = [shared_memory(shared_bytes)] if shared_bytes else []
    body = tirx.SeqStmt(
        [
            *_number_axes(block, facts.axes, _BLOCK_TAGS),
            *_number_axes(thread, facts.axes, _THREAD_TAGS),
            _strip(function.body, memory[0] if memory else None, offsets),
        ]
    )
    return Launch(
        blocks=blocks,
        threads=threads,
        shared_bytes=shared_bytes,
        collective=facts.collective or shared_bytes > 0,
        _function=tirx.PrimFunc([*function.params, *memory, block, thread], body),
    )


def shared_memory(num_bytes: int) -> tirx.Buffer:
    """Declare shared memory of a block, aligned for any access."""
    scope = "shared" if num_bytes <= STATIC_SHARED_BYTES else "shared.dyn"
    return tirx.decl_buffer((num_bytes,), "uint8", "shared_memory", scope=scope, data_alignment=128)


@dataclass
class _Facts:
    """The properties of a launch's statements, and the obstacles to fusing it with others.

    Obstacles are collected, not raised: an exception that passes through TVM loses its type.
    """

    obstacles: list[str]
    axes: dict[str, tuple[tirx.Var, int]] = field(default_factory=dict)
    shared: list[tirx.Buffer] = field(default_factory=list)
    collective: bool = False

    def read(self, body: tirx.Stmt) -> None:
        """Collect the properties of ``body``."""
        lookup = [
            (tirx.AttrStmt, self._attribute),
            (tirx.AllocBuffer, self._allocation),
            (tvm.ir.Call, self._call),
        ]
        tvm_ffi.structural_walk(body, lookup)

    def _attribute(self, statement: tirx.AttrStmt) -> None:
        if isinstance(statement.node, tvm.ir.Var):  # a copy has other variables
            self.obstacles.append(f"has a note {statement.attr_key} on {statement.node}")
        if statement.attr_key != "thread_extent":
            return
        tag, extent = statement.node.thread_tag, statement.value
        if tag not in _BLOCK_TAGS + _THREAD_TAGS or not isinstance(extent, tirx.IntImm):
            self.obstacles.append(f"is bound to {tag}, {extent} of them")
            return
        variable, known = self.axes.setdefault(tag, (statement.node.var, int(extent)))
        assert variable.same_as(statement.node.var), f"several variables of {tag}"
        assert known == int(extent), f"several extents of {tag}"

    def _allocation(self, statement: tirx.AllocBuffer) -> None:
        if statement.buffer.scope().startswith("shared"):
            self.shared.append(statement.buffer)

    def _call(self, call: tvm.ir.Call) -> None:
        if not isinstance(call.op, tvm.ir.Op):
            self.obstacles.append("calls other functions")
            return
        if call.op.name == "tirx.tvm_storage_sync" and str(call.args[0].value) == "warp":
            # It emits no instruction: it relies on memory that TVM marks as volatile. The mark is
            # lost if the memory becomes part of a larger buffer.
            self.obstacles.append("exchanges values within a warp through memory")
        self.collective |= _effect(call.op) > _PURE


def _effect(op: tvm.ir.Op) -> int:
    effect = op.get_attr("TCallEffectKind")
    return _PURE + 1 if effect is None else int(effect)


def _outside(body: tirx.Stmt) -> Iterator[str]:
    """Yield the reasons why a function is not exactly one launch."""
    launches = 0
    for statement in body.seq if isinstance(body, tirx.SeqStmt) else [body]:
        if isinstance(statement, tirx.AttrStmt) and statement.attr_key == "thread_extent":
            launches += 1
        elif isinstance(statement, tirx.AllocBuffer):
            yield "has a workspace of its own"
        elif not isinstance(statement, (tirx.DeclBuffer, tirx.Bind)):
            yield "has statements outside of a launch"
    if launches != 1:
        yield f"takes {launches} launches"


def _number_axes(
    number: tirx.Var, axes: dict[str, tuple[tirx.Var, int]], tags: Sequence[str]
) -> list[tirx.Stmt]:
    """Bind the variables of three axes, x the fastest, from a single index."""
    binds: list[tirx.Stmt] = []
    stride, total = 1, _extent(axes, tags)
    for tag in tags:
        if tag in axes:
            variable, extent = axes[tag]
            value = tirx.truncdiv(number, stride)
            if stride * extent < total:
                value = tirx.truncmod(value, extent)
            binds.append(tirx.Bind(variable, value.astype(str(variable.ty))))
            stride *= extent
    return binds


def _extent(axes: dict[str, tuple[tirx.Var, int]], tags: Sequence[str]) -> int:
    return math.prod(axes[tag][1] for tag in tags if tag in axes)


def _lay_out(buffers: Sequence[tirx.Buffer]) -> tuple[dict[tirx.Buffer, int], int]:
    """Return the offset of each buffer, one after another, and their total bytes."""
    offsets, end = {}, 0
    for buffer in buffers:
        alignment = max(_ALIGNMENT, buffer.ty.data_alignment)
        offsets[buffer] = -(-end // alignment) * alignment
        end = offsets[buffer] + _num_bytes(buffer)
    return offsets, end


def _num_bytes(buffer: tirx.Buffer) -> int:
    element = tvm.DataType(str(buffer.ty.dtype))
    return math.prod(map(int, buffer.ty.shape)) * max(1, element.bits * element.lanes // 8)


def _strip(
    body: tirx.Stmt, memory: tirx.Buffer | None, offsets: dict[tirx.Buffer, int]
) -> tirx.Stmt:
    """Remove the launch's setup from ``body``; its shared buffers become views of ``memory``."""

    def enter(statement: tirx.AttrStmt) -> tirx.Stmt:
        return statement.body if statement.attr_key == "thread_extent" else statement

    def place(statement: tirx.AllocBuffer) -> tirx.Stmt:
        buffer = statement.buffer
        if buffer not in offsets:
            return statement
        assert memory is not None, "buffers need memory"
        return tirx.DeclBuffer(buffer, data=tirx.address_of(memory[offsets[buffer]]))

    return tvm_ffi.structural_map(body, [(tirx.AttrStmt, enter), (tirx.AllocBuffer, place)])
