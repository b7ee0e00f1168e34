# SPDX-License-Identifier: Apache-2.0
"""Mutants of what computes in half precision, and of the choice of kernels by measuring."""

from __future__ import annotations

from .mutant import Mutant

_CPU = "python/tvm_ios/backend/cpu"
_AMX = "backend/cpu/kernels/test_amx.py"
_BFMMLA = "backend/cpu/kernels/test_bfmmla.py"
_ATTENTION = "backend/cpu/kernels/attention/test_attention.py"
_HALF = "backend/cpu/test_half_precision.py"
_SUMS = "backend/cpu/replace/test_add.py"
_TUNE = "backend/cpu/measure/test_tune.py"

MUTANTS = (
    Mutant(
        "the weight of a pair's second key is left out",
        f"{_CPU}/kernels/attention/strip.py",
        "joined(*rounded)",
        "joined(rounded[0])",
        (f"{_ATTENTION}::test_bf16_dot2",),
    ),
    Mutant(
        "all blocks of keys have the values of the first pairs",
        f"{_CPU}/kernels/attention/strip.py",
        "self.head.value(begin // self.step + key, at(i))",
        "self.head.value(begin + key if self.step == 1 else key, at(i))",
        (f"{_ATTENTION}::test_bf16_dot2",),
    ),
    Mutant(
        "scores of an attention are not scaled",
        f"{_CPU}/kernels/attention/strip.py",
        "* splat(T.float32(a.scale), lanes)",
        "* splat(T.float32(1), lanes)",
        (f"{_ATTENTION}::test_attention", f"{_ATTENTION}::test_bf16_dot2"),
    ),
    Mutant(
        "what is reshaped to a factor stays in float32",
        f"{_CPU}/rules/precision.py",
        "narrow |= allowed.intersection(op.inputs)",
        "pass",
        (f"{_HALF}::test_reshapes_of_what_is_multiplied_move_nothing",),
    ),
    Mutant(
        "an input becomes a weight that is rounded",
        f"{_CPU}/replace/convolution_add.py",
        "identities=not bf16)\n\n\nCONVOLUTION_ADD",
        "identities=True)\n\n\nCONVOLUTION_ADD",
        (f"{_SUMS}::test_sums_in_half_precision",),
    ),
    Mutant(
        "convolutions of different precision are added up",
        "python/tvm_ios/lowering/replacements/convolution_sum.py",
        "fits(lowered, op) == fits(lowered, reader) is not None",
        "fits(lowered, op) is not None",
        (f"{_SUMS}::test_convolutions_of_different_precision_are_not_added_up",),
    ),
    Mutant(
        "a kernel is chosen at another speed of the machine",
        f"{_CPU}/measure/tune.py",
        "runs.seconds * (steady / runs.arithmetic.mean(axis=1, keepdims=True))",
        "runs.seconds",
        (f"{_TUNE}::test_the_machine_may_change_its_speed",),
    ),
    Mutant(
        "noise is a reason for another kernel",
        f"{_CPU}/measure/tune.py",
        "_FASTER = 0.97",
        "_FASTER = 1.0",
        (f"{_TUNE}::test_a_kernel_that_is_as_fast_does_not_replace_the_predicted_one",),
    ),
    Mutant(
        "a worker that was preempted was the fastest",
        f"{_CPU}/measure/tune.py",
        "np.where(~preempted & (seconds > 0),",
        "np.where(seconds > 0,",
        (f"{_TUNE}::test_times_of_a_preempted_worker_do_not_count",),
    ),
    Mutant(
        "a kernel that was always preempted has no time",
        f"{_CPU}/measure/tune.py",
        "lost = np.isnan(kept).all(axis=0)",
        "lost = np.isnan(kept[:0]).any(axis=0)",
        (f"{_TUNE}::test_what_was_always_preempted_has_the_time_of_its_fastest_run",),
    ),
    Mutant(
        "what reads bfloat16 depends on the kernel that is chosen",
        f"{_CPU}/rules/precision.py",
        "if variant is not None and not rounds(variant):",
        "if variant not in (None, BF16):",
        (f"{_TUNE}::test_values_are_stored_alike_whatever_is_chosen",),
    ),
    Mutant(
        "the error of half precision is that of kernels that may still change",
        "python/tvm_ios/compiler/rounding.py",
        "**dict.fromkeys(rounded, BF16)}",
        "**{op.name: op.kernel for op in self._half.operators if op.name in rounded}}",
        (f"{_HALF}::test_the_error_is_that_of_products_of_bfloat16",),
    ),
    Mutant(
        "what stays in float32 is computed directly",
        "python/tvm_ios/backend/cpu/stage/build.py",
        "op.name: i.kernel.variant or variant_name(None)",
        "op.name: variant_name(None)",
        (f"{_HALF}::test_what_stays_in_float32_has_the_kernel_of_float32",),
    ),
    Mutant(
        "a left matrix has rows that lie in the padding",
        f"{_CPU}/kernels/conv/tile_matmul.py",
        "if column not in inside:",
        "if column not in range(self.tile.width):",
        (f"{_AMX}::test_convolutions", f"{_BFMMLA}::test_convolutions"),
    ),
    Mutant(
        "a left matrix has channels behind the last one",
        f"{_CPU}/kernels/conv/tile_matmul.py",
        "return T.bitwise_and(value, bits)",
        "return value",
        (f"{_AMX}::test_convolutions", f"{_BFMMLA}::test_convolutions"),
    ),
    Mutant(
        "an odd last channel has a neighbour",
        f"{_CPU}/kernels/conv/tile_matmul.py",
        "[FIRST if conv.lone else BOTH]",
        "[BOTH]",
        (f"{_AMX}::test_convolutions",),
    ),
    Mutant(
        "all columns are rows of a left matrix of AMX, whatever the stride",
        f"{_CPU}/kernels/conv/amx.py",
        "left_bytes = stride * conv",
        "left_bytes = conv",
        (f"{_AMX}::test_convolutions",),
    ),
    Mutant(
        "the second left matrix is the first one",
        "python/tvm_ios/backend/cpu/isa/amx.py",
        "[0] if len(self.rows) == 1 else [0, self.rows[0]]",
        "[0] * len(self.rows)",
        (f"{_AMX}::test_convolutions", f"{_AMX}::test_products"),
    ),
    Mutant(
        "a library does not look for AMX",
        f"{_CPU}/code/cpu_check.py",
        "features |= _AMX if amx else {}",
        "features |= {}",
        ("backend/cpu/test_amx.py::test_a_machine_without_it_is_told",),
    ),
    Mutant(
        "a machine that hides AMX gets its instructions",
        "python/tvm_ios/target.py",
        "not (here and permitted())",
        "not here",
        ("backend/cpu/test_amx.py::test_a_processor_that_has_it_by_its_name",),
    ),
    Mutant(
        "sums of bfmmla stay in the order of the instruction",
        "python/tvm_ios/backend/cpu/isa/bfmmla.py",
        "sums[row] = shuffled(both, [0, 1, 4, 5])",
        "sums[row] = both[0]",
        (f"{_BFMMLA}::test_convolutions", f"{_BFMMLA}::test_products"),
    ),
    Mutant(
        "what a call reads by a pointer is not read",
        f"{_CPU}/code/accessed.py",
        "for pointer in pointers for buffer",
        "for pointer in pointers[:0] for buffer",
        ("backend/cpu/code/test_accessed.py::test_what_is_accessed",),
    ),
    Mutant(
        "exponentials behind the last key are no numbers",
        f"{_CPU}/kernels/attention/amx.py",
        "splat(T.int32(0), self.lanes), [pair, at]",
        "splat(T.int32(-1), self.lanes), [pair, at]",
        (f"{_AMX}::test_attentions",),
    ),
    Mutant(
        "values behind the last key are no numbers",
        f"{_CPU}/kernels/attention/attention.py",
        "zero = splat(T.int32(0), width)",
        "zero = splat(T.int32(-1), width)",
        (f"{_AMX}::test_attentions",),
    ),
)
