# SPDX-License-Identifier: Apache-2.0
"""Rules that choose the kernel of an operator on a CPU, one per kind of operator."""

from . import planes, rows, strided
from .attention import attention
from .base import Choice, CpuLoweredGraph, LoweringConfig, Rule, first_of, of_channels
from .casts import cast
from .channels import reordered
from .channels_last import to_channels_first, to_channels_last
from .concat import concat
from .convolution import conv2d
from .deformed import deformed_columns
from .dense import matmul
from .grids import dynamic_grid
from .indices import check_indices
from .recurrence import recurrence
from .regions import regions as pool_regions
from .sizes import shape_to_tensor

RULES: dict[str, Rule] = {
    "conv2d": of_channels(first_of(conv2d, planes.narrow_groups)),
    "depthwise_conv2d": of_channels(first_of(planes.depthwise_conv2d, planes.narrow_groups)),
    "max_pool2d": of_channels(planes.pool2d),
    "avg_pool2d": of_channels(planes.pool2d),
    "adaptive_avg_pool2d": of_channels(planes.plane_sum),
    "astype": cast,
    "attention": attention,
    "attention_bias": attention,
    "check_indices": check_indices,
    "concat": concat,
    "deformed_columns": deformed_columns,
    "dynamic_grid": dynamic_grid,
    "matmul": matmul,
    "softmax": rows.softmax,
    "layer_norm": first_of(of_channels(planes.channel_norm), rows.layer_norm),
    "rms_norm": rows.rms_norm,
    "group_norm": of_channels(planes.group_norm),
    "instance_norm": of_channels(planes.group_norm),
    "mean": first_of(of_channels(planes.plane_sum), rows.reduction),
    "sum": first_of(of_channels(planes.plane_sum), rows.reduction),
    "variance": rows.reduction,
    "max": rows.reduction,
    "min": rows.reduction,
    "argmax": rows.place,
    "argmin": rows.place,
    "elementwise": first_of(of_channels(planes.elementwise), strided.elementwise),
    "recurrence": recurrence,
    "pool_regions": pool_regions,
    "reshape": first_of(of_channels(reordered), strided.movement),
    "flatten": strided.movement,
    "expand_dims": strided.movement,
    "squeeze": strided.movement,
    "permute_dims": first_of(
        of_channels(first_of(reordered, to_channels_last, to_channels_first)), strided.movement
    ),
    "broadcast_to": strided.movement,
    "strided_slice": first_of(of_channels(first_of(reordered, strided.sampling)), strided.movement),
    "split": strided.split,
    "shape_to_tensor": shape_to_tensor,
}

__all__ = ["RULES", "Choice", "CpuLoweredGraph", "LoweringConfig", "Rule"]

OPEN_KINDS: frozenset[str] = frozenset(
    {
        "adaptive_avg_pool2d",
        "argmax",
        "attention",
        "attention_bias",
        "argmin",
        "astype",
        "avg_pool2d",
        "broadcast_to",
        "check_indices",
        "concat",
        "conv2d",
        "depthwise_conv2d",
        "dynamic_grid",
        "elementwise",
        "expand_dims",
        "flatten",
        "group_norm",
        "instance_norm",
        "layer_norm",
        "matmul",
        "max",
        "max_pool2d",
        "mean",
        "min",
        "permute_dims",
        "recurrence",
        "reshape",
        "rms_norm",
        "shape_to_tensor",
        "softmax",
        "split",
        "squeeze",
        "strided_slice",
        "sum",
        "variance",
    }
)
"""The operators whose rules take tensors of open sizes."""
