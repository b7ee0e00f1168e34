# SPDX-License-Identifier: Apache-2.0
"""Convolutions by cuDNN: host code that calls the library on the current stream.

cuDNN is loaded on first use, from PyPI's package if it is installed, else by the system's loader.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import tvm_ffi
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....ops.tensor import TensorSpec
from ....ops.window import Window
from ....schedule.options import PRECISIONS, Precision
from ....support import _ffi_api  # noqa: F401  (loads the library whose functions are looked up below)
from .kernel import CudaKernel

CudnnEpilogue = Literal["nothing", "bias", "bias_relu"]

_DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
# Bytes. Algorithms that need more are rarely fast, and each call has its own workspace.
_MAX_WORKSPACE = 256 << 20
_RUN = "tvm_ios.runtime.cuda.CudnnConvolution"


@dataclass(frozen=True)
class CudnnProblem:
    """A convolution problem: ``relu(conv(x, w) + bias + z)``; relu, bias and z are optional.

    Attributes
    ----------
    precision : str
    channels_last : bool
        Whether x, z and the result are ``[N, H, W, C]`` and the weights ``[O, H, W, I]``, or else
        ``[N, C, H, W]`` and ``[O, I, H, W]``.
    epilogue : str
    residual : bool
        Whether there is a z, which has the result's shape; then there is a bias, too.
    batch, in_channels, out_channels, groups : int
    rows, columns : Window
        The padding behind equals the padding in front.
    """

    precision: Precision
    channels_last: bool
    epilogue: CudnnEpilogue
    residual: bool
    batch: int
    in_channels: int
    out_channels: int
    groups: int
    rows: Window
    columns: Window

    @property
    def numbers(self) -> tuple[int, ...]:
        """The problem as passed to the C++ library, see ``src/runtime/cuda/cudnn_problem.h``."""
        rows, columns = self.rows, self.columns
        return (
            PRECISIONS.index(self.precision),
            int(self.channels_last),
            get_args(CudnnEpilogue).index(self.epilogue),
            int(self.residual),
            *(self.batch, self.in_channels, self.out_channels, self.groups),
            *(rows.size, columns.size, rows.kernel, columns.kernel, rows.before, columns.before),
            *(rows.stride, columns.stride, rows.dilation, columns.dilation),
        )

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The tensors x, weights, and bias and z if present."""
        image = (self.rows.size, self.columns.size)
        taps = (self.rows.kernel, self.columns.kernel)
        return (
            self._spec(self.batch, self.in_channels, image),
            self._spec(self.out_channels, self.in_channels // self.groups, taps),
            *([] if self.epilogue == "nothing" else [self._plain_spec(self.out_channels)]),
            *([self.output] if self.residual else []),
        )

    @property
    def output(self) -> TensorSpec:
        """The result."""
        return self._spec(self.batch, self.out_channels, (self.rows.out, self.columns.out))

    def _spec(self, outer: int, channels: int, extents: tuple[int, int]) -> TensorSpec:
        if self.channels_last:
            return self._plain_spec(outer, *extents, channels)
        return self._plain_spec(outer, channels, *extents)

    def _plain_spec(self, *shape: int) -> TensorSpec:
        return TensorSpec(shape, _DTYPES[self.precision])


@dataclass(frozen=True)
class CudnnAlgorithm:
    """One of cuDNN's algorithms for a problem.

    Attributes
    ----------
    number : int
        cuDNN's number of the algorithm.
    workspace : int
        Bytes of device memory that it needs besides the tensors.
    version : str
        Version of cuDNN; another version may need another time.
    """

    number: int
    workspace: int
    version: str


@cache
def cudnn_algorithms(problem: CudnnProblem, device_id: int = 0) -> tuple[CudnnAlgorithm, ...]:
    """Return a device's algorithms for a problem, in cuDNN's order of expected speed.

    Nothing is run. The result excludes algorithms whose results differ from run to run or are less
    exact than the problem's precision, and those that need an unusually large workspace.

    Raises
    ------
    DeviceError
        If there is no such device, or no cuDNN of version 9.
    """
    find = tvm_ffi.get_global_func("tvm_ios.runtime.cuda.CudnnAlgorithms")
    found = find(device_id, tvm_ffi.Shape(problem.numbers))
    algorithms = (CudnnAlgorithm(int(n), int(size), cudnn_version()) for n, size in found)
    return tuple(a for a in algorithms if a.workspace <= _MAX_WORKSPACE)


def cudnn_version() -> str:
    """Return cuDNN's version, for example ``9.28.0``.

    Raises
    ------
    DeviceError
        If there is no cuDNN of version 9.
    """
    return tvm_ffi.get_global_func("tvm_ios.runtime.cuda.CudnnVersion")()


def cudnn_kernel(problem: CudnnProblem, algorithm: CudnnAlgorithm) -> CudaKernel:
    """Return the kernel that computes ``problem`` by cuDNN.

    It may run beside others: its workspace, if any, is a scratch tensor of its own.
    """
    sizes = (algorithm.workspace,) if algorithm.workspace else ()
    scratch = tuple(TensorSpec((size,), "uint8") for size in sizes)
    tensors = (*problem.inputs, problem.output, *scratch)
    return CudaKernel(
        name="cudnn_conv2d",
        key=("cudnn", problem.numbers, algorithm),
        inputs=problem.inputs,
        outputs=(problem.output,),
        function=_function(tensors, (algorithm.number, *problem.numbers)),
        scratch=scratch,
        variant=f"cudnn{algorithm.number}",
        fusible=False,
    )


def _function(tensors: tuple[TensorSpec, ...], numbers: tuple[int, ...]) -> tirx.PrimFunc:
    """Build host code of a CUDA module: the call, with all its constants."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("cudnn_conv2d")
        # Scheduled, so that TVM's rules skip it; opaque, so that nothing is fused into it.
        T.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True, "op_pattern": 8})
        buffers = [
            T.arg(f"t{i}", T.buffer(spec.shape, spec.dtype, layout=None))
            for i, spec in enumerate(tensors)
        ]
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.evaluate(T.call_packed(_RUN, *buffers, *numbers))
    return builder.get()
