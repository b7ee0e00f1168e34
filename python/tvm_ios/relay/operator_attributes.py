# SPDX-License-Identifier: Apache-2.0
"""The attributes of each operator type, with their defaults.

TVM's JSON form contains all attributes of an operator, its text form only those that differ from
the default. Both agree after the defaults in this table are removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..support.errors import RelayError
from .nodes import Node

# One line per type, without the common prefix and suffix (relay.attrs.BiasAddAttrs). An attribute
# is a reference to a node unless a type follows, and is required unless a default follows.
_TABLE = """
BiasAdd axis:int=1
Conv1D strides=[1] padding=[0,0] dilation=[1] groups:int=1 channels=null kernel_size=null
    data_layout:str="NCW" kernel_layout:str="OIW" out_layout:str="" out_dtype:dtype=""
Conv2D strides=[1,1] padding=[0,0] dilation=[1,1] groups:int=1 channels=null kernel_size=null
    data_layout:str="NCHW" kernel_layout:str="OIHW" out_layout:str="" out_dtype:dtype=""
ConvWinogradWeightTransform tile_size:int
ConvGemmWeightTransform tile_N:int tile_K:int tile_rows:int tile_cols:int
Conv2DWinograd tile_size:int strides=[1,1] padding=[0,0] dilation=[1,1] groups:int=1 channels=null
    kernel_size=null data_layout:str="NCHW" kernel_layout:str="OIHW" out_layout:str=""
    out_dtype:dtype=""
Conv3D strides=[1,1,1] padding=[0,0,0] dilation=[1,1,1] groups:int=1 channels=null
    kernel_size=null data_layout:str="NCDHW" kernel_layout:str="OIDHW" out_layout:str=""
    out_dtype:dtype=""
Conv3DTranspose channels=null kernel_size=null strides=[1,1,1] output_padding=[0,0,0]
    padding=[0,0,0] dilation=[1,1,1] groups:int=1 data_layout:str="NCDHW"
    kernel_layout:str="IODHW" out_layout:str="" out_dtype:dtype=""
Conv3DWinograd tile_size:int strides=[1,1,1] padding=[0,0,0] dilation=[1,1,1] groups:int=1
    channels=null kernel_size=null data_layout:str="NCDHW" kernel_layout:str="OIDHW"
    out_layout:str="" out_dtype:dtype=""
Softmax axis:int=-1
Conv2DTranspose channels=null kernel_size=null strides=[1,1] output_padding=[0,0] padding=[0,0]
    dilation=[1,1] groups:int=1 data_layout:str="NCHW" kernel_layout:str="IOHW" out_layout:str=""
    out_dtype:dtype=""
Dilate strides=[1,1] dilation_value:float=0.0
Conv1DTranspose channels=null kernel_size=null strides=[1] output_padding=[0] padding=[0]
    dilation=[1] groups:int=1 data_layout:str="NCW" kernel_layout:str="IOW" out_layout:str=""
    out_dtype:dtype=""
MaxPool2D pool_size strides=[1,1] dilation=[1,1] padding=[0,0] layout:str="NCHW" out_layout:str=""
    ceil_mode:bool=false
AvgPool2D pool_size strides=[1,1] dilation=[1,1] padding=[0,0] layout:str="NCHW" out_layout:str=""
    ceil_mode:bool=false count_include_pad:bool=false
GlobalPool2D layout:str="NCHW" out_layout:str=""
AdaptivePool1D output_size=[] layout:str="NCW" out_layout:str=""
AdaptivePool2D output_size=[] layout:str="NCHW" out_layout:str=""
AdaptivePool3D output_size=[] layout:str="NCDHW" out_layout:str=""
MaxPool1D pool_size strides=[1] dilation=[1] padding=[0] layout:str="NCW" out_layout:str=""
    ceil_mode:bool=false
AvgPool1D pool_size strides=[1] dilation=[1] padding=[0] layout:str="NCW" out_layout:str=""
    ceil_mode:bool=false count_include_pad:bool=false
MaxPool3D pool_size strides=[1,1,1] dilation=[1,1,1] padding=[0,0,0] layout:str="NCDHW"
    out_layout:str="" ceil_mode:bool=false
AvgPool3D pool_size strides=[1,1,1] dilation=[1,1,1] padding=[0,0,0] layout:str="NCDHW"
    out_layout:str="" ceil_mode:bool=false count_include_pad:bool=false
Matmul units out_dtype:dtype="" transpose_a:bool=false transpose_b:bool=false
Dense units out_dtype:dtype=""
DensePack units out_dtype:dtype="" weight_layout:str="NC"
BatchMatmul out_dtype:dtype="" transpose_a:bool=false transpose_b:bool=false
SparseDense sparse_lhs:bool=false
SparseConv2D layout:str="NHWC" kernel_size=[1,1]
FIFOBuffer axis:int=0
UpSampling scale_h:float scale_w:float layout:str="NCHW" method:str="nearest_neighbor"
    align_corners:bool=false
UpSampling3D scale_d:float scale_h:float scale_w:float layout:str="NCDHW"
    method:str="nearest_neighbor" coordinate_transformation_mode:str="half_pixel"
Pad pad_width pad_mode:str="constant"
MirrorPad mode:str="SYMMETRIC" pad_width
LeakyRelu alpha:float=0.25
PRelu axis:int=1
Dropout rate:float=0.5
BatchNorm axis:int=1 epsilon:float=1e-5 center:bool=true scale:bool=true
InstanceNorm axis:int=1 epsilon:float=1e-5 center:bool=true scale:bool=true
LayerNorm axis:int=-1 epsilon:float=1e-5 center:bool=true scale:bool=true
GroupNorm num_groups:int=0 axis:int=1 epsilon:float=1e-5 center:bool=true scale:bool=true
LRN size:int=5 axis:int=1 bias:float=2 alpha:float=0.0001 beta:float=0.75
L2Normalize eps:float axis
DeformableConv2D strides=[1,1] padding=[0,0] dilation=[1,1] deformable_groups:int=1 groups:int=1
    channels=null kernel_size=null data_layout:str="NCHW" kernel_layout:str="OIHW"
    out_layout:str="" out_dtype:dtype=""
SubPixel block_size:int=1 layout:str="NCHW" mode:str="DCR"
Correlation kernel_size:int=1 max_displacement:int=1 stride1:int=1 stride2:int=1 padding=[0,0]
    is_multiply:bool=true layout:str="NCHW"
SpaceToBatchND block_shape=[1,1] paddings pad_value:float=0.0
BatchToSpaceND block_shape=[1,1] crops
NLLLoss reduction:str="mean" ignore_index:int
SlidingWindow axis:int window_shape strides
Cast dtype:dtype
ExpandDims axis:int num_newaxis:int=1
DynExpandDims num_newaxis:int=1
Concatenate axis:int=0
Transpose axes
Reshape newshape allowzero:bool=false
ReshapeLike lhs_begin:int=0 lhs_end=null rhs_begin:int=0 rhs_end=null
ScatterElements axis=0 reduction:str="update"
ScatterND mode:str="update"
Gather axis=null
GatherND batch_dims=0 index_rank=null
Take batch_dims=0 axis=null mode:str="clip"
InitOp shape dtype:dtype=""
Arange start stop step dtype:dtype
Meshgrid indexing:str="ij"
Stack axis=0
Repeat repeats axis=null
Tile reps
Reverse axis=null
ReverseSequence seq_axis=1 batch_axis=0
Squeeze axis=null
Split indices_or_sections axis:int=0
StridedSlice begin end strides slice_mode:str="end" axes
SliceLike axes
Clip a_min:float a_max:float
FixedPointMultiply multiplier:int shift:int
FixedPointMultiplyPerAxis is_lshift_required:bool=false is_rshift_required:bool=false axes
LayoutTransform src_layout:str dst_layout:str
ShapeOf dtype:dtype=""
SequenceMask mask_value:float=0 axis:int=0
SparseToDense output_shape
NdarraySize dtype:dtype=""
OneHot depth:int=1 axis:int=-1 dtype:dtype=""
MatrixSetDiag k1:int=0 k2:int=0 super_diag_right_align:bool=true sub_diag_right_align:bool=false
Scanop axis=null dtype:dtype="" exclusive=false
Unique sorted:bool=true return_counts:bool=false
Einsum equation:str
Stft n_fft:int=-1 hop_length:int=-1 win_length:int=-1 normalized:bool=false onesided:bool=true
DFT inverse=false
Trilu upper:bool=true
Scatter axis=0
ScatterAdd axis=0
Reduce axis=null keepdims:bool=false exclude:bool=false
ArgReduce axis=null keepdims:bool=false select_last_index:bool=false exclude:bool=false
Variance axis=null keepdims:bool=false exclude:bool=false unbiased:bool=false
Argsort axis:int=-1 is_ascend:bool=true dtype:dtype=""
Topk k axis:int=-1 ret_type:str="both" is_ascend:bool=false dtype:dtype=""
SearchSorted right:bool=false dtype:dtype="int32"
Resize1D size=null roi=null layout:str="NCW" method:str="linear"
    coordinate_transformation_mode:str="half_pixel" rounding_method:str="round"
    cubic_alpha:float=-0.5 cubic_exclude:int=0 extrapolation_value:float=0.0 out_dtype:dtype=""
Resize2D size=null roi=null layout:str="NCHW" method:str="linear"
    coordinate_transformation_mode:str="half_pixel" rounding_method:str="round"
    cubic_alpha:float=-0.5 cubic_exclude:int=0 extrapolation_value:float=0.0 out_dtype:dtype=""
Resize3D size=null roi=null layout:str="NCDHW" method:str="linear"
    coordinate_transformation_mode:str="half_pixel" rounding_method:str="round"
    cubic_alpha:float=-0.5 cubic_exclude:int=0 extrapolation_value:float=0.0 out_dtype:dtype=""
CropAndResize crop_size=null layout:str="NCHW" method:str="bilinear" extrapolation_value:float=0.0
    out_dtype:dtype=""
Dilation2D strides=[1,1] padding=[0,0] dilations=[1,1] data_layout:str="NCHW"
    kernel_layout:str="IHW" out_dtype:dtype=""
AffineGrid target_shape
GridSample method:str="bilinear" layout:str="NCHW" padding_mode:str="zeros"
    align_corners:bool=true
MultiBoxPrior sizes=[1.0] ratios=[1.0] steps=[-1.0,-1.0] offsets=[0.5,0.5] clip:bool=false
MultiBoxTransformLoc clip:bool=true threshold:float=0.01 variances=[0.1,0.1,0.2,0.2]
    keep_background:bool=false
GetValidCounts score_threshold id_index:int=0 score_index:int=1
NonMaximumSuppression force_suppress:bool=false top_k:int=-1 coord_start:int=2 score_index:int=1
    id_index:int=0 return_indices:bool=true invalid_to_bottom:bool=false
ROIAlign pooled_size spatial_scale:float sample_ratio:int=-1 layout:str="NCHW" mode:str="avg"
ROIPool pooled_size spatial_scale:float layout:str="NCHW"
YoloReorg stride=1
Proposal scales=[4.0,8.0,16.0,32.0] ratios=[0.5,1.0,2.0] feature_stride:int=16 threshold:float=0.7
    rpn_pre_nms_top_n:int=6000 rpn_post_nms_top_n:int=300 rpn_min_size:int=16 iou_loss:bool=false
Requantize axis:int=-1 rounding:str="None" compute_dtype:str="None" out_dtype:dtype=""
Quantize out_dtype:dtype axis:int=-1
SimulatedQuantize axis:int=-1
Dequantize out_dtype:dtype axis:int=-1
Broadcast lhs_axis:int=-1 rhs_axis:int=-1
"""

_MISSING = object()

_MISNAMED = {f"relay.attrs.Conv{rank}DTransposeAttrs" for rank in (1, 3)}
"""Attributes whose ``kernel_layout`` had O and I swapped before v0.12."""


@dataclass(frozen=True)
class _Field:
    """An attribute: its notation and its default."""

    kind: str
    default: object


@cache
def _fields() -> Mapping[str, Mapping[str, _Field]]:
    """Parse the table."""
    kinds: dict[str, dict[str, _Field]] = {}
    for line in _TABLE.replace("\n    ", " ").split("\n")[1:-1]:
        name, *fields = line.split(" ")
        kinds[f"relay.attrs.{name}Attrs"] = dict(_field(field) for field in fields)
    return kinds


def _field(text: str) -> tuple[str, _Field]:
    """Parse ``name``, ``name:kind``, ``name=default`` or ``name:kind=default``."""
    written, equals, default = text.partition("=")
    name, _, kind = written.partition(":")
    value = json.loads(default) if equals else _MISSING
    return name, _Field(kind or "node", tuple(value) if isinstance(value, list) else value)


def known(type_key: str) -> bool:
    """Return whether the table has attributes of this type."""
    return type_key in _fields()


def references(node: Node) -> list[str]:
    """Return the names of attributes that are indices of nodes."""
    fields = _fields()[node.type_key]
    return [name for name in node.fields if name in fields and _refers(node, name)]


def _refers(node: Node, name: str) -> bool:
    kind = _fields()[node.type_key][name].kind
    # Versions differ in which strings are references to nodes; other strings are never numbers.
    return kind == "node" or (kind == "str" and node.fields[name].isdecimal())


def read(node: Node, referred: Mapping[str, object], version: tuple[int, int]) -> dict[str, object]:
    """Return the attributes that differ from the default, in the form of v0.19.

    Parameters
    ----------
    node : Node
        The node of the attributes.
    referred : mapping of str to object
        The objects of the nodes in `references`.
    version : tuple of int
        The version of TVM that wrote them.

    Raises
    ------
    RelayError
        If the table does not have an attribute, or one that must be a number is not.
    """
    fields = _fields()[node.type_key]
    if unknown := sorted(node.fields.keys() - fields.keys()):
        raise RelayError(f"{node.type_key} has the unknown attribute {unknown[0]}.")
    values = {name: _value(node, name, referred) for name in fields if name in node.fields}
    if node.type_key in _MISNAMED and version < (0, 12):
        layout = values.get("kernel_layout")
        if isinstance(layout, str):
            values["kernel_layout"] = layout.translate(str.maketrans("OI", "IO"))
    return {name: value for name, value in values.items() if value != fields[name].default}


def _value(node: Node, name: str, referred: Mapping[str, object]) -> object:
    kind = _fields()[node.type_key][name].kind
    if name in referred:
        return referred[name]
    if kind == "int":
        return node.integer(name)
    if kind == "float":
        return node.real(name)
    if kind == "bool":
        return bool(node.integer(name))
    return node.string(name)
