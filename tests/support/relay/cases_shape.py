# SPDX-License-Identifier: Apache-2.0
"""Cases of operators that move, take and put elements, and of images."""

from __future__ import annotations

import numpy as np

from support.relay.cases import Case, Known, case, rand, whole
from support.relay.reference import (
    align_corners,
    asymmetric,
    below,
    cubic,
    half_pixel,
    linear,
    nearest,
    resize,
)


def _reshapes() -> list[Case]:
    x = rand(2, 3, 4)
    shapes = {
        (4, 0, 2): (4, 3, 2), (2, 0, 0): (2, 3, 4), (6, 1, -1): (6, 1, 4), (-1,): (24,),
        (2, -2): (2, 3, 4), (-2, 1, 1): (2, 3, 4, 1, 1), (-3, 4): (6, 4), (0, -3): (2, 12),
        (-4, 1, 2, -2): (1, 2, 3, 4), (2, -4, -1, 3, -2): (2, 1, 3, 4), (-1, 0): (8, 3),
    }  # fmt: skip
    empty = rand(0, 3)
    one = rand(1, 3, 1, 2)
    return [
        *[case("reshape", [x], x.reshape(new), newshape=old) for old, new in shapes.items()],
        case("reshape", [empty], empty.reshape(3, 0), newshape=(3, 0), allowzero=True),
        case("contrib_reverse_reshape", [x], x.reshape(6, 4), newshape=(-1, 0)),
        case("reshape_like", [x, rand(6, 4)], x.reshape(6, 4)),
        case(
            "reshape_like", [x, rand(3, 6, 2, 2)], x.reshape(6, 2, 2),
            lhs_begin=0, lhs_end=3, rhs_begin=1,
        ),
        case("reshape_like", [x, rand(5, 12)], x.reshape(2, 12), lhs_begin=1, rhs_begin=-1),
        case("nn.batch_flatten", [x], x.reshape(2, 12)),
        case("expand_dims", [x], x.reshape(2, 1, 1, 3, 4), axis=1, num_newaxis=2),
        case("expand_dims", [x], x.reshape(2, 3, 4, 1), axis=-1),
        case("squeeze", [one], one.reshape(3, 2)),
        case("squeeze", [one], one.reshape(1, 3, 2), axis=(-2,)),
        case("transpose", [x], x.transpose()),
        case("transpose", [x], x.transpose(1, 0, 2), axes=(1, 0, -1)),
        case("broadcast_to", [one], np.broadcast_to(one, (4, 3, 5, 2)), shape=(4, 3, 5, 2)),
        case("broadcast_to_like", [one, rand(2, 3, 2, 2)], np.broadcast_to(one, (2, 3, 2, 2))),
        case("collapse_sum_like", [x, rand(3, 1)], x.sum((0, 2)).reshape(3, 1)),
        case(
            "collapse_sum_to", [x, Known(np.array([3, 1]))], x.sum((0, 2)).reshape(3, 1),
            shape=(3, 1),
        ),
    ]  # fmt: skip


def _layouts() -> list[Case]:
    x = rand(1, 8, 4, 6)
    blocked = x.reshape(1, 2, 4, 4, 6).transpose(0, 1, 3, 4, 2)
    w = rand(8, 4, 3, 3)
    tiles = w.reshape(2, 4, 2, 2, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    dcr = x.reshape(1, 2, 2, 2, 4, 6).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 8, 12)
    crd = x.reshape(1, 2, 2, 2, 4, 6).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 8, 12)
    deep = x.reshape(1, 8, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 32, 2, 3)
    nhwc = x.transpose(0, 2, 3, 1)
    layouts = [
        ("NCHW", "NHWC", x, nhwc),
        ("NCHW", "NCHW4c", x, blocked),
        ("NCHW4c", "NHWC", blocked, nhwc),
        ("OIHW2i4o", "OIHW", tiles, w),
        ("OIHW", "OIHW2i4o", w, tiles),
    ]
    return [
        *[
            case("layout_transform", [v], to, src_layout=source, dst_layout=target)
            for source, target, v, to in layouts
        ],
        case("nn.depth_to_space", [x], dcr, block_size=2),
        case(
            "nn.depth_to_space", [nhwc], crd.transpose(0, 2, 3, 1),
            block_size=2, mode="CRD", layout="NHWC",
        ),
        case("nn.space_to_depth", [x], deep, block_size=2),
    ]  # fmt: skip


def _parts() -> list[Case]:
    x, y = rand(3, 6, 4), rand(2, 6, 4)
    thirds = np.split(x, 3, 1)
    at = np.split(x, [1, 4], 1)
    lengths = np.array([2, 6, 1], "int32")
    turned = x.copy()
    for i, n in enumerate(lengths):
        turned[i, :n] = x[i, :n][::-1]
    u, v = rand(3), rand(4)
    return [
        case("concatenate", [[x, y]], np.concatenate([x, y])),
        case("concatenate", [[x, x]], np.concatenate([x, x], -1), axis=-1),
        case("concatenate", [[x]], x, axis=1),
        case("stack", [[x, 2 * x]], np.stack([x, 2 * x], -1), axis=-1),
        case("stack", [[x, 2 * x]], np.stack([x, 2 * x])),
        case("split", [x], thirds, indices_or_sections=3, axis=1),
        case("split", [x], at, indices_or_sections=(1, 4), axis=-2),
        case("strided_slice", [x], x[1:3, ::2], begin=(1, 0), end=(3, 6), strides=(1, 2)),
        case("strided_slice", [x], x[:, -2:], begin=(-2,), end=(99,), strides=(1,), axes=(1,)),
        case(
            "strided_slice", [x], x[:, ::-1, 3:0:-2],
            begin=(0, -1, 3), end=(3, -7, 0), strides=(1, -1, -2),
        ),
        case(
            "strided_slice", [x], x[1:3, 2:],
            begin=(1, 2), end=(2, -1), strides=(1, 1), slice_mode="size",
        ),
        case("strided_slice", [x], x, begin=(0,), end=(3,), strides=(1,)),
        case("slice_like", [x, y[:, :3]], x[:2, :3]),
        case("slice_like", [x, y[:, :3]], x[:, :3], axes=(1,)),
        case("tile", [x], np.tile(x, (2, 1, 3)), reps=(2, 1, 3)),
        case("tile", [u], np.tile(u, (2, 2)), reps=(2, 2)),
        case("repeat", [x], x.repeat(3, 1), repeats=3, axis=-2),
        case("reverse", [x], x[:, ::-1], axis=1),
        case("reverse_sequence", [x, lengths], turned),
        case("meshgrid", [[u, v]], np.meshgrid(u, v, indexing="ij")),
        case("meshgrid", [[u, v]], np.meshgrid(u, v), indexing="xy"),
        case(
            "nn.fifo_buffer", [x[:, :2], x[:, 1:]],
            np.concatenate([x[:, 3:], x[:, :2]], 1), axis=1,
        ),
    ]  # fmt: skip


def _positions() -> list[Case]:
    x = rand(4, 5, 3)
    ids, far = whole(2, 3, high=5), whole(6, low=-9, high=19)
    along = whole(4, 2, 3, high=5)
    pairs = np.stack([whole(2, 4, high=4), whole(2, 4, high=5)])
    rows = np.stack([whole(4, 2, high=5)])
    put, three, values = rand(3, 5), rand(3, 2), rand(3)
    spots = np.array([[0, 2, 1], [4, 0, 3]], "int32")
    places = spots.T.copy()
    written, summed = _scattered(put, places, three), _scattered(put, places, three, add=True)
    nd, nd_sum = put.copy(), put.copy()
    nd[tuple(spots)] = values
    np.add.at(nd_sum, tuple(spots), values)
    hot = np.where(np.arange(6) == ids[..., None], 2.0, -1.0).astype("float32")
    lengths = np.array([1, 3, 0, 4, 2], "int32")
    masked = np.where((np.arange(4)[:, None] < lengths)[..., None], x, -1).astype("float32")
    long = np.where((np.arange(5) < lengths[:4, None])[..., None], x, 0).astype("float32")
    indices = whole(7, high=60)
    turn = np.array([3, 0, 4, 1, 2], "int32")
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 2), (1, 2))
    i, j = whole(3, 1, high=4, dtype="int64"), whole(4, high=5, dtype="int64")
    on_off = [Known(np.array(n, "float32")) for n in (2, -1)]
    return [
        case("take", [x, ids], x[:, ids], axis=1),
        case("take", [x, far], x[:, np.clip(far, 0, 4)], axis=-2),
        case("take", [x, far], x[:, far % 5], axis=1, mode="wrap"),
        case("take", [x, indices], x.reshape(-1)[indices], mode="fast"),
        case("gather", [x, along], np.take_along_axis(x, along, 1), axis=-2),
        case("gather_nd", [x, pairs], x[tuple(pairs)]),
        case(
            "gather_nd", [x, rows], np.take_along_axis(x, rows[0][..., None], 1),
            batch_dims=1, index_rank=1,
        ),
        case("scatter_elements", [put, places, three], written, axis=1),
        case("scatter_elements", [put, places, three], summed, axis=-1, reduction="add"),
        case("scatter", [put, places, three], written, axis=1),
        case("scatter_add", [put, places, three], summed, axis=1),
        case("scatter_nd", [put, spots, values], nd),
        case("scatter_nd", [put, spots, values], nd_sum, mode="add"),
        case("one_hot", [ids, *on_off], hot, depth=6, dtype="float32"),
        case(
            "one_hot", [ids, *on_off], hot.transpose(0, 2, 1).astype("int32"),
            depth=6, axis=1, dtype="int32",
        ),
        case("adv_index", [[x, i, j]], x[i, j]),
        case("invert_permutation", [turn], np.argsort(turn).astype("int32")),
        case(
            "sliding_window", [x], windows[:, ::2, ::1],
            axis=1, window_shape=(3, 2), strides=(2, 1),
        ),
        case("sequence_mask", [x, lengths], masked, mask_value=-1.0),
        case("sequence_mask", [x, lengths[:4]], long, axis=1),
        case(
            "unravel_index", [indices, Known(np.array([4, 5, 3], "int32"))],
            np.stack(np.unravel_index(indices, (4, 5, 3))).astype("int32"),
        ),
    ]  # fmt: skip


def _scattered(
    data: np.ndarray, places: np.ndarray, updates: np.ndarray, add: bool = False
) -> np.ndarray:
    """What is put, or added, at places along the second axis."""
    result = data.copy()
    for i, j in np.ndindex(*places.shape):
        old = result[i, places[i, j]] if add else 0
        result[i, places[i, j]] = old + updates[i, j]
    return result


def _paddings() -> list[Case]:
    x, image = rand(3, 4), rand(2, 4, 6, 3)
    widths = ((1, 2), (0, 3))
    number = Known(np.array(1.5, "float32"))
    dilated = np.full((5, 10), 7, "float32")
    dilated[::2, ::3] = x
    padded = np.pad(image, [(0, 0), (1, 1), (0, 0), (0, 0)])
    batch = padded.reshape(2, 3, 2, 2, 3, 3).transpose(2, 4, 0, 1, 3, 5).reshape(12, 3, 2, 3)
    return [
        case("nn.pad", [x, number], np.pad(x, widths, constant_values=1.5), pad_width=widths),
        case("nn.pad", [x, number], np.pad(x, widths, "edge"), pad_width=widths, pad_mode="edge"),
        case(
            "nn.pad", [x, number], np.pad(x, widths, "reflect"),
            pad_width=widths, pad_mode="reflect",
        ),
        case("nn.pad", [x, number], x, pad_width=((0, 0), (0, 0))),
        case("nn.mirror_pad", [x], np.pad(x, widths, "symmetric"), pad_width=widths),
        case(
            "nn.mirror_pad", [x], np.pad(x, widths, "reflect"), pad_width=widths, mode="REFLECT"
        ),
        case("nn.dilate", [x], dilated, strides=(2, 3), dilation_value=7.0),
        case(
            "nn.space_to_batch_nd", [image], batch,
            block_shape=(2, 3), paddings=((1, 1), (0, 0)),
        ),
        case(
            "nn.batch_to_space_nd", [batch], image,
            block_shape=(2, 3), crops=((1, 1), (0, 0)),
        ),
    ]  # fmt: skip


def _images() -> list[Case]:
    x, volume, line = rand(1, 2, 5, 4), rand(1, 2, 3, 4, 2), rand(2, 3, 5)
    nhwc = x.transpose(0, 2, 3, 1)
    linear_ = resize(x, (7, 9), half_pixel, linear)
    corners = resize(x, (10, 6), align_corners, linear)
    ints = whole(1, 2, 4, 4)
    theta = rand(2, 2, 3)
    grid = np.stack([*np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 3)), np.ones((3, 5))])
    inside = rand(1, 2, 3, 4, low=-0.95, high=0.95)
    return [
        *_resized(x),
        case("image.resize2d", [x], linear_, size=(7, 9)),
        case("image.resize2d", [nhwc], linear_.transpose(0, 2, 3, 1), size=(7, 9), layout="NHWC"),
        case(
            "image.resize2d", [ints], resize(ints, (6, 7), half_pixel, linear),
            size=(6, 7), out_dtype="float32",
        ),
        case("image.resize1d", [line], resize(line, (8,), half_pixel, linear), size=(8,)),
        case(
            "image.resize1d", [line.transpose(0, 2, 1)],
            resize(line, (9,), align_corners, cubic).transpose(0, 2, 1),
            size=(9,), layout="NWC", method="cubic",
            coordinate_transformation_mode="align_corners",
        ),
        case(
            "image.resize3d", [volume], resize(volume, (5, 6, 3), half_pixel, linear),
            size=(5, 6, 3),
        ),
        case("nn.upsampling", [x], x.repeat(2, 2).repeat(3, 3), scale_h=2.0, scale_w=3.0),
        case(
            "nn.upsampling", [nhwc], corners.transpose(0, 2, 3, 1),
            scale_h=2.0, scale_w=1.5, layout="NHWC", method="bilinear", align_corners=True,
        ),
        case(
            "nn.upsampling", [x], resize(x, (10, 8), asymmetric, cubic),
            scale_h=2.0, scale_w=2.0, method="bicubic",
        ),
        case(
            "nn.upsampling3d", [volume], resize(volume, (6, 8, 4), half_pixel, linear),
            scale_d=2.0, scale_h=2.0, scale_w=2.0, method="trilinear",
        ),
        case(
            "image.affine_grid", [theta],
            np.einsum("nij,jhw->nihw", theta, grid).astype("float32"), target_shape=(3, 5),
        ),
        case("image.grid_sample", [x, inside], _sampled(x, inside)),
        *_dilations(x),
    ]  # fmt: skip


def _resized(x: np.ndarray) -> list[Case]:
    """An image in each of the methods, and the ways to place its pixels."""
    rows = [
        ((8, 6), align_corners, linear, {"coordinate_transformation_mode": "align_corners"}),
        ((8, 7), half_pixel, nearest, {"method": "nearest_neighbor"}),
        (
            (10, 7), asymmetric, below,
            {
                "method": "nearest_neighbor", "rounding_method": "floor",
                "coordinate_transformation_mode": "asymmetric",
            },
        ),
        ((7, 6), half_pixel, cubic, {"method": "cubic"}),
        (
            (7, 6), half_pixel, lambda at: cubic(at, -0.75),
            {"method": "cubic", "cubic_alpha": -0.75},
        ),
    ]  # fmt: skip
    return [
        case("image.resize2d", [x], resize(x, size, place, weights), size=size, **attributes)
        for size, place, weights, attributes in rows
    ]


def _dilations(x: np.ndarray) -> list[Case]:
    weights = rand(2, 2, 3)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 0), (2, 1)])
    views = [
        padded[:, :, 2 * i : 2 * i + 4 : 2, j : j + 5] + weights[:, i, j][:, None, None]
        for i in range(2)
        for j in range(3)
    ]
    expected = np.max(views, axis=0)
    attributes = {"strides": (2, 1), "padding": (1, 2, 0, 1), "dilations": (2, 1)}
    return [
        case("image.dilation2d", [x, weights], expected, **attributes),
        case(
            "image.dilation2d", [x.transpose(0, 2, 3, 1), weights.transpose(1, 2, 0)],
            expected.transpose(0, 2, 3, 1), data_layout="NHWC", kernel_layout="HWI", **attributes,
        ),
    ]  # fmt: skip


def _sampled(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Bilinear samples at places that are given as x and y from -1 to 1, corner to corner."""
    n, c, h, w = x.shape
    result = np.zeros((n, c, *grid.shape[2:]), "float32")
    for at in np.ndindex(n, *grid.shape[2:]):
        place = grid[(at[0], slice(None), *at[1:])]
        for j, wx in linear((place[0] + 1) * (w - 1) / 2).items():
            for i, wy in linear((place[1] + 1) * (h - 1) / 2).items():
                if i < h and j < w:
                    result[(at[0], slice(None), *at[1:])] += wx * wy * x[at[0], :, i, j]
    return result


def _sorted() -> list[Case]:
    x = rand(3, 7, 2)
    order = np.argsort(x, 1).astype("int32")
    falling = np.argsort(-x, -1).astype("int64")
    up = np.sort(x, 1)
    return [
        case("sort", [x], up, axis=1),
        case("sort", [x], -np.sort(-x, -1), is_ascend=False),
        case("argsort", [x], order, axis=1, dtype="int32"),
        case("argsort", [x], falling, is_ascend=False, dtype="int64"),
        case(
            "topk", [x], [up[:, ::-1][:, :3], order[:, ::-1][:, :3]], k=3, axis=1, dtype="int32"
        ),
        case("topk", [x], up[:, :2], k=2, axis=1, ret_type="values", is_ascend=True),
        case("topk", [x], order[:, -1:], k=1, axis=1, ret_type="indices"),
    ]  # fmt: skip


CASES = [
    *_reshapes(),
    *_layouts(),
    *_parts(),
    *_positions(),
    *_paddings(),
    *_images(),
    *_sorted(),
]
