# SPDX-License-Identifier: Apache-2.0
"""Mutants of the code that is emitted."""

from __future__ import annotations

from .mutant import Mutant

_KERNELS = "python/tvm_ios/backend/cpu/kernels"
_WAITS = "backend/cpu/code/test_waits.py"
_TARGET = (
    "backend/cpu/code/test_prefetch_target.py::test_the_target_is_prefetched_after_the_last_chunk"
)
_NEXT_POINT = (
    "backend/cpu/code/test_prefetch_target.py"
    "::test_a_group_prefetches_the_weights_of_the_next_point"
)
_PREFETCH = "backend/cpu/kernels/test_prefetch.py"
_NEAR = f"{_PREFETCH}::test_weights_come_into_the_first_cache"
_FOOTPRINT = "backend/cpu/kernels/test_footprint.py"
_ATTENTION = "backend/cpu/kernels/attention/test_attention.py"
_COMPOSITIONS = "rewrite/test_compositions.py"
_SEVERAL = "backend/cpu/rules/test_several_results.py"
_BF16_DOT2 = "backend/cpu/kernels/test_bf16_dot2.py"
_HALF = "backend/cpu/test_half_precision.py"
_WINOGRAD = "backend/cpu/kernels/winograd/test_winograd.py"
_IMAGE = "backend/cpu/kernels/winograd/test_image.py"
_DEPTH_FIRST = "backend/cpu/stage/test_depth_first.py"
_STRIPS = "schedule/test_winograd.py"
_RECURRENCE = "backend/cpu/kernels/rows/test_recurrence.py"

MUTANTS = (
    Mutant(
        "a feature map that others read, too, is pooled by strips",
        "python/tvm_ios/backend/cpu/stage/depth_first.py",
        "graph.readers.get(value) != (op.index,)",
        "op.index not in graph.readers.get(value, ())",
        (f"{_DEPTH_FIRST}::test_others_are_not",),
    ),
    Mutant(
        "Winograd's algorithm rounds as much as it likes",
        f"{_KERNELS}/winograd/model.py",
        "_MOST_ERROR = 5.0",
        "_MOST_ERROR = 50.0",
        (
            "backend/cpu/kernels/winograd/test_model.py::test_tiles_that_round_too_much_are_left_out",
        ),
    ),
    Mutant(
        "weights come in time however long they take",
        f"{_KERNELS}/winograd/model.py",
        "and in_time and fetch <= compute",
        "and in_time",
        (
            "backend/cpu/kernels/winograd/test_model.py"
            "::test_weights_that_take_longer_than_the_products_are_waited_for",
        ),
    ),
    Mutant(
        "windows of stride two read the even inputs twice",
        f"{_KERNELS}/winograd/transform.py",
        "part.data(x[first :: self._stride], lanes)",
        "part.data(x[0 : part.n * self._stride : self._stride], lanes)",
        (f"{_WINOGRAD}::test_convolutions",),
    ),
    Mutant(
        "an odd number of points has zero among them, too",
        f"{_KERNELS}/winograd/transform.py",
        "self._zero = 1 - self.n % 2",
        "self._zero = 1",
        (f"{_WINOGRAD}::test_convolutions",),
    ),
    Mutant(
        "the squares of a folded image begin with the first tap",
        f"{_KERNELS}/conv/fold.py",
        "return -window.before % window.stride",
        "return 0",
        (f"{_IMAGE}::test_squares_of_pixels_become_channels", f"{_IMAGE}::test_convolutions"),
    ),
    Mutant(
        "pixels below a folded image are read",
        f"{_KERNELS}/conv/fold.py",
        "row * stride + y < self._high",
        "row * stride + y >= 0",
        (f"{_IMAGE}::test_convolutions",),
    ),
    Mutant(
        "the first row of tiles of a worker finds nothing folded",
        f"{_KERNELS}/winograd/image.py",
        "T.Select(T.Or(fresh, row == 0), 0, high - step)",
        "T.Select(row == 0, 0, high - step)",
        (f"{_IMAGE}::test_convolutions",),
    ),
    Mutant(
        "the rows of an image are those of the one before",
        f"{_KERNELS}/winograd/image.py",
        "T.Select(T.Or(fresh, row == 0), 0, high - step)",
        "T.Select(fresh, 0, high - step)",
        (f"{_IMAGE}::test_convolutions",),
    ),
    Mutant(
        "a row of tiles reads one row less",
        f"{_KERNELS}/winograd/image.py",
        "kernel=rows.stride * span",
        "kernel=rows.stride * (span - 1)",
        ("backend/cpu/kernels/test_footprint.py::test_rows_of_tiles",),
    ),
    Mutant(
        "an image whose channels lie in blocks is folded",
        "python/tvm_ios/backend/cpu/rules/convolution.py",
        "suits = source.block == (0 if folds(conv.hinted) else config.core.lanes)",
        "suits = folds(conv.hinted) or source.block == config.core.lanes",
        (f"{_IMAGE}::test_an_image_that_a_convolution_computed_is_not_folded",),
    ),
    Mutant(
        "the strips of a group keep their products in one place",
        f"{_KERNELS}/winograd/products.py",
        "self._multiply(point, strip, index * size, count)",
        "self._multiply(point, strip, 0, count)",
        (f"{_WINOGRAD}::test_groups_of_strips",),
    ),
    Mutant(
        "weights are transformed along the other axis",
        f"{_KERNELS}/winograd/convolution.py",
        "padded.swapaxes(2, 3)",
        "padded",
        (f"{_WINOGRAD}::test_convolutions",),
    ),
    Mutant(
        "a convolution that a schedule has without a kernel may get one without row strips",
        "python/tvm_ios/backend/cpu/stage/build.py",
        "if name in kernels and is_winograd(variant):",
        "if False:",
        (f"{_STRIPS}::test_row_strips_of_a_machine_on_which_the_direct_kernel_was_faster",),
    ),
    Mutant(
        "a layer that runs backwards begins with the first step",
        "python/tvm_ios/backend/cpu/kernels/rows/recurrent_steps.py",
        "step = layer.steps - 1 - number if layer.backwards else number",
        "step = number",
        (f"{_RECURRENCE}::test_layers",),
    ),
    Mutant(
        "the definition of a layer that runs backwards begins with the first step",
        "python/tvm_ios/ops/recurrence_function.py",
        "time = layer.steps - 1 - number if layer.backwards else number",
        "time = number",
        (f"{_RECURRENCE}::test_definitions",),
    ),
    Mutant(
        "units beyond those of a layer widen the range of its states",
        "python/tvm_ios/backend/cpu/kernels/rows/recurrent_products.py",
        "        if padding:\n",
        "        if False:\n",
        (f"{_RECURRENCE}::test_layers",),
    ),
    Mutant(
        "the rows of a batch are rounded by the range of the first",
        "python/tvm_ios/backend/cpu/kernels/rows/recurrent_products.py",
        "step, place = (splat(self._grids[row, i], size) for i in range(2))",
        "step, place = (splat(self._grids[0, i], size) for i in range(2))",
        (f"{_RECURRENCE}::test_layers",),
    ),
    Mutant(
        "the phases of all steps compute the first one",
        "python/tvm_ios/backend/cpu/code/units.py",
        "first + begin, first + end, ahead)",
        "begin, end, ahead)",
        (f"{_RECURRENCE}::test_networks_whose_steps_are_shared",),
    ),
    Mutant(
        "states are rounded once",
        "python/tvm_ios/backend/cpu/kernels/rows/recurrence.py",
        "        if step and layer.quantized:\n",
        "        if step and not layer:\n",
        (f"{_RECURRENCE}::test_layers",),
    ),
    Mutant(
        "a step reads units that it has written",
        "python/tvm_ios/backend/cpu/kernels/rows/recurrent_steps.py",
        "self._store(1 - parity, [row, columns], self._within(row, step, value, old))",
        "self._store(parity, [row, columns], self._within(row, step, value, old))",
        (f"{_RECURRENCE}::test_layers",),
    ),
    Mutant(
        "a row's states change after its length",
        "python/tvm_ios/backend/cpu/kernels/rows/recurrent_steps.py",
        'T.Cast("float32", step) < lengths[row]',
        'T.Cast("float32", step) <= lengths[row]',
        (f"{_RECURRENCE}::test_layers",),
    ),
    Mutant(
        "a gate reads the peephole of another",
        "python/tvm_ios/frontend/onnx/operators/recurrent.py",
        "for place in (0, 2, 1)]",
        "for place in (0, 1, 2)]",
        ("frontend/onnx/test_recurrent.py::test_other_types",),
    ),
    Mutant(
        "regions are a pixel large at least, also where samples begin half a pixel before",
        "python/tvm_ios/ops/region_parts.py",
        "        if not pool.half_pixel:\n            length",
        "        if True:\n            length",
        ("frontend/onnx/test_detection.py::test_aligned_regions",),
    ),
    Mutant(
        "halves of pixels are rounded towards 0",
        "python/tvm_ios/ops/region_parts.py",
        "half = tirx.abs(x - whole) >= self",
        "half = tirx.abs(x - whole) > self",
        ("frontend/onnx/test_detection.py::test_largest_of_regions",),
    ),
    Mutant(
        "all groups of channels of a deformed convolution have the mask of the first",
        "python/tvm_ios/backend/cpu/kernels/maps/deformed.py",
        "buffers[2][image, number, row, across]",
        "buffers[2][image, element, row, across]",
        ("frontend/onnx/test_detection.py::test_deformed_convolutions",),
    ),
    Mutant(
        "results of a recurrent layer are taken for each other",
        "python/tvm_ios/backend/cpu/rules/recurrence.py",
        "read = [index[value] for value in op.outputs]",
        "read = [*range(len(op.outputs))]",
        (f"{_RECURRENCE}::test_networks",),
    ),
    Mutant(
        "subnormal reciprocals are used",
        "python/tvm_ios/rewrite/reciprocals.py",
        "if _is_subnormal(divisor) or _is_subnormal(factor):",
        "if _is_subnormal(divisor):",
        ("rewrite/test_reciprocals.py::test_one_such_element_is_enough",),
    ),
    Mutant(
        "sums of earlier keys stay as large",
        f"{_KERNELS}/attention/strip.py",
        "self.total[at] * factor, [at])",
        "self.total[at], [at])",
        (f"{_ATTENTION}::test_attention",),
    ),
    Mutant(
        "all heads have the bias of the first",
        f"{_KERNELS}/attention/strip.py",
        "(bias.heads, self.head)",
        "(bias.heads, 0)",
        (f"{_ATTENTION}::test_a_bias_and_an_epilogue",),
    ),
    Mutant(
        "all heads read the keys of the first",
        f"{_KERNELS}/attention/strip.py",
        "return self.buffers[operand - 3], [self.image, self.head, row, at]",
        "return self.buffers[operand - 3], [self.image, 0, row, at]",
        (f"{_ATTENTION}::test_attention",),
    ),
    Mutant(
        "keys in any order are transposed",
        "python/tvm_ios/rewrite/attention.py",
        "        if tuple(total) == axes:\n",
        "        if total:\n",
        ("rewrite/test_attention.py::test_an_attention_is_one_operator",),
    ),
    Mutant(
        "a view begins behind its operand",
        "python/tvm_ios/backend/cpu/rules/views.py",
        "slots[result] = Slot(source, 0)",
        "slots[result] = Slot(source, 4)",
        ("backend/cpu/rules/test_views.py::test_a_reshape_is_a_view",),
    ),
    Mutant(
        "any number may be that of Mish",
        "python/tvm_ios/rewrite/matching.py",
        "return number is not None and math.isclose(number, value, rel_tol=_ACCURACY)",
        "return number is not None",
        ("rewrite/test_activations.py::test_what_only_looks_like_mish_stays",),
    ),
    Mutant(
        "any numbers may be those of a polynomial",
        "python/tvm_ios/rewrite/polynomials.py",
        "is_close(found[monomial], factor) for monomial, factor in wanted.items()",
        "monomial in found for monomial in wanted",
        (f"{_COMPOSITIONS}::test_what_only_looks_like_a_composition_stays",),
    ),
    Mutant(
        "what is stored waits for operands of what follows",
        "python/tvm_ios/graph/region.py",
        "any(_place(uses, argument) > _place(uses, stored[0]) for argument in builder.arguments)",
        "False",
        (f"{_SEVERAL}::test_others_have_one_result",),
    ),
    Mutant(
        "what belongs to a convolution waits for another",
        "python/tvm_ios/rewrite/late.py",
        "return all(map(self._is_free, self._uses.reads(i)))",
        "return True",
        ("rewrite/test_late.py::test_operators_and_their_steps",),
    ),
    Mutant(
        "mean and variance may be along different axes",
        "python/tvm_ios/rewrite/standardised.py",
        "if self._axes not in (None, places):",
        "if False:",
        (f"{_COMPOSITIONS}::test_what_only_looks_like_a_composition_stays",),
    ),
    Mutant(
        "means may lose their axis",
        "python/tvm_ios/rewrite/standardised.py",
        'atom(kind if call.attrs.keepdims else f"{kind}-")',
        "atom(kind)",
        (f"{_COMPOSITIONS}::test_what_only_looks_like_a_composition_stays",),
    ),
    Mutant(
        "factors may vary along any axis",
        "python/tvm_ios/rewrite/normalisations.py",
        "return all(size == 1 or axis in axes for axis, size in enumerate(factor.shape))",
        "return True",
        (f"{_COMPOSITIONS}::test_factors_of_another_shape_stay",),
    ),
    Mutant(
        "a window's last row is left out of the footprint",
        f"{_KERNELS}/plane.py",
        "rows = max(first, 0), min(last + 1, self.rows.size)",
        "rows = max(first, 0), min(last, self.rows.size)",
        (f"{_FOOTPRINT}::test_tiles_in_order",),
    ),
    Mutant(
        "rows of padding alone read something",
        f"{_KERNELS}/footprint.py",
        "if source[0] < source[1]:",
        "if True:",
        (f"{_WAITS}::test_a_worker_may_compute_rows_of_padding_alone",),
    ),
    Mutant(
        "a narrow chunk is thought to be a wide one",
        f"{_KERNELS}/conv/conv2d.py",
        "(step - rest if rest and chunk > full // 2 else 0)",
        "0",
        (f"{_FOOTPRINT}::test_tiles_in_order",),
    ),
    Mutant(
        "a group prefetches the weights that it multiplies",
        f"{_KERNELS}/winograd/products.py",
        "(point + 1) * row",
        "point * row",
        (_NEXT_POINT,),
    ),
    Mutant(
        "after the last point of all the next chunk's weights are prefetched",
        f"{_KERNELS}/winograd/products.py",
        "T.Select(ended, self.prefetch_target.after, begin)",
        "begin + self.prefetch_target.after * 0",
        (_NEXT_POINT,),
    ),
    Mutant(
        "the next chunk's weights are prefetched after the last chunk",
        f"{_KERNELS}/conv/tile.py",
        "begin = T.Select(self.next_block == self.block, self.prefetch_target, begin)",
        "begin = begin + self.prefetch_target * 0",
        (_TARGET,),
    ),
    Mutant(
        "weights are prefetched into L1 as they are read",
        f"{_KERNELS}/conv/tile.py",
        "NEAR * conv.lanes]",
        "0]",
        (_NEAR,),
    ),
    Mutant(
        "inputs are prefetched into L1 as they are read",
        f"{_KERNELS}/conv/tile.py",
        "self._fetch_inputs(index + 1,",
        "self._fetch_inputs(index,",
        (f"{_PREFETCH}::test_inputs_come_into_the_first_cache",),
    ),
    Mutant(
        "a product's weights are not prefetched into L1",
        f"{_KERNELS}/matmul/tile.py",
        "if self.shape.far_weights:",
        "if False:",
        (_NEAR,),
    ),
    Mutant(
        "the means of a group's channels are taken to be equal",
        f"{_KERNELS}/maps/group_norm.py",
        "return squares + distance * distance * _number(count)",
        "return squares + distance * T.float32(0)",
        ("backend/cpu/kernels/maps/test_group_norm.py::test_group_norm",),
    ),
    Mutant(
        "powers below the smallest number are not zero",
        "python/tvm_ios/backend/cpu/isa/functions.py",
        "_LOWEST_POWER = -127.0",
        "_LOWEST_POWER = -126.0",
        ("backend/cpu/isa/test_elementwise.py::test_extremes",),
    ),
    Mutant(
        "what lies beside the last of an odd number of channels is multiplied",
        f"{_KERNELS}/conv/tile.py",
        "T.Select(last, T.int32(FIRST), T.int32(-1))",
        "T.Select(last, T.int32(-1), T.int32(-1))",
        (f"{_BF16_DOT2}::test_convolutions",),
    ),
    Mutant(
        "ties are not rounded to even",
        "python/tvm_ios/backend/cpu/isa/bfloat16.py",
        "constant(0x7FFF) + odd",
        "constant(0x8000)",
        (f"{_BF16_DOT2}::test_numbers_are_rounded_to_the_nearest_even_one",),
    ),
    Mutant(
        "a concatenation of bfloat16 has the offsets of float32",
        "python/tvm_ios/backend/cpu/rules/inplace.py",
        "_BYTES if narrow is None else narrow.num_bytes",
        "_BYTES",
        (f"{_HALF}::test_other_numbers_of_workers",),
    ),
    Mutant(
        "the blocks of an image of an open batch lie one after another",
        "python/tvm_ios/backend/cpu/kernels/layout.py",
        "(plane, n * plane, self.block, 1)",
        "(sizes[1] * plane, plane, self.block, 1)",
        ("backend/cpu/rules/test_inplace.py::test_any_batch",),
    ),
    Mutant(
        "schedules share the memory of the first one's kernels",
        "python/tvm_ios/compiler/scheduler.py",
        "lower(schedule), builder.lowered",
        "lower(schedule), self.stage_builder.lowered",
        (f"{_HALF}::test_a_schedule_names_the_precision_of_each_operator",),
    ),
    Mutant(
        "the tolerance is not kept",
        "python/tvm_ios/compiler/rounding.py",
        "    if rounding.error <= tolerance:\n        return rounded, rounding",
        "    if rounding.error <= 2.0:\n        return rounded, rounding",
        (f"{_HALF}::test_a_tolerance_decides_what_stays_in_float32",),
    ),
    Mutant(
        "whole numbers are rounded",
        "python/tvm_ios/backend/cpu/rules/precision.py",
        "_WHOLE = 256",
        "_WHOLE = 1 << 30",
        (f"{_HALF}::test_whole_numbers_are_not_rounded",),
    ),
)
