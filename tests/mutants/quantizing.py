# SPDX-License-Identifier: Apache-2.0
"""Mutants of what computes quantised networks."""

from __future__ import annotations

from .mutant import Mutant

_CPU = "python/tvm_ios/backend/cpu"
_INT8_DOT4 = "backend/cpu/kernels/test_int8_dot4.py"
_DOT4 = "backend/cpu/kernels/test_dot4.py"
_CHOICE = "backend/cpu/rules/test_bytes_or_floats.py"
_QUANTIZED = "backend/cpu/rules/test_quantized.py"
_GRAPH = "rewrite/test_quantization.py"

MUTANTS = (
    Mutant(
        "the zero point does not move the range",
        "python/tvm_ios/rewrite/quantization.py",
        "max(limits.min, low) - grid.zero",
        "max(limits.min, low)",
        (f"{_GRAPH}::test_ties_are_rounded_to_even",),
    ),
    Mutant(
        "a value is dequantised by another scale than it was quantised by",
        "python/tvm_ios/rewrite/quantization.py",
        "_Grid(grid.scale, grid.zero - written.zero)",
        "_Grid(written.scale, grid.zero - written.zero)",
        (f"{_GRAPH}::test_another_grid",),
    ),
    Mutant(
        "the lowest value of an image is that of the padding",
        f"{_CPU}/kernels/conv/tile.py",
        "if inside == kernel else inside",
        "if inside else inside",
        (f"{_INT8_DOT4}::test_convolutions",),
    ),
    Mutant(
        "bytes are stored without their lowest value",
        "python/tvm_ios/backend/cpu/isa/int8.py",
        "- splat(T.int32(self.low), lanes)",
        "- splat(T.int32(0), lanes)",
        (f"{_INT8_DOT4}::test_values_on_a_grid_are_stored_exactly",),
    ),
    Mutant(
        "factors are unsigned, too",
        "python/tvm_ios/backend/cpu/isa/dot4.py",
        "signed = T.shift_right(T.shift_left(b, constant(24 - place)), constant(24))",
        "signed = T.bitwise_and(T.shift_right(b, constant(place)), constant(255))",
        (f"{_INT8_DOT4}::test_convolutions",),
    ),
    Mutant(
        "weights are on a grid if they are near one",
        f"{_CPU}/rules/quantized.py",
        "_EXACT = 1e-4",
        "_EXACT = 0.6",
        (f"{_QUANTIZED}::test_weights_on_no_grid",),
    ),
    Mutant(
        "a grid has 257 values",
        f"{_CPU}/rules/quantized.py",
        "0 <= high - low <= _STEPS",
        "0 <= high - low <= 256",
        (f"{_QUANTIZED}::test_grids",),
    ),
    Mutant(
        "sums of any length are an int32",
        f"{_CPU}/rules/quantized.py",
        " or _overflows(integers)",
        "",
        (f"{_QUANTIZED}::test_sums_that_overflow",),
    ),
    Mutant(
        "parts of several grids are on that of the first",
        f"{_CPU}/rules/quantized.py",
        "found.pop() if len(found) == 1 else None",
        "found.pop()",
        (f"{_QUANTIZED}::test_parts_of_several_grids",),
    ),
    Mutant(
        "what the lowest value adds to a product is that of the first column",
        f"{_CPU}/kernels/matmul/reduced_precision.py",
        'sums = low * weights.sum(axis=0, dtype="int32")',
        'sums = low * weights[:, :1].sum(axis=0, dtype="int32").repeat(weights.shape[1])',
        (f"{_INT8_DOT4}::test_products",),
    ),
    Mutant(
        "two products of small factors may be more than an int16",
        f"{_CPU}/isa/dot4.py",
        "_MOST_SMALL = 128",
        "_MOST_SMALL = 129",
        (f"{_INT8_DOT4}::test_small_factors",),
    ),
    Mutant(
        "factors of 16 bits lie in the order of the bytes",
        f"{_CPU}/isa/dot4.py",
        "np.moveaxis(split, -1, -3)",
        "np.moveaxis(split, -2, -3)",
        (f"{_INT8_DOT4}::test_products_by_instructions",),
    ),
    Mutant(
        "what makes unsigned bytes signed is not added again",
        f"{_CPU}/isa/dot4.py",
        'return _SIGN if self.instruction == "sdot" else 0',
        "return 0",
        (f"{_DOT4}::test_products_of_aarch64",),
    ),
    Mutant(
        "all processors multiply integers as fast as float32",
        f"{_CPU}/core.py",
        "dot4 = ONE_UNIT if",
        "dot4 = AVX2[1] if",
        (f"{_CHOICE}::test_what_is_faster_is_chosen",),
    ),
    Mutant(
        "bytes are faster than Winograd's algorithm",
        f"{_CPU}/rules/bytes_or_floats.py",
        "return choose_winograd(conv, core, config.workers, config.balance, speed) is None",
        "return True",
        (f"{_CHOICE}::test_what_is_faster_is_chosen",),
    ),
    Mutant(
        "a search does not measure bytes",
        f"{_CPU}/stage/build.py",
        "if factors is not None and not rounds(variant):",
        "if factors is None and not rounds(variant):",
        (f"{_CHOICE}::test_a_search_measures_both",),
    ),
    Mutant(
        "only positive factors lead to large products",
        f"{_CPU}/isa/dot4.py",
        "extremes = np.maximum(pairs, 0).sum(axis=1), np.maximum(-pairs, 0).sum(axis=1)",
        "extremes = (np.maximum(pairs, 0).sum(axis=1),)",
        (f"{_INT8_DOT4}::test_small_factors",),
    ),
    Mutant(
        "parts of a wide product of bytes end anywhere",
        "python/tvm_ios/frontend/onnx/operators/integers.py",
        "        if begin + count < depth and count > _TERMS:\n",
        "        if False:\n",
        ("frontend/onnx/test_integer_products.py::test_parts_are_exact",),
    ),
)
