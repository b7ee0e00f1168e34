# SPDX-License-Identifier: Apache-2.0
"""The operators that cuDNN can compute, and their kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tvm import relax

from ....graph.operators import Operator
from ....lowering.convolution import convolution_windows
from ....lowering.implementation import Implementation
from ....lowering.no_rule import NoRule, shape_of
from ....lowering.value import Value
from ....ops.epilogue import Epilogue, Operand
from ....ops.window import Window
from ....relax_ir.constants import constant_array, held_array
from ....schedule.options import Precision
from ..kernels.cudnn import CudnnEpilogue, CudnnProblem, cudnn_algorithms, cudnn_kernel
from ..kernels.kernel import CudaKernel

_KINDS = ("conv2d", "depthwise_conv2d")
_HALVES: dict[str, Precision] = {"float16": "fp16", "bfloat16": "bf16"}


def cudnn_implementations(
    op: Operator, layouts: Mapping[relax.Var, str], precision: Precision, device_id: int = 0
) -> list[Implementation[CudaKernel]]:
    """Return the operator's implementations by cuDNN, in cuDNN's order of expected speed.

    Parameters
    ----------
    op : Operator
        A convolution with an epilogue.
    layouts : mapping of relax.Var to str
        Values with the channels last.
    precision : str
        ``fp32`` or ``tf32``, for operators on float32.
    device_id : int
        The device to query for algorithms.

    Returns
    -------
    list of Implementation
        One per algorithm.

    Raises
    ------
    NoRule
        If cuDNN cannot compute the operator.
    DeviceError
        If there is no such device, or no cuDNN.
    """
    problem, inputs = cudnn_problem(op, layouts, precision)
    return [
        Implementation((op.index,), cudnn_kernel(problem, algorithm), inputs, op.outputs)
        for algorithm in cudnn_algorithms(problem, device_id)
    ]


def cudnn_problem(
    op: Operator, layouts: Mapping[relax.Var, str], precision: Precision
) -> tuple[CudnnProblem, tuple[Value, ...]]:
    """Return the operator as a problem of cuDNN, and the tensors of its inputs.

    Parameters
    ----------
    op : Operator
        A convolution with an epilogue.
    layouts : mapping of relax.Var to str
        Values with the channels last.
    precision : str
        ``fp32`` or ``tf32``, for operators on float32.

    Returns
    -------
    (CudnnProblem, tuple)
        The tensors are variables of the function or constants.

    Raises
    ------
    NoRule
        If the operator is not a convolution with constant weights in one of cuDNN's precisions, if
        its padding differs between the sides, or if cuDNN does not support its epilogue.
    """
    if op.kind not in _KINDS or len(op.outputs) != 1:
        raise NoRule
    data, weights = op.call.args
    geometry = convolution_windows(op.anchor)
    if not (_is_symmetric(geometry.rows) and _is_symmetric(geometry.columns)):
        raise NoRule
    ending = _ending(op.epilogue)
    last = _channels_last(op, data, ending, layouts)
    batch, in_channels = shape_of(data)[:2]
    problem = CudnnProblem(
        precision=_precision(op, precision),
        channels_last=last,
        epilogue=ending.epilogue,
        residual=ending.residual is not None,
        batch=batch,
        in_channels=in_channels,
        out_channels=shape_of(op.anchor)[1],
        groups=geometry.groups,
        rows=geometry.rows,
        columns=geometry.columns,
    )
    inputs = (data, _packed(weights, last), *_addends(op, ending, problem))
    for value, spec in zip(inputs, problem.inputs, strict=True):
        assert not isinstance(value, np.ndarray) or value.shape == spec.shape
    return problem, inputs


@dataclass(frozen=True)
class _Ending:
    """The epilogue of a convolution: positions of bias and residual among its arguments."""

    bias: int | None = None
    residual: int | None = None
    relu: bool = False

    @property
    def epilogue(self) -> CudnnEpilogue:
        if self.relu:
            return "bias_relu"
        return "nothing" if self.bias is None and self.residual is None else "bias"


def _ending(epilogue: Epilogue) -> _Ending:
    """Match an epilogue of at most one bias and one residual, in any order, and a ReLU."""
    found: dict[str, int] = {}
    relu = False
    for i, step in enumerate(epilogue.steps):
        others = [operand for operand in step.operands if operand != Operand("value", i)]
        if relu or len(others) != len(step.operands) - 1:
            raise NoRule
        relu = step.op == "relu"
        if relu:
            continue
        if step.op != "add" or others[0].kind != "argument":
            raise NoRule
        role = {"channel": "bias", "full": "residual"}.get(epilogue.arguments[int(others[0].index)])
        if role is None or role in found:
            raise NoRule
        found[role] = int(others[0].index)
    return _Ending(**found, relu=relu)


def _channels_last(
    op: Operator, data: relax.Expr, ending: _Ending, layouts: Mapping[relax.Var, str]
) -> bool:
    """Return whether the feature maps have the channels last; they must all have one layout."""
    maps = [data, *op.outputs]
    if ending.residual is not None:
        maps.append(op.arguments[ending.residual])
    if not all(isinstance(value, relax.Var) for value in maps):
        raise NoRule
    last = {value in layouts for value in maps}
    if len(last) != 1:
        raise NoRule
    return last.pop()


def _precision(op: Operator, precision: Precision) -> Precision:
    dtypes = {str(e.ty.dtype) for e in (op.anchor, *op.call.args, *op.outputs, *op.arguments)}
    if dtypes == {"float32"}:
        # cuDNN multiplies float32 tensors in float32 or TF32, which replaces the halves.
        return "fp32" if precision == "fp32" else "tf32"
    if len(dtypes) != 1 or not dtypes <= _HALVES.keys():
        raise NoRule
    return _HALVES[dtypes.pop()]


def _packed(weights: relax.Expr, channels_last: bool) -> np.ndarray:
    array = constant_array(weights)
    if array is None:
        raise NoRule
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if channels_last else array


def _addends(op: Operator, ending: _Ending, problem: CudnnProblem) -> tuple[Value, ...]:
    """Return bias and residual; the bias is zero if cuDNN requires one and there is none."""
    if ending.epilogue == "nothing":
        return ()
    bias: np.ndarray | None
    if ending.bias is None:
        bias = np.zeros(problem.out_channels, held_array(op.call.args[1]).dtype)
    else:
        bias = constant_array(op.arguments[ending.bias])
    if bias is None:
        raise NoRule
    residual = () if ending.residual is None else (op.arguments[ending.residual],)
    return (bias.reshape(-1), *residual)


def _is_symmetric(window: Window) -> bool:
    """Return whether equal padding on both sides gives as many results."""
    taps = (window.kernel - 1) * window.dilation + 1
    return (window.size + 2 * window.before - taps) // window.stride + 1 == window.out
